"""Value. What an operation is: one thing that can be asked of a tree.

An operation is one of four kinds. A `look` is a plain function that reads and returns at once; it may also be run on
another thread while the event loop is held up. An `act` changes something; it may be async and is given a time. A
`feed` is async and says things until it ends or is cancelled. A `takeover` is given the connection itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

from lemon_otp.values import frozen

Kind: TypeAlias = Literal["look", "act", "feed", "takeover"]
Request: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = Mapping[str, Any]
Emit: TypeAlias = Callable[[Any], None]

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
