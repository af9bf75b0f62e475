"""Edge. Starts one child for the host, watches it and leaves none of it behind. Part of the program `keeper_main`.

Whatever a child starts, however often it forks or changes its session, is handed to its minder by the kernel when its
parent dies (PR_SET_CHILD_SUBREAPER). So a minder knows exactly when nothing is left, and an order to kill, the end of
its socket or the host's death reaches everything. Where the kernel cannot do that (not Linux) descendants are followed
through their parents while those live.

Host to minder: eight hexadecimal digits and a marshalled request of that length, then a line each:
    K <grace ms>   end everything: TERM, and after the grace KILL
    G <signal>     send a signal to the child's process group
    D <bytes>      comes with the output's reading end and perhaps a log: read on, keep so many bytes, drop the rest
Minder to host:
    S <pid> <minder>    started           E <errno>      not started
    X <status> <left>   the child ended; left is 1 when something it started still runs
    U <count>      that many could not be killed in time        Z   nothing is left
"""

# ruff: noqa: SIM105 -- `contextlib` is left out for the same reason as `typing`
from __future__ import annotations

import array
import marshal
import os
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False  # `typing` itself would make every fork dearer
if TYPE_CHECKING:
    from typing import Any, Final

ROUND_S: Final = 0.01
TERM_ROUND_S: Final = 0.05
GIVE_UP_S: Final = 2.0
"""After the grace: how long everything is killed again and again before the host is told that some remain."""
STUCK_ROUND_S: Final = 0.5
RUNAWAY: Final = 500
"""So many descendants are no program but a bomb: there is no grace for it."""
ORPHAN_GRACE_S: Final = 0.5
"""The grace when the host went away without a word."""
CHUNK: Final = 65536
PR_SET_NAME: Final = 15
PR_SET_CHILD_SUBREAPER: Final = 36
OURS_TO_RESET: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)


def load_prctl() -> Any:
    """The kernel's `prctl`, or something that does nothing where there is none."""
    if not sys.platform.startswith("linux"):
        return lambda *_args: 0
    import ctypes

    return ctypes.CDLL(None, use_errno=True).prctl


prctl = load_prctl()


def parents() -> dict[int, int]:
    """Every living process with its parent, as far as that can be read."""
    if not os.path.isdir("/proc/self"):
        return parents_from_ps()
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = os.open(f"/proc/{entry}/stat", os.O_RDONLY)
                try:
                    fields = os.read(stat, 4096).rpartition(b")")[2].split()
                finally:
                    os.close(stat)
            except OSError:
                continue
            if fields and fields[0] not in (b"Z", b"X"):
                found[int(entry)] = int(fields[1])
    return found


def parents_from_ps() -> dict[int, int]:
    import subprocess

    answer = subprocess.run(["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, check=False).stdout
    rows = [line.split() for line in answer.splitlines()]
    return {int(row[0]): int(row[1]) for row in rows if len(row) > 2 and not row[2].startswith(b"Z")}


def descendants(root: int) -> list[int]:
    """Every living process below `root`."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def tell(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def kill_hard(root: int, spared: set[int] | frozenset[int] = frozenset()) -> int:
    """Stop everything below `root` until nothing new appears, then kill it. Returns how many there were.

    A stopped process cannot fork, so not even a fork bomb outruns this.
    """
    stopped: set[int] = set()
    for _round in range(50):
        fresh = [pid for pid in descendants(root) if pid not in stopped and pid not in spared]
        if not fresh:
            break
        for pid in fresh:
            tell(pid, signal.SIGSTOP)
        stopped.update(fresh)
    for pid in stopped:
        tell(pid, signal.SIGKILL)
    return len(stopped)


class Waker:
    """Turns SIGCHLD into a readable descriptor, and ignores what would end a program in a terminal."""

    def __init__(self) -> None:
        self.read_end, write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        os.set_blocking(write_end, False)
        signal.signal(signal.SIGCHLD, _nothing)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)

    def clear(self) -> None:
        try:
            os.read(self.read_end, CHUNK)
        except BlockingIOError:
            pass


def _nothing(*_args: object) -> None:
    """A handler must exist for the wake-up descriptor to be written."""


def receive(sock: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """One read with the descriptors that came along; no bytes at the end.

    Raises:
        BlockingIOError: Nothing is there yet.
    """
    fds = array.array("i")
    try:
        data, ancillary, _flags, _address = sock.recvmsg(
            size, socket.CMSG_SPACE(8 * fds.itemsize), getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        )
    except BlockingIOError:
        raise
    except OSError:
        return b"", []
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    for fd in fds:
        os.set_inheritable(fd, False)
    return data, list(fds)


class Minder:
    """One child and everything it starts."""

    def __init__(self, sock: socket.socket, host_fd: int, waker: Waker) -> None:
        self.sock = sock
        self.host_fd = host_fd
        self.waker = waker
        self.me = os.getpid()
        self.child = 0
        self.left = True
        self.told_exit = False
        self.orphaned = False
        self.heard = b""
        self.terminated: set[int] = set()
        self.kill_at: float | None = None
        self.next_round = 0.0
        self.told_stuck = False
        self.drain_fd = self.log_fd = -1
        self.log_room = 0

    def say(self, line: str) -> None:
        try:
            self.sock.sendall(line.encode() + b"\n")
        except OSError:
            pass

    def start(self, fds: list[int]) -> bool:
        """Read the request and start the child. False when that failed; the host was told."""
        try:
            request = marshal.loads(self.read_exactly(int(self.read_exactly(8), 16)))
            named = dict(zip(request["fds"], fds, strict=False))
            self.child = spawn(request, named)
        except (OSError, EOFError, ValueError) as error:
            self.say(f"E {getattr(error, 'errno', None) or 0}")
            return False
        finally:
            for fd in fds:
                os.close(fd)
        self.say(f"S {self.child} {self.me}")
        return True

    def read_exactly(self, size: int) -> bytes:
        self.sock.setblocking(True)
        parts = []
        while size:
            part = self.sock.recv(min(size, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def run(self) -> None:
        """Until nothing of the child is left."""
        self.sock.setblocking(False)
        self.poller = select.poll()
        for fd in (self.sock.fileno(), self.waker.read_end, self.host_fd):
            if fd >= 0:
                self.poller.register(fd, select.POLLIN)
        while True:
            self.reap()
            if not self.left:
                break
            for fd, _event in self.poller.poll(self.pause_ms()):
                self.ready(fd)
        self.say("Z")
        for fd in (self.drain_fd, self.log_fd):
            if fd >= 0:
                os.close(fd)

    def pause_ms(self) -> float | None:
        """How long to wait for news; a round of the kill is done first when it is due."""
        if self.kill_at is None:
            return None
        if time.monotonic() >= self.next_round:
            self.press(self.kill_at)
        return max(0.0, self.next_round - time.monotonic()) * 1000

    def ready(self, fd: int) -> None:
        if fd == self.waker.read_end:
            self.waker.clear()
        elif fd == self.drain_fd:
            self.drain()
        elif fd == self.host_fd:
            self.orphan()
        else:
            self.listen()

    def reap(self) -> None:
        status = None
        while self.left:
            try:
                pid, ended = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.left = False
                break
            if not pid:
                break
            if pid == self.child and not self.told_exit:
                status = os.waitstatus_to_exitcode(ended)
        if status is not None:
            self.told_exit = True
            self.say(f"X {status} {int(self.left)}")

    def listen(self) -> None:
        try:
            data, fds = receive(self.sock, CHUNK)
        except BlockingIOError:
            return
        if not data:
            self.orphan()
            return
        *lines, self.heard = (self.heard + data).split(b"\n")
        for line in lines:
            word, _, value = line.partition(b" ")
            if word == b"K":
                self.begin_kill(int(value) / 1000)
            elif word == b"G":
                self.signal_group(int(value))
            elif word == b"D" and fds:
                self.begin_drain(fds, int(value))

    def orphan(self) -> None:
        """The host is gone, or wants to hear no more."""
        for fd in (self.sock.fileno(), self.host_fd):
            if fd >= 0 and not self.orphaned:
                self.poller.unregister(fd)
        self.orphaned = True
        if self.kill_at is None:
            self.begin_kill(ORPHAN_GRACE_S)

    def signal_group(self, number: int) -> None:
        if not self.told_exit:
            try:
                os.killpg(self.child, number)
            except OSError:
                tell(self.child, number)

    def begin_kill(self, grace_s: float) -> None:
        at = time.monotonic() + grace_s
        self.kill_at = at if self.kill_at is None else min(at, self.kill_at)
        self.next_round = 0.0

    def press(self, kill_at: float) -> None:
        """One round of ending everything."""
        now = time.monotonic()
        if now < kill_at:
            self.next_round = min(now + TERM_ROUND_S, kill_at)
            below = descendants(self.me)
            if len(below) > RUNAWAY:
                self.begin_kill(0)
            for pid in below:
                if pid not in self.terminated:
                    self.terminated.add(pid)
                    tell(pid, signal.SIGTERM)
                    tell(pid, signal.SIGCONT)
            return
        count = kill_hard(self.me)
        if now > kill_at + GIVE_UP_S and not self.told_stuck:
            self.told_stuck = True
            self.say(f"U {count}")
        self.next_round = time.monotonic() + (STUCK_ROUND_S if self.told_stuck else ROUND_S)

    def begin_drain(self, fds: list[int], room: int) -> None:
        self.drain_fd = fds[0]
        if len(fds) > 1:
            self.log_fd, self.log_room = fds[1], room
        os.set_blocking(self.drain_fd, False)
        self.poller.register(self.drain_fd, select.POLLIN)

    def drain(self) -> None:
        """Keep what goes on printing from blocking, or from dying of a closed pipe."""
        try:
            data = os.read(self.drain_fd, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.poller.unregister(self.drain_fd)
            os.close(self.drain_fd)
            self.drain_fd = -1
        elif self.log_room > 0:
            try:
                self.log_room -= os.write(self.log_fd, data[: self.log_room])
            except OSError:
                self.log_room = 0


def spawn(request: dict[str, Any], fds: dict[str, int]) -> int:
    """Start what was asked for: a session of its own, standard descriptors as given, nothing else inherited."""
    if "cwd" in fds:
        os.fchdir(fds["cwd"])
    actions: list[tuple[Any, ...]] = []
    if request.get("tty"):
        # A session leader that opens a terminal gets it as its controlling one.
        actions.append((os.POSIX_SPAWN_OPEN, 0, request["tty"], os.O_RDWR, 0))
        actions += [(os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
    else:
        if "in" in fds:
            actions.append((os.POSIX_SPAWN_DUP2, fds["in"], 0))
        actions.append((os.POSIX_SPAWN_DUP2, fds["out"], 1))
        actions.append((os.POSIX_SPAWN_DUP2, fds.get("err", fds["out"]), 2))
    return os.posix_spawn(
        request["argv0"],
        request["argv"],
        request["env"],
        file_actions=actions,
        setsid=True,
        setsigmask=[],
        setsigdef=OURS_TO_RESET,
    )
