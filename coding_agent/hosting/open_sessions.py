"""Edge. The sessions this host has opened in one folder, each with its gate, its questions, its account.

Several clients may look at one session; the last one that leaves ends it, unless the host keeps its sessions.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import evolve, field

from coding_agent import client
from coding_agent.errors import CodingAgentError
from coding_agent.hosting.dialogs import Dialogs
from coding_agent.hosting.host_parts import Host, OpenSession, Wanted
from coding_agent.hosting.options import options_for
from coding_agent.mcp.at_start import end_servers
from coding_agent.safety import Safety, gate_for, safety_of
from coding_agent.session.budget import Account
from coding_agent.session_supervisor import start_session, stop_session
from coding_agent.starting import budget_of
from lemon_otp import CallFailed, define

ABORT_S: Final = 10.0
"""How long the end of a run is waited for before its session is stopped all the same."""

DEFAULT_MODE: Final = "ask"
"""What may be done without asking where somebody is there to be asked."""


@define(eq=False)
class OpenSessions:
    """The sessions of one folder by their files.

    Attributes:
        host: The start they belong to.
    """

    host: Host
    _open: list[OpenSession] = field(factory=list)
    _opening: asyncio.Lock = field(factory=asyncio.Lock)

    def all(self) -> list[OpenSession]:
        """Those that run, oldest first."""
        self._open = [one for one in self._open if one.pid.alive]
        return list(self._open)

    def at(self, file: Path) -> OpenSession | None:
        """The session that runs on a file."""
        path = file.absolute()
        return next((one for one in self.all() if one.file == path), None)

    async def open(self, wanted: Wanted) -> OpenSession:
        """Start a session, or find the one that runs on that file already.

        Raises:
            SessionError, BadUsage: It cannot be opened; the class says why. Nothing is left running.
        """
        async with self._opening:
            if wanted.file is not None and (running := self.at(wanted.file)) is not None:
                return running
            return await self._start(wanted)

    async def _start(self, wanted: Wanted) -> OpenSession:
        dialogs = Dialogs(waits_for_client=self.host.keeps_sessions)
        safety = self._safety(wanted)
        gate = gate_for(self.host.settings, safety, dialogs)
        account = Account(wanted.budget or budget_of(self.host.settings))
        options = evolve(await options_for(self.host, wanted, safety, gate, dialogs), account=account)
        if (running := self.at(options.session_file)) is not None:  # the newest one of the folder
            await end_servers(options)
            return running
        try:
            pid = await start_session(options)
        except Exception:
            await end_servers(options)
            raise
        state = await client.get_state(pid)
        one = OpenSession(self.host, pid, state.session_id, Path(state.file), options, gate, dialogs, account)
        self._open.append(one)
        return one

    def _safety(self, wanted: Wanted) -> Safety:
        safety = safety_of(self.host.settings, default_mode=DEFAULT_MODE)
        return safety if wanted.mode is None else evolve(safety, mode=wanted.mode)

    async def leave(self, one: OpenSession) -> None:
        """A client looks at it no longer; the last one ends it, what it was doing is aborted and stored."""
        one.clients -= 1
        if one.clients <= 0 and not self.host.keeps_sessions:
            async with self._opening:  # who opens its file meanwhile waits, and starts it again
                if one.clients <= 0:
                    await self.close(one)

    async def close(self, one: OpenSession) -> None:
        """End a session whoever looks at it; what it was doing is aborted and stored."""
        one.dialogs.refuse_all()
        with suppress(CallFailed, TimeoutError):
            async with asyncio.timeout(ABORT_S):
                await client.abort(one.pid)
        with suppress(CodingAgentError):  # it may have ended by itself
            await stop_session(one.pid)

    async def close_all(self) -> None:
        """End every session, whoever looks at it; what they were doing is aborted and stored."""
        for one in self.all():
            await self.close(one)
