"""Edge. What can be asked of a runtime: the operations of every tree, and those that packages above have added."""

from __future__ import annotations

from typing import Any, Final

from lemon_otp.errors import BadArgument
from lemon_otp.process import current_runtime
from lemon_otp.repl.built_in import BUILT_IN
from lemon_otp.repl.operations import Operation

STORED: Final = "repl.operations"


def add_operation(*operations: Operation) -> None:
    """Let the calling runtime answer these, too; one of the same name takes the place of what was there.

    Raises:
        BadArgument: Its kind is unknown.
    """
    for operation in operations:
        if operation.kind not in ("look", "act", "feed", "takeover"):
            raise BadArgument(f"kind={operation.kind!r}; expected look, act, feed or takeover")
    stored: dict[str, Operation] = current_runtime().store.setdefault(STORED, {})
    stored.update({operation.name: operation for operation in operations})


def operations() -> dict[str, Operation]:
    """Everything that the calling runtime answers, by name."""
    return {**BUILT_IN, **current_runtime().store.get(STORED, {})}


def find_operation(name: Any) -> Operation | None:
    """The operation of this name, if there is one."""
    added: dict[str, Operation] = current_runtime().store.get(STORED, {})
    if isinstance(name, str) and name in added:
        return added[name]
    return BUILT_IN.get(name) if isinstance(name, str) else None
