"""Edge. Programs of the tools in a bubblewrap sandbox: they write in the workspace and nowhere else.

Inside, the whole file system is there to read except folders known for secrets; the workspace can be written, hooks and
settings in it cannot; `/tmp` is empty and private; processes outside are out of sight; without `net` there is no
network, not even loopback to the host. What a command leaves in the background ends with it.

Optional: it needs the program `bwrap` (package `bubblewrap`) and a kernel that lets it work. Where it does not work,
`landlock` does what the kernel's Landlock can, which is less; whoever starts a host is told so. Who asks for the
sandbox where neither is available is told that, and nothing is started without it.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, TypeAlias

from attrs import evolve

from coding_agent.errors import BadUsage
from coding_agent.tools.child import Child, OnOutput
from coding_agent.tools.keeper import Keeper, Program
from coding_agent.tools.program_keeper import ProgramKeeper

Level: TypeAlias = Literal["strict", "net"]
LEVELS: Final[Sequence[Level]] = ("strict", "net")
"""`strict` has no network; `net` has it."""

PROBE_S: Final = 10.0
SECRET_FOLDERS: Final = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".config/op",
    ".password-store", ".local/share/keyrings", ".mozilla", ".config/google-chrome", ".local/state/lemon",
    ".config/lemon",
)  # fmt: skip
SECRET_FILES: Final = (
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".bash_history",
    ".zsh_history",
    ".pi/agent/auth.json",
)
RESOLVER_FOLDERS: Final = ("/run/systemd/resolve", "/run/NetworkManager/resolv.conf", "/run/resolvconf")
"""Where `/etc/resolv.conf` often leads: without it a network has no names."""
READ_ONLY_IN_WORKSPACE: Final = (".git/hooks", ".git/config", ".lemon")


def arguments(
    bwrap: str,
    root: str,
    level: Level,
    *,
    home: Path | None = None,
    shared: Sequence[str] = (),
    hidden: Sequence[str] = (),
) -> list[str]:
    """The command line that stands before a program's own.

    Args:
        bwrap: The program.
        root: The workspace, without links.
        level: With or without network.
        home: Whose secrets are hidden; the user's by default.
        shared: Further folders that may be written.
        hidden: Further folders that are empty inside, unless the workspace lies in one of them.
    """
    found = [
        bwrap,
        "--die-with-parent",
        "--unshare-user-try",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    if level == "strict":
        found.append("--unshare-net")
    found += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]
    base = Path.home() if home is None else home
    for folder in ("/run", *(str(base / name) for name in SECRET_FOLDERS), *hidden):
        if os.path.isdir(folder):
            found += ["--tmpfs", os.path.realpath(folder)]
    if level == "net":
        for folder in RESOLVER_FOLDERS:
            found += ["--ro-bind-try", folder, folder]
    for name in SECRET_FILES:
        if (base / name).is_file():
            found += ["--ro-bind", "/dev/null", str(base / name)]
    for folder in shared:
        found += ["--bind", folder, folder]
    found += ["--bind", root, root]
    for name in READ_ONLY_IN_WORKSPACE:
        if os.path.lexists(f"{root}/{name}"):
            found += ["--ro-bind", f"{root}/{name}", f"{root}/{name}"]
    return [*found, "--chdir", root, "--"]


@lru_cache(maxsize=1)
def unavailable() -> str | None:
    """Why there is no sandbox here, as a sentence; None when there is one. Tried once, by running it."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return "the program bwrap is not installed (package bubblewrap)"
    try:
        command = [*arguments(bwrap, os.path.realpath("/usr"), "strict")[:-3], "--", "true"]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_S,
            check=False,
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap does not run here: {error}"
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return f"bwrap does not work here: {said[-1] if said else f'exit code {done.returncode}'}"
    return None


def sandboxed_keeper(root: str, level: Level, *, hidden: Sequence[str] = ()) -> Keeper:
    """What starts the programs of a workspace, in the sandbox: bubblewrap's where it works, else Landlock's.

    Raises:
        BadUsage: There is no sandbox here; the text says why.
    """
    why = unavailable()
    real = os.path.realpath(root)
    if why is None:
        bwrap = shutil.which("bwrap")
        assert bwrap is not None
        return SandboxedKeeper(bwrap, real, level, hidden)
    from coding_agent.sandbox import landlock

    why_not = landlock.unavailable(level)
    if why_not is not None:
        raise BadUsage(f"the sandbox is not available: {why}, and {why_not}; install it, or leave out --sandbox")
    return landlock.LandlockedKeeper(real, network=level == "net", hidden=[*secrets_of(Path.home()), "/run", *hidden])


def notice(level: Level) -> str | None:
    """What whoever asked for the sandbox should know about the one there is; None when it is all it says."""
    if unavailable() is None:
        return None
    from coding_agent.sandbox import landlock

    return landlock.LIMITS if landlock.unavailable(level) is None else None


def secrets_of(home: Path) -> list[str]:
    """Files and folders of a person that hold secrets."""
    return [str(home / name) for name in (*SECRET_FOLDERS, *SECRET_FILES)]


class SandboxedKeeper(Keeper):
    """Starts programs as the runtime's keeper does, each behind `bwrap`."""

    def __init__(self, bwrap: str, root: str, level: Level, hidden: Sequence[str] = ()) -> None:
        super().__init__()
        self._bwrap = bwrap
        self._root = root
        self._level = level
        self._hidden = tuple(hidden)

    @property
    def home(self) -> Path:
        """The private directory; programs can write there too."""
        shared = ProgramKeeper.shared()
        return super().home if shared is None else shared.home

    async def start(self, program: Program, on_output: OnOutput, *, on_errors: OnOutput | None = None) -> Child:
        """Start a program in the sandbox; see `Keeper.start`."""
        before = arguments(self._bwrap, self._root, self._level, shared=(str(self.home),), hidden=self._hidden)
        session = [] if program.tty else ["--new-session"]
        inside = evolve(program, argv=(before[0], *session, *before[1:], *program.argv))
        shared = ProgramKeeper.shared()
        if shared is None:
            return await super().start(inside, on_output, on_errors=on_errors)
        return await shared.start(inside, on_output, on_errors=on_errors)
