"""Edge. One start of the host: applications, catalogue, metrics, control socket, signals; a front end; all stops again.

Every front end (print, RPC, ACP, terminal, serve) is a `Body`: it is given the `HostRun` and runs as the root process.
The first signal comes to it as an `Interrupted` message; what a second one means is the body's to say.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import evolve, field

from coding_agent.application import APPLICATION, add_child
from coding_agent.arguments import Arguments
from coding_agent.control.listener import Listener, Listening
from coding_agent.errors import BadUsage, UnsafeRuntimeDir
from coding_agent.hosting.dialogs import Dialogs
from coding_agent.hosting.extended import Loaded, chosen_model, known_models, load_extensions, serve_providers
from coding_agent.hosting.host_parts import Extra, FolderList
from coding_agent.hosting.input import PromptHooks
from coding_agent.mcp.at_start import servers_extra
from coding_agent.mcp.entries import ServerEntry
from coding_agent.measuring import Measuring, begin
from coding_agent.models.model_choice import ModelChoice
from coding_agent.models.user_models import UserModels
from coding_agent.resources import Resources, load_resources
from coding_agent.serving.operations import offer
from coding_agent.session.options import SessionOptions
from coding_agent.settings import Settings
from lemon_ai import go_offline, use_catalog
from lemon_otp import Pid, StartFailed, define, ensure_all_started, run, self_pid, send, stop_all

if TYPE_CHECKING:
    from coding_agent.extensions.runner import Extensions
    from coding_agent.hosting.open_sessions import OpenSessions

WATCHDOG_S: Final = 1.0
"""Who holds the event loop for longer is named in the log file, with its stack."""


class Interrupted:
    """A signal arrived; sent to the process that runs the body."""


@define(eq=False)
class HostRun:
    """One start of the host in one folder: what its front ends share.

    Attributes:
        arguments: The command line.
        settings: What holds for this start.
        choice: The model that answers in a new session.
        known: The catalogue and the keys a person's own file names.
        resources: What the person and the project say in files.
        hooks: What extensions do with prompts.
        extensions: Those that were loaded; None without any.
        environ: The environment it was started with.
        keeps_sessions: A session goes on when the last client leaves it, as `serve` wants it.
        notices: Lines for the person that were found on the way, told once.
        extras: Asked in order before a session is started; each may add to what it is started with.
        client_servers: MCP servers that a client named, beside those of configuration files.
        more_folders: Where sessions work too, beside the working folder.
    """

    arguments: Arguments
    settings: Settings
    choice: ModelChoice
    known: UserModels
    environ: Mapping[str, str] = field(factory=lambda: os.environ, repr=False)
    keeps_sessions: bool = False
    notices: list[str] = field(factory=list)
    extras: list[Extra] = field(factory=list)
    client_servers: tuple[ServerEntry, ...] = ()
    more_folders: tuple[Path, ...] = ()
    resources: Resources | None = None
    hooks: PromptHooks | None = None
    extensions: "Extensions | None" = None
    _sessions: "OpenSessions | None" = field(default=None, init=False)
    _folders: FolderList | None = field(default=None, init=False)
    _fresh: bool = field(default=True, init=False)

    @property
    def keeps_files(self) -> bool:
        """Are session files there when the program has ended?"""
        return self.arguments.keep

    def all_extras(self) -> list[Extra]:
        """What adds to the options of a session: whatever was put in, then MCP servers, where some are configured."""
        extras = [*self.extras, servers_extra(self)]
        return extras if self.extensions is None else [*extras, self._with_extensions]

    async def _with_extensions(self, options: SessionOptions, dialogs: Dialogs | None) -> SessionOptions:
        from coding_agent.extensions.joining import with_extensions

        assert self.extensions is not None
        return with_extensions(options, self.extensions, dialogs, self.notices)

    def read_files(self, loaded: Loaded) -> list[str]:
        """Read what the person and the project say in files; what is wrong with it, a line each.

        Args:
            loaded: The extensions from now on.
        """
        settings, problems = self.settings, list(loaded.problems)
        self.extensions, self.hooks = loaded.extensions, None
        if loaded.extensions is not None:
            from coding_agent.extensions.prompt_hooks import ExtensionPrompts

            self.hooks = ExtensionPrompts(loaded.extensions)
            settings = loaded.extensions.with_places(settings)
            problems = loaded.extensions.problems
        self.resources = load_resources(settings, trusted=settings.trusted)
        return [*problems, *self.resources.problems]

    def _load_again(self) -> list[str]:
        """The extensions as they are now, and all files; the models they bring are there from now on."""
        loaded = load_extensions(self.arguments, self.settings)
        known = known_models(self.arguments, self.environ, loaded)
        self.known = evolve(known, credentials=evolve(known.credentials, given=self.known.credentials.given))
        use_catalog(self.known.catalog)
        return self.read_files(loaded)

    async def decide_trust(self, trusted: bool) -> None:
        """Remember whether the person trusts this project; it counts for the sessions that are opened from now on."""
        from coding_agent.trust import decide

        if self.settings.trust is not None:
            await asyncio.to_thread(decide, self.settings.trust, trusted)
            self._renew()
            self.notices += await asyncio.to_thread(self._load_again)
            await self.begin()

    async def look_again(self) -> None:
        """For every session but the first: read settings and files as they are now.

        A project that has changed since it was trusted counts no more; extensions stay as they were loaded, unless the
        project's come or go. A settings file that is broken by now leaves everything as it was, and is said.
        """
        if self._fresh:
            self._fresh = False
        else:
            await asyncio.to_thread(self._look)  # files of the person's and the project's, and what extensions do
            await self.begin()

    def _look(self) -> None:
        trusted = self.settings.trusted
        try:
            self._renew()
        except BadUsage as error:
            self.notices.append(str(error))
            return
        if self.settings.trusted != trusted:
            if self.settings.trust is not None and (waits := self.settings.trust.notice()):
                self.notices.append(waits)
            self.notices += self._load_again()
        else:
            settings = self.settings if self.extensions is None else self.extensions.with_places(self.settings)
            self.resources = load_resources(settings, trusted=settings.trusted)

    def _renew(self) -> None:
        from coding_agent.settings import settings_of

        self.settings = evolve(settings_of(self.arguments, self.environ), session_dir=self.settings.session_dir)

    @property
    def sessions(self) -> "OpenSessions":
        """The sessions this host has opened, by whichever client."""
        if self._sessions is None:
            from coding_agent.hosting.open_sessions import OpenSessions

            self._sessions = OpenSessions(self)
        return self._sessions

    @property
    def folders(self) -> FolderList:
        """Where the same host works: in this folder alone, unless it was told of others."""
        if self._folders is None:
            from coding_agent.hosting.folders import Folders

            self._folders = Folders(self)
        return self._folders

    @folders.setter
    def folders(self, folders: FolderList) -> None:
        self._folders = folders

    def join(self, folders: FolderList) -> None:
        """Be one of the folders of a host that was started in another: what holds for all of them holds here."""
        first = folders.first
        self.environ, self.keeps_sessions, self.extras = first.environ, first.keeps_sessions, list(first.extras)
        self._folders = folders

    async def begin(self) -> None:
        """Let the providers that extensions bring answer from now on."""
        await serve_providers(self.extensions)

    async def end_sessions(self) -> None:
        """End every session; what they were doing is aborted and stored."""
        if self._sessions is not None:
            await self._sessions.close_all()

    async def finish(self) -> None:
        """Let extensions say goodbye to their sessions."""
        if self.extensions is not None:
            await self.extensions.finished()


Body: TypeAlias = Callable[[HostRun], Awaitable[int]]
"""A front end: returns the exit code."""


def prepared(arguments: Arguments, settings: Settings) -> HostRun:
    """Work out what a start shares, before anything runs.

    Raises:
        BadUsage: The model asked for is not known, or the person's own models file cannot be used.
    """
    loaded = load_extensions(arguments, settings)
    choice, known = chosen_model(arguments, settings, known_models(arguments, os.environ, loaded), loaded)
    host = HostRun(arguments, settings, choice, known)
    if choice.notice:
        host.notices.append(choice.notice)
    if settings.trust is not None and (waits := settings.trust.notice()):
        host.notices.append(waits)
    if settings.sandbox is not None:
        from coding_agent.sandbox import notice

        host.notices += filter(None, [notice("net" if settings.sandbox == "net" else "strict")])
    host.notices += [*known.problems, *settings.problems, *host.read_files(loaded)]
    return host


def run_host(body: Body, host: HostRun, *, watchdog_s: float = WATCHDOG_S) -> int:
    """Start everything, run `body` as the root process, stop everything in reverse order; the body's exit code.

    Args:
        body: The front end.
        host: From `prepared`.
        watchdog_s: Who holds the event loop for longer is named in the log file.

    Raises:
        CodingAgentError: Whatever the body raises; the message says what to do.
    """
    return run(_main, body, host, watchdog_s=watchdog_s)


async def _main(body: Body, host: HostRun) -> int:
    measuring: Measuring | None = None
    with interrupts(self_pid()):
        try:
            await ensure_all_started(APPLICATION)
            use_catalog(host.known.catalog)
            if host.settings.offline:
                go_offline()
            await host.begin()
            measuring = await begin(host.arguments, os.environ)
            await listen(host.settings, unsafe=host.arguments.unsafe_repl)
            offer(host)
            return await body(host)
        finally:
            hosts = [host] if host._folders is None else host._folders.all()
            for each in hosts:
                await each.end_sessions()  # a client from another terminal may still look at one
            await stop_all()
            for each in hosts:
                await each.finish()
            if measuring is not None:
                await measuring.end()


async def listen(settings: Settings, *, unsafe: bool = False) -> None:
    """Open the control socket; where that cannot be, say so and go on without."""
    try:
        await add_child(Listener.child_spec(Listening(settings.runtime_dir, unsafe), id="listener"))
    except StartFailed as failed:
        if not isinstance(failed.reason, UnsafeRuntimeDir):
            raise
        print(f"warning: `tree` will not find this host: {failed.reason}", file=sys.stderr)


@contextmanager
def interrupts(listener: Pid) -> Iterator[None]:
    """While inside, SIGINT, SIGTERM and SIGHUP become `Interrupted` messages to `listener`."""
    loop = asyncio.get_running_loop()
    signals: list[Any] = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    for number in signals:
        loop.add_signal_handler(number, send, listener, Interrupted())
    try:
        yield
    finally:
        for number in signals:
            with suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(number)
