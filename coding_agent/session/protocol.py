"""Values. What can be asked of a session process, and what it answers.

Whatever it refuses is answered with the `CodingAgentError` that says why; `client` raises it in the caller.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from coding_agent.events import (
    AutoRetryStart,
    CommandsUpdate,
    CompactionEnd,
    ExtensionFailed,
    PermissionAsked,
    PermissionDecided,
    ProviderSwitched,
    RateLimitPaused,
)
from coding_agent.session.writes import Write
from lemon_agent import AgentMessage, AgentTool, QueueMode
from lemon_ai import ImageContent, Model
from lemon_otp import Caller, EventStream, Pid, Request, frozen

if TYPE_CHECKING:
    from coding_agent.messages import BashExecutionMessage
    from coding_agent.storage.session_manager import SessionManager

Phase: TypeAlias = Literal["idle", "turn", "compaction", "branch_summary", "retry"]
"""What a session is busy with. Whatever needs `idle` is refused in every other phase."""

Delivery: TypeAlias = Literal["steer", "follow_up", "next_turn"]
"""When a queued prompt reaches the model: before its next call, when the run would end, or with the next prompt."""


Notice: TypeAlias = (
    ProviderSwitched
    | RateLimitPaused
    | AutoRetryStart
    | PermissionAsked
    | PermissionDecided
    | ExtensionFailed
    | CommandsUpdate
)
"""What processes that work for a session tell its subscribers through it."""


@frozen
class Prompt(Request[None]):
    """Start a run with this text."""

    text: str
    images: tuple[ImageContent, ...] = ()


@frozen
class Queue(Request[None]):
    """Give the model this text later."""

    text: str
    delivery: Delivery
    images: tuple[ImageContent, ...] = ()


@frozen
class Abort(Request["AbortReport"]):
    """End the run that is going on; answered when the session is idle again."""

    reason: str = "aborted"


@frozen
class AbortNow:
    """End the run that is going on, and do not say when; for a caller that must not wait."""

    reason: str = "aborted"


@frozen
class Deliver:
    """Something that was going on beside the conversation has news for its model.

    While a run is going on it waits in the agent's queue, like a text of the user's; when idle it starts a run. It is
    stored as a custom message when the model is told.
    """

    custom_type: str
    content: str
    details: Any = None
    delivery: Literal["follow_up", "steer"] = "follow_up"


@frozen
class OfferTools:
    """All the tools of one group as they are now: those whose names begin with `prefix`. Others stay as they are."""

    prefix: str
    tools: tuple[AgentTool, ...]


@frozen
class Tell:
    """A notice for the subscribers, from a process that works for the session."""

    notice: Notice


@frozen
class GetOptions(Request[Any]):
    """The `SessionOptions` it has now: as it was started, with the model, level and tools of today."""


@frozen
class AbortReport:
    """What an abort took out of the queues."""

    was_running: bool
    cleared_steering: tuple[str, ...] = ()
    cleared_follow_up: tuple[str, ...] = ()


@frozen
class WaitForIdle(Request[None]):
    """Answered when no run is going on."""


@frozen
class Subscribe(Request[None]):
    """Send every event to `subscriber`: to its mailbox, or into `stream` when there is one.

    With `missed` it gets what is under way first, so that it can follow what comes.
    """

    subscriber: Pid
    stream: EventStream | None = None
    missed: bool = False


@frozen
class Unsubscribe(Request[None]):
    """Send `subscriber` nothing more."""

    subscriber: Pid


@frozen
class Store(Request[str | None]):
    """Store this: at once when idle, answered with the entry's id; else at the end of the turn, answered with None."""

    write: Write


@frozen
class SwitchModel(Request[None]):
    """Let another model answer from the next request on."""

    model: Model


@frozen
class SetThinkingLevel(Request[None]):
    """Hold another thinking level from the next request on."""

    level: str


@frozen
class SetActiveTools(Request[None]):
    """Offer the model these of the session's tools from the next request on."""

    names: tuple[str, ...]


@frozen
class SetQueueMode(Request[None]):
    """Let one look at a queue take one message, or all that wait there."""

    queue: Literal["steering", "follow_up"]
    mode: QueueMode


@frozen
class SetAutoCompaction(Request[None]):
    """Compact without being asked, or only when asked."""

    enabled: bool


@frozen
class SetAutoRetry(Request[None]):
    """Ask a provider again after a passing failure, or tell the failure at once."""

    enabled: bool


@frozen
class AbortRetry:
    """Stop waiting for the next try: the failure is told."""


@frozen
class RecordBash(Request[None]):
    """Keep a command that the user ran and what it printed: with the conversation when idle, else once the run is over.

    The model reads it with the next prompt; no event tells of it.
    """

    message: "BashExecutionMessage"


@frozen
class Look(Request[Any]):
    """Answer what `look` says of the session's store. It must change nothing and be quick."""

    look: "Callable[[SessionManager], Any]"


@frozen
class Reset(Request[str]):
    """Abort, forget the conversation and go on in a new file; answered with the new session's id."""


@frozen
class Compact(Request[CompactionEnd]):
    """Make the conversation shorter; answered when that is done."""

    instructions: str | None = None


@frozen
class Navigated:
    """Where a session went.

    Attributes:
        leaf_id: The leaf now.
        editor_text: Words of the user to edit and send again; None when the target held none.
        summary_entry_id: The entry that says what happened on the branch that was left.
        cancelled: It stayed where it was, because the summary was cancelled or failed.
    """

    leaf_id: str | None
    editor_text: str | None
    summary_entry_id: str | None = None
    cancelled: bool = False
    error_message: str | None = None


@frozen
class NavigateTree(Request[Navigated]):
    """Go on at another entry; before it, where the entry holds words of the user."""

    target_id: str
    summarize: bool = False
    instructions: str | None = None
    label: str | None = None


@frozen
class GetState(Request["SessionState"]):
    """How things stand."""


@frozen
class SayMessages:
    """To itself: answer what was read, now that everything in it was told."""

    caller: Caller
    messages: tuple[AgentMessage, ...]


@frozen
class GetMessages(Request[tuple[AgentMessage, ...]]):
    """The conversation as the model would see it next, before any transformation.

    Each of its messages was told to the subscribers before this is answered.
    """


def model_name(model: Model) -> str:
    """A model as people write it: `provider/model`."""
    return f"{model.provider}/{model.id}"


@frozen
class Restored:
    """What a session found in its file when it started.

    Attributes:
        message_count: Messages the conversation goes on from.
        repaired_calls: Tool calls without a stored result; each got a synthetic error result.
        problems: What is wrong with the file, a line each; none of it was changed.
    """

    message_count: int
    repaired_calls: int = 0
    problems: tuple[str, ...] = ()


@frozen
class SessionState:
    """How a session stands at one moment.

    Attributes:
        file: The session file.
        model: `provider/model`.
        turn_index: Prompts taken since the session started.
        pending_tool_calls: Ids of the calls that run now.
        pending_writes: Writes waiting for the end of the turn.
        direct_subscribers: Listeners with a mailbox.
        stream_subscribers: Listeners with a bounded stream.
        name: What a person calls the session.
        pending_messages: Texts that wait in the queues of the run.
        started_at: When its process began, in Unix milliseconds.
        uptime_ms: How long ago that was.
        created_at: When the conversation was begun, as its file says it.
    """

    session_id: str
    file: str
    cwd: str
    model: str
    thinking_level: str
    active_tools: tuple[str, ...]
    phase: Phase
    turn_index: int
    message_count: int
    pending_tool_calls: frozenset[str]
    pending_writes: int
    queued_next_turn: int
    direct_subscribers: int
    stream_subscribers: int
    agent: Pid
    agent_alive: bool
    restored: Restored | None = None
    name: str | None = None
    pending_messages: int = 0
    steering_mode: QueueMode = "one_at_a_time"
    follow_up_mode: QueueMode = "one_at_a_time"
    auto_compaction: bool = True
    auto_retry: bool = True
    steering_queue_size: int = 0
    follow_up_queue_size: int = 0
    started_at: int = 0
    uptime_ms: int = 0
    created_at: str | int | float | None = None
