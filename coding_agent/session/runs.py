"""Edge. A session's run, from the prompt to the moment the session has settled: begun, judged by its end, followed up.

Everything is stored before its end is told. A run that was refused as too long is followed by a compaction and another
run; one that leaves no room for the next by a compaction; news that came too late for it begins another.
"""

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from coding_agent.errors import BudgetExceeded
from coding_agent.events import Settled
from coding_agent.session import compacting, configuring, hooks, protocol
from coding_agent.session.conversation import Conversation
from lemon_agent import Agent, AgentEnd, AgentError, Terminal, user_message
from lemon_otp import reply


async def begin(state: Conversation, prompt: protocol.Prompt | None) -> None:
    """Start a run with a prompt, or with the news alone; whoever has a say about prompts is asked first."""
    if prompt is None or not hooks.wanted(state, "before_agent_start"):
        await start(state, prompt, {})
        return
    state.phase = "turn"
    system_prompt = state.options.system_prompt_for(state.active_tools)
    hooks.ask(state, hooks.BeforeAgentStart(prompt.text, prompt.images, system_prompt), prompt)


async def start(state: Conversation, prompt: protocol.Prompt | None, said: Mapping[str, Any]) -> None:
    """Start a run, with the messages and the system prompt that hooks ask for."""
    state.phase = "turn"
    try:
        await configuring.store_settings(state)
        await state.configure_agent()
        waiting, state.next_turn = state.next_turn, []
        news, state.news = state.news, []
        asked = [] if prompt is None else [user_message(prompt.text, prompt.images)]
        if said.get("system_prompt") is not None:
            await Agent.set_system_prompt(state.agent, said["system_prompt"])
        await Agent.prompt(state.agent, [*map(user_message, waiting), *news, *asked, *said.get("messages", ())])
    except BaseException:
        state.phase = "idle"
        raise
    state.turn_index += 1


async def over(state: Conversation, terminal: Terminal) -> None:
    """The agent's run has ended: tell so, and go on with another one where a compaction may let it."""
    settings = state.options.compaction
    if compacting.overflowed(terminal) and state.compaction.decide("overflow", settings) == "compact":
        await state.flush()
        if await compacting.begin(state, "overflow", told_before=evolve(terminal, will_retry=True)) is None:
            state.held_back = terminal
            return
    await finish(state, terminal)


async def give_up(state: Conversation, terminal: AgentEnd) -> None:
    """No compaction has helped a run whose end was told: who streams hears the end, and the session settles with it."""
    state.notifier.complete_streams(terminal)
    await settle(state, terminal.outcome, terminal.reason)


async def finish(state: Conversation, terminal: Terminal) -> None:
    """Everything is stored, then the run is reported over, then whoever waited is answered."""
    await state.flush()
    state.phase = "idle"
    terminal = _told(terminal, state.out_of_time)
    state.notify(terminal)
    outcome = terminal.outcome if isinstance(terminal, AgentEnd) else "error"
    if outcome in ("completed", "stopped") and await _makes_room(state):
        state.after_run = (outcome, terminal.reason)
        return
    await settle(state, outcome, terminal.reason)


async def _makes_room(state: Conversation) -> bool:
    """Begin to make the conversation shorter if the next run would have no room; a subagent's has no next one."""
    lasts = state.options.owner is None
    return lasts and compacting.wanted(state) and await compacting.begin(state, "threshold") is None


def _told(terminal: Terminal, out_of_time: BudgetExceeded | None) -> Terminal:
    """The end of a run as a session tells it: one that a budget stopped has the outcome `budget`."""
    if out_of_time is not None and isinstance(terminal, AgentEnd) and terminal.outcome == "aborted":
        return evolve(terminal, outcome="budget", reason=out_of_time.reason, error=out_of_time)
    if isinstance(terminal, AgentEnd) and isinstance(terminal.error, BudgetExceeded):
        return evolve(terminal, outcome="budget")
    return terminal


async def settle(state: Conversation, outcome: str, reason: Any = None) -> None:
    """The session is idle: say how it came to be, answer whoever waited, and begin with what has come meanwhile."""
    state.phase, state.out_of_time = "idle", None
    await state.flush()
    await state.store_commands()
    state.notify(Settled(outcome, reason, len(state.next_turn)))
    waiters, state.waiters = state.waiters, []
    for caller, answer in waiters:
        reply(caller, answer)
    if outcome != "aborted":
        await _take_up_news(state)


async def _take_up_news(state: Conversation) -> None:
    """Let the model hear what came beside the conversation: too late for the run, or while none could be started."""
    late, state.handed_on = state.handed_on, []
    if late:  # the agent was told, and its run ended before it looked: they wait in its queue
        state.phase = "turn"
        try:
            await Agent.continue_(state.agent)
            return
        except AgentError:  # somebody has emptied the queue
            state.phase = "idle"
    if state.news:
        await begin(state, None)


async def take_up_queue(state: Conversation) -> None:
    """Go on with what was put into the queues while no run could be started."""
    queues = await Agent.queued(state.agent)
    if state.phase == "idle" and (queues.steering_messages or queues.follow_up_messages):
        state.phase = "turn"
        try:
            await Agent.continue_(state.agent)
        except AgentError:  # the conversation does not stand so that it could go on
            state.phase = "idle"
