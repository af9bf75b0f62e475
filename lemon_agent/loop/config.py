"""Value. What a run is given: the conversation so far, the model, the hooks, the limits."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from attrs import field

from lemon_agent.abort_signal import AbortSignal
from lemon_agent.checks import is_a
from lemon_agent.events import AgentMessage
from lemon_agent.inbox import Queued
from lemon_agent.tools import AgentTool, AgentToolResult
from lemon_ai import AssistantMessage, Message, Model, StreamOptions, ToolCall, ToolResultMessage
from lemon_otp import frozen

THINKING_LEVELS: Final = ("off", "minimal", "low", "medium", "high", "xhigh")
DEFAULT_MAX_TOOL_TURNS: Final = 25


def as_tuple_of_messages(messages: Iterable[AgentMessage]) -> tuple[AgentMessage, ...]:
    """Messages as a tuple."""
    return tuple(messages)


def as_tools(tools: Iterable[AgentTool]) -> tuple[AgentTool, ...]:
    """Tools as a tuple."""
    return tuple(tools)


@frozen
class AgentContext:
    """A conversation: what the model is told it is, what was said, what it may ask for."""

    system_prompt: str | None = None
    messages: tuple[AgentMessage, ...] = field(default=(), converter=as_tuple_of_messages)
    tools: tuple[AgentTool, ...] = field(default=(), converter=as_tools)


@frozen
class BeforeToolCall:
    """What `before_tool_call` is told: a call whose arguments are checked and which has not run."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    args: Mapping[str, Any]
    context: AgentContext


@frozen
class Block:
    """An answer of `before_tool_call`: do not run it; the model is told the reason.

    `terminate` is the hint of a result: to stop after this turn, when every call of the batch gives it.
    """

    reason: str | None = None
    terminate: bool | None = None


@frozen
class AfterToolCall:
    """What `after_tool_call` is told: a call that has run, and how it went."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    args: Mapping[str, Any]
    result: AgentToolResult
    is_error: bool
    context: AgentContext


KEEP: Final[Any] = object()
"""Stands for a field that `ToolOverride` leaves as it is."""


@frozen
class ToolOverride:
    """An answer of `after_tool_call`: each field given replaces the result's, whole; the others stay."""

    content: Any = KEEP
    details: Any = KEEP
    is_error: Any = KEEP
    usage: Any = KEEP
    terminate: Any = KEEP


@frozen
class TurnContext:
    """What the hooks between turns are told."""

    message: AssistantMessage
    tool_results: tuple[ToolResultMessage, ...]
    context: AgentContext
    new_messages: tuple[AgentMessage, ...]


@frozen
class NextTurn:
    """An answer of `prepare_next_turn`: what is given holds from the next turn on."""

    context: AgentContext | None = field(default=None, validator=is_a(AgentContext, or_none=True))
    model: Model | None = field(default=None, validator=is_a(Model, or_none=True))
    thinking_level: str | None = field(default=None, validator=is_a(str, or_none=True))


TransformContext: TypeAlias = (
    Callable[[tuple[AgentMessage, ...], AbortSignal], Sequence[AgentMessage] | Awaitable[Sequence[AgentMessage]]]
    | Callable[[tuple[AgentMessage, ...]], Sequence[AgentMessage] | Awaitable[Sequence[AgentMessage]]]
)
"""The conversation as one model call should see it; the conversation itself stays.

This hook and the four below may leave out the signal, their last parameter.
"""
ConvertToLlm: TypeAlias = Callable[[Sequence[AgentMessage]], Sequence[Message] | Awaitable[Sequence[Message]]]
"""Agent messages as messages a model knows; roles it has no use for are left out."""
GetApiKey: TypeAlias = Callable[[str], str | Awaitable[str | None] | None]
"""The key for a provider, asked before each request because keys expire."""
GetMessages: TypeAlias = Callable[[], Sequence[AgentMessage | Queued] | Awaitable[Sequence[AgentMessage | Queued]]]
BeforeHook: TypeAlias = Callable[[BeforeToolCall, AbortSignal], Any] | Callable[[BeforeToolCall], Any]
"""None runs the call; `Block`, or a mapping with `block` true and its fields, does not."""
AfterHook: TypeAlias = Callable[[AfterToolCall, AbortSignal], Any] | Callable[[AfterToolCall], Any]
"""None keeps the result; `ToolOverride`, or a mapping with some of its fields, replaces parts of it."""
StopHook: TypeAlias = Callable[[TurnContext, AbortSignal], Any] | Callable[[TurnContext], Any]
"""True ends the run now; what is queued stays queued."""
PrepareHook: TypeAlias = Callable[[TurnContext, AbortSignal], Any] | Callable[[TurnContext], Any]
"""None, `NextTurn`, or a mapping with some of its fields."""
StreamFn: TypeAlias = Callable[..., Any]
"""`stream_fn(model, context, options)`: a stream or an async iterator of model events, at once or awaited.

One that takes a keyword `signal` is given the run's own."""
Gate: TypeAlias = Callable[[], Awaitable[None] | None]
"""Asked before each further event of a model is read: None to go on at once, else something to wait for."""


def convert_to_llm(messages: Sequence[AgentMessage]) -> list[Message]:
    """The messages of the three roles a model knows; every other role is left out."""
    return [message for message in messages if message.role in _KNOWN_ROLES]  # type: ignore[misc]


_KNOWN_ROLES: Final = frozenset({"user", "assistant", "tool_result"})


def _tool_turns(limit: object) -> int | None:
    if limit is None or limit == float("inf") or limit == "infinity":
        return None
    if isinstance(limit, int) and not isinstance(limit, bool):
        return max(1, limit)
    return DEFAULT_MAX_TOOL_TURNS


@frozen(kw_only=True)
class AgentLoopConfig:
    """How a run works: the model, the hooks and the limits.

    Attributes:
        model: Who answers.
        thinking_level: How hard it should think; "off" asks for nothing.
        max_tool_turns: Turns with tool calls before the run ends as `budget`; None for no limit.
        max_tool_concurrency: Calls that may run at once; None for all.
        tool_timeout_ms: How long a call may take whose tool says nothing else; None for no limit.
        tool_execution: "sequential" runs one call at a time, results in between.
        tool_pool: Tools that a result's `added_tool_names` may bring in.
        hook_timeout_ms: How long an asynchronous hook may take; None for no limit. Abort ends the wait in any case.
        abort_grace_ms: After an abort, the time a running call has to stop by itself before it is asked to.
        kill_grace_ms: The time it has then before it is killed.
        gate: See `Gate`.
    """

    model: Model = field(validator=is_a(Model))
    thinking_level: str = "off"
    stream_fn: StreamFn | None = None
    stream_options: StreamOptions = field(factory=StreamOptions)
    thinking_budgets: Mapping[str, Any] = field(factory=dict)
    session_id: str | None = None
    get_api_key: GetApiKey | None = None
    convert_to_llm: ConvertToLlm = convert_to_llm
    transform_context: TransformContext | None = None
    before_tool_call: BeforeHook | None = None
    after_tool_call: AfterHook | None = None
    should_stop_after_turn: StopHook | None = None
    prepare_next_turn: PrepareHook | None = None
    get_steering_messages: GetMessages | None = None
    get_follow_up_messages: GetMessages | None = None
    max_tool_turns: int | None = field(default=DEFAULT_MAX_TOOL_TURNS, converter=_tool_turns)
    max_tool_concurrency: int | None = None
    tool_timeout_ms: int | None = None
    tool_execution: Literal["parallel", "sequential"] = "parallel"
    tool_pool: tuple[AgentTool, ...] = field(default=(), converter=as_tools)
    tool_task_supervisor: str = "tool_task_supervisor"
    hook_timeout_ms: int | None = 600_000
    abort_grace_ms: int = 100
    kill_grace_ms: int = 400
    gate: Gate | None = None
    max_queue: int = 10_000

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the process tree shows of a run while its model is at work. Not to be changed."""
        facts = {"phase": "model", "model": self.model.id, "session": self.session_id}
        return {key: value for key, value in facts.items() if value is not None}
