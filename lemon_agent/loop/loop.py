"""Edge. A run: turns until nothing is left to do.

Tree:  lemon_agent.supervisor / loop_task_supervisor / one task a run, temporary
Emits: `AgentEvent`s into the run's stream; telemetry ("lemon_agent", "loop", "start" | "end" | "state_transition")
Owns:  the conversation while it runs; who started it has a copy of what there was before. Its tools end with it

Two levels. The inner loop goes on while the model calls tools or messages were injected; the outer one starts it again
when follow-ups wait. Whatever happens inside, the run ends with `TurnEnd` and `AgentEnd`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import lemon_ai
from lemon_agent.abort_signal import AbortSignal
from lemon_agent.agent_state import as_messages
from lemon_agent.errors import CannotContinue, LoopFailed, NoMessages, words_of
from lemon_agent.event_stream import EventStream, open_stream
from lemon_agent.events import (
    AgentEnd,
    AgentMessage,
    AgentStart,
    BudgetDetails,
    LoopBudgetExhausted,
    Outcome,
    TurnEnd,
    TurnStart,
)
from lemon_agent.inbox import Queued
from lemon_agent.loop.config import AgentContext, AgentLoopConfig, GetMessages, NextTurn, StreamFn, TurnContext
from lemon_agent.loop.conversation import Conversation
from lemon_agent.loop.interruption import Interrupted
from lemon_agent.loop.run import ConfigFeed, Feed, Run
from lemon_agent.loop.streaming import stream_response
from lemon_agent.loop.tool_calls import not_executed, run_tool_calls
from lemon_agent.loop.tool_set import ToolSet
from lemon_agent.loop.transcript import interrupted_result
from lemon_ai import AssistantMessage, ToolCall, ToolResultMessage, get_tool_calls
from lemon_otp import Pid, TaskSupervisor, define, frozen, self_pid

LOOP_TASK_SUPERVISOR: Final = "loop_task_supervisor"
BUDGET_REASON: Final = "max_tool_turns_exhausted"
BUDGET_WORDS: Final = "I stopped here because this run used up the {limit} tool turns it was allowed."


@frozen
class _End:
    """How a run is going to end."""

    outcome: Outcome
    reason: Any = None
    error: BaseException | None = None


_COMPLETED: Final = _End("completed")
_UNKNOWN: Final = _End("error", "unknown")


async def agent_loop(
    prompts: str | AgentMessage | Sequence[AgentMessage],
    context: AgentContext,
    config: AgentLoopConfig,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
    *,
    owner: Pid | None = None,
    conversation: Conversation | None = None,
) -> EventStream:
    """Start a run that begins with `prompts`; its events come from the stream returned.

    Args:
        prompts: Said first: a text, a message or several.
        context: What there is already; neither it nor its messages are changed.
        config: The model, the hooks and the limits.
        signal: Aborts the run; a new one when None.
        stream_fn: Calls the model; before `config.stream_fn`, before `lemon_ai.stream`.
        owner: When this process ends the run is cancelled; the caller when None.
        conversation: `context.messages` as a conversation that is the run's to change, where there is one already.

    Returns:
        The stream. A run that could not be started is a stream that has failed with `("task_start_failed", reason)`.

    Raises:
        TypeError: Among the prompts is something else. Nothing was started.

    Cancelling leaves a run that was started running, until its owner ends.
    """
    said = as_messages(prompts)
    talk = Conversation(context.messages) if conversation is None else conversation
    tools = ToolSet.of(context.tools)
    feed = ConfigFeed(config)
    run = await start_run(said, context.system_prompt, tools, talk, config, feed, signal, stream_fn, owner)
    return run.stream


async def start_run(
    prompts: tuple[AgentMessage, ...],
    system_prompt: str | None,
    tools: ToolSet,
    conversation: Conversation,
    config: AgentLoopConfig,
    feed: Feed,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
    owner: Pid | None = None,
) -> Run:
    """As `agent_loop`, with its context in parts; returns the run itself, whose `pid` is None when it did not start."""
    signal = AbortSignal() if signal is None else signal
    stream = open_stream(self_pid() if owner is None else owner, max_queue=config.max_queue)
    stream_fn = stream_fn or config.stream_fn or lemon_ai.stream
    run = Run(config, system_prompt, tools, conversation, feed, signal, stream, stream_fn)
    signal.track()
    try:
        label = "loop" if config.session_id is None else f"loop[{config.session_id}]"
        pid = await TaskSupervisor.start_child(LOOP_TASK_SUPERVISOR, _run, run, prompts, label=label)
    except Exception as error:
        signal.untrack()
        stream.error(("task_start_failed", error))
    else:
        run.guard(pid)
        stream.attach_task(pid, signal)
    return run


async def agent_loop_continue(
    context: AgentContext,
    config: AgentLoopConfig,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
    *,
    owner: Pid | None = None,
    conversation: Conversation | None = None,
) -> EventStream:
    """Start a run that goes on from where the conversation stands; otherwise as `agent_loop`.

    Raises:
        NoMessages: There is no conversation. Nothing was started.
        CannotContinue: It ends with an answer. Nothing was started.
    """
    check_continuable(context.messages if conversation is None else conversation.messages)
    return await agent_loop((), context, config, signal, stream_fn, owner=owner, conversation=conversation)


def check_continuable(messages: Sequence[AgentMessage]) -> None:
    """Return when a conversation can be gone on with. Raises as `agent_loop_continue`."""
    if not messages:
        raise NoMessages("there is no message to continue from")
    if messages[-1].role == "assistant":
        raise CannotContinue("the last message is an answer; say something first")


async def _run(run: Run, prompts: tuple[AgentMessage, ...]) -> None:
    """The body of the run's process."""
    run.began(len(prompts))
    end = _UNKNOWN
    try:
        end = await _whole(run, prompts)
        if run.behind:
            await run.flush()
    finally:
        run.ended("completed" if end.outcome in ("completed", "stopped") else "early_exit", end.outcome)
    run.stream.complete(AgentEnd(tuple(run.new_messages), end.outcome, end.reason, end.error))


async def _whole(run: Run, prompts: tuple[AgentMessage, ...]) -> _End:
    """The run up to, and without, its terminal event; failures become a message and an end."""
    progress = _Progress()
    try:
        return await _turns(run, prompts, progress)
    except Interrupted:
        return _aborted(run, progress)
    except LoopFailed as failure:
        return _failed(run, progress, failure)
    except Exception as error:  # a mistake of ours, or of an object we were given
        words = words_of(error)
        crash = LoopFailed(("exception", words), words)
        crash.__cause__ = error
        return _failed(run, progress, crash)


@define
class _Progress:
    """What of the current turn has been said."""

    open: bool = False
    message: AssistantMessage | None = None
    results: list[ToolResultMessage] | tuple[()] = ()
    """A list from the turn's first tool call on."""


def _begin_turn(run: Run, progress: _Progress) -> None:
    progress.open, progress.message, progress.results = True, None, ()
    run.emit(TurnStart())


def _end_turn(run: Run, progress: _Progress) -> None:
    assert progress.message is not None
    progress.open = False
    run.emit(TurnEnd(progress.message, tuple(progress.results)))


async def _turns(run: Run, prompts: tuple[AgentMessage, ...], progress: _Progress) -> _End:
    run.emit(AgentStart())
    run.offer(run.tools)
    _begin_turn(run, progress)
    run.to("initializing")
    for prompt in prompts:
        run.say(prompt)
    run.signal.clear_redirect()
    pending = await _drained(run, take) if (take := run.feed.steering()) else ()
    while True:
        end = await _inner(run, progress, pending)
        if end is not None:
            return end
        pending = await _drained(run, take) if (take := run.feed.follow_up()) else ()
        if run.signal.aborted or not pending:
            break
        run.tool_turns = 0
        _begin_turn(run, progress)
    if run.signal.aborted:
        run.wind_up("aborted")
        return _End("aborted", run.signal.reason)
    run.to("finalizing")
    return _COMPLETED


async def _inner(run: Run, progress: _Progress, pending: Sequence[AgentMessage]) -> _End | None:
    """Turns until the model neither calls tools nor has anything injected; how the run ends, when it ends here."""
    while True:
        if not progress.open:
            _begin_turn(run, progress)
        for message in pending:
            run.say(message)
        run.to("await_model")
        message = progress.message = await stream_response(run)
        if run.behind:
            await run.flush()
        if message.stop_reason == "aborted":
            run.to("aborted")
            _end_turn(run, progress)
            return _End("aborted", run.signal.reason or "assistant_aborted")
        if message.stop_reason == "error":
            return _provider_failed(run, progress, message)
        run.to("normalizing_response")
        if message.stop_reason == "redirected":
            run.conversation.take_back()
            _end_turn(run, progress)
            more = True
        else:
            calls = get_tool_calls(message)
            more = bool(calls) and await _tools(run, progress, message, calls)
            _end_turn(run, progress)
            if run.signal.aborted:
                run.to("aborted")
                return _End("aborted", run.signal.reason)
            end = await _after_turn(run, progress) if run.hooks_between_turns else _budget(run, progress)
            if end is not None:
                return end
        run.signal.clear_redirect()
        pending = await _drained(run, take) if (take := run.feed.steering()) else ()
        if run.signal.aborted:
            run.to("aborted")
            return _End("aborted", run.signal.reason)
        if not more and not pending:
            return None


async def _tools(run: Run, progress: _Progress, message: AssistantMessage, calls: Sequence[ToolCall]) -> bool:
    """Answer the calls of a message; True when the model should see the results."""
    run.to("executing_tools", tool_count=len(calls))
    results = progress.results = []
    if message.stop_reason == "length":
        batch = await not_executed(run, calls, results)
    else:
        batch = await run_tool_calls(run, message, calls, results)
    run.to("awaiting_tool_results")
    run.tool_turns += 1
    if batch.added_tool_names:
        _activate(run, batch.added_tool_names)
    return not batch.terminate


def _activate(run: Run, names: Iterable[str]) -> None:
    tools = run.tools.with_added(names, run.config.tool_pool)
    if tools is not run.tools:
        run.offer(tools)


async def _after_turn(run: Run, progress: _Progress) -> _End | None:
    """Ask the hooks between two turns and look at the budget."""
    config = run.config
    assert progress.message is not None
    turn = TurnContext(progress.message, tuple(progress.results), run.snapshot(), tuple(run.new_messages))
    if config.should_stop_after_turn is not None and await run.ask(config.should_stop_after_turn, turn, run.signal):
        run.to("finalizing")
        return _End("stopped")
    end = _budget(run, progress)
    if end is None and config.prepare_next_turn is not None:
        _prepare(run, turn, await run.ask(config.prepare_next_turn, turn, run.signal))
    return end


def _budget(run: Run, progress: _Progress) -> _End | None:
    limit = run.config.max_tool_turns
    if limit is None or not progress.results or run.tool_turns < limit:
        return None
    run.emit(LoopBudgetExhausted(BudgetDetails(BUDGET_REASON, limit, run.tool_turns)))
    run.to("finalizing")
    _begin_turn(run, progress)
    progress.message = run.own_words("error", BUDGET_REASON, BUDGET_WORDS.format(limit=limit))
    run.say(progress.message)
    _end_turn(run, progress)
    return _End("budget", BUDGET_REASON)


def _prepare(run: Run, turn: TurnContext, answer: Any) -> None:
    """Let the next turn use what `prepare_next_turn` answered."""
    if answer is None:
        return
    following = answer if isinstance(answer, NextTurn) else NextTurn(**answer)
    if following.model is not None:
        run.model = following.model
    if following.thinking_level is not None:
        run.thinking_level = following.thinking_level
    if following.context is not None:
        run.system_prompt = following.context.system_prompt
        if following.context.messages is not turn.context.messages:
            run.conversation = Conversation(following.context.messages)
        if following.context.tools != run.tools.tools:
            run.offer(ToolSet.of(following.context.tools))


async def _drained(run: Run, get_messages: GetMessages) -> Sequence[AgentMessage]:
    """What waits to be injected; nothing when the run is aborted."""
    if run.signal.aborted:
        return ()
    messages: list[AgentMessage] = []
    for item in await run.ask(get_messages) or ():
        if isinstance(item, Queued):
            if item.system_prompt is not None:
                run.system_prompt = item.system_prompt
            messages.append(item.message)
        else:
            messages.append(item)
    return messages


# Ends that are no completion.


def _provider_failed(run: Run, progress: _Progress, message: AssistantMessage) -> _End:
    """The model's answer was a failure."""
    run.to("recovering_provider_error")
    _end_turn(run, progress)
    run.to("finalizing")
    text = message.error_message
    return _End("error", ("assistant_error", text) if text else "assistant_error", run.provider_error)


def _failed(run: Run, progress: _Progress, failure: LoopFailed) -> _End:
    """The run could not go on: say so in a message of its own, in a turn."""
    if not progress.open:
        _begin_turn(run, progress)
    if progress.message is not None:
        _answer_the_rest(run, progress)
        _end_turn(run, progress)
        _begin_turn(run, progress)
    progress.message = run.own_words("error", failure.text)
    run.say(progress.message)
    _end_turn(run, progress)
    run.wind_up("finalizing")
    return _End("error", failure.reason, failure.__cause__)


def _answer_the_rest(run: Run, progress: _Progress) -> None:
    """Give every call of the turn that has no result one: a failure of ours must not leave a call unanswered."""
    assert progress.message is not None
    answered = {result.tool_call_id for result in progress.results}
    for block in progress.message.content:
        if isinstance(block, ToolCall) and block.id not in answered:
            result = interrupted_result(block)
            progress.results = [*progress.results, result]
            run.say(result)


def _aborted(run: Run, progress: _Progress) -> _End:
    """The run was aborted while a hook was asked."""
    if progress.open:
        if progress.message is None:
            progress.message = run.own_words("aborted", "Request was aborted")
            run.say(progress.message)
        else:
            _answer_the_rest(run, progress)
        _end_turn(run, progress)
    run.wind_up("aborted")
    return _End("aborted", run.signal.reason)
