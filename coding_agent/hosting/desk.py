"""Edge. One client's view of one conversation at a time. Every front end that holds a conversation stands on it.

A desk opens sessions, leaves them, submits prompts and passes on what is said, in order: what happens in its session,
the questions that are put, the output of the user's own commands. Events of a session that was left never come.

Tree:  coding_agent.supervisor / desk_supervisor / desk[n], temporary: passes the events on, and leaves the session
       when the process that made the desk ends

What changes the conversation goes one after the other: a prompt that comes while an abort is under way waits until
that run is over, a bounded time.
"""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from attrs import field

from coding_agent import client
from coding_agent.application import add_child
from coding_agent.errors import BadUsage, SessionBusy, SessionCrashed
from coding_agent.events import CompactionEnd, SessionEvent, SessionReset
from coding_agent.hosting import input as prompts
from coding_agent.hosting.desk_events import DeskEvent, Ended, Opened
from coding_agent.hosting.dialogs import Closed, Dialogs, Shown
from coding_agent.hosting.host_parts import Host, OpenSession, Wanted
from coding_agent.hosting.rendering import with_rendering
from coding_agent.hosting.required_credential import require_credential
from coding_agent.hosting.user_bash import BashOutput, UserBash, answered_elsewhere
from coding_agent.mcp.at_start import first_wait_s, prompts_of_servers, servers_settled, typed_for_servers
from coding_agent.messages import BashExecutionMessage
from coding_agent.session.protocol import AbortReport, SessionState
from coding_agent.storage import copying
from coding_agent.storage.session_manager import SessionManager
from lemon_otp import (
    CallFailed,
    Down,
    MonitorRef,
    OtpError,
    Pid,
    TaskSupervisor,
    define,
    demonitor,
    error_trace,
    frozen,
    monitor,
    reason_words,
    receive,
    self_pid,
    send,
    whereis,
)

SUPERVISOR: Final = "desk_supervisor"
IN_TURN_S: Final = 30.0
"""How long a prompt waits for what was asked before it, such as an abort."""

_numbers: Final = itertools.count(1)
_log: Final = logging.getLogger(__name__)


Submitted: TypeAlias = Literal["prompt", "steer", "follow_up", "command", "handled"]
"""What became of a text: a run began, it waits in a queue, an extension's command ran, an extension took it over."""

Listener: TypeAlias = Callable[[DeskEvent], None]


@frozen
class _Watch:
    """To the forwarder: look after this session from now on, or after none."""

    session: OpenSession | None


class _Stop:
    """To the forwarder: the desk is closed."""


@define(eq=False)
class Desk:
    """One client's view of one conversation at a time. Make one with `Desk.start`, then `open` a session.

    Attributes:
        host: Of the folder it works in; another one once it looks at a session of another folder.
        bash: The user's own commands.
    """

    host: Host
    bash: UserBash = field(factory=UserBash)
    _notices_told: dict[Host, int] = field(factory=dict)
    _session: OpenSession | None = None
    _listeners: list[Listener] = field(factory=list)
    _forwarder: Pid | None = None
    _turn: asyncio.Lock = field(factory=asyncio.Lock)
    _deaf: Callable[[], None] | None = None
    _aborts: int = 0

    # Beginning and end.

    @classmethod
    async def start(cls, host: Host) -> "Desk":
        """A desk without a session yet. It is closed when the calling process ends."""
        desk = cls(host)
        if whereis(SUPERVISOR) is None:
            with suppress(OtpError):  # another desk was quicker
                await add_child(TaskSupervisor.child_spec(id=SUPERVISOR, name=SUPERVISOR))
        desk._forwarder = await TaskSupervisor.start_child(
            SUPERVISOR, desk._forward, self_pid(), label=f"desk[{next(_numbers)}]"
        )
        return desk

    async def close(self) -> None:
        """Leave the session and pass nothing on any more. The session ends, unless others look at it or it is kept."""
        self.bash.abort()
        await self._leave()
        if self._forwarder is not None and self._forwarder.alive:
            send(self._forwarder, _Stop())

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on, in order; what is returned ends that.

        It is called in the desk's own process and must not wait. What it raises is logged and harms nobody.
        """
        self._listeners.append(listener)

        def stop() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return stop

    def tell(self, event: DeskEvent) -> None:
        """Let the listeners hear of something, behind everything they are to hear before."""
        if self._forwarder is not None and self._forwarder.alive:
            send(self._forwarder, event)

    async def _forward(self, owner: Pid) -> None:
        """Process. Passes on what comes, in order."""
        owner_watch = monitor(owner)
        watched: MonitorRef | None = None
        while True:
            match await receive():
                case SessionEvent() as event:
                    await self._pass_on(event)
                case _Watch(session):
                    if watched is not None:
                        demonitor(watched, flush=True)
                    watched = None if session is None else monitor(session.pid)
                case Down(ref=ref) if ref is owner_watch:
                    await self._leave()
                    return
                case Down(ref=ref, reason=reason) if ref is watched:
                    self._hear(Ended(self.session_id, reason_words(reason)))
                case Down():
                    pass
                case _Stop():
                    return
                case event:
                    self._hear(event)

    async def _pass_on(self, event: SessionEvent) -> None:
        session = self._session
        if session is None or event.session_id != session.session_id:
            return  # of a session that was left
        self._hear(event if self.host.hooks is None else await with_rendering(event, self.host.hooks, self))
        if isinstance(event.event, SessionReset):
            with suppress(CallFailed):
                state = await client.get_state(session.pid)
                session.session_id, session.file = state.session_id, Path(state.file)
                self._hear(Opened(state.session_id, "reset"))

    def _hear(self, event: DeskEvent) -> None:
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception as error:
                _log.error("a listener of %r failed\n%s", self, error_trace(error))

    # The session.

    @property
    def session(self) -> OpenSession:
        """The session it looks at.

        Raises:
            BadUsage: None was opened yet, or the desk was closed.
        """
        if self._session is None:
            raise BadUsage("no session is open here")
        return self._session

    @property
    def has_session(self) -> bool:
        """Does it look at one?"""
        return self._session is not None

    @property
    def session_id(self) -> str:
        """The id of the session it looks at; empty before the first."""
        return "" if self._session is None else self._session.session_id

    @property
    def session_pid(self) -> Pid:
        """Its process as it is now; `pid` is one that lives."""
        return self.session.pid

    @property
    def cwd(self) -> Path:
        """The folder it works in."""
        return self.host.settings.cwd

    @property
    def dialogs(self) -> Dialogs:
        """The open questions of the session."""
        return self.session.dialogs

    async def open(self, wanted: Wanted | None = None, *, reason: str = "start") -> SessionState:
        """Look at a session, a new one by default; the one before is left only once this one is open.

        Raises:
            SessionError, BadUsage: It cannot be opened. The desk stays where it was.
            ServeFailed: Another host serves the folder of its file. The desk stays where it was.
        """
        host = self.host
        if wanted is not None and wanted.file is not None:
            host = await host.folders.of_file(wanted.file, host)
        return await self.look_at(await host.sessions.open(wanted or Wanted()), reason=reason)

    async def look_at(self, session: OpenSession, *, reason: str = "switch") -> SessionState:
        """Look at a session that runs in this host, whoever opened it; its open questions are put again."""
        assert self._forwarder is not None
        if session is self._session:
            return await client.get_state(session.pid)
        session.clients += 1
        before, deaf = self._session, self._deaf
        self.host = session.host
        self._session, self._deaf = session, None  # at once, so that nobody finds the desk without one
        for question in before.dialogs.open if before is not None else ():
            self.tell(Closed(question.id, False))  # this client can answer it no longer
        self.tell(Opened(session.session_id, reason))
        if self.host.hooks is not None and reason in ("new", "switch", "fork", "clone"):
            self.host.hooks.has_gone(reason, self)
        send(self._forwarder, _Watch(session))
        await client.subscribe(session.pid, self._forwarder, missed=True)
        self._deaf = session.dialogs.listen(self.tell)
        await self._left(before, deaf)
        if reason != "start":
            self.tell_notices()
        return await client.get_state(session.pid)

    def tell_notices(self) -> None:
        """Show what the host has found on the way and this client has not been told yet."""
        new = self.host.notices[self._notices_told.get(self.host, 0) :]
        self.notices_are_known()
        for notice in new:
            self.tell(Shown("notify", {"message": notice, "notifyType": "info"}))

    def notices_are_known(self) -> None:
        """Whatever the host has found so far was shown in another way."""
        self._notices_told[self.host] = len(self.host.notices)

    async def _leave(self) -> None:
        before, deaf = self._session, self._deaf
        self._session = self._deaf = None
        if self._forwarder is not None and self._forwarder.alive:
            send(self._forwarder, _Watch(None))
        await self._left(before, deaf)

    async def _left(self, session: OpenSession | None, deaf: Callable[[], None] | None) -> None:
        if deaf is not None:
            deaf()
        if session is None:
            return
        if self._forwarder is not None:
            with suppress(CallFailed):
                await client.unsubscribe(session.pid, self._forwarder)
        await session.host.sessions.leave(session)

    async def pid(self) -> Pid:
        """The session's process, for what `coding_agent.client` can ask; a crashed one is started again from its file.

        Raises:
            SessionCrashed: It had stored nothing to go on from.
        """
        session = self.session
        if session.pid.alive:
            return session.pid
        if not session.file.exists():
            raise SessionCrashed("the session has ended and had stored nothing; start a new one")
        await self.open(Wanted(file=session.file), reason="crash")
        return self.session.pid

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[Pid]:
        try:
            async with asyncio.timeout(IN_TURN_S):
                await self._turn.acquire()
        except TimeoutError:
            raise SessionBusy(self.session_id, "still at what was asked before") from None
        try:
            yield await self.pid()
        finally:
            self._turn.release()

    # Going elsewhere. Each answers False, and stays, when an extension is against it.

    async def new(self, parent_session: str | None = None) -> bool:
        """Go on in a new, empty session with the model, level and mode of this one."""
        async with self._in_turn():
            if not await self._may_leave("new", None):
                return False
            await self._go_on(Wanted(parent_session=parent_session), "new")
            return True

    async def switch(self, file: Path) -> bool:
        """Go on with the session in a file, which may run here already.

        Raises:
            SessionError: It cannot be opened. The desk stays where it was.
        """
        async with self._in_turn():
            if not await self._may_leave("switch", str(file)):
                return False
            await self.open(Wanted(file=await asyncio.to_thread(file.absolute)), reason="switch")
            return True

    async def fork(self, entry_id: str) -> str | None:
        """Go on in a new session that shares what came before words of the user; those words, or None when refused.

        Raises:
            EntryNotFound, BadUsage: There is no such entry, or it is no message of the user. The desk stays.
        """
        async with self._in_turn() as pid:
            if not await self._may_leave("fork", entry_id):
                return None
            folder = self.host.settings.session_dir
            made = await client.look(pid, lambda store: copying.fork(store.log, entry_id, session_dir=folder))
            await self._go_on(Wanted(file=made.path), "fork")
            return made.editor_text

    async def clone(self) -> bool:
        """Go on in a new session that holds the current branch of this one."""
        async with self._in_turn() as pid:
            if not await self._may_leave("fork", None):
                return False
            folder = self.host.settings.session_dir
            made = await client.look(pid, lambda store: copying.clone(store.log, session_dir=folder))
            await self._go_on(Wanted(file=made.path), "clone")
            return True

    async def _go_on(self, wanted: Wanted, reason: str) -> None:
        """Open a session that is held as this one is: model, level, mode, budget, queues, what goes by itself."""
        before = self.session
        options, state = await client.get_options(before.pid), await client.get_state(before.pid)
        policy = before.gate.policy
        wanted.model, wanted.thinking_level = options.model, state.thinking_level
        wanted.mode = None if policy is None else policy.mode
        wanted.budget = before.account.budget
        await self.open(wanted, reason=reason)
        pid = self.session.pid
        await client.set_queue_mode(pid, "steering", state.steering_mode)
        await client.set_queue_mode(pid, "follow_up", state.follow_up_mode)
        await client.set_auto_compaction(pid, state.auto_compaction)
        await client.set_auto_retry(pid, state.auto_retry)

    async def _may_leave(self, reason: str, target: str | None) -> bool:
        hooks = self.host.hooks
        return hooks is None or await hooks.may_leave(reason, target, self)

    # The conversation.

    async def submit(
        self, text: str, images: prompts.Images = (), behavior: prompts.StreamingBehavior | None = None
    ) -> Submitted:
        """Take what a person typed; returns once it was accepted. What comes of it are events.

        Args:
            text: May name a command, a skill or a template.
            images: Go along.
            behavior: What becomes of it while a run is going on; None refuses it then.

        Raises:
            SessionBusy: A run, compaction or summary is going on and `behavior` does not say what to do.
            CodingAgentError: A skill or template could not be expanded.
        """
        hooks = self.host.hooks
        if hooks is not None:
            command = prompts.slash_command(text)
            if command is not None and await hooks.run_command(*command, self):
                return "command"
            seen = await hooks.on_input(text, images, self)
            if isinstance(seen, prompts.Handled):
                return "handled"
            text, images = seen.text, seen.images
        aborts = self._aborts
        await self.pid()  # a crashed session is back, with its servers
        for line in await servers_settled(self.session.options, first_wait_s(self.session.options, text)):
            self.tell(Shown("notify", {"message": line, "notifyType": "warning"}))
        text, images = await self._typed(text, images)
        if self._aborts != aborts:
            raise BadUsage("aborted before it began")
        async with self._in_turn() as pid:
            await require_credential(self.host, pid)
            try:
                await client.prompt(pid, text, images)
            except SessionBusy:
                if behavior is None:
                    raise
                await (client.steer if behavior == "steer" else client.follow_up)(pid, text, images)
                return behavior
            return "prompt"

    async def steer(self, text: str, images: prompts.Images = ()) -> None:
        """Give the model this text before its next call; skills and templates are expanded, commands are refused."""
        text, images = await self._typed(self._queueable(text), images)
        async with self._in_turn() as pid:
            await client.steer(pid, text, images)

    async def follow_up(self, text: str, images: prompts.Images = ()) -> None:
        """Give the model this text when the run would end; skills and templates are expanded, commands are refused."""
        text, images = await self._typed(self._queueable(text), images)
        async with self._in_turn() as pid:
            await client.follow_up(pid, text, images)

    async def next_turn(self, text: str) -> None:
        """Put this text before the next prompt."""
        text, _ = await self._typed(self._queueable(text), ())
        async with self._in_turn() as pid:
            await client.next_turn(pid, text)

    async def _typed(self, text: str, images: prompts.Images) -> tuple[str, prompts.Images]:
        """What a text stands for that a person typed: a skill, a template, a prompt of an MCP server, what it reads."""
        await self.pid()  # a crashed session is back, with its servers
        text, more = await typed_for_servers(self.session.options, prompts.expanded(text, self.host.resources))
        return text, (*images, *more)

    def _queueable(self, text: str) -> str:
        if (name := self.command_in(text)) is not None:
            raise BadUsage(f"/{name} is a command of an extension and cannot wait in a queue; send it as a prompt")
        return text

    def command_in(self, text: str) -> str | None:
        """The command of an extension that a text runs; None for any other text."""
        command, hooks = prompts.slash_command(text), self.host.hooks
        known = () if hooks is None or command is None else hooks.commands()
        return next((each.name for each in known if command is not None and each.name == command[0]), None)

    async def abort(self) -> AbortReport:
        """End the run and wait until the session is idle; open questions end as cancelled. Harmless when idle.

        A prompt that waits for MCP servers to answer is taken back.
        """
        self._aborts += 1
        async with self._in_turn() as pid:
            return await client.abort(pid)

    async def abort_all(self) -> None:
        """Abort the run and the user's own command, and answer open questions with a no; what there was is stored."""
        self.bash.abort()
        if self.has_session:
            self.dialogs.refuse_all()
            await self.abort()

    async def compact(self, instructions: str | None = None) -> CompactionEnd:
        """Make the conversation shorter now, and wait until that is done; see `client.compact`."""
        return await client.compact(await self.pid(), instructions)

    async def run_bash(self, command: str, *, excluded: bool = False, run_id: Any = None) -> BashExecutionMessage:
        """Run a command of the user's; its output comes as `BashOutput` too, the model reads it with the next prompt.

        Args:
            command: For bash.
            excluded: The model is not to see it.
            run_id: Stamped on the output.
        """
        pid = await self.pid()
        done = await self._extensions_own(command, excluded)
        if done is None:
            settings = self.host.settings
            done = await self.bash.run(
                command,
                settings.cwd,
                lambda text: self.tell(BashOutput(run_id, text)),
                prefix=settings.shell_prefix,
                excluded=excluded,
            )
        with suppress(CallFailed):  # the session was left meanwhile; whoever asked has the answer all the same
            await client.record_bash(pid, done)
        return done

    async def _extensions_own(self, command: str, excluded: bool) -> BashExecutionMessage | None:
        """What an extension answers in the place of a command; None runs it."""
        hooks = self.host.hooks
        found = None if hooks is None else await hooks.on_bash(command, self)
        return None if found is None else answered_elsewhere(command, found, excluded=excluded)

    async def state(self) -> SessionState:
        """How the session stands."""
        return await client.get_state(await self.pid())

    async def look(self, at: Callable[[SessionManager], Any]) -> Any:
        """What `at` says of the session's store; see `client.look`."""
        return await client.look(await self.pid(), at)

    def commands(self) -> list[prompts.CommandInfo]:
        """Everything that can be typed behind a slash."""
        found = prompts.commands_of(self.host.resources, self.host.hooks)
        return found + ([] if self._session is None else prompts_of_servers(self._session.options))
