"""Edge. Hosts of this user that run now, and sockets that dead ones left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coding_agent.control.client import ask, os_pid_of, sockets
from coding_agent.doctor.finding import Finding, Place
from coding_agent.errors import HostUnreachable
from coding_agent.serving.hosts import is_alive
from coding_agent.settings import runtime_dir


def hosts(place: Place) -> Iterator[Finding]:
    """One finding for all that answer, one for each that does not."""
    folder = runtime_dir(place.environ)
    running = []
    for path in sockets(folder):
        os_pid = _pid(path)
        try:
            ask(path, {"op": "tree"}, timeout_s=2.0)
        except HostUnreachable:
            yield _silent(path, os_pid)
        else:
            running.append(os_pid)
    said = f"running: {', '.join(map(str, sorted(running)))}" if running else "none runs"
    yield Finding("hosts", "ok", said, facts={"running": sorted(running), "folder": str(folder)})


def _silent(path: Path, os_pid: int) -> Finding:
    facts = {"socket": str(path), "osPid": os_pid}
    if is_alive(os_pid):
        said = f"process {os_pid} does not answer at {path}"
        return Finding("hosts", "warn", said, f"see what it does; kill -TERM {os_pid} ends it well", facts)
    return Finding("hosts", "warn", f"a host that was killed left {path}", f"rm {path}", facts)


def _pid(path: Path) -> int:
    try:
        return os_pid_of(path)
    except ValueError:
        return 0
