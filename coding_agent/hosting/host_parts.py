"""Value. The host as those see it that work for it: what a start shares, its sessions, its folders.

`running.HostRun`, `open_sessions.OpenSessions` and `folders.Folders` are what stands behind the protocols; whoever
needs a host takes it from here, so that only a front end depends on how one is started.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from attrs import define

from coding_agent.arguments import Arguments
from coding_agent.hosting.dialogs import Dialogs
from coding_agent.hosting.input import PromptHooks
from coding_agent.mcp.entries import ServerEntry
from coding_agent.models.model_choice import ModelChoice
from coding_agent.models.user_models import UserModels
from coding_agent.permissions.gate import PermissionGate
from coding_agent.resources import Resources
from coding_agent.session.budget import Account, Budget
from coding_agent.session.options import SessionOptions
from coding_agent.settings import Settings
from lemon_ai import Model
from lemon_otp import Pid

Extra: TypeAlias = Callable[[SessionOptions, Dialogs | None], Awaitable[SessionOptions]]
"""Adds to the options of every session that is opened: tools, hooks, companions. `Dialogs` will be the session's; None
where nobody is there."""


@define(eq=False)
class Wanted:
    """What a session that is opened begins with, where its file does not say.

    Attributes:
        file: Go on with this one; None for a new one.
        resume: Go on with the newest one of the folder.
        model, thinking_level: Answer; None takes the host's.
        mode: What may be done without asking; None takes that of the settings.
        budget: Limits of its account.
        parent_session: The file it came from.
        first: It is the one the command line names: what was asked for there holds, whatever the file says.
    """

    file: Path | None = None
    resume: bool = False
    model: Model | None = None
    thinking_level: str | None = None
    mode: str | None = None
    budget: Budget | None = None
    parent_session: str | None = None
    first: bool = False


class Host(Protocol):
    """One start of the host in one folder. The attributes are those of `HostRun`."""

    @property
    def arguments(self) -> Arguments: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def choice(self) -> ModelChoice: ...

    @property
    def known(self) -> UserModels: ...

    @property
    def environ(self) -> Mapping[str, str]: ...

    @property
    def keeps_sessions(self) -> bool: ...

    @property
    def keeps_files(self) -> bool: ...

    @property
    def extras(self) -> list[Extra]: ...

    @property
    def notices(self) -> list[str]: ...

    @property
    def client_servers(self) -> tuple[ServerEntry, ...]: ...

    @property
    def more_folders(self) -> tuple[Path, ...]: ...

    @property
    def resources(self) -> Resources | None: ...

    @property
    def hooks(self) -> PromptHooks | None: ...

    @property
    def sessions(self) -> "Sessions": ...

    @property
    def folders(self) -> "FolderList": ...

    def join(self, folders: "FolderList") -> None:
        """Be one of the folders of a host that was started in another."""

    def all_extras(self) -> Sequence[Extra]:
        """What adds to the options of a session, in order."""

    async def look_again(self) -> None:
        """For every session but the first: read settings and files as they are now."""

    async def decide_trust(self, trusted: bool) -> None:
        """Remember whether the person trusts this project."""

    async def begin(self) -> None:
        """Let what extensions of this folder bring answer from now on."""

    async def end_sessions(self) -> None:
        """End every session; what they were doing is aborted and stored."""

    async def finish(self) -> None:
        """Let the extensions of this folder say goodbye."""


@define(eq=False)
class OpenSession:
    """A session that runs here.

    Attributes:
        host: Of its folder.
        pid: Its process.
        session_id: Its id; another one after a reset.
        file: Its file, there or not yet.
        options: What it was started with.
        gate: Decides about its tool calls; its policy may be replaced.
        dialogs: Its open questions.
        account: What it may use up and has.
        clients: How many desks look at it.
    """

    host: Host
    pid: Pid
    session_id: str
    file: Path
    options: SessionOptions
    gate: PermissionGate
    dialogs: Dialogs
    account: Account
    clients: int = 0


class Sessions(Protocol):
    """The sessions of one folder. See `OpenSessions`."""

    def all(self) -> list[OpenSession]:
        """Those that run, oldest first."""

    def at(self, file: Path) -> OpenSession | None:
        """The session that runs on a file."""

    async def open(self, wanted: Wanted) -> OpenSession:
        """Start a session, or find the one that runs on that file already."""

    async def leave(self, one: OpenSession) -> None:
        """A client looks at it no longer."""

    async def close(self, one: OpenSession) -> None:
        """End a session whoever looks at it."""

    async def close_all(self) -> None:
        """End every session."""


class FolderList(Protocol):
    """The folders of one host. See `Folders`."""

    @property
    def first(self) -> Host: ...

    def all(self) -> list[Host]:
        """Each folder, in the order in which they came."""

    def at(self, cwd: str) -> Host | None:
        """The host of a folder it works in."""

    def sessions(self) -> list[OpenSession]:
        """Those that run, of each folder oldest first."""

    def find(self, session_id: str) -> OpenSession:
        """The session of that id, or the one whose id begins so."""

    async def of_file(self, file: Path, otherwise: Host) -> Host:
        """The host of the folder a session file belongs to."""

    async def add(self, folder: Path, *, is_named: bool = False) -> Host:
        """Work in this folder too."""

    async def leave(self, host: Host) -> int:
        """Work no more in a folder that is not the first; how many sessions were ended."""

    def release(self) -> None:
        """Let other hosts serve the folders that came after the first."""
