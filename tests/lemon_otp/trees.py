"""Servers and short cuts that the tests of supervision share."""

from collections.abc import Hashable, Iterable
from typing import Any

from lemon_otp import ChildSpec, GenServer, NoReply, Pid, Reply, StartFailed, Supervisor, cast, exit_process
from lemon_otp.testing import settle

Journal = list[tuple[str, Any]]


class Child(GenServer[tuple[Journal, str], Any, Any, tuple[Journal, str]]):
    """Notes its start and its end, and ends as it is told."""

    trap_exit = True

    def init(self, arg: tuple[Journal, str]) -> tuple[Journal, str]:
        journal, name = arg
        journal.append(("start", name))
        return arg

    def handle_call(self, message: Any, caller: Any, state: tuple[Journal, str]) -> Reply[Any]:
        return Reply(message, state)

    def handle_cast(self, reason: Any, state: tuple[Journal, str]) -> NoReply[Any]:
        if isinstance(reason, Exception):
            raise reason
        exit_process(reason)

    def terminate(self, reason: Any, state: tuple[Journal, str]) -> None:
        journal, name = state
        journal.append(("stop", name))


def child(journal: Journal, called: str, /, **options: Any) -> ChildSpec:
    """A spec for a `Child` of that id."""
    return Child.child_spec((journal, called), id=called, **options)


def failing(times: Iterable[int], spec: ChildSpec, reason: Any = "bad") -> ChildSpec:
    """The spec, whose start is refused the given times (from 1)."""
    refused, count = set(times), 0

    async def start() -> Any:
        nonlocal count
        count += 1
        if count in refused:
            raise StartFailed(reason)
        return await spec.start()

    return spec.replace(start=start)


async def pids(supervisor: Any) -> dict[Hashable, Any]:
    """The pid of each child by its id."""
    return {info.id: info.pid for info in await Supervisor.which_children(supervisor)}


async def end(pid: Pid, reason: Any = "boom") -> None:
    """Let a `Child` end by itself, and wait until nothing more happens."""
    cast(pid, reason)
    await settle()
