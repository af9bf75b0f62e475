"""Edge. `python -m coding_agent demo-host`: a host with a busy tree in which things went wrong, until interrupted.

It takes what an ordinary start takes, such as `--observe` and `--metrics`; its sessions and working folder are
temporary.
`DemoThread` is the same in a thread of this program, for a look without a second terminal.
"""

import os
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from coding_agent.hosting.running import HostRun

START_S: Final = 30.0
MODEL: Final = "scripted/echo"
Over: Final = object()
"""Message to the demo's first process: it may end."""


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run the demo until a signal comes."""
    from coding_agent import logs
    from coding_agent.arguments import parse
    from coding_agent.hosting.running import prepared, run_host
    from coding_agent.settings import settings_of

    with tempfile.TemporaryDirectory(prefix="lemon-demo-") as folder:
        project = _project(Path(folder))
        given = ["--model", MODEL, "--cwd", str(project), "--session-dir", str(Path(folder) / "sessions"), *argv]
        arguments = parse(given)
        logs.set_up(environ, verbose=arguments.verbose)
        return run_host(_body, prepared(arguments, settings_of(arguments, environ)))


async def _body(host: "HostRun") -> int:
    from coding_agent.demo.demo_tree import start_demo
    from coding_agent.hosting.running import Interrupted
    from lemon_otp import receive

    await start_demo(host.settings, host.choice)
    print(f"a demo host runs as process {os.getpid()}; look into it with: python -m coding_agent repl --attach")
    sys.stdout.flush()
    await receive(lambda message: isinstance(message, Interrupted))
    return 0


def _project(folder: Path) -> Path:
    """A working folder with something in it."""
    project = folder / "project"
    (project / "build").mkdir(parents=True)
    (project / "README.md").write_text("# A project\n\nThere is not much here.\n")
    return project


class DemoThread:
    """The demo in a thread of this program, between `with` and its end.

    Attributes:
        socket: Its control socket.
    """

    def __init__(self, *, unsafe: bool = False) -> None:
        self.socket = Path()
        self._unsafe = unsafe
        self._folder = tempfile.TemporaryDirectory(prefix="lemon-demo-")
        self._ready = threading.Event()
        self._post: Any = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="demo host", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(START_S)
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._post is not None:
            self._post()
        self._thread.join(START_S)
        self._folder.cleanup()

    def _run(self) -> None:
        from lemon_otp import run

        try:
            run(self._main)
        except BaseException as error:  # also the exit signal that ends its first process
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        from coding_agent.application import APPLICATION, add_child
        from coding_agent.control.listener import Listener, Listening
        from coding_agent.control.protocol import socket_path
        from coding_agent.demo.demo_tree import start_demo
        from coding_agent.models.model_choice import choose_model
        from coding_agent.settings import read_settings
        from lemon_otp import current_runtime, ensure_all_started, receive, self_pid, send, stop_all

        folder = Path(self._folder.name)
        private = folder / "run"
        environ = {**os.environ, "LEMON_RUNTIME_DIR": str(private)}
        settings = read_settings(environ, cwd=str(_project(folder)), session_dir=str(folder / "sessions"), model=MODEL)
        me, runtime = self_pid(), current_runtime()
        try:
            await ensure_all_started(APPLICATION)
            await add_child(Listener.child_spec(Listening(private, unsafe=self._unsafe), id="listener"))
            await start_demo(settings, choose_model(settings))
            self.socket = socket_path(private)
            self._post = lambda: runtime.post(send, me, Over)
            self._ready.set()
            await receive(lambda message: message is Over)
        finally:
            await stop_all()
