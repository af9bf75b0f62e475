"""Edge. What a client can ask of the agent: the methods of the Agent Client Protocol, over the library's router.

Parameters come as the library's models; results go out as plain objects, which a test checks against the schema.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import evolve

from coding_agent.acp.acp_session import AcpSession
from coding_agent.acp.client_calls import Capabilities
from coding_agent.acp.given import content_of, cursor_after, entry_of, existing_folder, folder_of, start_of
from coding_agent.acp.wire import Answer, Message, Wire
from coding_agent.errors import BadUsage, SessionBusy, SessionNotRunning
from coding_agent.hosting.host_parts import Wanted
from coding_agent.hosting.running import HostRun, prepared
from coding_agent.hosting.session_list import listed_sessions
from coding_agent.release import release
from coding_agent.settings import settings_of
from coding_agent.storage import copying
from coding_agent.storage.deleting import delete_session
from coding_agent.storage.listing import list_sessions
from coding_agent.storage.opening import open_for_reading
from coding_agent.storage.stamps import iso
from lemon_otp import Pid, down_of, receive, spawn_monitor

PROTOCOL: Final = 1
PAGE: Final = 50
KEYS: Final[Mapping[str, Any]] = {
    "id": "login",
    "name": "Keys and logins",
    "description": "Set a key such as ANTHROPIC_API_KEY, or run `python -m coding_agent login`",
}
IN_TERMINAL: Final[Mapping[str, Any]] = {
    "type": "terminal",
    "id": "terminal",
    "name": "Store a key, or log in, in a terminal",
    "args": ["login"],
}

CAPABILITIES: Final[Mapping[str, Any]] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {
        "list": {},
        "resume": {},
        "fork": {},
        "close": {},
        "delete": {},
        "additionalDirectories": {},
    },
    "auth": {"logout": {}},
    "_meta": {"lemon": {"methods": ["_lemon/steer", "_lemon/follow_up"]}},
}


class Agent:
    """The agent's side of one connection. The library's router calls these methods by name."""

    def __init__(self, host: HostRun, write: Callable[[Message], None]) -> None:
        """Args:
        host: What sessions are started like; each gets a start of its own for its folder.
        write: Takes each message to the client.
        """
        self.host = host
        self.sessions: dict[str, AcpSession] = {}
        self.wire = Wire(_router(self), write)
        self.wire.on_cancel = self._take_back
        self._can = Capabilities()
        self._logged_out = False

    async def close(self) -> None:
        """End every session; what they were doing is aborted and stored."""
        self.wire.lose()
        sessions, self.sessions = list(self.sessions.values()), {}
        for session in sessions:
            session.cancel()
        ending = [spawn_monitor(session.close, label="acp_close")[1] for session in sessions]
        for ref in ending:
            await receive(down_of(ref))

    # The connection.

    async def initialize(self, client_capabilities: Any = None, **_more: Any) -> dict[str, Any]:
        self._can = Capabilities.of(client_capabilities)
        return {
            "protocolVersion": PROTOCOL,
            "agentCapabilities": CAPABILITIES,
            "agentInfo": {"name": "lemon-agents", "title": "Lemon", "version": release()},
            "authMethods": [KEYS, *([IN_TERMINAL] if self._can.terminal_login else [])],
        }

    async def authenticate(self, method_id: str, **_more: Any) -> dict[str, Any]:
        """Nothing is asked here: keys are looked up for each request. Undoes a logout."""
        if method_id != KEYS["id"]:
            raise BadUsage(f"there is no way to log in called {method_id!r}")
        self._logged_out = False
        return {}

    async def logout(self, **_more: Any) -> dict[str, Any]:
        """End what is going on; until `authenticate` nothing more is begun. What is stored of keys and logins stays."""
        self._logged_out = True
        for session in self.sessions.values():
            session.cancel()
        return {}

    # Sessions.

    async def new_session(self, **asked: Any) -> Answer:
        session = await self._opened(Wanted(), **asked)
        whole = {"sessionId": session.calls.session_id, **await session.state()}
        return Answer(whole, session.introduce)

    async def load_session(self, session_id: str, **asked: Any) -> Answer:
        session = await self._again(session_id, **asked)
        await session.replay()
        return Answer(await session.state(), session.introduce)

    async def resume_session(self, session_id: str, **asked: Any) -> Answer:
        session = await self._again(session_id, **asked)
        return Answer(await session.state(), session.introduce)

    async def fork_session(self, session_id: str, cwd: str, **asked: Any) -> Answer:
        """A new session that begins with what this one holds, which goes on as it was."""
        self._require_login()
        if (running := self.sessions.get(session_id)) is not None and running.busy:
            raise SessionBusy(session_id, "turn")
        source, folder = await asyncio.to_thread(self._stored, session_id), existing_folder(cwd)
        made = await asyncio.to_thread(_cloned, source, self.host.settings.session_dir, folder)
        session = await self._opened(Wanted(file=made), cwd=cwd, **asked)
        whole = {"sessionId": session.calls.session_id, **await session.state()}
        return Answer(whole, session.introduce)

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_more: Any) -> dict[str, Any]:
        start = start_of(cursor)
        folder = None if cwd is None else str(folder_of(cwd))
        found = await asyncio.to_thread(
            listed_sessions, self.host.settings.session_dir, folder, frozenset(self.sessions)
        )
        page = found[start : start + PAGE]
        sessions = [
            {
                "sessionId": one.id,
                "cwd": one.cwd,
                "title": one.name or one.first_message,
                "updatedAt": iso(one.updated_ms),
            }
            for one in page
            if os.path.isabs(one.cwd)
        ]
        more = {"nextCursor": cursor_after(start + PAGE)} if start + PAGE < len(found) else {}
        return {"sessions": sessions, **more}

    async def close_session(self, session_id: str, **_more: Any) -> dict[str, Any]:
        session = self._session(session_id)
        del self.sessions[session_id]
        await session.close()
        return {}

    async def delete_session(self, session_id: str, **_more: Any) -> dict[str, Any]:
        """The session is gone for good, with everything kept beside its file; one that is open here is closed first."""
        if (session := self.sessions.pop(session_id, None)) is not None:
            await session.close()
        await asyncio.to_thread(lambda: delete_session(self._stored(session_id)))
        return {}

    async def set_session_mode(self, session_id: str, mode_id: str, **_more: Any) -> Answer:
        session = self._session(session_id)
        session.set_mode(mode_id)
        options = await session.options()

        def tell() -> None:
            session.calls.update({"sessionUpdate": "config_option_update", "configOptions": options})

        return Answer({}, tell)

    async def set_config_option(self, session_id: str, config_id: str, value: Any, **_more: Any) -> dict[str, Any]:
        session = self._session(session_id)
        if isinstance(value, bool):
            await session.switch(config_id, value)
        elif isinstance(value, str):
            await session.choose(config_id, value)
        else:
            raise BadUsage(f"{config_id} takes one of its values")
        return {"configOptions": await session.options()}

    # Prompts.

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_more: Any) -> dict[str, Any]:
        self._require_login()
        session = self._session(session_id)
        text, images = content_of(prompt)
        return {"stopReason": await session.prompt(text, images)}

    async def cancel(self, session_id: str, **_more: Any) -> None:
        if (session := self.sessions.get(session_id)) is not None:
            session.cancel()

    async def ext_method(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """`_lemon/steer` and `_lemon/follow_up`: `{sessionId, prompt}` gives the model words while it works."""
        from acp.exceptions import RequestError
        from acp.schema import PromptRequest

        if method not in ("lemon/steer", "lemon/follow_up"):
            raise RequestError.method_not_found(f"_{method}")
        asked = PromptRequest.model_validate(params)
        session = self._session(asked.session_id)
        text, images = content_of(asked.prompt)
        await (session.desk.steer if method == "lemon/steer" else session.desk.follow_up)(text, images)
        return {}

    def _take_back(self, method: str, params: Any, asker: Pid) -> bool:
        """A prompt that is taken back ends its run, and is answered when that is over."""
        if method != "session/prompt" or not isinstance(params, Mapping):
            return False
        session = self.sessions.get(str(params.get("sessionId")))
        return session is not None and session.works_for(asker) and session.cancel()

    # Finding and starting.

    def _session(self, session_id: str) -> AcpSession:
        try:
            return self.sessions[session_id]
        except KeyError:
            raise SessionNotRunning(f"no session {session_id} is open on this connection") from None

    def _require_login(self) -> None:
        from acp.exceptions import RequestError

        if self._logged_out:
            raise RequestError.auth_required()

    def _stored(self, session_id: str) -> Path:
        """The file of a session. Reads a folder: for a thread.

        Raises:
            SessionNotRunning: There is none of that id.
        """
        found = list_sessions(self.host.settings.session_dir)
        path = next((one.path for one in found if one.id == session_id), None)
        if path is None:
            raise SessionNotRunning(f"there is no session {session_id}")
        return path

    async def _again(self, session_id: str, **asked: Any) -> AcpSession:
        """A stored session, opened; one that is open on this connection already is closed first."""
        if (running := self.sessions.get(session_id)) is not None:
            if running.busy:
                raise SessionBusy(session_id, "turn")
            del self.sessions[session_id]
            await running.close()
        return await self._opened(Wanted(file=await asyncio.to_thread(self._stored, session_id)), **asked)

    async def _opened(
        self, wanted: Wanted, *, cwd: str, mcp_servers: Any = None, additional_directories: Any = None, **_more: Any
    ) -> AcpSession:
        self._require_login()
        folder = existing_folder(cwd)
        host = await asyncio.to_thread(_host_for, self.host, folder)
        await host.begin()
        host.extras += self.host.extras
        host.client_servers = tuple(map(entry_of, mcp_servers or ()))
        host.more_folders = tuple(dict.fromkeys(map(existing_folder, additional_directories or ())))
        session = AcpSession(host, self.wire, self._can)
        session_id = await session.open(wanted)
        self.sessions[session_id] = session
        return session


def _router(agent: Agent) -> Any:
    """The library's, with the methods of the schema that it does not know yet."""
    from acp.agent.router import build_agent_router
    from acp.meta import AGENT_METHODS
    from acp.schema import DeleteSessionRequest, LogoutRequest
    from acp.utils import normalize_result

    router = build_agent_router(agent, use_unstable_protocol=True)  # type: ignore[arg-type]  # has what is called
    more: dict[str, tuple[Any, str]] = {
        "session_delete": (DeleteSessionRequest, "delete_session"),
        "logout": (LogoutRequest, "logout"),
    }
    for name, (model, method) in more.items():
        router.route_request(AGENT_METHODS[name], model, agent, method, adapt_result=normalize_result)
    return router


def _cloned(source: Path, session_dir: Path, cwd: Path) -> Path:
    """A new file with what a session holds now. For a thread."""
    with open_for_reading(source) as manager:
        return copying.clone(manager.log, session_dir=session_dir, cwd=cwd).path


def _host_for(host: HostRun, folder: Path) -> HostRun:
    """A start for another folder: its settings, its resources, whether it is trusted. Reads files: for a thread."""
    arguments = evolve(host.arguments, cwd=str(folder))
    settings = evolve(settings_of(arguments, host.environ), session_dir=host.settings.session_dir)
    return prepared(arguments, settings)
