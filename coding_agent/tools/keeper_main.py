"""Edge. The helper program that keeps minders ready, so that what tools run is started fast and ended for certain.

It runs in an interpreter of its own (`python -I -S keeper_main.py CONTROL_FD HOST_PID HOME`) and imports only a few
small modules, because what it does must go on when the host is gone, and because its size is what a fork costs:

    host ── control socket ──▶ keeper          one a host
      └──── one socket a child ──▶ minder      one a child at a time; reaper of everything that child ever starts
                                     └─▶ child in a session of its own, without a terminal

What is left when a minder itself is killed falls to the keeper, which ends it.
"""

# ruff: noqa: SIM105 -- `contextlib` is left out for the same reason as `typing`
from __future__ import annotations

import gc
import mmap
import os
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False  # `typing` itself would make every fork dearer
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from coding_agent.tools.minder import (
        GIVE_UP_S,
        ORPHAN_GRACE_S,
        PR_SET_CHILD_SUBREAPER,
        PR_SET_NAME,
        ROUND_S,
        Minder,
        Waker,
        kill_hard,
        parents,
        prctl,
        receive,
        tell,
    )
else:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from minder import (
        GIVE_UP_S,
        ORPHAN_GRACE_S,
        PR_SET_CHILD_SUBREAPER,
        PR_SET_NAME,
        ROUND_S,
        Minder,
        Waker,
        kill_hard,
        parents,
        prctl,
        receive,
        tell,
    )

IDLE_MINDERS: Final = 3
MINDERS_MAX: Final = 4096
BUSY, IDLE = 0, 1


class Keeper:
    """Has minders ready for the next requests, and ends with the host.

    Requests are read by the idle minders themselves, and a minder that has seen its child to the end takes another:
    so a request costs no fork but the child's own. Who is idle stands in memory they share; the keeper is woken only
    when nobody is.
    """

    def __init__(self, control: socket.socket, host_fd: int, home: str) -> None:
        self.control = control
        self.home = home
        self.host_fd = host_fd
        self.control.setblocking(False)
        self.news, self.tell_news = os.pipe()
        self.waker = Waker()
        self.minders: dict[int, int] = {}
        self.flags = mmap.mmap(-1, MINDERS_MAX)
        self.free = list(range(MINDERS_MAX))
        self.staying: set[int] = set()

    def run(self) -> None:
        poller = select.poll()
        poller.register(self.control, 0)
        for fd in (self.waker.read_end, self.news, self.host_fd):
            if fd >= 0:
                poller.register(fd, select.POLLIN)
        open_for_work = True
        while open_for_work:
            while len(self.minders) < IDLE_MINDERS or (self.free and not self.flags[:].count(IDLE)):
                self.fork_minder()
            for fd, _event in poller.poll():
                if fd == self.news:
                    os.read(self.news, 100)
                elif fd == self.waker.read_end:
                    self.waker.clear()
                    self.reap()
                else:
                    open_for_work = False

    def fork_minder(self) -> None:
        stays = len(self.staying) < IDLE_MINDERS
        seat = self.free.pop()
        self.flags[seat] = IDLE
        pid = os.fork()
        if pid == 0:
            mind(self, stays, seat)
        self.minders[pid] = seat
        if stays:
            self.staying.add(pid)

    def reap(self) -> None:
        """Collect minders that ended, and wake those that were stopped: only a child would do that.

        What a killed one left behind is ours now, and is ended at once.
        """
        lost = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if os.WIFSTOPPED(status):
                tell(pid, signal.SIGCONT)
                continue
            lost = lost or pid not in self.minders or status != 0
            self.staying.discard(pid)
            if pid in self.minders:
                seat = self.minders.pop(pid)
                self.flags[seat] = BUSY
                self.free.append(seat)
        if lost:
            self.end_strays()

    def end_strays(self) -> None:
        me = os.getpid()
        for pid, parent in parents().items():
            if parent == me and pid not in self.minders:
                kill_hard(pid)
                tell(pid, signal.SIGKILL)

    def finish(self) -> None:
        """The host is gone or closed us: let the minders end their children, then remove the private directory."""
        self.control.close()
        deadline = time.monotonic() + ORPHAN_GRACE_S + GIVE_UP_S
        while self.minders and time.monotonic() < deadline:
            self.reap()
            time.sleep(ROUND_S)
        for _round in range(100):
            if not kill_hard(os.getpid()):
                break
            self.reap()
            time.sleep(ROUND_S)
        remove(self.home)
        os._exit(0)


def mind(keeper: Keeper, stays: bool, seat: int) -> None:
    """The life of a minder: wait for a request, see it through, and again when it stays. Never returns."""
    code = 1
    try:
        os.setsid()
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        prctl(PR_SET_NAME, b"lemon-minder", 0, 0, 0)
        os.close(keeper.news)
        waker = Waker()
        wait_for_request = waiting(keeper)
        while fds := wait_for_request():
            keeper.flags[seat] = BUSY
            if not keeper.flags[:].count(IDLE):
                os.write(keeper.tell_news, b"!")
            with socket.socket(fileno=fds[0]) as sock:
                minder = Minder(sock, keeper.host_fd, waker)
                if minder.start(fds[1:]):
                    minder.run()
            if not stays:
                break
            keeper.flags[seat] = IDLE
        code = 0
    finally:
        os._exit(code)


def waiting(keeper: Keeper) -> Callable[[], list[int]]:
    """A function that waits for the descriptors of the next request; none when the host or the keeper is gone."""
    poller: Any
    if hasattr(select, "epoll"):
        poller, readable = select.epoll(), select.EPOLLIN
        poller.register(keeper.control, readable | select.EPOLLEXCLUSIVE)  # a request wakes one of us, not all
    else:
        poller, readable = select.poll(), select.POLLIN
        poller.register(keeper.control, readable)
    poller.register(keeper.tell_news, 0)  # reports an error once nobody reads there
    if keeper.host_fd >= 0:
        poller.register(keeper.host_fd, readable)

    def wait() -> list[int]:
        while True:
            ready = [fd for fd, _event in poller.poll()]
            if keeper.host_fd in ready or keeper.tell_news in ready:
                return []
            try:
                data, fds = receive(keeper.control, 1)
            except BlockingIOError:
                continue
            if fds or not data:
                return fds

    return wait


def remove(folder: str) -> None:
    """The private directory and what is in it; links are not followed."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    control, host, home = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3]
    try:
        host_fd = os.pidfd_open(host) if hasattr(os, "pidfd_open") else -1
        if os.getppid() != host:
            raise ProcessLookupError
    except OSError:  # it has died already
        remove(home)
        return
    try:
        os.mkdir(home, 0o700)
    except FileExistsError:  # the host needed it at once
        pass
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(PR_SET_NAME, b"lemon-keeper", 0, 0, 0)
    keeper = Keeper(control, host_fd, home)
    gc.collect()
    gc.disable()
    gc.freeze()
    try:
        keeper.run()
    finally:
        keeper.finish()


if __name__ == "__main__":
    main()
