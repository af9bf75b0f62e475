"""Edge. What a client can ask of the agent: the methods of the Agent Client Protocol, over the library's router.

Parameters come as the library's models; results go out as plain objects, which a test checks against the schema.
"""

import asyncio
import base64
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import evolve

from coding_agent.acp.acp_session import AcpSession
from coding_agent.acp.client_calls import Capabilities
from coding_agent.acp.prompt_content import BadContent, prompt_of
from coding_agent.acp.wire import Answer, Message, Wire
from coding_agent.errors import BadUsage, SessionBusy, SessionNotRunning
from coding_agent.hosting.options import Wanted
from coding_agent.hosting.extended import serve_providers
from coding_agent.hosting.running import HostRun, prepared
from coding_agent.hosting.session_list import listed_sessions
from coding_agent.mcp.entries import ServerEntry
from coding_agent.release import release
from coding_agent.settings import settings_of
from coding_agent.storage.stamps import iso
from lemon_otp import Pid, down_of, receive, spawn_monitor

PROTOCOL: Final = 1
PAGE: Final = 50
LOGIN: Final = "login"

CAPABILITIES: Final[Mapping[str, Any]] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
    "_meta": {"lemon": {"methods": ["_lemon/steer", "_lemon/follow_up"]}},
}


class Agent:
    """The agent's side of one connection. The library's router calls these methods by name."""

    def __init__(self, host: HostRun, write: Callable[[Message], None]) -> None:
        """Args:
        host: What sessions are started like; each gets a start of its own for its folder.
        write: Takes each message to the client.
        """
        from acp.agent.router import build_agent_router

        self.host = host
        self.sessions: dict[str, AcpSession] = {}
        self.wire = Wire(build_agent_router(self, use_unstable_protocol=True), write)  # type: ignore[arg-type]  # has what is called
        self.wire.on_cancel = self._take_back
        self._can = Capabilities()

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
            "authMethods": [
                {
                    "id": LOGIN,
                    "name": "Keys and logins",
                    "description": "Set a key such as ANTHROPIC_API_KEY, or run `python -m coding_agent login`",
                }
            ],
        }

    async def authenticate(self, method_id: str, **_more: Any) -> dict[str, Any]:
        """Nothing is asked here: keys are looked up for each request."""
        if method_id != LOGIN:
            raise BadUsage(f"there is no way to log in called {method_id!r}")
        return {}

    # Sessions.

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_more: Any) -> Answer:
        session = await self._opened(cwd, Wanted(), mcp_servers)
        whole = {"sessionId": session.calls.session_id, **await session.state()}
        return Answer(whole, session.introduce)

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_more: Any) -> Answer:
        session = await self._again(cwd, session_id, mcp_servers)
        await session.replay()
        return Answer(await session.state(), session.introduce)

    async def resume_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_more: Any) -> Answer:
        session = await self._again(cwd, session_id, mcp_servers)
        return Answer(await session.state(), session.introduce)

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_more: Any) -> dict[str, Any]:
        start = _start_of(cursor)
        folder = None if cwd is None else str(_folder(cwd))
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
        more = {"nextCursor": _cursor(start + PAGE)} if start + PAGE < len(found) else {}
        return {"sessions": sessions, **more}

    async def close_session(self, session_id: str, **_more: Any) -> dict[str, Any]:
        session = self._session(session_id)
        del self.sessions[session_id]
        await session.close()
        return {}

    async def set_session_mode(self, session_id: str, mode_id: str, **_more: Any) -> Answer:
        session = self._session(session_id)
        session.set_mode(mode_id)
        options = await session.options()

        def tell() -> None:
            session.calls.update({"sessionUpdate": "config_option_update", "configOptions": options})

        return Answer({}, tell)

    async def set_config_option(self, session_id: str, config_id: str, value: Any, **_more: Any) -> dict[str, Any]:
        if not isinstance(value, str):
            raise BadUsage(f"{config_id} takes one of its values")
        session = self._session(session_id)
        await session.choose(config_id, value)
        return {"configOptions": await session.options()}

    # Prompts.

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_more: Any) -> dict[str, Any]:
        session = self._session(session_id)
        text, images = _content(prompt)
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
        text, images = _content(asked.prompt)
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

    async def _again(self, cwd: str, session_id: str, mcp_servers: Any) -> AcpSession:
        """A stored session, opened; one that is open on this connection already is closed first."""
        if (running := self.sessions.get(session_id)) is not None:
            if running.busy:
                raise SessionBusy(session_id, "turn")
            del self.sessions[session_id]
            await running.close()
        found = await asyncio.to_thread(listed_sessions, self.host.settings.session_dir, None, frozenset())
        path = next((one.path for one in found if one.id == session_id), None)
        if path is None:
            raise SessionNotRunning(f"there is no session {session_id}")
        return await self._opened(cwd, Wanted(file=path), mcp_servers)

    async def _opened(self, cwd: str, wanted: Wanted, mcp_servers: Any) -> AcpSession:
        folder = _folder(cwd)
        if not folder.is_dir():
            raise BadUsage(f"the folder {cwd} does not exist")
        host = await asyncio.to_thread(_host_for, self.host, folder)
        await serve_providers(host.extensions)
        host.extras += self.host.extras
        host.client_servers = tuple(map(_entry, mcp_servers or ()))
        session = AcpSession(host, self.wire, self._can)
        session_id = await session.open(wanted)
        self.sessions[session_id] = session
        return session


def _host_for(host: HostRun, folder: Path) -> HostRun:
    """A start for another folder: its settings, its resources, whether it is trusted. Reads files: for a thread."""
    arguments = evolve(host.arguments, cwd=str(folder))
    settings = evolve(settings_of(arguments, host.environ), session_dir=host.settings.session_dir)
    return prepared(arguments, settings)


def _entry(server: Any) -> ServerEntry:
    """A server as the client names it. Nothing in it is expanded: the editor has done that."""
    if hasattr(server, "command"):
        env = {each.name: each.value for each in server.env or ()}
        command = str(server.command)
        return ServerEntry(server.name, "stdio", command, tuple(server.args or ()), env, scope="client")
    kind = getattr(server, "type", "http")
    if kind not in ("http", "sse"):
        raise BadUsage(f"the server {server.name} is of a kind that was not offered: {kind}")
    headers = {each.name: each.value for each in server.headers or ()}
    return ServerEntry(
        server.name, "sse" if kind == "sse" else "http", url=str(server.url), headers=headers, scope="client"
    )


def _content(blocks: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    try:
        text, images = prompt_of(blocks)
    except BadContent as error:
        raise BadUsage(str(error)) from error
    if not text.strip() and not images:
        raise BadUsage("the prompt is empty")
    return text, images


def _folder(cwd: str) -> Path:
    if not os.path.isabs(cwd) or "\0" in cwd:
        raise BadUsage(f"cwd must be an absolute path, not {cwd!r}")
    return Path(os.path.realpath(cwd))


def _cursor(place: int) -> str:
    return base64.urlsafe_b64encode(f"after {place}".encode()).decode()


def _start_of(cursor: str | None) -> int:
    if cursor is None:
        return 0
    try:
        word, _, place = base64.urlsafe_b64decode(cursor.encode()).decode().partition(" ")
        if word != "after":
            raise ValueError
        return max(0, int(place))
    except ValueError:
        raise BadUsage("the cursor is none of ours") from None
