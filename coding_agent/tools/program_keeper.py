"""Process. Owns the helper that starts programs, and shares it with every tool of this runtime.

Tree:  coding_agent.supervisor / program_keeper, permanent
Owns:  one `Keeper`; when it stops, every program is ended, and only then it has stopped. A new one starts without
       children: those of a crashed one are killed.
"""

from typing import Any, Final
from weakref import WeakKeyDictionary

from attrs import frozen

from coding_agent.tools.keeper import Keeper
from lemon_otp import Caller, ChildSpec, GenServer, NotAProcess, Pid, Reply, Request, at_exit, current_runtime, self_pid

NAME: Final = "program_keeper"

_shared: Final[WeakKeyDictionary[Any, Keeper]] = WeakKeyDictionary()
"""The running server's keeper, by runtime, so that a tool has it without asking."""


@frozen
class ListPrograms(Request[list[int]]):
    """Which programs run? Answered with the process ids, those of left-behind children included."""


class ProgramKeeper(GenServer[None, ListPrograms, Any, Keeper]):
    """Lends its keeper to tools as long as it runs."""

    trap_exit = True

    # Client side: runs in the caller.

    @staticmethod
    def shared() -> Keeper | None:
        """The keeper of the calling process's runtime; None when none runs or nobody is calling from a process."""
        try:
            return _shared.get(current_runtime())
        except NotAProcess:
            return None

    # Server side: runs in the process.

    async def init(self, arg: None) -> Keeper:
        keeper, runtime = Keeper(), current_runtime()

        def let_go(_pid: Pid, _reason: Any) -> None:
            """A kill leaves no time for `terminate`."""
            if _shared.get(runtime) is keeper:
                del _shared[runtime]
            keeper.close()

        at_exit(self_pid(), let_go)
        _shared[runtime] = keeper
        return keeper

    async def handle_call(self, message: ListPrograms, caller: Caller, keeper: Keeper) -> Reply[Keeper]:
        return Reply([child.pid for child in keeper.children], keeper)

    async def terminate(self, reason: Any, keeper: Keeper) -> None:
        await keeper.aclose()


def child_spec() -> ChildSpec:
    """For the tree of this package: started before the sessions whose tools use it, stopped after them."""
    return ProgramKeeper.child_spec(id=NAME, name=NAME, shutdown=10.0)
