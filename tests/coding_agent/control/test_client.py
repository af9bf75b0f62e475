"""The blocking other end of a host's socket, and whom it trusts."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from coding_agent.control.client import ask, ask_all, sockets
from coding_agent.errors import HostUnreachable
from coding_agent.repl.attaching import attach

STRANGER = """
import os, socket, sys
os.setgid(65534)
os.setuid(65534)
bound = socket.socket(socket.AF_UNIX)
bound.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
bound.listen(8)
print("ready", flush=True)
while True:
    connection, _ = bound.accept()
    connection.sendall(b'{"ok": true, "version": 1, "tree": [], "text": "mine"}\\n')
"""


@contextmanager
def pretender(path: Path, *said: bytes) -> Iterator[None]:
    """Somebody who listens there and says this to everybody, and goes on with the last of it."""
    over = threading.Event()
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    bound.listen(8)

    def speak(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            for one in said:
                connection.sendall(one)
            while said and not over.wait(0.02):
                connection.sendall(said[-1])

    def listen() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=speak, args=(bound.accept()[0],), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield
    finally:
        over.set()
        bound.shutdown(socket.SHUT_RDWR)
        bound.close()


def test_only_what_is_named_as_a_host_is_one(tmp_path: Path) -> None:
    """Another socket, or a file, in the folder is passed over."""
    left = []
    for name in ("host-12.sock", "host-x.sock", "host-12.sock.old", "other.sock", "host-.sock"):
        left.append(socket.socket(socket.AF_UNIX))
        left[-1].bind(str(tmp_path / name))
    (tmp_path / "host-13.sock").write_text("a file")
    assert [path.name for path in sockets(tmp_path)] == ["host-12.sock"]
    assert sockets(tmp_path / "none") == []
    assert ask_all(tmp_path, {"op": "tree"}) == []
    for each in left:
        each.close()


@pytest.mark.parametrize("said", [b"[1]", b"5", b"\xff\xfe", b"", b"[" * 100_000])
def test_whoever_answers_otherwise_is_no_host(tmp_path: Path, said: bytes) -> None:
    """Said in one line, whatever was answered."""
    path = tmp_path / "host-12.sock"
    with pretender(path) if not said else _once(path, said), pytest.raises(HostUnreachable):
        ask(path, {"op": "tree"})


@contextmanager
def _once(path: Path, said: bytes) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        bound.listen(1)

        def answer() -> None:
            with suppress(OSError), bound.accept()[0] as connection:
                connection.recv(1 << 16)
                connection.sendall(said)

        threading.Thread(target=answer, daemon=True).start()
        yield


def test_a_host_that_dribbles_is_not_waited_for(tmp_path: Path) -> None:
    """A byte now and then does not lengthen the time that is given."""
    path = tmp_path / "host-12.sock"
    with pretender(path, b" "):
        with pytest.raises(HostUnreachable, match="did not answer"):
            ask(path, {"op": "tree"}, timeout_s=0.2)
        with pytest.raises(HostUnreachable, match="no host is running"):
            attach("", {"LEMON_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)})


@pytest.mark.parametrize("which", ["x" * 5_000, "9" * 5_000, "a\0b", "/dev/null/x"])
def test_a_path_that_cannot_be_is_refused_in_words(tmp_path: Path, which: str) -> None:
    """Too long, or no path at all."""
    with pytest.raises(HostUnreachable):
        attach(which, {"LEMON_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)})


def test_another_users_host_is_not_believed(tmp_path: Path) -> None:
    """Even where the socket lets us in: whoever listens there could say, or be told, anything."""
    if os.getuid() != 0:  # only root can become somebody else; others are refused by the folder's mode
        assert os.getuid() > 0
        return
    folder = Path("/tmp") / f"lemon-stranger-{os.getpid()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    path = folder / "host-12.sock"
    command = [sys.executable, "-S", "-c", STRANGER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd="/") as stranger:
        try:
            _not_believed(stranger, folder, path, tmp_path)
        finally:
            stranger.kill()
            path.unlink(missing_ok=True)
            folder.rmdir()


def _not_believed(stranger: "subprocess.Popen[bytes]", folder: Path, path: Path, home: Path) -> None:
    assert stranger.stdout is not None
    assert stranger.stdout.readline() == b"ready\n"
    with pytest.raises(HostUnreachable, match="another user"):
        ask(path, {"op": "tree"})
    assert ask_all(folder, {"op": "tree"}) == []
    with pytest.raises(HostUnreachable, match="another user"):
        attach(str(path), {"LEMON_RUNTIME_DIR": str(folder), "HOME": str(home)})
