"""Edge. Programs kept to the working directory and off the network, by bubblewrap, where that is installed.

It is an option and off by default. When it is asked for and cannot be had, nothing is run: a sandbox that silently is
none would be worse than none.
"""

import os
from typing import Final

from attrs import evolve, field, frozen

from coding_agent.tools.keeper import Keeper, Program, found_in_path
from coding_agent.tools.program_run import ProgramRun
from lemon_agent import ToolError

BUBBLEWRAP: Final = "bwrap"
CHECK_S: Final = 10.0
HIDDEN: Final = (
    *("~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.config/gcloud", "~/.config/gh", "~/.kube", "~/.docker"),
    *(
        "~/.lemon",
        "~/.netrc",
        "~/.npmrc",
        "~/.pypirc",
        "~/.git-credentials",
        "~/.local/share/keyrings",
        "/run",
        "/root/.ssh",
    ),
)
"""Keys, tokens and the sockets of services: empty inside."""


@frozen
class Sandbox:
    """What a sandboxed program may do.

    Attributes:
        network: Reach the network.
        writable: Folders that may be written besides the working directory; everything else is read-only, and `/tmp` is
            empty and goes with the program.
        hidden: Files and folders that are empty inside.
    """

    network: bool = False
    writable: tuple[str, ...] = field(default=(), converter=tuple)
    hidden: tuple[str, ...] = field(default=HIDDEN, converter=tuple)

    def wrapped(self, program: Program, root: str) -> Program:
        """The same program, to be run inside; `root` is its working directory."""
        return evolve(program, argv=(BUBBLEWRAP, *self.arguments(root), "--", *program.argv))

    def arguments(self, root: str) -> list[str]:
        """Bubblewrap's options."""
        arguments = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        for path in self.hidden:
            real = os.path.realpath(os.path.expanduser(path))
            if os.path.isdir(real):
                arguments += ["--tmpfs", real]
            elif os.path.exists(real):
                arguments += ["--ro-bind", os.devnull, real]
        for path in (*self.writable, root):
            real = os.path.realpath(os.path.expanduser(path))
            arguments += ["--bind", real, real]
        arguments += ["--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        arguments += [] if self.network else ["--unshare-net"]
        return [*arguments, "--die-with-parent", "--new-session", "--chdir", root]


async def unavailable(keeper: Keeper, environment: dict[str, str]) -> str | None:
    """Why there can be no sandbox on this machine; None when there can."""
    if found_in_path(BUBBLEWRAP, environment.get("PATH", os.defpath)) is None:
        return "bubblewrap is not installed (Debian: apt install bubblewrap)"
    check = Program((BUBBLEWRAP, *Sandbox(hidden=()).arguments("/"), "--", "true"), environment, split_errors=True)
    end = await ProgramRun(keeper).until_ended(check, lambda _data: None, CHECK_S)
    if end.code == 0:
        return None
    said = end.errors.decode(errors="replace").strip() or f"it ended with code {end.code}"
    return f"bubblewrap does not work here: {said}"


class Sandboxing:
    """The sandbox of one session's programs: checked once, then put around each."""

    def __init__(self, sandbox: Sandbox | None) -> None:
        self._sandbox = sandbox
        self._checked = False

    async def around(self, program: Program, root: str, keeper: Keeper) -> Program:
        """The program as it is to be started.

        Raises:
            ToolError: A sandbox was asked for and cannot be had.
        """
        if self._sandbox is None:
            return program
        if not self._checked:
            reason = await unavailable(keeper, dict(program.env))
            if reason is not None:
                raise ToolError(f"Not run: a sandbox is required, and {reason}")
            self._checked = True
        return self._sandbox.wrapped(program, root)
