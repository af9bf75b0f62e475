"""Edge. `python -m coding_agent serve`: a host that keeps sessions alive until it is told to stop.

It has no terminal of its own. Clients come with `attach`; that one dies is nothing to a session. It works in the folder
it was started in, in those its command line names, and in those that clients ask for. Each folder has one such host: a
second one is refused, by a lock that ends with the process that holds it, however that ends.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from coding_agent.command_parser import CommandParser
from coding_agent.control.client import ask
from coding_agent.errors import BadUsage, HostUnreachable, ServeFailed
from coding_agent.serving.hosts import LiveHost, hosts_of, live_hosts, remove_dead_sockets
from coding_agent.settings import Settings, runtime_dir, settings_of

if TYPE_CHECKING:
    from filelock import FileLock

    from coding_agent.arguments import Arguments
    from coding_agent.hosting.folders import Claim
    from coding_agent.hosting.running import HostRun

READY: Final = "ready"
"""What a host that was sent to the background says when clients may come."""
DETACHED: Final = "--detached-child"
STOPPED_S: Final = 60.0

_EPILOG: Final = """\
Every other flag is that of the program itself: --cwd, --model, --permission-mode, --allow, --sandbox ...

  serve                 keep sessions alive in this terminal until Ctrl-C
  serve --detach        the same in the background
  serve --folder DIR    work in that folder too (repeatable); `attach` from any other adds that one
  serve stop [--all]    store every session of this folder and end its host, or all of them
  attach [ID]           a terminal on one of its sessions; `sessions live` lists them

What flags allow (--permission-mode edit and full, --allow, --trust) holds for the folders that are named here. In one
that `attach` adds, its own settings say what is allowed; what flags forbid holds there too.
"""


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Serve until told to stop, or stop whoever serves; 0 when that went well.

    Raises:
        BadUsage: A flag is not known, or makes no sense here.
        ServeFailed: A host serves this folder already, or the one in the background did not begin.
    """
    if argv and argv[0] == "stop":
        return stop(argv[1:], environ)
    parser = CommandParser(
        prog="python -m coding_agent serve",
        description="A host that keeps sessions alive while terminals come and go.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--detach", "-d", action="store_true", help="go on in the background")
    parser.add_argument(
        "--folder", metavar="DIR", action="append", default=[], help="work in this one too (repeatable)"
    )
    parser.add_argument(DETACHED, dest="child", action="store_true", help=argparse.SUPPRESS)
    given, rest = parser.parse_known_args(argv)
    arguments, settings = _checked(rest, environ)
    named = [str(Path(folder).expanduser().resolve()) for folder in given.folder]
    if given.detach:
        return detach(rest, settings, named)
    return _serve(arguments, settings, environ, named, detached=given.child)


def _checked(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[Arguments, Settings]:
    from coding_agent.arguments import parse

    arguments = parse(argv)
    if arguments.prompt is not None or arguments.messages or arguments.output != "text":
        raise BadUsage("serve takes no prompts and prints no answers; attach to a session and say it there")
    if arguments.resume or arguments.session or arguments.fork or not arguments.keep:
        raise BadUsage("serve opens no session by itself; say which one to attach: attach --session FILE")
    return arguments, settings_of(arguments, environ)


def _serve(
    arguments: Arguments, settings: Settings, environ: Mapping[str, str], named: Sequence[str], *, detached: bool
) -> int:
    from coding_agent import logs
    from coding_agent.hosting.folders import Folders
    from coding_agent.hosting.running import prepared, run_host

    logs.set_up(environ, verbose=arguments.verbose and not detached)
    with only_host_of(settings):
        remove_dead_sockets(settings.runtime_dir)
        host = prepared(arguments, settings)
        host.keeps_sessions = True
        host.folders = Folders(host, partial(taken_in, environ=environ))
        for notice in host.notices:
            _say(notice)

        async def body(host: HostRun) -> int:
            return await serve(host, named, detached=detached)

        try:
            return run_host(body, host)
        finally:
            host.folders.release()


async def serve(host: HostRun, named: Sequence[str] = (), *, detached: bool = False) -> int:
    """Let clients come and go until somebody asks for the end; every session is stored then.

    A second signal ends it without waiting for that; what was said is in the files all the same.

    Args:
        host: Of the first folder.
        named: Further folders.
        detached: Whoever started it waits to be told that it serves, and listens no more then.

    Raises:
        BadUsage: One of the folders is none.
        ServeFailed: Another host serves one of them.
    """
    from coding_agent.hosting.running import Interrupted
    from coding_agent.serving.operations import StopServing, offer
    from lemon_otp import Down, down_of, receive, self_pid, spawn_monitor

    offer(host, self_pid())
    for folder in named:
        more = await host.folders.add(Path(folder), is_named=True)
        for notice in more.notices:
            _say(f"{folder}: {notice}")
    if detached:
        _leave_the_terminal()
    else:
        folders = ", ".join(str(each.settings.cwd) for each in host.folders.all())
        _say(f"serving {folders} as process {os.getpid()}; in another terminal: python -m coding_agent attach")
    await receive(lambda message: isinstance(message, Interrupted | StopServing))
    stored = down_of(spawn_monitor(_store_all, host, label="store_all")[1])
    match await receive(lambda message: isinstance(message, Interrupted) or stored(message)):
        case Interrupted():  # again: the person does not want to wait
            return 130
        case Down(reason=reason):
            return 0 if reason == "normal" else 1
    return 1


async def _store_all(host: HostRun) -> None:
    """End every session at one time; each aborts what it does and stores what there is."""
    from lemon_otp import Task

    ending = [Task.async_(one.host.sessions.close, one) for one in host.folders.sessions()]
    await Task.await_many(ending, timeout_s=STOPPED_S)


@contextmanager
def only_host_of(settings: Settings) -> Iterator[None]:
    """While inside, no other host serves this folder.

    Raises:
        ServeFailed: One does; the text names its process.
    """
    lock = _claimed(settings)
    if lock is None:
        raise _taken(settings)
    try:
        yield
    finally:
        lock.release()


async def taken_in(arguments: Arguments, *, environ: Mapping[str, str]) -> tuple[HostRun, Claim]:
    """What a start in another folder shares; no other host serves that until the claim is released, or this one ends.

    Raises:
        BadUsage: Its settings are broken.
        ServeFailed: Another host serves it; the text names its process.
    """
    from coding_agent.hosting.running import prepared

    host = await asyncio.to_thread(lambda: prepared(arguments, settings_of(arguments, environ)))
    lock = _claimed(host.settings)
    if lock is None:
        raise await asyncio.to_thread(_taken, host.settings)  # hosts are asked for their folders, this one too
    return host, lock


def _claimed(settings: Settings) -> FileLock | None:
    """The lock of a folder; None while another process has it."""
    from filelock import FileLock, Timeout

    from lemon_otp import repl

    with suppress(repl.UnsafeFolder):  # what is wrong with it is said when the socket is made
        repl.private_folder(settings.runtime_dir)
    lock = FileLock(lock_file(settings.runtime_dir, settings.cwd), timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        return None
    except OSError as error:
        raise ServeFailed(f"{settings.runtime_dir} cannot be used: {error.strerror or error}") from error
    return lock


def _taken(settings: Settings) -> ServeFailed:
    who = [host.os_pid for host in serving_here(live_hosts(settings.runtime_dir), settings.cwd)]
    name = f"process {who[0]}" if who else "a host"
    return ServeFailed(f"{name} serves {settings.cwd} already; attach to it, or end it with serve stop")


def detach(argv: Sequence[str], settings: Settings, named: Sequence[str] = ()) -> int:
    """Start a host in the background, for further folders where some are named; return when clients may come.

    Raises:
        ServeFailed: It ended before that; the text is what it said.
    """
    folders = [word for folder in named for word in ("--folder", folder)]
    command = [sys.executable, "-m", "coding_agent", "serve", DETACHED, *folders, *argv]
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    assert child.stderr is not None
    said: list[str] = []
    with child.stderr as lines:
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip()
            if text == READY:
                child.returncode = 0  # it goes on without us, and nobody here will wait for it
                for notice in said:
                    _say(notice)
                served = ", ".join((str(settings.cwd), *named))
                _say(f"serving {served} as process {child.pid}; to see it: python -m coding_agent attach")
                return 0
            said.append(text)
    child.wait()
    raise ServeFailed(said[-1].removeprefix("error: ") if said else "the host ended without a word")


def _leave_the_terminal() -> None:
    """Tell whoever started us that clients may come, and print nowhere from here on."""
    _say(READY)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def stop(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """End the host that serves this folder, or every one; 1 when there is none.

    A host that was started in another folder, and serves this one too, only leaves it.
    """
    parser = CommandParser(
        prog="python -m coding_agent serve stop", description="Store every session and end the host."
    )
    parser.add_argument("--all", action="store_true", help="every host of this user that serves")
    parser.add_argument("--cwd", metavar="DIR", help="the folder it serves (default: this one)")
    arguments = parser.parse_args(argv)
    cwd = Path(arguments.cwd or ".").resolve()
    hosts = [host for host in live_hosts(runtime_dir(environ)) if host.serving]
    chosen = hosts if arguments.all else serving_here(hosts, cwd)
    for host in chosen:
        if arguments.all or host.cwd == str(cwd):
            end(host)
            _say(f"process {host.os_pid} has stored {len(host.sessions)} sessions and ended")
        else:
            left = ask(host.socket, {"op": "leave_folder", "cwd": str(cwd)}, timeout_s=STOPPED_S)
            _say(f"process {host.os_pid} has stored {left['sessions']} sessions and left {cwd}; it serves {host.cwd}")
    if not chosen:
        where = "" if arguments.all else f" {cwd}"
        others = f"; others do: {', '.join(host.cwd for host in hosts)}" if hosts else ""
        _say(f"no host serves{where}{others}")
    return 0 if chosen else 1


def end(host: LiveHost) -> None:
    """Ask a host to stop and return when it has: the lock of its folder is free then.

    Raises:
        ServeFailed: It did not within a minute.
    """
    from filelock import FileLock, Timeout

    with suppress(HostUnreachable):  # it may be ending already
        ask(host.socket, {"op": "stop_serving"}, timeout_s=10.0)
    lock = FileLock(lock_file(host.socket.parent, host.cwd), timeout=STOPPED_S, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise ServeFailed(f"process {host.os_pid} did not end within {STOPPED_S:g} s") from None
    lock.release()


def serving_here(hosts: Sequence[LiveHost], cwd: Path) -> list[LiveHost]:
    """Those that serve this folder."""
    return [host for host in hosts_of(hosts, cwd) if host.serving]


def lock_file(folder: Path, cwd: str | Path) -> Path:
    """What the host that serves a folder holds."""
    return folder / f"serve-{hashlib.sha256(os.fsencode(cwd)).hexdigest()[:16]}.lock"


def _say(line: Any) -> None:
    print(line, file=sys.stderr, flush=True)
