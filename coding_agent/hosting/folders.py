"""Edge. The folders one host works in: each with settings, trust, resources and sessions of its own.

What a `HostRun` stands for is one folder. The first is that of the command line; a host that serves takes more when
clients ask for them. What the command line allows holds for the folders it names: one that a client brings has what its
own settings allow, and every flag that makes things stricter.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

from attrs import define, evolve, field

from coding_agent.arguments import Arguments
from coding_agent.errors import BadUsage, SessionNotRunning
from coding_agent.hosting.host_parts import Host, OpenSession
from coding_agent.storage.finding import meant
from coding_agent.storage.listing import read_summary

FOLDERS_MAX: Final = 64
STRICT_MODES: Final = ("ask", "plan")


class Claim(Protocol):
    """What keeps other hosts from serving a folder."""

    def release(self) -> None:
        """Let another host serve it."""


@define(eq=False)
class Folders:
    """The folders of one host.

    Attributes:
        first: That of the command line.
        prepare: Works out what a start in a folder shares, and makes sure that no other host serves it, or raises; None
            where the host keeps to the first one.
    """

    first: Host
    prepare: Callable[[Arguments], Awaitable[tuple[Host, Claim]]] | None = None
    _more: dict[str, tuple[Host, Claim]] = field(factory=dict, init=False)
    _adding: asyncio.Lock = field(factory=asyncio.Lock, init=False)

    def all(self) -> list[Host]:
        """Each folder, in the order in which they came."""
        return [self.first, *(host for host, _ in self._more.values())]

    def at(self, cwd: str) -> Host | None:
        """The host of a folder it works in."""
        return next((host for host in self.all() if str(host.settings.cwd) == cwd), None)

    def sessions(self) -> list[OpenSession]:
        """Those that run, of each folder oldest first."""
        return [one for host in self.all() for one in host.sessions.all()]

    def find(self, session_id: str) -> OpenSession:
        """The session of that id, or the one whose id begins so.

        Raises:
            SessionNotRunning: None of that id runs here, or several do.
        """
        found = meant(session_id, self.sessions(), lambda one: one.session_id)
        if len(found) != 1:
            what = "more than one session" if found else "no session"
            raise SessionNotRunning(f"{what} of this host begins with {session_id}")
        return found[0]

    async def of_file(self, file: Path, otherwise: Host) -> Host:
        """The host of the folder a session file belongs to; `otherwise` where that cannot be said or taken.

        Raises:
            ServeFailed: Another host serves that folder.
        """
        for host in self.all():
            if host.sessions.at(file) is not None:
                return host
        if self.prepare is None:
            return otherwise
        summary = await asyncio.to_thread(read_summary, file)
        if summary is None or not await asyncio.to_thread(Path(summary.cwd).is_dir):
            return otherwise
        return await self.add(Path(summary.cwd))

    async def add(self, folder: Path, *, is_named: bool = False) -> Host:
        """Work in this folder too; harmless when it is done already.

        Args:
            folder: Which.
            is_named: The command line names it: all of that holds for it.

        Raises:
            BadUsage: It is no folder, there are too many, or this host works in one only; or its settings are broken.
            ServeFailed: Another host serves it.
        """
        async with self._adding:
            cwd = await asyncio.to_thread(folder.resolve)
            if (known := self.at(str(cwd))) is not None:
                return known
            if self.prepare is None:
                raise BadUsage(f"this host works in {self.first.settings.cwd} only")
            if len(self._more) >= FOLDERS_MAX - 1:
                raise BadUsage(f"this host works in {FOLDERS_MAX} folders already")
            if not cwd.is_dir():
                raise BadUsage(f"there is no folder {cwd}")
            given = evolve(self.first.arguments, cwd=str(cwd))
            host, claim = await self.prepare(given if is_named else strict(given))
            host.join(self)
            self._more[str(cwd)] = host, claim
        await host.begin()
        return host

    async def leave(self, host: Host) -> int:
        """Work no more in a folder that is not the first; its sessions are stored and ended; how many there were."""
        _, claim = self._more.pop(str(host.settings.cwd))
        sessions = host.sessions.all()
        try:
            await host.sessions.close_all()
            await host.finish()
        finally:
            claim.release()
        return len(sessions)

    def release(self) -> None:
        """Let other hosts serve the folders that came after the first."""
        for _, claim in self._more.values():
            claim.release()


def strict(arguments: Arguments) -> Arguments:
    """The command line as it holds for a folder that it does not name: nothing that allows more, all that allows less.

    The flags of extensions are left out as well: those that are loaded there may be others.
    """
    mode = arguments.mode if arguments.mode in STRICT_MODES else None
    return evolve(arguments, mode=mode, allow=(), trust=False, extra=())
