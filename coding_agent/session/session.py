"""Process. One conversation: prompts go down to its agent, events come up, what is said is stored, then told.

Tree:  coding_agent.supervisor / session_supervisor / session[id], temporary unless asked otherwise
Emits: `SessionEvent`s to its subscribers, through the notifier
Owns:  the session file (it is its one writer), its agent (linked), the subscriptions
Asked: see `protocol`; started with `SessionOptions`
"""

from typing import Any, ClassVar, assert_never

from attrs import define, field

from coding_agent.errors import SessionBusy, SessionError, SessionWriteFailed
from coding_agent.events import (
    ModelUpdate,
    QueueUpdate,
    SavePoint,
    SessionEvent,
    SessionNotice,
    Settled,
    StorageFailed,
    ThinkingLevelUpdate,
    ToolsUpdate,
)
from coding_agent.session import protocol
from coding_agent.session.notifier import Notifier
from coding_agent.session.options import SessionOptions, agent_options, open_store
from coding_agent.session.writes import (
    PendingWrites,
    Write,
    WriteActiveToolsChange,
    WriteModelChange,
    WriteThinkingLevelChange,
)
from coding_agent.storage.session_manager import SessionManager
from lemon_agent import (
    Agent,
    AgentEnd,
    AgentEvent,
    AgentEventMessage,
    Canceled,
    ErrorEvent,
    MessageEnd,
    TurnEnd,
    user_message,
)
from lemon_ai import Model
from lemon_otp import Caller, Down, Exit, GenServer, NoReply, Pid, Registry, Reply, Stop, Via, reply, self_pid

AGENT_ROLE = "main"


@define
class Conversation:
    """What a session process holds. `pending` is what was asked to be stored from outside during a run."""

    options: SessionOptions
    store: SessionManager
    agent: Pid
    notifier: Notifier
    model: Model
    thinking_level: str
    active_tools: tuple[str, ...]
    restored: protocol.Restored | None = None
    phase: protocol.Phase = "idle"
    turn_index: int = 0
    pending: PendingWrites = field(factory=PendingWrites)
    next_turn: list[str] = field(factory=list)
    waiters: list[tuple[Caller, Any]] = field(factory=list)


class Session(GenServer[SessionOptions, Any, protocol.AbortNow, Conversation]):
    """A conversation that survives its process: it is in the file, and a new process starts from there."""

    trap_exit: ClassVar[bool] = True

    async def init(self, options: SessionOptions) -> Conversation | Stop[Conversation]:
        try:
            store = open_store(options)
        except SessionError as error:  # a matter of the file, not a fault: whoever starts us is told
            return Stop(error)
        try:
            return await self._begin(options, store)
        except BaseException:
            store.close()
            raise

    async def _begin(self, options: SessionOptions, store: SessionManager) -> Conversation:
        session_id = store.header.id
        context = store.build_context()
        repaired = store.repair_dangling_calls()
        model = options.model_for(context.model)
        level = options.thinking_level or context.thinking_level or "off"
        active = options.active_tools(context.active_tools)
        messages = (*context.messages, *repaired)
        agent = await Agent.start_link(
            agent_options(options, session_id, model, level, active, messages),
            name=Via("agent_registry", (session_id, AGENT_ROLE, 0)),
        )
        assert agent is not None
        await Agent.subscribe(agent, self_pid())
        Registry.register("session_registry", session_id, {"cwd": str(options.cwd)})
        problems = tuple(store.report)
        restored = protocol.Restored(len(messages), len(repaired), problems) if messages else None
        return Conversation(options, store, agent, Notifier(session_id), model, level, active, restored)

    # Server side: what is asked.

    async def handle_call(
        self, message: Any, caller: Caller, state: Conversation
    ) -> Reply[Conversation] | NoReply[Conversation]:
        match message:
            case protocol.Prompt():
                return Reply(await _prompt(state, message), state)
            case protocol.Queue():
                await _queue(state, message)
            case protocol.Abort():
                return await _abort(state, message, caller)
            case protocol.WaitForIdle():
                if state.phase != "idle":
                    state.waiters.append((caller, None))
                    return NoReply(state)
            case protocol.Subscribe(subscriber, None):
                state.notifier.subscribe_direct(subscriber)
            case protocol.Subscribe(subscriber, stream) if stream is not None:
                state.notifier.subscribe_stream(subscriber, stream)
            case protocol.Unsubscribe():
                state.notifier.unsubscribe(message.subscriber)
            case protocol.Store():
                return Reply(_store_or_defer(state, message.write), state)
            case protocol.SwitchModel():
                await _switch_model(state, message.model)
            case protocol.SetThinkingLevel():
                await _set_thinking_level(state, message.level)
            case protocol.SetActiveTools():
                await _set_active_tools(state, message.names)
            case protocol.GetState():
                return Reply(await _describe(state), state)
            case protocol.GetMessages():
                return Reply((await Agent.get_state(state.agent)).messages, state)
        return Reply(None, state)

    async def handle_cast(self, message: protocol.AbortNow, state: Conversation) -> NoReply[Conversation]:
        if state.phase != "idle":
            await _abort_run(state, message.reason)
        return NoReply(state)

    async def handle_info(self, message: Any, state: Conversation) -> NoReply[Conversation] | Stop[Conversation]:
        match message:
            case AgentEventMessage(event):
                await _handle_event(state, event)
            case Exit(pid, reason) if pid == state.agent:
                _finish(state, ErrorEvent(("agent_down", reason)))
                return Stop(("agent_down", reason), state)
            case Down(process=Pid() as subscriber):
                state.notifier.prune(subscriber)
        return NoReply(state)

    async def terminate(self, reason: Any, state: Conversation) -> None:
        _flush(state)
        state.notifier.complete_streams(Canceled(("session_down", reason)))
        state.store.close()


# What a prompt and its run do.


async def _prompt(state: Conversation, prompt: protocol.Prompt) -> SessionBusy | None:
    if state.phase != "idle":
        return SessionBusy(state.store.header.id, state.phase)
    state.phase = "turn"
    try:
        _store_settings(state)
        await Agent.set_system_prompt(state.agent, state.options.system_prompt_for(state.active_tools))
        waiting, state.next_turn = state.next_turn, []
        await Agent.prompt(state.agent, [*map(user_message, waiting), user_message(prompt.text, prompt.images)])
    except BaseException:
        state.phase = "idle"
        raise
    state.turn_index += 1
    return None


async def _queue(state: Conversation, request: protocol.Queue) -> None:
    match request.delivery:
        case "steer":
            Agent.steer(state.agent, user_message(request.text))
        case "follow_up":
            Agent.follow_up(state.agent, user_message(request.text))
        case "next_turn":
            state.next_turn.append(request.text)
        case other:
            assert_never(other)
    queues = await Agent.queued(state.agent)
    _notify(state, QueueUpdate(queues.steering, queues.follow_up))


async def _abort(
    state: Conversation, request: protocol.Abort, caller: Caller
) -> Reply[Conversation] | NoReply[Conversation]:
    if state.phase == "idle":
        return Reply(protocol.AbortReport(was_running=False), state)
    state.waiters.append((caller, await _abort_run(state, request.reason)))
    return NoReply(state)


async def _abort_run(state: Conversation, reason: str) -> protocol.AbortReport:
    cleared = await Agent.clear_all_queues(state.agent)
    Agent.abort(state.agent, reason)
    _notify(state, QueueUpdate((), ()))
    return protocol.AbortReport(True, cleared.steering, cleared.follow_up)


async def _handle_event(state: Conversation, event: AgentEvent) -> None:
    match event:
        case MessageEnd():
            _notify(state, event, entry_id=_append(state, event.message))
        case TurnEnd():
            _notify(state, event)
            had_pending = len(state.pending) > 0
            _flush(state)
            _notify(state, SavePoint(had_pending))
        case AgentEnd() | ErrorEvent() | Canceled():
            await Agent.wait_for_idle(state.agent)
            _finish(state, event)
        case _:
            _notify(state, event)


def _finish(state: Conversation, terminal: AgentEnd | ErrorEvent | Canceled) -> None:
    """Everything is stored, then the run is reported over, then whoever waited is answered."""
    _flush(state)
    state.phase = "idle"
    _notify(state, terminal)
    outcome = terminal.outcome if isinstance(terminal, AgentEnd) else "error"
    _notify(state, Settled(outcome, terminal.reason, len(state.next_turn)))
    waiters, state.waiters = state.waiters, []
    for caller, answer in waiters:
        reply(caller, answer)


# Settings of the conversation: in memory at once, on disk now or at the end of the turn.


async def _switch_model(state: Conversation, model: Model) -> None:
    _store_or_defer(state, WriteModelChange(model.provider, model.id))
    state.model = model
    await Agent.set_model(state.agent, model)
    _notify(state, ModelUpdate(model.provider, model.id))


async def _set_thinking_level(state: Conversation, level: str) -> None:
    _store_or_defer(state, WriteThinkingLevelChange(level))
    state.thinking_level = level
    await Agent.set_thinking_level(state.agent, level)
    _notify(state, ThinkingLevelUpdate(level))


async def _set_active_tools(state: Conversation, names: tuple[str, ...]) -> None:
    tools = state.options.tools_named(names)
    _store_or_defer(state, WriteActiveToolsChange(names))
    state.active_tools = names
    await Agent.set_tools(state.agent, tools)
    _notify(state, ToolsUpdate(names))


def _store_settings(state: Conversation) -> None:
    """Write down the model and level a prompt will run with, where the file says otherwise or nothing yet."""
    context = state.store.build_context()
    if context.model != protocol.model_name(state.model):
        _store_or_defer(state, WriteModelChange(state.model.provider, state.model.id), now=True)
    if (context.thinking_level or "off") != state.thinking_level:
        _store_or_defer(state, WriteThinkingLevelChange(state.thinking_level), now=True)


# Storing.


def _append(state: Conversation, message: Any) -> str | None:
    """Store what the run said; the id of its entry, or None when it did not reach the disk yet."""
    try:
        return state.store.append_message(message)
    except SessionError as error:
        _storage_failed(state, error)
        return None


def _store_or_defer(state: Conversation, write: Write, *, now: bool = False) -> str | None:
    state.pending.add(write)
    if state.phase != "idle" and not now:
        return None
    stored = _flush(state)
    return stored[-1] if stored else None


def _flush(state: Conversation) -> tuple[str, ...]:
    flushed = state.pending.flush(state.store)
    failures = list(flushed.failures)
    try:
        state.store.turn_end()
    except SessionError as error:
        failures.append(error)
    for failure in failures:
        _storage_failed(state, failure)
    return flushed.entry_ids


def _storage_failed(state: Conversation, error: SessionError) -> None:
    unsaved = error.unsaved if isinstance(error, SessionWriteFailed) else 0
    _notify(state, StorageFailed(str(error), unsaved))


def _notify(state: Conversation, event: AgentEvent | SessionNotice, *, entry_id: str | None = None) -> None:
    state.notifier.broadcast(SessionEvent(state.notifier.session_id, event, entry_id))


async def _describe(state: Conversation) -> protocol.SessionState:
    agent = await Agent.get_state(state.agent)
    direct, streams = state.notifier.count()
    return protocol.SessionState(
        session_id=state.store.header.id,
        file=str(state.store.path),
        cwd=str(state.options.cwd),
        model=protocol.model_name(state.model),
        thinking_level=state.thinking_level,
        active_tools=state.active_tools,
        phase=state.phase,
        turn_index=state.turn_index,
        message_count=len(agent.messages),
        pending_tool_calls=frozenset(agent.pending_tool_calls),
        pending_writes=len(state.pending),
        queued_next_turn=len(state.next_turn),
        direct_subscribers=direct,
        stream_subscribers=streams,
        agent=state.agent,
        agent_alive=state.agent.alive,
        restored=state.restored,
    )
