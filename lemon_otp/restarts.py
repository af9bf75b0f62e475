"""Pure. The rules of supervision: who is started again after an exit, in which order, and when to give up."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from math import inf
from random import Random
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field, frozen

from lemon_otp.child_spec import ChildSpec, Restart
from lemon_otp.errors import BadArgument, BadChildSpec
from lemon_otp.exits import is_orderly
from lemon_otp.telling import describe

Strategy: TypeAlias = Literal["one_for_one", "one_for_all", "rest_for_one"]
AutoShutdown: TypeAlias = Literal["never", "any_significant", "all_significant"]

STRATEGIES: Final = ("one_for_one", "one_for_all", "rest_for_one")
AUTO_SHUTDOWNS: Final = ("never", "any_significant", "all_significant")


def starts_again(restart: Restart, reason: Any) -> bool:
    """Whether a child of this restart type is started again after it ended with `reason`."""
    if restart == "permanent":
        return True
    return restart == "transient" and not is_orderly(reason)


def disturbed_by(strategy: Strategy, ids: Sequence[Hashable], failed: Hashable) -> list[Hashable]:
    """The children to stop and start again with `failed`, itself included, in the order of starting.

    They are stopped in reverse. `ids` are all children in the order of starting.
    """
    if strategy == "one_for_one":
        return [failed]
    if strategy == "one_for_all":
        return list(ids)
    return list(ids[ids.index(failed) :])


def stops_supervisor(mode: AutoShutdown, *, significant: bool, significant_left: bool) -> bool:
    """Whether a supervisor ends by itself after a child ended for good.

    Args:
        mode: The supervisor's `auto_shutdown`.
        significant: Whether the child that ended is a significant one.
        significant_left: Whether another significant child still runs or is being restarted.
    """
    if mode == "never" or not significant:
        return False
    return mode == "any_significant" or not significant_left


def check_spec(spec: Any, auto_shutdown: AutoShutdown) -> None:
    """Raise `BadChildSpec` when the spec and the supervisor contradict each other."""
    if not isinstance(spec, ChildSpec):
        raise BadChildSpec(("invalid_child_spec", spec), "a child is described by a ChildSpec")
    if not spec.significant:
        return
    if auto_shutdown == "never":
        pair = [("auto_shutdown", "never"), ("significant", True)]
        raise BadChildSpec(
            ("bad_combination", pair), f"child {describe(spec.id)} is significant: auto_shutdown must not be never"
        )
    if spec.restart == "permanent":
        pair = [("restart", "permanent"), ("significant", True)]
        raise BadChildSpec(
            ("bad_combination", pair), f"child {describe(spec.id)} is significant: it cannot be permanent"
        )


def check_specs(specs: Iterable[ChildSpec], auto_shutdown: AutoShutdown) -> None:
    """Raise `BadChildSpec` for the first spec that is wrong, or whose id came before."""
    seen: set[Hashable] = set()
    for spec in specs:
        check_spec(spec, auto_shutdown)
        if spec.id in seen:
            raise BadChildSpec(("duplicate_child_name", spec.id), "each child of a supervisor needs its own id")
        seen.add(spec.id)


@define
class RestartWindow:
    """Counts restarts; more than `max_restarts` within `max_seconds` means: give up.

    Time that the supervisor itself spends stopping siblings is taken out by `discount`, so a slow shutdown
    cannot stretch a crash loop beyond the window.
    """

    max_restarts: int
    max_seconds: float
    _at_s: deque[float] = field(factory=deque, init=False)

    def record(self, now_s: float) -> bool:
        """Note a restart at `now_s`; False when it is one too many."""
        remembered = self._at_s
        remembered.append(now_s)
        while remembered[0] < now_s - self.max_seconds:
            remembered.popleft()
        return len(remembered) <= self.max_restarts

    def discount(self, seconds: float) -> None:
        """Pretend that the last `seconds` did not pass."""
        if seconds > 0:
            self._at_s = deque(at_s + seconds for at_s in self._at_s)

    @property
    def count(self) -> int:
        """How many restarts the window remembers."""
        return len(self._at_s)


def _check_wait(_backoff: Any, attribute: Any, value: Any) -> None:
    if not _is_number(value) or not 0 <= value < inf:
        raise BadArgument(f"{attribute.name} is a number from 0 on, not {describe(value)}")


def _check_jitter(_backoff: Any, _field: Any, value: Any) -> None:
    if not _is_number(value) or not 0 <= value <= 1:
        raise BadArgument(f"jitter is a share of the wait, from 0 to 1, not {describe(value)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@frozen
class Backoff:
    """How long to wait before a child is started again; without one a child starts again at once, as in OTP.

    Nonsense raises `BadArgument` here: it would end a supervisor at its first restart.

    Attributes:
        initial_s: Wait before the first restart.
        max_s: Longest wait, before jitter.
        factor: Each restart that the window still remembers multiplies the wait by this.
        jitter: Share of the wait that is random: 0.2 means between 80 % and 120 % of it.
    """

    initial_s: float = field(default=0.1, validator=_check_wait)
    max_s: float = field(default=10.0, validator=_check_wait)
    factor: float = field(default=2.0, validator=_check_wait)
    jitter: float = field(default=0.2, validator=_check_jitter)

    def delay_s(self, restarts: int, random: Random) -> float:
        """The wait before a restart that is number `restarts` (from 1) in its window."""
        wait_s = min(self.initial_s * self.factor ** min(max(restarts - 1, 0), 64), self.max_s)
        return wait_s * (1.0 + self.jitter * (2.0 * random.random() - 1.0))
