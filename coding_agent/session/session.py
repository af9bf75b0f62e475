"""Process. One conversation: prompts go down to its agent, events come up, what is said is stored, then told.

Tree:  coding_agent.supervisor / session_supervisor / session[id], temporary unless asked otherwise
Emits: `SessionEvent`s to its subscribers, through the notifier
Owns:  the session file (it is its one writer), its agent (linked), the subscriptions
Asked: see `protocol`; started with `SessionOptions`
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, assert_never

from attrs import evolve

from coding_agent.errors import CodingAgentError, SessionBusy, SessionError
from coding_agent.events import (
    SavePoint,
    Settled,
)
from coding_agent.messages import CustomMessage
from coding_agent.session import beginning, compacting, configuring, hooks, navigating, protocol, runs, time_limit
from coding_agent.session.conversation import NOTHING_QUEUED, Conversation
from coding_agent.session.options import SessionOptions, open_store
from coding_agent.session.summary_job import SummaryJob, SummaryWritten, summary_after_hooks
from coding_agent.storage.session_manager import SessionManager
from lemon_agent import (
    Agent,
    AgentEnd,
    AgentEvent,
    AgentEventMessage,
    Canceled,
    ErrorEvent,
    MessageEnd,
    MessageUpdate,
    TurnEnd,
    TurnStart,
    subagent_supervisor,
    user_message,
)
from lemon_ai import AssistantMessage
from lemon_otp import (
    Caller,
    Down,
    Exit,
    GenServer,
    NoReply,
    OtpError,
    Pid,
    Reply,
    Stop,
    reply,
    self_pid,
    send,
    wall_ms,
)

Answer = Reply[Conversation] | NoReply[Conversation]
Told = NoReply[Conversation] | Stop[Conversation]


class Session(GenServer[SessionOptions, Any, Any, Conversation]):
    """A conversation that survives its process: it is in the file, and a new process starts from there."""

    trap_exit: ClassVar[bool] = True

    async def init(self, options: SessionOptions) -> Conversation | Stop[Conversation]:
        try:
            store = open_store(options)
            beginning.close_with_process(store)
            return await beginning.begin(options, store)
        except SessionError as error:  # a matter of the file, not a fault: whoever starts us is told
            return Stop(error)

    async def handle_call(self, message: Any, caller: Caller, state: Conversation) -> Answer:
        try:
            return await _answer(message, caller, state)
        except CodingAgentError as refusal:
            return Reply(refusal, state)

    async def handle_cast(self, message: Any, state: Conversation) -> NoReply[Conversation]:
        match message:
            case protocol.AbortNow(reason) if state.phase != "idle":
                await _abort_work(state, reason)
            case protocol.AbortRetry():
                state.retries.cut_short()
            case protocol.Deliver():
                await _deliver(state, message)
            case protocol.OfferTools(prefix, tools):
                await state.take_tools(prefix, tools)
        return NoReply(state)

    def handle_info(self, message: Any, state: Conversation) -> Told | Awaitable[Told]:
        if type(message) is AgentEventMessage and type(message.event) is MessageUpdate:
            state.notify(message.event)  # hundreds a second, and nothing to wait for
            return NoReply(state)
        return self._handle_other(message, state)

    async def _handle_other(self, message: Any, state: Conversation) -> Told:
        match message:
            case AgentEventMessage(event):
                await _handle_event(state, event)
            case hooks.Asked(about, answer) if state.asking is not None and about is state.asking[1]:
                await _hooks_answered(state, about, answer)
            case SummaryWritten(job) if job is state.job:
                await _summary_written(state, message)
            case Exit(pid, reason) if pid == state.agent:
                await runs.finish(state, ErrorEvent(("agent_down", reason)))
                return Stop(("agent_down", reason), state)
            case time_limit.TimeUp():
                await _stop_in_time(state)
            case Exit() | beginning.RegisterAgain():
                beginning.register_again(state)
            case Down(ref=ref) if ref is state.owner_watch:
                return Stop("shutdown", state)
            case protocol.Tell(notice):
                state.notify(notice)
            case protocol.SayMessages(caller, messages):
                reply(caller, messages)
            case Down(process=Pid() as subscriber):
                state.notifier.prune(subscriber)
        return NoReply(state)

    async def terminate(self, reason: Any, state: Conversation) -> None:
        if state.job is not None:
            state.job.cancel()
        for command in state.commands:
            state.append(command)
        state.end_turn(state.pending.flush(state.store).failures)
        state.notifier.complete_streams(Canceled(("session_down", reason)))
        if state.options.agent_key is not None:
            with suppress(OtpError):  # it ended first
                await subagent_supervisor.stop_subagent(state.agent)


# What is asked.


async def _answer(message: Any, caller: Caller, state: Conversation) -> Answer:
    match message:
        case protocol.Prompt():
            await _prompt(state, message)
        case protocol.Queue():
            await _queue(state, message)
        case protocol.Abort():
            return await _abort(state, message, caller)
        case protocol.WaitForIdle():
            if state.phase != "idle":
                state.waiters.append((caller, None))
                return NoReply(state)
        case protocol.Subscribe(subscriber, None, missed):
            state.notifier.subscribe_direct(subscriber, missed=missed)
        case protocol.Subscribe(subscriber, stream) if stream is not None:
            state.notifier.subscribe_stream(subscriber, stream)
        case protocol.Unsubscribe():
            state.notifier.unsubscribe(message.subscriber)
        case protocol.Store():
            return Reply(await state.store_or_defer(message.write), state)
        case protocol.RecordBash():
            state.commands.append(message.message)
            if state.phase == "idle":
                await state.store_commands()
        case protocol.Look(look):
            return Reply(_looked(look, state.store), state)
        case protocol.Compact():
            return await _compact(state, message, caller)
        case protocol.NavigateTree():
            return await _navigate(state, message, caller)
        case protocol.Reset():
            _require_idle(state)
            return Reply(await beginning.reset(state), state)
        case protocol.GetOptions():
            return Reply(
                evolve(
                    state.options,
                    session_file=state.store.path,
                    model=state.model,
                    thinking_level=state.thinking_level,
                ),
                state,
            )
        case protocol.GetState():
            return Reply(await state.describe(), state)
        case protocol.GetMessages():
            messages = (await Agent.get_state(state.agent)).messages
            send(self_pid(), protocol.SayMessages(caller, messages))  # behind what the agent has said of them
            return NoReply(state)
        case _:
            await configuring.apply(state, message)
    return Reply(None, state)


def _looked(look: Callable[[SessionManager], Any], store: SessionManager) -> Any:
    """What somebody's function says of the store; whatever goes wrong in it is theirs to hear, not ours to die of."""
    try:
        return look(store)
    except CodingAgentError:
        raise
    except Exception as error:
        raise CodingAgentError(str(error)) from error


# A prompt and its run.


async def _prompt(state: Conversation, prompt: protocol.Prompt) -> None:
    if state.after_run is not None and state.held_back is None:
        state.held_back = prompt  # the run before it is over, and so will be the compaction behind it
        return
    _require_idle(state)
    state.compaction = state.compaction.reset()
    if compacting.wanted(state) and await compacting.begin(state, "threshold") is None:
        state.held_back = prompt
        return
    await runs.begin(state, prompt)


def _require_idle(state: Conversation) -> None:
    if state.phase != "idle":
        raise SessionBusy(state.notifier.session_id, state.phase)


async def _hooks_answered(state: Conversation, about: Any, answer: Mapping[str, Any]) -> None:
    """Go on with what the hooks were asked about."""
    state.asking = None
    match about:
        case protocol.Prompt() if answer.get("cancel"):
            await runs.settle(state, "aborted")
        case protocol.Prompt():
            try:
                await runs.start(state, about, answer)
            except CodingAgentError as error:
                await runs.settle(state, "error", str(error))
        case SummaryJob() if about is state.job and (outcome := await summary_after_hooks(state, answer)) is not None:
            await _summary_written(state, SummaryWritten(about, outcome))


async def _queue(state: Conversation, request: protocol.Queue) -> None:
    match request.delivery:
        case "steer":
            Agent.steer(state.agent, user_message(request.text, request.images))
        case "follow_up":
            Agent.follow_up(state.agent, user_message(request.text, request.images))
        case "next_turn":
            state.next_turn.append(request.text)
        case other:
            assert_never(other)
    await state.notify_queues()


async def _deliver(state: Conversation, news: protocol.Deliver) -> None:
    message = CustomMessage(news.custom_type, news.content, True, news.details, wall_ms())
    if state.phase != "turn":
        state.news.append(message)
        if state.phase == "idle":
            await runs.begin(state, None)
        return
    state.handed_on.append(message)
    if news.delivery == "steer":
        Agent.steer(state.agent, message)
    else:
        Agent.follow_up(state.agent, message)


async def _abort(state: Conversation, request: protocol.Abort, caller: Caller) -> Answer:
    if state.phase == "idle":
        return Reply(protocol.AbortReport(was_running=False), state)
    state.waiters.append((caller, await _abort_work(state, request.reason)))
    return NoReply(state)


async def _abort_work(state: Conversation, reason: str) -> protocol.AbortReport:
    cleared = await Agent.clear_all_queues(state.agent)
    state.handed_on.clear()
    if state.job is not None:
        state.job.cancel()
    hooks.stop(state)
    Agent.abort(state.agent, reason)
    state.retries.cut_short()
    state.queues = NOTHING_QUEUED
    state.notify(state.queues)
    return protocol.AbortReport(True, cleared.steering, cleared.follow_up)


async def _stop_in_time(state: Conversation) -> None:
    """End what is going on if the session's time is over."""
    over = time_limit.watch(state.options.account)
    if over is not None and state.phase != "idle":
        state.out_of_time = over
        await _abort_work(state, str(over))


async def _handle_event(state: Conversation, event: AgentEvent) -> None:
    match event:
        case TurnStart():
            if state.queues != NOTHING_QUEUED:
                await state.notify_queues()
            state.notify(event)
        case MessageEnd():
            state.notify(event, entry_id=state.append(event.message))
            _tell_retries(state, event.message)
            state.handed_on = [message for message in state.handed_on if message is not event.message]
        case TurnEnd():
            state.notify(event)
            had_pending = len(state.pending) > 0
            await state.flush(aside=True)
            state.notify(SavePoint(had_pending))
            if event.message.stop_reason not in ("error", "aborted"):
                state.compaction = state.compaction.answered()
        case AgentEnd() | ErrorEvent() | Canceled():
            await Agent.wait_for_idle(state.agent)
            await runs.over(state, event)
        case _:
            state.notify(event)


def _tell_retries(state: Conversation, message: Any) -> None:
    if isinstance(message, AssistantMessage):
        failed = message.stop_reason in ("error", "aborted")
        over = state.retries.over(success=not failed, error=message.error_message or message.stop_reason)
        if over is not None:
            state.notify(over)


# Summaries: asked for, and what goes on once they are there.


async def _compact(state: Conversation, request: protocol.Compact, caller: Caller) -> Answer:
    _require_idle(state)
    refused = await compacting.begin(state, "manual", request.instructions)
    if refused is not None:
        raise refused
    state.caller = caller
    return NoReply(state)


async def _navigate(state: Conversation, request: protocol.NavigateTree, caller: Caller) -> Answer:
    _require_idle(state)
    there = await navigating.begin(state, request)
    if there is not None:
        return Reply(there, state)
    state.caller = caller
    return NoReply(state)


async def _summary_written(state: Conversation, written: SummaryWritten) -> None:
    caller, state.caller = state.caller, None
    waiting, state.held_back = state.held_back, None
    after, state.after_run = state.after_run, None
    if written.job.purpose == "branch_summary":
        answer: Any = await navigating.finish(state, written.job, written.outcome)
    else:
        answer = await compacting.finish(state, written.job, written.outcome)
    if caller is not None:
        reply(caller, answer)
    match waiting:
        case protocol.Prompt():
            if after is not None:
                state.notify(Settled(*after, len(state.next_turn)))
            await (runs.settle(state, "aborted") if written.job.cancelled else runs.begin(state, waiting))
        case AgentEnd() if answer.error_message:
            await runs.give_up(state, waiting)
        case AgentEnd():
            state.phase = "turn"
            await state.forget_failure()
            await Agent.continue_(state.agent)
        case None:
            await runs.settle(state, *(after or ("aborted" if written.job.cancelled else "completed",)))
            await runs.take_up_queue(state)
