"""Edge. Which running host is meant, and a connection to it."""

from collections.abc import Mapping
from pathlib import Path

from coding_agent.control.client import os_pid_of, sockets
from coding_agent.control.protocol import SOCKET_PREFIX, SOCKET_SUFFIX
from coding_agent.errors import HostUnreachable
from coding_agent.settings import runtime_dir
from lemon_otp import repl_shell

LOOK_S = 2.0


def attach(which: str, environ: Mapping[str, str]) -> repl_shell.Asker:
    """A connection to the host with this process id or socket; to the only one that runs when nothing is said.

    Raises:
        HostUnreachable: None runs, several do, or the one that is meant cannot be asked; the text says why.
    """
    folder = runtime_dir(environ)
    if which:
        path = folder / f"{SOCKET_PREFIX}{which}{SOCKET_SUFFIX}" if which.isascii() and which.isdigit() else Path(which)
        try:
            path.lstat()
        except FileNotFoundError as missing:
            raise HostUnreachable(f"no host {which} runs: there is no socket {path}") from missing
        except (OSError, ValueError) as error:
            raise HostUnreachable(f"no host can be reached at {path}: {error}") from error
        return _asked(path)
    found, problems = _answering(folder)
    if not found:
        hint = f"; {problems[0]}" if problems else ""
        raise HostUnreachable(f"no host is running (looked in {folder}){hint}")
    if len(found) > 1:
        pids = ", ".join(str(os_pid_of(asker.path)) for asker in found)
        for asker in found:
            asker.close()
        raise HostUnreachable(f"several hosts run: say which with --attach PID, one of {pids}")
    return found[0]


def _answering(folder: Path) -> tuple[list[repl_shell.Asker], list[str]]:
    found: list[repl_shell.Asker] = []
    problems: list[str] = []
    for path in sockets(folder):
        try:
            found.append(repl_shell.Asker(path, timeout_s=LOOK_S))
        except repl_shell.Unreachable as unreachable:
            if unreachable.code != "dead":
                problems.append(str(unreachable))
    return found, problems


def _asked(path: Path) -> repl_shell.Asker:
    try:
        return repl_shell.Asker(path)
    except repl_shell.Unreachable as unreachable:
        raise HostUnreachable(str(unreachable)) from unreachable
