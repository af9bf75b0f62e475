"""Values. What a session says: every event of its agent, and a few of its own.

A subscriber gets `SessionEvent(session_id, event, entry_id)`; `event` is an agent event as `lemon_agent` made it or one
of the notices below. `entry_id` names the line of the session file that the event's message was stored under: it is
there for `MessageEnd` and only then, because the message is appended before the event is forwarded.
"""

from typing import Any, ClassVar, TypeAlias

from lemon_agent import AgentEvent
from lemon_otp import frozen


@frozen
class SavePoint:
    """A turn is over and everything asked for during it is on disk."""

    type: ClassVar[str] = "save_point"
    had_pending_mutations: bool


@frozen
class Settled:
    """The run is over, stored and reported; the session is idle and takes a prompt."""

    type: ClassVar[str] = "settled"
    outcome: str
    reason: Any = None
    next_turn_count: int = 0


@frozen
class QueueUpdate:
    """The queues of prompts waiting for the model have changed."""

    type: ClassVar[str] = "queue_update"
    steering: tuple[str, ...]
    follow_up: tuple[str, ...]


@frozen
class AutoRetryStart:
    """A provider failed in passing and is asked again after a wait."""

    type: ClassVar[str] = "auto_retry_start"
    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


@frozen
class AutoRetryEnd:
    """The tries have led to an answer, or to nothing: then `final_error` says why."""

    type: ClassVar[str] = "auto_retry_end"
    success: bool
    attempt: int
    final_error: str | None = None


@frozen
class ModelUpdate:
    """Another model answers from the next request on."""

    type: ClassVar[str] = "model_update"
    provider: str
    model_id: str


@frozen
class ThinkingLevelUpdate:
    """Another thinking level holds from the next request on."""

    type: ClassVar[str] = "thinking_level_update"
    level: str


@frozen
class ToolsUpdate:
    """Another set of tools is active from the next request on."""

    type: ClassVar[str] = "tools_update"
    active_tools: tuple[str, ...]


@frozen
class CommandsUpdate:
    """Something else can be typed behind a slash now: whoever shows a list of commands asks for it again."""

    type: ClassVar[str] = "commands_update"


@frozen
class CompactionStart:
    """The conversation is being made shorter; `reason` is `manual`, `threshold` or `overflow`."""

    type: ClassVar[str] = "compaction_start"
    reason: str
    tokens_before: int


@frozen
class CompactionEnd:
    """A compaction is over; without `error_message` the summary stands in for what it covers.

    Attributes:
        reason: As in `CompactionStart`.
        tokens_after: A guess at the size of the conversation now.
        aborted: Somebody asked for its end.
    """

    type: ClassVar[str] = "compaction_end"
    reason: str
    tokens_before: int
    summary: str = ""
    first_kept_entry_id: str | None = None
    compaction_entry_id: str | None = None
    tokens_after: int = 0
    error_message: str | None = None
    aborted: bool = False


@frozen
class BranchSummarized:
    """A branch was left, and what happened on it was written down where the conversation goes on."""

    type: ClassVar[str] = "branch_summarized"
    from_id: str
    summary: str
    summary_entry_id: str


@frozen
class TreeMoved:
    """The conversation goes on at another place of its tree."""

    type: ClassVar[str] = "session_tree"
    new_leaf_id: str | None
    old_leaf_id: str | None


@frozen
class SessionReset:
    """The conversation was forgotten; what follows is another session in another file."""

    type: ClassVar[str] = "session_reset"
    new_session_id: str


@frozen
class StorageFailed:
    """Something could not be stored; it is kept in memory and tried again with the next write."""

    type: ClassVar[str] = "storage_failed"
    message: str
    unsaved: int


@frozen
class ProviderSwitched:
    """Before anything useful was said, a provider or a credential failed and another one is asked."""

    type: ClassVar[str] = "provider_switched"
    from_provider: str
    from_model: str
    to_provider: str
    to_model: str
    reason: str


@frozen
class RateLimitPaused:
    """Every provider asks for a wait that is too long to sleep through; the run ends, and can be tried again then.

    Attributes:
        provider: The one asked last.
        retry_after_ms: How long it asks to wait.
        resume_at: When that is over, in Unix milliseconds, a whole second.
    """

    type: ClassVar[str] = "rate_limit_paused"
    provider: str
    retry_after_ms: int
    resume_at: int


@frozen
class PermissionAsked:
    """A tool call waits for somebody's answer.

    Attributes:
        request_id: Of the question; the decision has the same.
        subject: Programs without arguments, files, hosts: enough to recognise the call, and no secret.
        reason: Why it is asked.
    """

    type: ClassVar[str] = "permission_asked"
    request_id: str
    tool_call_id: str
    tool_name: str
    subject: str
    reason: str


@frozen
class PermissionDecided:
    """A question was answered, or a tool call was refused without one.

    Attributes:
        decision: `allowed`, `denied` or `cancelled`.
        by: `user`, `rule`, `mode`, or `nobody` when no one was there to ask.
    """

    type: ClassVar[str] = "permission_decided"
    request_id: str
    tool_call_id: str
    tool_name: str
    subject: str
    decision: str
    by: str
    reason: str


@frozen
class ExtensionFailed:
    """A handler of an extension raised, took too long or answered what cannot be meant; the session goes on.

    Attributes:
        path: The extension: its file, or the object that was installed.
        event: What it was told of.
        error: What went wrong.
    """

    type: ClassVar[str] = "extension_error"
    path: str
    event: str
    error: str


SessionNotice: TypeAlias = (
    SavePoint
    | Settled
    | QueueUpdate
    | AutoRetryStart
    | AutoRetryEnd
    | ModelUpdate
    | ThinkingLevelUpdate
    | ToolsUpdate
    | CommandsUpdate
    | StorageFailed
    | CompactionStart
    | CompactionEnd
    | BranchSummarized
    | TreeMoved
    | SessionReset
    | ProviderSwitched
    | RateLimitPaused
    | PermissionAsked
    | PermissionDecided
    | ExtensionFailed
)
"""Closed. Readers `match` and end in `assert_never`, so a class added here lists every reader to visit."""


@frozen
class SessionEvent:
    """One thing that happened in one session.

    Attributes:
        missed_by_ms: How long before its reader began to listen it happened, who needs it to follow what happens now;
            None for what happens now. A message that is being said begins for such a reader with all that was said.
    """

    type: ClassVar[str] = "session_event"
    session_id: str
    event: AgentEvent | SessionNotice
    entry_id: str | None = None
    missed_by_ms: int | None = None
