"""Edge. What packages above know of processes beyond what every process has: phases, tokens, cost.

A provider is a plain function that returns a `Detail` for each process it knows something of; it is called once for
each look at the tree and must not wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from attrs import field

from lemon_otp.pid import Pid
from lemon_otp.process import current_runtime
from lemon_otp.telling import error_trace
from lemon_otp.values import frozen

STORED: Final = "repl.details"

_log: Final = logging.getLogger("lemon_otp")


@frozen
class Detail:
    """What is known of one process.

    Attributes:
        shown: Short values by name, such as `phase` and `tool`; they come before what the process said of itself.
        elapsed_s: How long it has been at what it does.
        progress_s: How long ago it last got anywhere.
        tokens: What it has used up itself.
        cost: The same in dollars.
        below: Processes that work for it and stand elsewhere in the tree; what they use up counts for its subtree.
    """

    shown: Mapping[str, str] = field(factory=dict)
    elapsed_s: float | None = None
    progress_s: float | None = None
    tokens: int = 0
    cost: float = 0.0
    below: tuple[Pid, ...] = ()


Provider: TypeAlias = Callable[[], Mapping[Pid, Detail]]


def add_details(name: str, provider: Provider) -> None:
    """Let the calling runtime ask `provider` at each look at the tree; one of the same name is replaced."""
    stored: dict[str, Provider] = current_runtime().store.setdefault(STORED, {})
    stored[name] = provider


def details() -> dict[Pid, Detail]:
    """What all providers know now. One that raises is left out, and logged."""
    found: dict[Pid, Detail] = {}
    providers: dict[str, Provider] = current_runtime().store.get(STORED, {})
    for name, provider in list(providers.items()):
        try:
            found.update(provider())
        except Exception as error:
            _log.warning("the details of %s cannot be had\n%s", name, error_trace(error))
    return found


def totals(found: Mapping[Pid, Detail], members: Mapping[Pid, list[Pid]]) -> dict[Pid, tuple[int, float]]:
    """Tokens and cost of each process and everything below it, wherever that stands; nothing is counted twice.

    Args:
        found: What is known.
        members: The processes that stand directly below each in the tree.
    """
    reached: dict[Pid, frozenset[Pid]] = {}
    for root in (*members, *found):
        stack: list[Any] = [root]
        while stack:
            pid = stack[-1]
            if pid in reached:
                stack.pop()
                continue
            below = [*members.get(pid, ()), *(found[pid].below if pid in found else ())]
            missing = [other for other in below if other not in reached and other not in stack]
            if missing:
                stack.extend(missing)
                continue
            own = {pid} if pid in found and (found[pid].tokens or found[pid].cost) else set()
            reached[pid] = frozenset(own.union(*(reached[other] for other in below if other in reached)))
            stack.pop()
    return {
        pid: (sum(found[user].tokens for user in users), sum(found[user].cost for user in users))
        for pid, users in reached.items()
        if users
    }
