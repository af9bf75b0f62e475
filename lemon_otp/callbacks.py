"""Value. What the callbacks of a GenServer may return."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from attrs import define

State = TypeVar("State")


class _Unset:
    """The type of `UNSET`: nothing was given, which `None` cannot say."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()


@define(eq=False)
class Init(Generic[State]):
    """From `init`: the process runs with `state`.

    Attributes:
        timeout_s: Deliver `TIMEOUT` to `handle_info` when no message comes within so many seconds.
        continue_: Call `handle_continue` with this before the first message.
        hibernate: Accepted, and does nothing.
    """

    state: State
    timeout_s: float | None = None
    continue_: Any = UNSET
    hibernate: bool = False


@define(eq=False)
class Ignore:
    """From `init`: there is nothing to run; the process ends with "normal" and `start` returns None."""


@define(eq=False, weakref_slot=False)
class Reply(Generic[State]):
    """From `handle_call`: answer `value` and go on with `state`; see `Init` for the rest."""

    value: Any
    state: State
    timeout_s: float | None = None
    continue_: Any = UNSET
    hibernate: bool = False


@define(eq=False, weakref_slot=False)
class NoReply(Generic[State]):
    """Go on with `state`; from `handle_call`, the answer comes later, by `reply`. See `Init` for the rest."""

    state: State
    timeout_s: float | None = None
    continue_: Any = UNSET
    hibernate: bool = False


@define(eq=False)
class Stop(Generic[State]):
    """End with `reason`, after `terminate`; from `handle_call`, answer `reply` if one is given."""

    reason: Any
    state: State | Any = UNSET
    reply: Any = UNSET


class _Timeout:
    """The type of `TIMEOUT`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "TIMEOUT"


TIMEOUT: Final = _Timeout()
"""What `handle_info` is given when no message came within `timeout_s`."""
