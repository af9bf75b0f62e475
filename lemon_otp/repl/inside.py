"""Edge. For programs with a tree of their own: serve a socket, or do one line in place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lemon_otp.repl.answering import ask
from lemon_otp.repl.private_socket import bind_private
from lemon_otp.repl.serving import ControlSocket


async def serve(path: str | Path, *, unsafe: bool = False, about: Mapping[str, str] | None = None) -> ControlSocket:
    """Serve the calling runtime at a socket, until `close` is called or the calling process ends.

    Args:
        path: The socket; its folder is made private.
        unsafe: Allow `eval`.
        about: More for the greeting.

    Raises:
        UnsafeFolder: The folder lets others in, or takes no sockets.
    """
    file = Path(path)
    control = ControlSocket(bind_private(file), file, unsafe=unsafe, about=about)
    control.start()
    return control


async def run_command(line: str, *, unsafe: bool = False) -> str:
    """What a person would see who typed this line, as plain text. A command that follows something is asked once.

    Raises:
        BadCommand: The line cannot be understood.
    """
    from lemon_otp.repl_shell.commands import BadCommand, parse, table, watched
    from lemon_otp.repl_shell.render import help_page, render
    from lemon_otp.repl_shell.sheets import plain

    commands = table()
    query = parse(line, commands)
    if query is None:
        return ""
    if query.command.name == "watch":
        query = watched(str(query.parameters["expression"]), commands)
    if query.how == "local":
        return plain(help_page(commands, query.parameters.get("name"), unsafe=unsafe))
    if query.how == "feed":
        raise BadCommand(f"{query.command.name} goes on; it needs a connection")
    return plain(render(query.op, await ask({"op": query.op, **query.parameters}, unsafe=unsafe)))
