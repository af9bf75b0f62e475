"""Value and pure. What an agent can be asked about itself, and what each event changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal

from attrs import evolve, field

from lemon_agent.checks import is_a
from lemon_agent.events import (
    AgentEnd,
    AgentEvent,
    AgentMessage,
    AgentStart,
    ErrorEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from lemon_agent.inbox import Inbox, Queued, QueueMode, queue_mode
from lemon_agent.loop.config import (
    DEFAULT_MAX_TOOL_TURNS,
    AfterHook,
    AgentLoopConfig,
    BeforeHook,
    ConvertToLlm,
    GetApiKey,
    PrepareHook,
    StopHook,
    StreamFn,
    TransformContext,
    convert_to_llm,
)
from lemon_agent.loop.conversation import Conversation
from lemon_agent.loop.tool_set import ToolSet
from lemon_agent.loop.transcript import INTERRUPTED, dangling_calls, interrupted_result
from lemon_agent.tools import AgentTool, error_result, error_text
from lemon_ai import (
    AssistantMessage,
    Model,
    StopReason,
    StreamOptions,
    TextContent,
    ToolResultMessage,
    UserMessage,
    get_text,
)
from lemon_otp import define, describe, frozen

_NONE: Final[frozenset[str]] = frozenset()

THIRTY_MINUTES_S = 1_800.0


def checked_messages(messages: Iterable[AgentMessage]) -> tuple[AgentMessage, ...]:
    """Messages as a tuple.

    Raises:
        TypeError: One of them is no message, having no role: no conversation could go on after it.
    """
    kept = tuple(messages)
    for message in kept:
        if not isinstance(getattr(message, "role", None), str):
            raise TypeError(f"no message, for it has no role: {describe(message)}")
    return kept


def _checked_tools(tools: Iterable[AgentTool]) -> tuple[AgentTool, ...]:
    kept = tuple(tools)
    for tool in kept:
        if not isinstance(tool, AgentTool):
            raise TypeError(f"no tool: {describe(tool)}")
    return kept


@frozen(kw_only=True)
class AgentOptions:
    """What an agent is started with.

    Attributes:
        model: Who answers.
        system_prompt: What the model is told it is.
        thinking_level: "off", "minimal", "low", "medium", "high" or "xhigh".
        tools: What the model may ask for.
        tool_pool: Tools that a result's `added_tool_names` may bring in.
        messages: What was said before, such as a restored session.
        session_id: Names the conversation, for prompt caches and the process tree.
        steering_mode, follow_up_mode: How much of a queue one drain takes.
        follow_up_window_ms: How long a run that would end waits for a follow-up on its way.
        queue_call_timeout_s: How long a run waits for the agent's answer about its queues; None for no limit.

    The others are those of `AgentLoopConfig`.
    """

    model: Model = field(validator=is_a(Model))
    system_prompt: str = ""
    thinking_level: str = "off"
    tools: tuple[AgentTool, ...] = field(default=(), converter=_checked_tools)
    tool_pool: tuple[AgentTool, ...] = field(default=(), converter=_checked_tools)
    messages: tuple[AgentMessage, ...] = field(default=(), converter=checked_messages, repr=False)
    session_id: str | None = None
    stream_fn: StreamFn | None = None
    stream_options: StreamOptions = field(factory=StreamOptions, repr=False)
    thinking_budgets: Mapping[str, Any] = field(factory=dict)
    get_api_key: GetApiKey | None = field(default=None, repr=False)
    convert_to_llm: ConvertToLlm = convert_to_llm
    transform_context: TransformContext | None = None
    before_tool_call: BeforeHook | None = None
    after_tool_call: AfterHook | None = None
    should_stop_after_turn: StopHook | None = None
    prepare_next_turn: PrepareHook | None = None
    steering_mode: QueueMode = field(default="one_at_a_time", converter=queue_mode)
    follow_up_mode: QueueMode = field(default="one_at_a_time", converter=queue_mode)
    max_tool_turns: int | None = DEFAULT_MAX_TOOL_TURNS
    max_tool_concurrency: int | None = None
    tool_timeout_ms: int | None = None
    tool_execution: Literal["parallel", "sequential"] = "parallel"
    hook_timeout_ms: int | None = 600_000
    abort_grace_ms: int = 100
    kill_grace_ms: int = 400
    follow_up_window_ms: int = 50
    queue_call_timeout_s: float | None = THIRTY_MINUTES_S
    max_queue: int = 10_000

    @cached_property
    def of_a_run(self) -> AgentLoopConfig:
        """What every run with these options is given, but for what its agent's queues have for it."""
        return AgentLoopConfig(
            model=self.model,
            thinking_level=self.thinking_level,
            stream_fn=self.stream_fn,
            stream_options=self.stream_options,
            thinking_budgets=self.thinking_budgets,
            session_id=self.session_id,
            get_api_key=self.get_api_key,
            convert_to_llm=self.convert_to_llm,
            transform_context=self.transform_context,
            before_tool_call=self.before_tool_call,
            after_tool_call=self.after_tool_call,
            should_stop_after_turn=self.should_stop_after_turn,
            prepare_next_turn=self.prepare_next_turn,
            max_tool_turns=self.max_tool_turns,
            max_tool_concurrency=self.max_tool_concurrency,
            tool_timeout_ms=self.tool_timeout_ms,
            tool_execution=self.tool_execution,
            tool_pool=self.tool_pool,
            hook_timeout_ms=self.hook_timeout_ms,
            abort_grace_ms=self.abort_grace_ms,
            kill_grace_ms=self.kill_grace_ms,
            max_queue=self.max_queue,
        )

    @cached_property
    def idle_facts(self) -> dict[str, Any]:
        """What the process tree shows of an agent between two runs. Not to be changed."""
        return {"state": "idle"} if self.session_id is None else {"state": "idle", "session": self.session_id}

    @cached_property
    def running_facts(self) -> dict[str, Any]:
        """What it shows during a run. Not to be changed."""
        return {**self.idle_facts, "state": "running"}

    @cached_property
    def tool_set(self) -> ToolSet:
        """The tools as a run offers them."""
        return ToolSet.of(self.tools)


@frozen
class AgentState:
    """An agent at one moment. Nothing in it changes afterwards.

    Attributes:
        system_prompt, model, thinking_level, tools: What the next run begins with.
        messages: Everything said and complete.
        is_streaming: A run is going on; from the prompt until its task has ended.
        streaming_message: What is being said right now.
        pending_tool_calls: Ids of the calls that run right now.
        error_message: What went wrong last, in this run or the one before.
    """

    system_prompt: str
    model: Model
    thinking_level: str
    tools: tuple[AgentTool, ...]
    messages: tuple[AgentMessage, ...]
    is_streaming: bool = False
    streaming_message: AgentMessage | None = None
    pending_tool_calls: frozenset[str] = frozenset()
    error_message: str | None = None


@frozen
class Queues:
    """What waits in an agent's queues."""

    steering_messages: tuple[AgentMessage, ...] = ()
    follow_up_messages: tuple[AgentMessage, ...] = ()
    next_turn_messages: tuple[AgentMessage, ...] = ()

    @classmethod
    def of(cls, inbox: Inbox) -> "Queues":
        """The messages of an inbox."""
        return cls(_messages(inbox.steering), _messages(inbox.follow_up), _messages(inbox.next_turn))

    @property
    def steering(self) -> tuple[str, ...]:
        """The steering messages as text."""
        return tuple(map(_text, self.steering_messages))

    @property
    def follow_up(self) -> tuple[str, ...]:
        """The follow-ups as text."""
        return tuple(map(_text, self.follow_up_messages))

    @property
    def next_turn(self) -> tuple[str, ...]:
        """The messages for the next turn as text."""
        return tuple(map(_text, self.next_turn_messages))


@define
class Progress:
    """What a run's events have said so far; the part of an agent's state that they change."""

    conversation: Conversation
    streaming: MessageStart | MessageUpdate | None = None
    pending: frozenset[str] = _NONE
    error_message: str | None = None
    started: bool = False
    turn_open: bool = False
    results: tuple[Any, ...] = ()
    """The tool results of the open turn."""

    def begin(self, *, started: bool = False) -> None:
        """A run begins, or goes on with another loop when it has started before."""
        self.started = started
        self.streaming = None
        self.error_message = None
        self.pending = _NONE

    def settle(self) -> None:
        """A run is over, its task has ended."""
        self.streaming = None
        self.pending = _NONE
        self.turn_open = False

    @property
    def streaming_message(self) -> AgentMessage | None:
        """What is being said right now."""
        return None if self.streaming is None else self.streaming.message


def _growing(progress: Progress, event: MessageStart | MessageUpdate) -> None:
    progress.streaming = event


def _message_end(progress: Progress, event: MessageEnd) -> None:
    message = event.message
    progress.conversation.append(message)
    progress.streaming = None
    if message.role == "tool_result":
        progress.results = (*progress.results, message)


def _tool_start(progress: Progress, event: ToolExecutionStart) -> None:
    progress.pending = progress.pending | {event.tool_call_id}


def _tool_end(progress: Progress, event: ToolExecutionEnd) -> None:
    progress.pending = progress.pending - {event.tool_call_id}


def _agent_start(progress: Progress, _event: AgentStart) -> None:
    progress.started = True


def _turn_start(progress: Progress, _event: TurnStart) -> None:
    progress.turn_open = True
    progress.results = ()


def _turn_end(progress: Progress, event: TurnEnd) -> None:
    progress.turn_open = False
    if event.message.error_message:
        progress.error_message = event.message.error_message


def _agent_end(progress: Progress, _event: AgentEnd) -> None:
    progress.streaming = None


def _error(progress: Progress, event: ErrorEvent) -> None:
    progress.error_message = error_text(event.reason)


EFFECTS: Final[Mapping[type, Callable[[Progress, Any], None]]] = {
    MessageStart: _growing,
    MessageUpdate: _growing,
    MessageEnd: _message_end,
    ToolExecutionStart: _tool_start,
    ToolExecutionEnd: _tool_end,
    AgentStart: _agent_start,
    TurnStart: _turn_start,
    TurnEnd: _turn_end,
    AgentEnd: _agent_end,
    ErrorEvent: _error,
}
"""What each event changes; the others leave an agent's state as it is."""


def opening_events(progress: Progress, unsaid: Sequence[AgentMessage]) -> list[AgentEvent]:
    """What is missing for a well-formed beginning of a run whose loop never got that far, its prompts above all."""
    events: list[AgentEvent] = []
    if not progress.started:
        events.append(AgentStart())
    if not progress.turn_open and (unsaid or not progress.started):
        events.append(TurnStart())
    for message in unsaid:
        events += [MessageStart(message), MessageEnd(message)]
    return events


def closing_events(progress: Progress, *, aborted: bool) -> list[AgentEvent]:
    """What is missing for a well-formed end of a run whose loop is gone: the ends of all that was begun."""
    words = "Request was aborted" if aborted else "The run ended unexpectedly"
    events: list[AgentEvent] = []
    results: list[ToolResultMessage] = []
    answer = _last_answer(progress.conversation)
    if progress.streaming is not None:
        open_message = progress.streaming.message
        if isinstance(open_message, AssistantMessage):
            stop_reason: StopReason = "aborted" if aborted else "error"
            open_message = answer = evolve(open_message, stop_reason=stop_reason, error_message=words)
        events.append(MessageEnd(open_message))
    else:
        for call in dangling_calls(progress.conversation.messages):
            note = "Tool execution aborted" if aborted else INTERRUPTED
            if call.id in progress.pending:
                result = error_result(note, "aborted" if aborted else "tool_task_crashed")
                events.append(ToolExecutionEnd(call.id, call.name, result, is_error=True))
            results.append(interrupted_result(call, note))
            events += [MessageStart(results[-1]), MessageEnd(results[-1])]
    if progress.turn_open:
        if answer is None:
            answer = AssistantMessage(stop_reason="aborted" if aborted else "error", error_message=words)
            events += [MessageStart(answer), MessageEnd(answer)]
        events.append(TurnEnd(answer, (*progress.results, *results)))
    return events


def _last_answer(conversation: Conversation) -> AssistantMessage | None:
    """The assistant message of the turn that is open, when it is said."""
    for message in reversed(conversation.messages):
        if isinstance(message, AssistantMessage):
            return message
        if not isinstance(message, ToolResultMessage):
            return None
    return None


def user_message(text: str, images: Any = ()) -> UserMessage:
    """What a person says: a text, and pictures after it."""
    return UserMessage((TextContent(text), *images))


def as_messages(prompt: Any, images: Any = ()) -> tuple[AgentMessage, ...]:
    """A prompt as messages: a text becomes one user message, a message a list of one, a list stays as it is.

    Raises:
        TypeError: It is neither, or the list holds something else than messages.
    """
    if isinstance(prompt, str):
        return (user_message(prompt, images),)
    return checked_messages(prompt if isinstance(prompt, list | tuple) else (prompt,))


def as_queued(message: Any, system_prompt: str | None = None) -> tuple[Queued, ...]:
    """A text, a message or several, ready for a queue."""
    return tuple(Queued(each, system_prompt) for each in as_messages(message))


def _messages(queue: tuple[Queued, ...]) -> tuple[AgentMessage, ...]:
    return tuple(queued.message for queued in queue)


def _text(message: Any) -> str:
    try:
        return get_text(message)
    except (AttributeError, TypeError):
        return str(getattr(message, "content", message))
