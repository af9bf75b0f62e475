"""Value. What can be asked of a tree: operations by name, to which every package adds its own.

An operation is one of four kinds. A `look` is a plain function that reads and returns at once; it may also be run on
another thread while the event loop is held up. An `act` changes something; it may be async and is given a time. A
`feed` is async and says things until it ends or is cancelled. A `takeover` is given the connection itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

from lemon_otp.errors import BadArgument
from lemon_otp.process import current_runtime

Kind: TypeAlias = Literal["look", "act", "feed", "takeover"]
Request: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = Mapping[str, Any]
Emit: TypeAlias = Callable[[Any], None]

STORED: Final = "repl.operations"
ACT_S: Final = 10.0


class Later:
    """An answer whose last part needs nothing of the tree: it is worked out off the event loop."""

    __slots__ = ("finish",)

    def __init__(self, finish: Callable[[], Answer]) -> None:
        self.finish = finish


@frozen
class Operation:
    """One thing that can be asked.

    Attributes:
        name: What a request says in `op`.
        run: What answers: `(request) -> answer` for a look, the same or async for an act, async `(request, emit)` for a
            feed, async `(connection)` for a takeover.
        kind: See the module.
        summary: What it is for, on one line.
        unsafe: Whether it changes anything, so that it is refused unless the host allows that.
        timeout_s: How long an act may take.
    """

    name: str
    run: Callable[..., Answer | Later | Awaitable[Any]]
    kind: Kind = "look"
    summary: str = ""
    unsafe: bool = False
    timeout_s: float = ACT_S


class Refusal(Exception):
    """An operation says no; the text is shown to whoever asked.

    Attributes:
        code: The same for programs.
    """

    def __init__(self, text: str, code: str = "failed") -> None:
        super().__init__(text)
        self.code = code


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
    from lemon_otp.repl.built_in import BUILT_IN

    return {**BUILT_IN, **current_runtime().store.get(STORED, {})}


def find_operation(name: Any) -> Operation | None:
    """The operation of this name, if there is one."""
    added: dict[str, Operation] = current_runtime().store.get(STORED, {})
    if isinstance(name, str) and name in added:
        return added[name]
    from lemon_otp.repl.built_in import BUILT_IN

    return BUILT_IN.get(name) if isinstance(name, str) else None
