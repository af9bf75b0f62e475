"""Edge. What a program can do with a running session. Every function takes the session's pid or address.

All of them raise `CallFailed` when the session is not there or dies before it answers; cancelling one leaves the
session as it is.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar, get_args

from coding_agent.errors import BadUsage, CodingAgentError, CompactionError, SessionBusy
from coding_agent.events import CompactionEnd
from coding_agent.messages import BashExecutionMessage
from coding_agent.session import protocol
from coding_agent.session.notifier import STREAM_QUEUE_MAX
from coding_agent.session.options import SessionOptions
from coding_agent.session.writes import (
    WriteCustom,
    WriteCustomMessage,
    WriteLabel,
    WriteMessage,
    WriteSessionName,
)
from coding_agent.storage.session_manager import SessionManager
from lemon_agent import TERMINALS, AgentMessage, QueueMode
from lemon_ai import ImageContent, Model, ReasoningLevel
from lemon_otp import Address, CallTimeout, DropStrategy, EventStream, Pid, Request, call, cast

R = TypeVar("R")
THINKING_LEVELS: Final = ("off", *get_args(ReasoningLevel))


async def _ask(session: Address, request: Request[R]) -> R:
    """Ask and wait as long as it takes; what the session refuses is raised here."""
    answer = await call(session, request, timeout_s=None)
    if isinstance(answer, CodingAgentError):
        raise answer
    return answer


async def prompt(session: Address, text: str, images: tuple[ImageContent, ...] = ()) -> None:
    """Start a run; returns once it has been accepted. Its events come to the subscribers.

    Raises:
        SessionBusy: A run, compaction or summary is going on. Nothing was started or queued.
    """
    await _ask(session, protocol.Prompt(text, images))


async def steer(session: Address, text: str, images: tuple[ImageContent, ...] = ()) -> None:
    """Give the model this text before its next call; when idle, with the next run."""
    await call(session, protocol.Queue(text, "steer", images))


async def follow_up(session: Address, text: str, images: tuple[ImageContent, ...] = ()) -> None:
    """Give the model this text when the run would end; when idle, with the next run."""
    await call(session, protocol.Queue(text, "follow_up", images))


async def next_turn(session: Address, text: str) -> None:
    """Put this text before the next prompt. Starts nothing."""
    await call(session, protocol.Queue(text, "next_turn"))


async def abort(session: Address, reason: str = "aborted") -> protocol.AbortReport:
    """End the run and wait until the session is idle; says what was taken out of the queues."""
    return await call(session, protocol.Abort(reason), timeout_s=None)


def abort_async(session: Address, reason: str = "aborted") -> None:
    """Ask for the run to end and do not wait; harmless when idle."""
    cast(session, protocol.AbortNow(reason))


async def wait_for_idle(session: Address, *, timeout_s: float | None = None) -> None:
    """Return when no run is going on. Raises `CallTimeout` when that takes longer than `timeout_s`."""
    await call(session, protocol.WaitForIdle(), timeout_s=timeout_s)


async def subscribe(session: Address, subscriber: Pid, *, missed: bool = False) -> None:
    """From now on every `SessionEvent` goes to the mailbox of `subscriber`, until it unsubscribes or dies.

    Args:
        session: The session.
        subscriber: Who listens.
        missed: First tell it what is under way: that a run has begun, the message that is being said as it is by now,
            the calls that run. These events are marked; with those that follow nothing is lost and nothing comes twice.
    """
    await call(session, protocol.Subscribe(subscriber, missed=missed))


async def subscribe_stream(
    session: Address,
    subscriber: Pid,
    *,
    max_queue: int = STREAM_QUEUE_MAX,
    drop_strategy: DropStrategy = "drop_oldest",
    timeout_ms: int | None = None,
) -> EventStream:
    """A bounded stream of `SessionEvent`s, owned by `subscriber`; it ends with the run."""
    stream: EventStream[Any, Any] = EventStream.start(
        owner=subscriber,
        max_queue=max_queue,
        drop_strategy=drop_strategy,
        timeout_ms=timeout_ms,
        terminals=TERMINALS,
    )
    await call(session, protocol.Subscribe(subscriber, stream))
    return stream


async def unsubscribe(session: Address, subscriber: Pid) -> None:
    """Nothing more goes to `subscriber`; asking twice does no harm."""
    await call(session, protocol.Unsubscribe(subscriber))


async def get_state(session: Address) -> protocol.SessionState:
    """How the session stands."""
    return await call(session, protocol.GetState())


async def get_options(session: Address) -> SessionOptions:
    """What the session was started with, with the model and level of today."""
    options: SessionOptions = await call(session, protocol.GetOptions())
    return options


async def get_messages(session: Address) -> tuple[AgentMessage, ...]:
    """The conversation so far."""
    return await call(session, protocol.GetMessages())


async def switch_model(session: Address, model: Model) -> None:
    """Let another model answer from the next request on; stored at once, or at the end of the turn."""
    await call(session, protocol.SwitchModel(model))


async def set_thinking_level(session: Address, level: str) -> None:
    """Hold another thinking level from the next request on; raises `BadUsage` for one there is none of."""
    if level not in THINKING_LEVELS:
        raise BadUsage(f"there is no thinking level {level!r}; there are: {', '.join(THINKING_LEVELS)}")
    await call(session, protocol.SetThinkingLevel(level))


async def set_active_tools(session: Address, names: tuple[str, ...]) -> None:
    """Offer the model these of the session's tools; raises `UnknownTool` for a name it does not have."""
    await _ask(session, protocol.SetActiveTools(names))


async def set_queue_mode(session: Address, queue: Literal["steering", "follow_up"], mode: str) -> None:
    """Let one look at a queue take `one-at-a-time` or `all` of what waits; raises `BadUsage` for another mode."""
    await _ask(session, protocol.SetQueueMode(queue, _queue_mode(mode)))


async def set_auto_compaction(session: Address, enabled: bool) -> None:
    """Compact without being asked, or only when asked."""
    await _ask(session, protocol.SetAutoCompaction(enabled))


async def set_auto_retry(session: Address, enabled: bool) -> None:
    """Ask a provider again after a passing failure, or tell the failure at once; from the next model call on."""
    await _ask(session, protocol.SetAutoRetry(enabled))


def abort_retry(session: Address) -> None:
    """End the wait for the next try, if one is going on: its failure is told."""
    cast(session, protocol.AbortRetry())


async def record_bash(session: Address, message: BashExecutionMessage) -> None:
    """Keep a command of the user's with the conversation; the model reads it with the next prompt."""
    await _ask(session, protocol.RecordBash(message))


async def look(session: Address, at: Callable[[SessionManager], R]) -> R:
    """What `at` says of the session's store. It runs in the session's process: it changes nothing and is quick."""
    answer: R = await _ask(session, protocol.Look(at))
    return answer


def _queue_mode(mode: str) -> QueueMode:
    if mode in ("all", "one-at-a-time", "one_at_a_time"):
        return "all" if mode == "all" else "one_at_a_time"
    raise BadUsage(f"there is no queue mode {mode!r}; there are: all, one-at-a-time")


async def compact(session: Address, instructions: str | None = None) -> CompactionEnd:
    """Make the conversation shorter now, and wait until that is done.

    Raises:
        SessionBusy: A run, compaction or summary is going on. Nothing was changed.
        CompactionError: There is nothing to compact, or it would not help; the text says what is in the way.
    """
    answer = await _ask(session, protocol.Compact(instructions))
    if answer.error_message:
        raise CompactionError(answer.error_message)
    return answer


async def navigate_tree(
    session: Address,
    target_id: str,
    *,
    summarize: bool = False,
    instructions: str | None = None,
    label: str | None = None,
) -> protocol.Navigated:
    """Let the conversation go on at another entry; before it, where the entry holds words of the user.

    Args:
        session: The session.
        target_id: The entry.
        summarize: Have a model write down what is left behind, where the conversation goes on.
        instructions: What the summary should look at.
        label: A bookmark to set there.

    Raises:
        SessionBusy: A run, compaction or summary is going on. Nothing was changed.
        EntryNotFound: There is no such entry. Nothing was changed.
    """
    return await _ask(session, protocol.NavigateTree(target_id, summarize, instructions, label))


async def reset(session: Address, *, timeout_s: float = 5.0) -> str:
    """Abort what is going on, forget the conversation, go on in a new file; the new session's id.

    Raises:
        SessionBusy: What was going on did not end within `timeout_s`. Nothing was forgotten.
    """
    abort_async(session, "reset")
    try:
        await wait_for_idle(session, timeout_s=timeout_s)
    except CallTimeout as error:
        state = await get_state(session)
        raise SessionBusy(state.session_id, state.phase) from error
    return await _ask(session, protocol.Reset())


async def append_message(session: Address, message: AgentMessage) -> str | None:
    """Store a message of the caller's; its entry id when stored at once, None when it waits for the end of the turn."""
    return await _ask(session, protocol.Store(WriteMessage(message)))


async def append_custom_entry(session: Address, custom_type: str, data: Any = None) -> str | None:
    """Store something the model never sees."""
    return await _ask(session, protocol.Store(WriteCustom(custom_type, data)))


async def append_custom_message_entry(
    session: Address, custom_type: str, content: Any, *, display: bool = True, details: Any = None
) -> str | None:
    """Store something the model does see."""
    return await _ask(session, protocol.Store(WriteCustomMessage(custom_type, content, display, details)))


async def append_label(session: Address, target_id: str, label: str | None) -> str | None:
    """Set a bookmark on an entry, or take it away with None."""
    return await _ask(session, protocol.Store(WriteLabel(target_id, label)))


async def append_session_name(session: Address, name: str) -> str | None:
    """Name the session."""
    return await _ask(session, protocol.Store(WriteSessionName(name)))
