"""Everything an agent says while it works.

A run says `AgentStart` first and one terminal last: `AgentEnd` whenever the loop itself ends the run, whatever the
outcome; `ErrorEvent` or `Canceled` only when the stream that carries the events failed or was cancelled.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias

from attrs import field

from lemon_agent.tools import AgentToolResult
from lemon_ai import AssistantMessage, BlockEvent, Message, Tool, ToolResultMessage
from lemon_otp import frozen

Outcome: TypeAlias = Literal["completed", "stopped", "aborted", "error", "budget"]
"""How a run ended: nothing left to do, a hook stopped it, somebody aborted it, it failed, its turns were used up."""


class CustomMessage(Protocol):
    """A message of an application's own: kept in the transcript, turned into model messages by `convert_to_llm`."""

    @property
    def role(self) -> str:
        """What tells it from the roles the models know."""
        ...


AgentMessage: TypeAlias = Message | CustomMessage
"""What a transcript is made of."""


@frozen
class ToolSchemaSnapshot:
    """The tools a run offers the model, as they were when it began or when the set changed."""

    id: str
    tools: tuple[Tool, ...]
    tool_names: tuple[str, ...]
    fingerprint: str
    """The same for the same names, descriptions and schemas in the same order."""
    created_at_ms: int


@frozen
class AgentStart:
    """A run has begun."""

    type: ClassVar[str] = "agent_start"


@frozen
class ToolSchemaSnapshotted:
    """The set of tools the model will see was fixed."""

    type: ClassVar[str] = "tool_schema_snapshot"
    snapshot: ToolSchemaSnapshot


@frozen
class LoopStateTransition:
    """The loop went from one state to another; `from_state` is None for the first."""

    type: ClassVar[str] = "loop_state_transition"
    from_state: str | None
    to_state: str
    metadata: Mapping[str, Any] = field(factory=dict)


@frozen
class TurnStart:
    """The model is about to be called."""

    type: ClassVar[str] = "turn_start"


@frozen
class TurnEnd:
    """The model has answered and the tools it asked for have run; results in the order it asked."""

    type: ClassVar[str] = "turn_end"
    message: AssistantMessage
    tool_results: tuple[ToolResultMessage, ...] = ()


@frozen
class BudgetDetails:
    """Which limit was reached, and how far the run had come."""

    reason: str
    max_tool_turns: int
    tool_turns: int


@frozen
class LoopBudgetExhausted:
    """The run has used up its tool turns and is about to end."""

    type: ClassVar[str] = "loop_budget_exhausted"
    details: BudgetDetails


@frozen
class MessageStart:
    """A message is about to be said; for an assistant message, what there is of it so far."""

    type: ClassVar[str] = "message_start"
    message: AgentMessage


@frozen
class MessageUpdate:
    """The assistant's message has grown."""

    type: ClassVar[str] = "message_update"
    assistant_event: BlockEvent
    """What the provider said, word for word."""

    @property
    def message(self) -> AssistantMessage:
        """The message as of this event. Built when first read, so nobody pays who only wants the delta."""
        return self.assistant_event.partial


@frozen
class MessageEnd:
    """A message is complete and part of the transcript."""

    type: ClassVar[str] = "message_end"
    message: AgentMessage


@frozen
class ToolExecutionStart:
    """A call is about to run, with the arguments as the model wrote them."""

    type: ClassVar[str] = "tool_execution_start"
    tool_call_id: str
    tool_name: str
    args: Mapping[str, Any]


@frozen
class ToolExecutionUpdate:
    """A running tool says what it has so far, with the arguments it was given."""

    type: ClassVar[str] = "tool_execution_update"
    tool_call_id: str
    tool_name: str
    args: Mapping[str, Any]
    partial_result: AgentToolResult


@frozen
class ToolExecutionEnd:
    """A tool call ended, well or badly; exactly one for each `ToolExecutionStart`."""

    type: ClassVar[str] = "tool_execution_end"
    tool_call_id: str
    tool_name: str
    result: AgentToolResult
    is_error: bool


@frozen
class AgentEnd:
    """The run is over; the messages are those it made, prompts included, in order."""

    type: ClassVar[str] = "agent_end"
    messages: tuple[AgentMessage, ...]
    outcome: Outcome = "completed"
    reason: Any = None
    """What ended it, when the outcome alone does not say: a stable string, a tuple starting with one, an exception."""
    error: BaseException | None = field(default=None, eq=False)
    """The exception behind an outcome of "error", where there is one, such as a classified failure of a provider."""
    will_retry: bool = False
    """Whoever keeps the conversation mends it now and goes on with another run by itself; no agent says so."""


@frozen
class ErrorEvent:
    """The stream of a run broke: its loop crashed or could not be started."""

    type: ClassVar[str] = "error"
    reason: Any
    partial_state: Any = None


@frozen
class Canceled:
    """The stream of a run was cancelled from outside: its owner died, its time was up, somebody called `cancel`."""

    type: ClassVar[str] = "canceled"
    reason: Any


AgentEvent: TypeAlias = (
    AgentStart
    | ToolSchemaSnapshotted
    | LoopStateTransition
    | TurnStart
    | TurnEnd
    | LoopBudgetExhausted
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | AgentEnd
    | ErrorEvent
    | Canceled
)
"""Closed. Readers `match` and end in `assert_never`, so a class added here lists every reader to visit."""

Terminal: TypeAlias = AgentEnd | ErrorEvent | Canceled
"""The last event of a run, whichever of the three."""

TERMINAL_CLASSES: Final = frozenset({AgentEnd, ErrorEvent, Canceled})
"""The same, to be looked up in."""


class AgentEventMessage(NamedTuple):
    """What a subscriber finds in its mailbox: one event of the agent it subscribed to."""

    event: AgentEvent


@frozen
class AgentEventBatch:
    """What a subscriber that asked for batches finds: events in order, less the updates that newer ones replace."""

    events: tuple[AgentEvent, ...]
