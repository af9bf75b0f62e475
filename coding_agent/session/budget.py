"""Value and pure. What a tree of sessions may use up: tokens, money, model calls, time.

A session's account belongs to the account of the session that started it: whatever a child uses, its parents have
used too, and the strictest limit on the way up holds. A call in flight counts with a guess until its usage is known,
so that children side by side cannot all take the last of it. An account lasts as long as what it is handed to; what a
session used up before is read from its file (`already_spent`), when there is a limit to it.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

from attrs import field

from coding_agent.errors import BudgetExceeded
from lemon_ai import Model, Usage
from lemon_otp import define, frozen, monotonic_s

Kind: TypeAlias = Literal[
    "token_limit_exceeded",
    "cost_limit_exceeded",
    "token_limit_would_exceed",
    "cost_limit_would_exceed",
    "turn_limit_exceeded",
    "time_limit_exceeded",
    "max_children_exceeded",
]
"""Which limit was reached."""

GUESSED_TOKENS: Final = 4_000
GUESSED_COST: Final = 0.1


@frozen(kw_only=True)
class Budget:
    """Limits; None is no limit.

    Attributes:
        max_tokens: Of all model calls together, cached ones included.
        max_cost: US dollars.
        max_turns: Model calls.
        max_time_s: Seconds since the account was opened.
        max_children: Subagents at work at one time.
        guessed_tokens: What a call counts for before its usage is known.
        guessed_cost: The same in dollars, for a model that costs anything.
    """

    max_tokens: int | None = None
    max_cost: float | None = None
    max_turns: int | None = None
    max_time_s: float | None = None
    max_children: int | None = None
    guessed_tokens: int = GUESSED_TOKENS
    guessed_cost: float = GUESSED_COST


NO_LIMITS: Final = Budget()


@frozen
class Spent:
    """What was used up."""

    tokens: int = 0
    cost: float = 0.0
    turns: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.tokens + other.tokens, self.cost + other.cost, self.turns + other.turns)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.tokens - other.tokens, self.cost - other.cost, self.turns - other.turns)


@frozen
class Reached:
    """A limit that stands in the way of another call."""

    kind: Kind
    limit: float
    used: float

    def error(self) -> BudgetExceeded:
        """The exception that says so."""
        return BudgetExceeded(self.kind, self.limit, self.used)


def reached(budget: Budget, spent: Spent, in_flight: Spent, guess: Spent, elapsed_s: float) -> Reached | None:
    """The limit that one more call would break, the worst first; using up exactly what is allowed breaks none."""
    tokens, cost = spent.tokens + in_flight.tokens, spent.cost + in_flight.cost
    if budget.max_tokens is not None and spent.tokens > budget.max_tokens:
        return Reached("token_limit_exceeded", budget.max_tokens, spent.tokens)
    if budget.max_cost is not None and spent.cost > budget.max_cost:
        return Reached("cost_limit_exceeded", budget.max_cost, spent.cost)
    if budget.max_tokens is not None and tokens + guess.tokens > budget.max_tokens:
        return Reached("token_limit_would_exceed", budget.max_tokens, tokens)
    if budget.max_cost is not None and cost + guess.cost > budget.max_cost:
        return Reached("cost_limit_would_exceed", budget.max_cost, cost)
    if budget.max_turns is not None and spent.turns + in_flight.turns + 1 > budget.max_turns:
        return Reached("turn_limit_exceeded", budget.max_turns, spent.turns + in_flight.turns)
    if budget.max_time_s is not None and elapsed_s > budget.max_time_s:
        return Reached("time_limit_exceeded", budget.max_time_s, round(elapsed_s, 3))
    return None


def spent_by(usage: Usage) -> Spent:
    """What one call used up."""
    tokens = usage.total_tokens or usage.input + usage.output + usage.cache_read + usage.cache_write
    return Spent(tokens, usage.cost.total, 1)


@define(eq=False)
class Account:
    """What one session has used up, and may.

    Attributes:
        budget: Its own limits.
        parent: The account it draws on too.
        spent: What it and its children have used up.
        in_flight: Guesses for calls that are going on.
        children: How many subagents are at work for it.
    """

    budget: Budget = field(factory=Budget)
    parent: "Account | None" = None
    spent: Spent = Spent()
    in_flight: Spent = Spent()
    children: int = 0
    began_s: float = field(factory=monotonic_s)

    def child(self, budget: Budget | None = None) -> "Account":
        """An account that draws on this one; with limits of its own or without."""
        return Account(budget or Budget(), self)

    def begin(self, model: Model) -> "Charge":
        """Enter one call of `model`, before it is made.

        Raises:
            BudgetExceeded: A limit here or above stands in the way. Nothing was entered.
        """
        for account in self._upwards():
            budget = account.budget
            guess = Spent(budget.guessed_tokens, budget.guessed_cost if _costs(model) else 0.0, 1)
            limit = reached(budget, account.spent, account.in_flight, guess, monotonic_s() - account.began_s)
            if limit is not None:
                raise limit.error()
        guess = Spent(self.budget.guessed_tokens, self.budget.guessed_cost if _costs(model) else 0.0, 1)
        for account in self._upwards():
            account.in_flight += guess
        return Charge(self, guess)

    def time_left_s(self) -> float | None:
        """Seconds until the time allowed here or above is over, none or fewer when it is; None for no limit."""
        timed = self._timed()
        return min(end_s for end_s, _ in timed) - monotonic_s() if timed else None

    def time_is_over(self) -> BudgetExceeded:
        """What a call gets to hear whose time is over."""
        end_s, account = min(self._timed(), key=lambda pair: pair[0])
        limit_s, used_s = end_s - account.began_s, monotonic_s() - account.began_s
        return Reached("time_limit_exceeded", round(limit_s, 3), round(used_s, 3)).error()

    def _timed(self) -> "list[tuple[float, Account]]":
        """When the time of each account on the way up is over, of those that have a limit."""
        limited = ((account.budget.max_time_s, account) for account in self._upwards())
        return [(account.began_s + limit_s, account) for limit_s, account in limited if limit_s is not None]

    def begin_child(self) -> None:
        """Enter one subagent.

        Raises:
            BudgetExceeded: As many are at work as may be, or it could make no call. Nothing was entered.
        """
        for account in self._upwards():
            spent = reached(account.budget, account.spent, Spent(), Spent(), monotonic_s() - account.began_s)
            if spent is not None:
                raise spent.error()
        limit = self.budget.max_children
        if limit is not None and self.children >= limit:
            raise Reached("max_children_exceeded", limit, self.children).error()
        self.children += 1

    def end_child(self) -> None:
        """A subagent has ended."""
        self.children -= 1

    def _upwards(self) -> Iterator["Account"]:
        account: Account | None = self
        while account is not None:
            yield account
            account = account.parent


@define(eq=False)
class Charge:
    """One call that was entered; settled once."""

    account: Account
    guess: Spent
    settled: bool = False

    def settle(self, usage: Usage | None) -> None:
        """Put what the call used up in place of the guess; None when it never began. A second time does nothing."""
        if self.settled:
            return
        self.settled = True
        used = Spent() if usage is None else spent_by(usage)
        for account in self.account._upwards():
            account.in_flight -= self.guess
            account.spent += used


def _costs(model: Model) -> bool:
    cost: Any = model.cost
    return bool(cost.input or cost.output or cost.cache_read or cost.cache_write)
