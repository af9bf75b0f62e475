"""Value. What a model call says while it runs.

One `StreamStart`, then for each content block a start, its deltas and an end, then exactly one terminal event:
`StreamDone`, `StreamError` or `StreamCanceled`. Every event before the terminal one knows the message as it was
at that moment: `partial` is worked out when it is read, never copied while the stream runs.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from attrs import field

from lemon_ai.errors import AiError
from lemon_ai.messages import AssistantMessage, ToolCall
from lemon_otp import frozen


class PartialSource(Protocol):
    """Where an event finds the message as of a moment; a `Fold` is one."""

    def partial_at(self, at: int) -> AssistantMessage:
        """The message as it was at moment `at`."""
        ...


@frozen
class Snapshot:
    """A source that answers one message at every moment: for events made by hand."""

    message: AssistantMessage

    def partial_at(self, at: int) -> AssistantMessage:
        return self.message


_NOTHING_YET = Snapshot(AssistantMessage(timestamp=0))


@frozen
class _Moment:
    """The part every event before the terminal one shares."""

    source: PartialSource = field(default=_NOTHING_YET, kw_only=True, eq=False, repr=False)
    at: int = field(default=0, kw_only=True, eq=False, repr=False)

    @property
    def partial(self) -> AssistantMessage:
        """The message as of this event."""
        return self.source.partial_at(self.at)


@frozen
class StreamStart(_Moment):
    """The provider began to answer."""

    type: ClassVar[str] = "start"
    index: ClassVar[int] = -1


# Events of one shape share one base: a class made by attrs costs a third of a millisecond of every start.


@frozen
class _Opened(_Moment):
    index: int


@frozen
class _Grew(_Moment):
    index: int
    delta: str


@frozen
class _Ended(_Moment):
    index: int
    content: str


class TextStart(_Opened):
    """A text block opened."""

    __slots__ = ()
    type: ClassVar[str] = "text_start"


class TextDelta(_Grew):
    """More text arrived."""

    __slots__ = ()
    type: ClassVar[str] = "text_delta"


class TextEnd(_Ended):
    """A text block is complete; `content` is all of it."""

    __slots__ = ()
    type: ClassVar[str] = "text_end"


class ThinkingStart(_Opened):
    """A thinking block opened."""

    __slots__ = ()
    type: ClassVar[str] = "thinking_start"


class ThinkingDelta(_Grew):
    """More thinking arrived."""

    __slots__ = ()
    type: ClassVar[str] = "thinking_delta"


class ThinkingEnd(_Ended):
    """A thinking block is complete; `content` is all of it."""

    __slots__ = ()
    type: ClassVar[str] = "thinking_end"


class ToolCallStart(_Opened):
    """The model began to ask for a tool."""

    __slots__ = ()
    type: ClassVar[str] = "tool_call_start"


class ToolCallDelta(_Grew):
    """More of a call's arguments arrived: a fragment of JSON text."""

    __slots__ = ()
    type: ClassVar[str] = "tool_call_delta"


@frozen
class ToolCallEnd(_Moment):
    """A call is complete."""

    type: ClassVar[str] = "tool_call_end"
    index: int
    tool_call: ToolCall


@frozen
class StreamDone:
    """Terminal. The answer is complete."""

    type: ClassVar[str] = "done"
    reason: Literal["stop", "length", "tool_use"]
    message: AssistantMessage


@frozen
class StreamError:
    """Terminal. The call failed, or was aborted by its caller.

    Attributes:
        reason: "error" or "aborted".
        message: What had been said until then, with the same `stop_reason` and an `error_message`.
        error: The classified failure, mostly a `ProviderError`; None for an abort.
    """

    type: ClassVar[str] = "error"
    reason: Literal["error", "aborted"]
    message: AssistantMessage
    error: AiError | None = field(default=None, eq=False)


@frozen
class StreamCanceled:
    """Terminal. Somebody canceled the stream; there is no message."""

    type: ClassVar[str] = "canceled"
    reason: Any = "canceled"


BlockEvent: TypeAlias = (
    TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
)
TerminalEvent: TypeAlias = StreamDone | StreamError | StreamCanceled
StreamEvent: TypeAlias = StreamStart | BlockEvent | TerminalEvent
"""Closed. Readers `match` and end in `assert_never`, so a class added here lists every reader to visit."""
