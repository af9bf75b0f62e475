"""Edge. Starts programs through the helper of `keeper_main`, so that none of them outlives its use or its host.

    keeper = Keeper()
    child = await keeper.start(Program(argv=("/bin/bash", "-c", "make"), env=...), on_output=print)
    code = await child.exited
    child.kill(grace_s=0.5); await child.gone

`exited` is when the program itself ended, `gone` when nothing it ever started runs any more. Closing a child, losing
it to the garbage collector, or the death of this process kills all of it.
"""

import array
import asyncio
import marshal
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from attrs import evolve, field, frozen

from coding_agent.tools.child import MARK, READ_BYTES, Child, ChildNotStarted, OnOutput, first_of

START_S: Final = 10.0
CANCELLED_S: Final = 2.5
HELPER: Final = Path(__file__).with_name("keeper_main.py")


@frozen
class Program:
    """What to start.

    Attributes:
        argv: Name or path, then arguments. A bare name is looked up in the PATH of `env`.
        env: The whole environment; nothing is inherited.
        cwd: A directory's descriptor, left open; None is the host's working directory.
        stdin: "null" reads as empty; "pipe" is fed by `Child.write`.
        tty: Run on a pseudo terminal of its own; output then comes merged and `stdin` is that terminal.
        split_errors: Standard error goes to `on_errors` instead of into the output.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: int | None = None
    stdin: Literal["null", "pipe"] = "null"
    tty: bool = False
    split_errors: bool = False

    def in_directory(self, cwd: int) -> "Program":
        """The same, to run in a directory that is open."""
        return evolve(self, cwd=cwd)


class Keeper:
    """The host's side of one helper process, which is started with the first program.

    Attributes:
        home: A private directory (mode 0700), removed when the keeper closes or the host dies.
        children: What runs, including what earlier programs left behind.
    """

    def __init__(self) -> None:
        self.children: set[Child] = set()
        self._control: socket.socket | None = None
        self._helper: subprocess.Popen[bytes] | None = None
        self._home: Path | None = None
        self._lock = threading.Lock()
        self._finalizer: weakref.finalize[..., Keeper] | None = None

    @property
    def home(self) -> Path:
        """The private directory; the helper is started for it, as it removes the directory in the end."""
        self._started_control()
        assert self._home is not None
        with suppress(FileExistsError):  # the helper makes it too, whoever comes first
            self._home.mkdir(mode=0o700)
        return self._home

    @property
    def pid(self) -> int | None:
        """The helper's process id, None while none was needed."""
        return None if self._helper is None else self._helper.pid

    async def start(self, program: Program, on_output: OnOutput, *, on_errors: OnOutput | None = None) -> Child:
        """Start a program; its output arrives through `on_output` on the running loop.

        Raises:
            ChildNotStarted: No such program, no permission, no working directory. Nothing runs.

        Cancelling kills what may have started, and returns when that is done.
        """
        loop = asyncio.get_running_loop()
        mark = os.urandom(12).hex()
        ends = _Ends(program, on_output, on_errors)
        host_end, minder_end = socket.socketpair()
        child = Child(loop, host_end, mark)
        try:
            host_end.setblocking(False)
            with minder_end:
                request = _request(program, mark, ends)
                sent = host_end.send(request[:READ_BYTES])  # it is there to be read when the minder wakes
                await self._ask([minder_end.fileno(), *ends.given.values()])
            ends.close_given()
            if sent < len(request):
                await loop.sock_sendall(host_end, request[sent:])
            child.listen(ends.kept)
            if ends.input >= 0:
                child.feed(ends.input)
            ends.kept, ends.input = {}, -1
            self.children.add(child)
            child.on_gone(self.children.discard)
            await self._until_started(child)
            if not child.started.done():
                raise ChildNotStarted(0, "the helper process does not answer")
            if child.failure is not None:
                raise child.failure
        except BaseException:
            ends.close()
            child.close()
            raise
        ends.close()
        return child

    async def _until_started(self, child: Child) -> None:
        try:
            await first_of(START_S, child.started)
        except asyncio.CancelledError:  # it may run already, though nobody has heard of it
            child.kill(0)
            await child.ended_for_certain(CANCELLED_S)
            raise

    def close(self) -> None:
        """Kill everything and remove the private directory; returns at once."""
        self._let_go()
        if self._helper is not None:
            threading.Thread(target=self._helper.wait, daemon=True).start()
            self._helper = None

    async def aclose(self, timeout_s: float = 5.0) -> bool:
        """Kill everything, and return True once nothing is left, helper and private directory included."""
        self._let_go()
        helper, self._helper = self._helper, None
        return helper is None or await asyncio.to_thread(_wait, helper, timeout_s)

    def _let_go(self) -> None:
        for child in list(self.children):
            child.close()
        with self._lock:
            if self._control is not None:
                self._control.close()
            self._control = None
            self._home = None
            if self._finalizer is not None:
                self._finalizer.detach()

    async def _ask(self, fds: list[int]) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        for attempt in range(1000):
            if self._helper is not None and self._helper.poll() is not None:
                self._forget_helper()
            control = self._started_control()
            try:
                control.sendmsg([b"m"], rights)
                return
            except BlockingIOError:  # hundreds are waiting already
                await asyncio.sleep(0.005)
            except OSError:
                if attempt > 2:
                    raise
                self._forget_helper()
        raise ChildNotStarted(0, "the helper process is too busy")

    def _forget_helper(self) -> None:
        """Somebody killed the helper: start another with the next request."""
        with self._lock:
            if self._control is not None:
                self._control.close()
            self._control = None
            if self._helper is not None:
                self._helper.kill()
                self._helper.wait()
            self._helper = None

    def _started_control(self) -> socket.socket:
        with self._lock:
            if self._control is None:
                self._launch()
            assert self._control is not None
            return self._control

    def _launch(self) -> None:
        if self._home is None:
            self._home = Path(temporary_folder(), f"lemon-{os.urandom(12).hex()}")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._helper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(HELPER), str(theirs.fileno()), str(os.getpid()), str(self._home)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        ours.setblocking(False)
        self._control = ours
        self._finalizer = weakref.finalize(self, _abandon, ours, self._helper)


class _Ends:
    """The descriptors of one start: those given away, those kept."""

    def __init__(self, program: Program, on_output: OnOutput, on_errors: OnOutput | None) -> None:
        self.given: dict[str, int] = {}
        self.kept: dict[int, OnOutput] = {}
        self.input = -1
        self.tty_path: str | None = None
        self._mine: list[int] = []
        if program.tty:
            self._open_terminal(on_output)
        else:
            self._open_pipe("out", on_output)
            if program.split_errors:
                self._open_pipe("err", on_errors or on_output)
            if program.stdin == "pipe":
                self.given["in"], self.input = os.pipe()
                self._mine.append(self.given["in"])
        if program.cwd is not None:
            self.given["cwd"] = program.cwd

    def _open_pipe(self, name: str, on_output: OnOutput) -> None:
        reading, writing = os.pipe()
        self.kept[reading] = on_output
        self.given[name] = writing
        self._mine.append(writing)

    def _open_terminal(self, on_output: OnOutput) -> None:
        ours, theirs = os.openpty()
        self._mine.append(theirs)
        self.kept[ours] = on_output
        self.input = ours
        self.tty_path = os.ttyname(theirs)

    def close_given(self) -> None:
        """Once the request is out. A terminal's other end stays open until the program has opened it."""
        if self.tty_path is None:
            self._close_mine()

    def _close_mine(self) -> None:
        for fd in self._mine:
            os.close(fd)
        self._mine = []

    def close(self) -> None:
        """Whatever nobody else closes by now."""
        self._close_mine()
        kept = {*self.kept, self.input} - {-1}
        for fd in kept:
            os.close(fd)
        self.kept, self.input = {}, -1


def _request(program: Program, mark: str, ends: _Ends) -> bytes:
    """What the minder reads.

    Raises:
        ChildNotStarted: The program is not in the PATH, or an argument cannot be passed.
    """
    environment = {**program.env, MARK: mark}
    texts = [*program.argv, *environment, *environment.values()]
    if any("\0" in text for text in texts):
        raise ChildNotStarted(22, "an argument holds a NUL character")
    path = found_in_path(program.argv[0], program.env.get("PATH", os.defpath))
    if path is None or not os.access(path, os.X_OK):
        found_in_path.cache_clear()
        raise ChildNotStarted(2, f"no program {program.argv[0]}")
    body = marshal.dumps(
        {
            "argv0": path,
            "argv": [_as_bytes(text) for text in program.argv],
            "env": {_as_bytes(name): _as_bytes(value) for name, value in environment.items()},
            "fds": list(ends.given),
            "tty": ends.tty_path,
        }
    )
    return b"%08x" % len(body) + body


def temporary_folder() -> str:
    """Where this user's temporary files go."""
    wanted = (os.environ.get("TMPDIR"), "/tmp", "/var/tmp", os.getcwd())
    return next(each for each in wanted if each and os.access(each, os.W_OK | os.X_OK))


@lru_cache(maxsize=64)
def found_in_path(name: str, path: str) -> str | None:
    """Where a program is."""
    import shutil

    return shutil.which(name, path=path)


def _as_bytes(text: str) -> bytes:
    """As the operating system gets it; a lone surrogate that is no escaped byte becomes a question mark."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return text.encode(errors="replace")


def _wait(helper: "subprocess.Popen[bytes]", timeout_s: float) -> bool:
    try:
        helper.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _abandon(control: socket.socket, helper: "subprocess.Popen[bytes]") -> None:
    """Nobody holds the keeper any more, or the interpreter ends: the helper sees the socket close."""
    control.close()
    try:
        threading.Thread(target=helper.wait, daemon=True).start()
    except RuntimeError:  # the interpreter is on its way out
        helper.returncode = 0
