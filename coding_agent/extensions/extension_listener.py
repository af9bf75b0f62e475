"""Process. Tells extensions what happens in one session, in order, and when it has ended that it has.

Tree:  coding_agent.supervisor / session_supervisor / session[id] / extension_listener, linked, traps the session's end
Emits: `ExtensionFailed` to the session
Owns:  nothing; what it has not told is lost with it
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from coding_agent import client
from coding_agent.events import CompactionEnd, ModelUpdate, SessionEvent, Settled, ThinkingLevelUpdate
from coding_agent.extensions import hooks
from coding_agent.extensions.calling import FAREWELL_S
from coding_agent.extensions.reducers import HEARD
from coding_agent.extensions.runner import Extensions
from coding_agent.extensions.session_handle import SessionHandle
from coding_agent.session.options import Tell
from lemon_otp import CallFailed, Exit, receive, self_pid

_NAMES: Final[Mapping[type, str]] = {
    ModelUpdate: "model_select",
    ThinkingLevelUpdate: "thinking_level_select",
    Settled: "agent_settled",
}
"""Events that extensions know by another name than clients do."""
_LOCAL: Final = frozenset(
    {"session_shutdown", "session_start", "session_switch", "session_fork", "after_provider_response"}
)


async def listen(extensions: Extensions, session: SessionHandle, tell: Tell) -> None:
    """Process. Tells the extensions what happens in a session, in order, until it has ended."""
    ended = extensions.begins_listening()
    try:
        await _listen(extensions, session, tell)
    finally:
        ended()


async def _listen(extensions: Extensions, session: SessionHandle, tell: Tell) -> None:
    session_id = ""
    if extensions.wants(*(HEARD - {"session_shutdown"})):
        try:
            await client.subscribe(session.pid, self_pid())
            state = await client.get_state(session.pid)
        except CallFailed:
            return
        session_id = state.session_id
        await extensions.tell("session_start", hooks.SessionStart(session_id, state.message_count), session, tell)
    while True:
        match await receive():
            case SessionEvent(event=event, session_id=told):
                session_id = told
                if (name := event_name(event)) is not None:
                    await extensions.tell(name, event, session, tell)
            case hooks.AfterProviderResponse() as event:
                await extensions.tell(event.type, event, session, tell)
            case Exit(pid) if pid == session.pid:
                break
            case _:
                pass
    try:
        async with asyncio.timeout(FAREWELL_S):
            await extensions.tell("session_shutdown", hooks.SessionShutdown(session_id), session, lambda _: None)
    except TimeoutError:
        pass


def event_name(event: Any) -> str | None:
    """What extensions know an event by; None for one they do not hear of."""
    if isinstance(event, CompactionEnd):
        return None if event.error_message else "session_compact"
    name = _NAMES.get(type(event), event.type)
    return name if name in HEARD - _LOCAL else None
