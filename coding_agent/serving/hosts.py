"""Edge. The hosts of this user that run now, asked what sessions they have. Plain blocking code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import frozen

from coding_agent.control.client import ask, os_pid_of, sockets
from coding_agent.errors import HostUnreachable
from coding_agent.storage.finding import meant


@frozen
class LiveSession:
    """A session that runs in some host.

    Attributes:
        id: Its id.
        name: What a person calls it; None for no name.
        cwd: The folder it works in.
        state: `idle`, `working`, `asking` (a question is open), `compaction`, `branch_summary`, `retry` or `busy`.
        clients: How many terminals and programs look at it.
        facts: Everything the host said.
    """

    id: str
    name: str | None
    cwd: str
    state: str
    clients: int
    facts: Mapping[str, Any]


@frozen
class LiveHost:
    """A host that answered.

    Attributes:
        socket: Where it did.
        os_pid: Its process.
        cwd: The folder it was started in.
        folders: Those its sessions work in, that one first.
        serving: It keeps running for its clients.
        takes_folders: It works in further folders when clients ask for them.
        sessions: Of each folder oldest first.
    """

    socket: Path
    os_pid: int
    cwd: str
    folders: tuple[str, ...]
    serving: bool
    takes_folders: bool
    sessions: tuple[LiveSession, ...]


def live_hosts(runtime_dir: Path, *, timeout_s: float = 10.0) -> list[LiveHost]:
    """Every host that answers, newest first; one that is too old to know of sessions is passed over."""
    found = []
    for path in sockets(runtime_dir):
        with suppress(HostUnreachable):
            found.append(_host(path, ask(path, {"op": "live_sessions"}, timeout_s=timeout_s)))
    return found


def hosts_of(hosts: Iterable[LiveHost], cwd: str | Path) -> list[LiveHost]:
    """Those that work in this folder, those that serve first."""
    here = [host for host in hosts if str(cwd) in host.folders]
    return sorted(here, key=lambda host: not host.serving)


def remove_dead_sockets(runtime_dir: Path) -> list[Path]:
    """Take away the sockets of hosts that were killed; those that were removed."""
    removed = []
    for path in sockets(runtime_dir):
        with suppress(OSError, ValueError):
            if not is_alive(os_pid_of(path)):
                path.unlink()
                removed.append(path)
    return removed


def is_alive(os_pid: int) -> bool:
    """Does a process with this id run?"""
    try:
        os.kill(os_pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return os_pid > 0


def with_session(hosts: Iterable[LiveHost], wanted: str) -> list[tuple[LiveHost, LiveSession]]:
    """The sessions meant by an id, the beginning of one, or a name; an exact one alone if there is one."""
    every = ((host, session) for host in hosts for session in host.sessions)
    return meant(wanted, every, lambda pair: pair[1].id, lambda pair: pair[1].name)


def _host(path: Path, said: Mapping[str, Any]) -> LiveHost:
    cwd = str(said.get("cwd") or "")
    listed = [one for one in said.get("sessions") or () if isinstance(one, dict)]
    return LiveHost(
        socket=path,
        os_pid=os_pid_of(path),
        cwd=cwd,
        folders=tuple(map(str, said.get("folders") or (cwd,))),
        serving=bool(said.get("serving")),
        takes_folders=bool(said.get("serving")) and "folders" in said,
        sessions=tuple(
            LiveSession(
                id=str(one.get("id") or ""),
                name=one.get("name") or None,
                cwd=str(one.get("cwd") or cwd),
                state=str(one.get("state") or ""),
                clients=int(one.get("clients") or 0),
                facts=one,
            )
            for one in listed
        ),
    )
