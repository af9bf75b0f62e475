"""Edge. What the tools of one session share: the guard, what was read, who is writing, how programs are started."""

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from coding_agent.tools.child import Child
from coding_agent.tools.environment import child_environment
from coding_agent.tools.files import Fence, Version
from coding_agent.tools.keeper import Keeper
from coding_agent.tools.paths import Approve, PathGuard, Place, Policy, Purpose
from coding_agent.tools.program_keeper import ProgramKeeper
from coding_agent.tools.turns import Turns
from lemon_agent import AbortSignal
from lemon_otp import Pid, at_exit, make_private

if TYPE_CHECKING:
    from coding_agent.tools.todo_list import Todo

T = TypeVar("T")
KEPT_GRACE_S: Final = 0.5
PermitUrl: TypeAlias = Callable[..., Awaitable[str | None]]
Conceals: TypeAlias = Callable[[str, str, str], Callable[[str, str], bool] | None]


class Workspace:
    """One session's working directory, as its tools see it.

    Attributes:
        root: Its real path.
        guard: Decides about paths.
        seen: The version of each file that the model last read or wrote, by real path.
        todos: The list of things to do, where no process keeps it.
        owner: The session whose end ends background programs; None ties them to the tree alone.
        shrinks_pictures: Large ones are made smaller before a model gets them.
        session_name: What the session's list of things to do is kept under; empty without a session.
        permit_url: Asked about addresses that a call of a tool comes to by itself, such as by a redirect: `(tool, url,
            ask=True)` gives the reason why not, or None; without `ask` nobody is asked. None lets all of them pass.
        conceals: Asked about what a search below a folder must not show: `(tool, shown, real)` of the folder gives a
            function of the same two of a file, or None when it may show everything.
    """

    def __init__(
        self,
        cwd: str | Path,
        *,
        outside: Policy = "ask",
        approve: Approve | None = None,
        readable: Iterable[str | Path] = (),
        keeper: Keeper | None = None,
        environment: Mapping[str, str] | None = None,
        pass_environment: Iterable[str] = (),
        output_dir: str | Path | None = None,
    ) -> None:
        """Args:
        cwd: The working directory.
        outside: Policy for paths outside of it.
        approve: Asked about what the policy leaves open; None means nobody is there.
        readable: More folders that may be read.
        keeper: Starts programs; by default the runtime's `program_keeper`, or one of its own, closed by `aclose`.
        environment: Variables set for every program.
        pass_environment: Names of ours to pass beyond the usual; `NAME_*` for all that begin so.
        output_dir: Where output too long for a result is kept; by default a private folder that goes with the keeper.
        """
        self.guard = PathGuard(cwd, outside=outside, approve=approve, readable=tuple(readable))
        self.root = self.guard.root
        self.seen: dict[str, Version] = {}
        self.todos: tuple[Todo, ...] = ()
        self.owner: Pid | None = None
        self.session_name = ""
        self.shrinks_pictures = True
        self.shrinks_pictures = True
        self.permit_url: PermitUrl | None = None
        self.conceals: Conceals | None = None
        self._given_keeper = keeper
        self._own_keeper: Keeper | None = None
        self._environment = dict(environment or {})
        self._pass_environment = tuple(pass_environment)
        self._child_environment: dict[str, str] | None = None
        self._output_dir = None if output_dir is None else Path(output_dir)
        self._turns = Turns()
        self._kept: weakref.WeakSet[Child] = weakref.WeakSet()
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def join(self, session: Pid, file: Path, _tell: Callable[..., None]) -> Mapping[str, Any]:
        """Go along with a session: the first one owns what runs on; one that begins beside it is its subagent."""
        if self.owner is None or not self.owner.alive:
            self.owner, self.session_name = session, str(file)
            at_exit(session, lambda _pid, _reason: self.end_kept())
        return {}

    def keep(self, child: Child) -> None:
        """A program that goes on after its call; it ends with the session."""
        self._kept.add(child)

    def end_kept(self) -> None:
        """Order the end of what goes on; returns at once."""
        for child in list(self._kept):
            child.kill(KEPT_GRACE_S)

    @property
    def keeper(self) -> Keeper:
        """Starts programs for these tools: the one given, else the runtime's, else one of their own."""
        keeper = self._given_keeper or ProgramKeeper.shared()
        if keeper is None:
            keeper = self._own_keeper = self._own_keeper or Keeper()
        return keeper

    @property
    def output_dir(self) -> Path:
        """The private folder for long output; readable by the tools."""
        folder = self._output_dir or self.keeper.home
        make_private(folder)
        self.guard.allow_reading(folder)
        return folder

    def output_file(self, kind: str) -> Path:
        """A name for a new private file there."""
        return self.output_dir / f"{kind}-{os.urandom(4).hex()}.txt"

    def environment(self) -> Mapping[str, str]:
        """What a program gets."""
        if self._child_environment is None:
            extra = {"PWD": self.root, **self._environment}
            self._child_environment = child_environment(os.environ, also=self._pass_environment, extra=extra)
        return self._child_environment

    def saw(self, real: str, version: Version | None) -> None:
        """The model knows this version of a file now; None: the file is gone."""
        if version is None:
            self.seen.pop(real, None)
        else:
            self.seen[real] = version

    def writing(self, real: str) -> asyncio.Lock:
        """Held while one file is read, changed and written back, so that two calls do not undo each other."""
        return self._locks.setdefault(real, asyncio.Lock())

    def turn(self, *paths: str) -> AbstractAsyncContextManager[None]:
        """Around a whole call that changes these files: calls about one path run one after the other, as they came.

        Paths count as they are spelled here; what leads to one file under two names meets in `writing`.
        """
        return self._turns.turn(os.path.normpath(os.path.join(self.root, os.path.expanduser(path))) for path in paths)

    async def place(self, path: str, purpose: Purpose, *, tolerant: bool = False) -> Place:
        """Where a path leads, admitted; the caller closes it.

        Raises:
            ToolError: No such way, or not allowed.
        """
        place = await asyncio.to_thread(self.guard.locate, path, tolerant=tolerant)
        try:
            await self.guard.admit(place, purpose)
        except BaseException:
            place.close()
            raise
        return place

    def concealed(self, tool: str, place: Place) -> Callable[[str], bool] | None:
        """Says of a path relative to the place whether a search there must not show what is in it; None: it may all."""
        hides = None if self.conceals is None else self.conceals(tool, place.shown, place.real)
        if hides is None:
            return None
        prefix = "" if place.shown == "." else place.shown.rstrip("/") + "/"
        real = place.real.rstrip("/") + "/"
        return lambda path: hides(prefix + path, real + path)

    async def permits_url(self, tool: str, url: str, *, ask: bool = True) -> str | None:
        """Why a tool may not go to this address, though it was called about another; None when it may."""
        return None if self.permit_url is None else await self.permit_url(tool, url, ask=ask)

    async def aclose(self) -> None:
        """End every program that is left and remove the private folder, unless they belong to a shared keeper."""
        if self._own_keeper is not None:
            await self._own_keeper.aclose()


async def in_thread(work: Callable[..., T], *args: Any, signal: AbortSignal | None = None) -> T:
    """Run `work(*args, fence)` in a thread. When it is given up or aborted, the fence stops it short of any effect."""
    fence = Fence()
    undo = signal.on_abort(lambda _reason: fence.put_up()) if signal is not None else None
    try:
        return await asyncio.to_thread(work, *args, fence)
    except asyncio.CancelledError:
        fence.put_up()
        raise
    finally:
        if undo is not None:
            undo()


def workspace_for(cwd: str, options: dict[str, Any]) -> Workspace:
    """The workspace that several tools were told to share, or a new one made from the options."""
    shared = options.pop("workspace", None)
    if isinstance(shared, Workspace):
        return shared
    names = ("outside", "approve", "readable", "keeper", "environment", "pass_environment", "output_dir")
    return Workspace(cwd, **{name: options.pop(name) for name in names if name in options})
