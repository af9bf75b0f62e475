"""Process. Answers whoever asks this host about itself, through a Unix socket.

Tree:  coding_agent.supervisor / listener, permanent
Emits: nothing
Owns:  the socket file `host-<os pid>.sock`, mode 0600, in a folder of mode 0700, removed when the process ends; and
       the thread that talks to the askers, so that there is an answer while a handler holds the event loop up

What can be asked is in `operations`; a connection stays open when it begins with a `hello`.
"""

from pathlib import Path
from typing import ClassVar

from attrs import frozen

from coding_agent.control.operations import add_host_operations
from coding_agent.control.protocol import socket_path
from coding_agent.errors import UnsafeRuntimeDir
from coding_agent.measuring.flight_recorder import start_recorder
from coding_agent.repl.ledger import Ledger
from lemon_otp import GenServer, NoReply, Reply, Request, repl


@frozen
class SocketPath(Request[str]):
    """Where the socket is."""


@frozen
class Listening:
    """What the process is started with, and its socket.

    Attributes:
        runtime_dir: The folder of the socket.
        unsafe: Whether operations that can do anything, such as `eval`, are allowed.
    """

    runtime_dir: Path
    unsafe: bool = False


class Listener(GenServer[Path | Listening, SocketPath, None, repl.ControlSocket]):
    """Serves the control socket of this host; started with the runtime folder."""

    trap_exit: ClassVar[bool] = True  # so that `terminate` closes the socket before the next one starts

    async def init(self, arg: Path | Listening) -> repl.ControlSocket:
        options = Listening(arg) if isinstance(arg, Path) else arg
        path = socket_path(options.runtime_dir)
        try:
            bound = repl.bind_private(path)
        except repl.UnsafeFolder as unsafe:
            raise UnsafeRuntimeDir(options.runtime_dir, str(unsafe)) from unsafe
        add_host_operations()
        Ledger.start()
        start_recorder()
        control = repl.ControlSocket(bound, path, unsafe=options.unsafe, about={"program": "coding_agent"})
        control.start()
        return control

    async def handle_call(
        self, message: SocketPath, caller: object, state: repl.ControlSocket
    ) -> Reply[repl.ControlSocket]:
        return Reply(str(state.path), state)

    async def handle_info(self, message: object, state: repl.ControlSocket) -> NoReply[repl.ControlSocket]:
        return NoReply(state)

    async def terminate(self, reason: object, state: repl.ControlSocket) -> None:
        state.close()
