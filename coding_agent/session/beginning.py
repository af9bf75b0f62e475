"""Edge. How a session process begins, is found by its id, and begins anew with an empty file."""

from contextlib import suppress
from typing import Any

from attrs import evolve

from coding_agent import session_registry
from coding_agent.errors import SessionError, SessionIdTaken
from coding_agent.events import SessionReset
from coding_agent.session import protocol, time_limit
from coding_agent.session.already_spent import resume_account
from coding_agent.session.conversation import Conversation
from coding_agent.session.notifier import Notifier
from coding_agent.session.options import SessionOptions, agent_options, open_store
from coding_agent.session.retrying import Retries
from coding_agent.storage.locations import new_session_file
from coding_agent.storage.session_manager import SessionManager
from lemon_agent import Agent, AgentOptions, agent_registry, subagent_supervisor
from lemon_otp import (
    AlreadyStarted,
    NoRegistry,
    Pid,
    Registry,
    at_exit,
    frozen,
    link,
    monitor,
    self_pid,
    send,
    send_after,
)

AGENT_ROLE = "main"
REGISTER_RETRY_S = 0.05


def close_with_process(store: SessionManager) -> None:
    """However this process ends, the file is closed before anybody else hears of it: a successor can open it."""

    def close(pid: Pid, reason: Any) -> None:
        with suppress(SessionError):
            store.close()

    at_exit(self_pid(), close)


@frozen
class RegisterAgain:
    """Sent to itself: the registry had crashed and was not back yet."""


def register(session_id: str, options: SessionOptions) -> None:
    """Let the session be found by its id."""
    Registry.register("session_registry", session_id, {"cwd": str(options.cwd)})


def register_again(state: Conversation) -> None:
    """The registry we were linked to has crashed; its supervisor starts another."""
    try:
        if session_registry.lookup(state.notifier.session_id) is None:
            register(state.notifier.session_id, state.options)
    except NoRegistry:
        send_after(self_pid(), RegisterAgain(), REGISTER_RETRY_S)


async def begin(options: SessionOptions, store: SessionManager) -> Conversation:
    """Start the agent where the file leaves off and register the session; the calling process is the session's.

    Raises:
        SessionIdTaken: A session of another file has the same id. Nothing was written.
    """
    session_id = store.header.id
    if session_registry.lookup(session_id) is not None:
        raise SessionIdTaken(store.path, session_id)
    me, retries = self_pid(), Retries(enabled=options.stream_options.max_retries != 0)
    owner_watch = None if options.owner is None else monitor(options.owner)
    resume_account(options.account, store)
    options = options.begun(me)
    context = store.build_context()
    repaired = store.repair_dangling_calls()
    model = options.model_for(context.model)
    level = options.thinking_level or context.thinking_level
    active = options.active_tools(context.active_tools)
    messages = (*context.messages, *repaired)
    agent = await _start_agent(
        options,
        store,
        agent_options(
            options, session_id, model, level, active, messages, lambda notice: send(me, protocol.Tell(notice)), retries
        ),
    )
    await Agent.subscribe(agent)
    time_limit.watch(options.account)
    register(session_id, options)
    restored = protocol.Restored(len(messages), len(repaired), tuple(store.report)) if messages else None
    notifier = Notifier(session_id)
    return Conversation(
        options, store, agent, notifier, model, level, active, restored, owner_watch=owner_watch, retries=retries
    )


async def _start_agent(options: SessionOptions, store: SessionManager, settings: AgentOptions) -> Pid:
    """The session's agent: its own, or, for a session that is a subagent, one that is listed with its parent's."""
    session_id = store.header.id
    if options.agent_key is None:
        try:
            agent = await Agent.start_link(settings, name=agent_registry.via((session_id, AGENT_ROLE, 0)))
        except AlreadyStarted as failed:  # both were started at one time
            raise SessionIdTaken(store.path, session_id) from failed
        assert agent is not None
        return agent
    agent = await subagent_supervisor.start_subagent(
        settings, registry_key=options.agent_key, metadata={"session_id": session_id}, owner=self_pid()
    )
    link(agent)
    return agent


async def reset(state: Conversation) -> str:
    """Forget the conversation and go on in a new file; the new session's id. The session is idle."""
    session_id, file = new_session_file(state.options.cwd, state.store.path.parents[1])
    options = evolve(state.options, session_id=session_id, session_file=file, model=state.model)
    store = open_store(options)
    close_with_process(store)
    state.end_turn(state.pending.flush(state.store).failures)
    state.store.close()
    await Agent.reset(state.agent)
    await Agent.set_session_id(state.agent, session_id)
    Registry.unregister("session_registry", state.notifier.session_id)
    register(session_id, options)
    state.notify(SessionReset(session_id))
    state.notifier.session_id = session_id
    state.options, state.store, state.restored = options, store, None
    state.turn_index, state.next_turn = 0, []
    me = self_pid()
    for join in options.companions:
        join(me, file, lambda notice: send(me, protocol.Tell(notice)))
    return session_id
