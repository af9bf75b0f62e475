"""Every exception coding_agent raises on purpose.

CodingAgentError
├── BadUsage                 a flag, a path or an argument of the command line cannot be used
│   ├── NoSuchSession        there is no session to go on with
│   ├── MistypedCommand      a word that looks like a command and is none
│   └── UnknownTool          the session has no tool of that name
├── SessionBusy              a run is going on; steer it, or wait
├── SessionCrashed           a session's process ended while somebody waited for it
├── TurnFailed               a run that a client waited for ended in an error; the text says which
├── SessionNotRunning        no process runs that session here
├── BudgetExceeded           a limit on tokens, cost, turns, time or subagents stands in the way
├── SubagentError            something about subagents
│   ├── UnknownSubagent      there is no definition of that name
│   ├── BadDefinition        a definition file cannot be used; `path` and `problem` say why
│   └── UnknownRun           no run of a subagent has that id
├── McpServerUnavailable     a server of the Model Context Protocol is not connected; `why` says why
├── McpRequestFailed         something that was asked of such a server came to nothing
├── BadCredentialFile        the file of stored credentials cannot be read or changed; `path` and `problem` say why
├── LoginRefused             a login at a vendor's did not come about; nothing was stored
├── BadExtension             an extension cannot be loaded, or registers what cannot be
├── CommandFailed            a host refused a command of the protocol; `command` says which
├── HostUnreachable          no running host answered at its control socket
├── ServeFailed              a host that keeps sessions could not be started or stopped
├── UnsafeRuntimeDir         the folder of the control socket is open to others
├── UnreadableFile           a file of a person's or a project's gave no text
├── SessionError             something about one session file; `path` names it
│   ├── SessionNotFound      there is no such file
│   ├── NotASession          the file, or the folder, is not a session we can read
│   ├── UnsupportedVersion   a session in a format newer than ours
│   ├── SessionTooLarge      refused before reading, so that memory is not exhausted
│   ├── SessionLocked        another writer has it open; `holder_pid` says which
│   ├── SessionIdTaken       a session with the same id, of another file, runs here
│   ├── SessionReadOnly      it can be read but not appended to
│   ├── SessionClosed        its manager was closed
│   ├── SessionWriteFailed   an entry did not reach the disk; it is kept and tried again with the next one
│   │   └── SessionFileChanged   the file was replaced, cut short or removed under us
│   ├── EntryNotFound        no entry has that id
│   └── StaleCompaction      the branch moved away from what was summarised
└── CompactionError          a conversation was not made shorter
    ├── NothingToCompact     there is nothing older to summarise
    ├── NoHeadroom           what cannot be summarised fills the window by itself
    └── CompactionExhausted  two compactions in a row gave no room
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from attrs import define, field

from lemon_otp import SpeaksForItself


class CodingAgentError(SpeaksForItself):
    """Base of every error of this package."""


class BadUsage(CodingAgentError):
    """A flag, a path or an argument of the command line cannot be used; the text says what to give instead."""


class NoSuchSession(BadUsage):
    """There is no session to go on with; the text says where was looked."""


@define(eq=False)
class MistypedCommand(BadUsage):
    """A word looks like a command of the program and is none. Nothing was sent to a model.

    Attributes:
        word: What was given.
        near: What was probably meant.
    """

    word: str
    near: str

    def __str__(self) -> str:
        return f"there is no command {self.word}; did you mean {self.near}? To say it to the model: -p {self.word}"


@define(eq=False)
class UnknownTool(BadUsage):
    """The session has no tool of that name, or a name was given twice. Nothing was changed.

    Attributes:
        names: What was asked for.
        known: What there is.
    """

    names: Sequence[str]
    known: Sequence[str] = ()

    def __str__(self) -> str:
        return f"no such tools, or named twice: {', '.join(self.names)}; there are: {', '.join(self.known) or 'none'}"


@define(eq=False)
class SessionBusy(CodingAgentError):
    """The session is at work. Nothing was started or queued.

    Attributes:
        session_id: Which session.
        phase: What it is busy with.
    """

    session_id: str
    phase: str

    def __str__(self) -> str:
        return (
            f"session {self.session_id} is busy ({self.phase}); steer it, queue a follow-up, or wait until it is idle"
        )


class SessionCrashed(CodingAgentError):
    """The process of a session ended while somebody waited for it."""


class TurnFailed(CodingAgentError):
    """A run that a client waited for ended in an error; the text says which. What was said before is stored."""


class SessionNotRunning(CodingAgentError):
    """No process runs that session in this program."""


@define(eq=False)
class BudgetExceeded(CodingAgentError):
    """A limit stands in the way. Nothing was sent or started.

    Attributes:
        kind: Which limit, such as `token_limit_exceeded`.
        limit: What is allowed.
        used: What was used up.
    """

    kind: str
    limit: float
    used: float

    @property
    def reason(self) -> tuple[str, str]:
        """What a run that ended for it gives as its reason."""
        return "budget_exceeded", self.kind

    def __str__(self) -> str:
        return f"the budget is used up: {self.kind.replace('_', ' ')} (limit {self.limit:g}, used {self.used:g})"


class SubagentError(CodingAgentError):
    """Something about subagents; nothing was started."""


@define(eq=False)
class UnknownSubagent(SubagentError):
    """There is no definition of that name.

    Attributes:
        name: What was asked for.
        known: What there is.
    """

    name: str
    known: Sequence[str] = ()

    def __str__(self) -> str:
        return f"Unknown subagent: {self.name}; there are: {', '.join(self.known) or 'none'}"


@define(eq=False)
class BadDefinition(SubagentError):
    """A definition file cannot be used; the others are not affected.

    Attributes:
        path: The file.
        problem: What is wrong with it.
    """

    path: Path
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


@define(eq=False)
class UnknownRun(SubagentError):
    """No run of a subagent has that id.

    Attributes:
        run_id: What was asked for.
    """

    run_id: str

    def __str__(self) -> str:
        return f"Unknown task_id: {self.run_id}"


@define(eq=False)
class McpServerUnavailable(CodingAgentError):
    """A server of the Model Context Protocol is not connected. Nothing was asked of it.

    Attributes:
        server: Its name.
        why: A line for people; holds nothing secret.
    """

    server: str
    why: str

    def __str__(self) -> str:
        return f"the server {self.server} is not connected: {self.why}"


class McpRequestFailed(CodingAgentError):
    """Something that was asked of a server of the Model Context Protocol came to nothing.

    Attributes:
        said: The server answered, with an error in its own words.
    """

    def __init__(self, message: str, *, said: bool = False) -> None:
        super().__init__(message)
        self.said = said


@define(eq=False)
class BadCredentialFile(CodingAgentError):
    """The file of stored credentials cannot be read or changed. It is as it was.

    Attributes:
        path: The file.
        problem: What is wrong with it; holds nothing secret.
    """

    path: Path
    problem: str

    def __str__(self) -> str:
        return f"{self.path} {self.problem}"


class LoginRefused(CodingAgentError):
    """A login at a vendor's did not come about. Nothing was stored."""


@define(eq=False)
class BadExtension(CodingAgentError):
    """An extension cannot be loaded, or registers what cannot be; the others are not affected.

    Attributes:
        name: Which one.
        problem: What is wrong.
    """

    name: str
    problem: str

    def __str__(self) -> str:
        return f"extension {self.name}: {self.problem}"


@define(eq=False)
class CommandFailed(CodingAgentError):
    """The host refused a command of the protocol.

    Attributes:
        command: Its type.
        reason: What the host said.
    """

    command: str
    reason: str

    def __str__(self) -> str:
        return self.reason


class HostUnreachable(CodingAgentError):
    """No running host answered at its control socket."""


class ServeFailed(CodingAgentError):
    """A host that keeps sessions could not be started or stopped; the text says why."""


@define(eq=False)
class UnsafeRuntimeDir(CodingAgentError):
    """The folder of the control socket is open to others, or cannot hold it.

    Attributes:
        path: The folder.
        reason: What is wrong with it.
    """

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path} cannot hold the control socket: {self.reason}"


@define(eq=False)
class UnreadableFile(CodingAgentError):
    """A file that somebody wrote for the agent gave no text; whoever asked for it goes on without.

    Attributes:
        path: The file.
        problem: What is wrong with it.
    """

    path: Path
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


@define(eq=False)
class SessionError(CodingAgentError):
    """Something about one session file.

    Attributes:
        path: The file.
    """

    path: Path

    def __str__(self) -> str:
        return f"{self.path}: {self.problem()}"

    def problem(self) -> str:
        """What is wrong, without the path."""
        return (type(self).__doc__ or "").splitlines()[0]


class SessionNotFound(SessionError):
    """There is no such session file."""

    def problem(self) -> str:
        return "there is no such session file; `sessions list` prints where yours are"


@define(eq=False)
class NotASession(SessionError):
    """The path is not a session we can read. Nothing was changed.

    Attributes:
        reason: `empty_file`, `invalid_header`, `not_a_file` or `unreadable`.
        detail: A sentence for people.
    """

    reason: Literal["empty_file", "invalid_header", "not_a_file", "unreadable"]
    detail: str = ""

    def problem(self) -> str:
        return self.detail or self.reason.replace("_", " ")


@define(eq=False)
class UnsupportedVersion(SessionError):
    """The session is written in a format newer than this program reads. Nothing was changed.

    Attributes:
        version: What the file says.
    """

    version: int

    def problem(self) -> str:
        return f"session format {self.version} is newer than the formats this program reads (1 to 3); update it first"


@define(eq=False)
class SessionTooLarge(SessionError):
    """Refused before reading a line.

    Attributes:
        size: Bytes of the file.
        limit: Bytes allowed.
    """

    size: int
    limit: int

    def problem(self) -> str:
        return f"{self.size} bytes are more than the {self.limit} allowed; raise the limit or fork a part of it"


@define(eq=False)
class SessionLocked(SessionError):
    """Another writer has the session open. Nothing was changed.

    Attributes:
        holder_pid: Process id of the other writer; None when it left no note.
        holder_host: Name of the machine it runs on; None when it left no note.
    """

    holder_pid: int | None = None
    holder_host: str | None = None

    def problem(self) -> str:
        who = "another process" if self.holder_pid is None else f"process {self.holder_pid}"
        where = f" on {self.holder_host}" if self.holder_host else ""
        return f"in use by {who}{where}; close it there, or fork the session"


@define(eq=False)
class SessionIdTaken(SessionError):
    """A session with the id of this one runs here already, from another file: one is a copy of the other.

    Nothing was written to either.

    Attributes:
        session_id: What both headers say.
    """

    session_id: str

    def problem(self) -> str:
        return (
            f"it is a copy of a session that is open here, both have the id {self.session_id}; close that one, or give "
            f"this one an id of its own with `sessions fork {self.path}` and open the fork"
        )


@define(eq=False)
class SessionReadOnly(SessionError):
    """The session can be read but not appended to.

    Attributes:
        detail: Why.
    """

    detail: str = "opened for reading only"

    def problem(self) -> str:
        return f"read-only: {self.detail}"


class SessionClosed(SessionError):
    """The manager of this session was closed."""


@define(eq=False)
class SessionWriteFailed(SessionError):
    """An entry did not reach the disk.

    The entry is part of the tree in memory. It is written, in order, before the next one; do not append it again.

    Attributes:
        entry_id: The entry whose append failed.
        unsaved: How many entries wait in memory, this one included.
        detail: What the system said.
    """

    entry_id: str | None = None
    unsaved: int = 0
    detail: str = ""

    def problem(self) -> str:
        return f"not saved: {self.detail} ({self.unsaved} waiting in memory)"


@define(eq=False)
class SessionFileChanged(SessionWriteFailed):
    """The file was replaced, cut short or removed under us; nothing was written to it.

    Attributes:
        change: What happened to the file.
    """

    change: Literal["replaced", "truncated", "removed"] = "replaced"

    def problem(self) -> str:
        return f"the file was {self.change} by somebody else; {self.unsaved} entries wait in memory: save to a new file"


@define(eq=False)
class EntryNotFound(SessionError):
    """No entry of the session has that id.

    Attributes:
        entry_id: What was asked for.
    """

    entry_id: str

    def problem(self) -> str:
        return f"no entry {self.entry_id}"


class StaleCompaction(SessionError):
    """The branch moved away from what was summarised; the summary was dropped."""


class CompactionError(CodingAgentError):
    """A conversation was not made shorter. Nothing was written."""


class NothingToCompact(CompactionError):
    """There is nothing older to summarise."""


@define(eq=False)
class NoHeadroom(CompactionError):
    """What cannot be summarised fills the window by itself.

    Attributes:
        parts: Tokens of each part that stays, largest first.
        usable: Tokens the model leaves for a request.
    """

    parts: tuple[tuple[str, int], ...]
    usable: int = field(default=0)

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {tokens}" for name, tokens in self.parts)
        return f"no compaction can help: {listed} tokens, and only {self.usable} fit; use a model with a larger window"


class CompactionExhausted(CompactionError):
    """Two compactions in a row gave no room; the text says what is left."""
