"""Process. A supervisor of the same child many times, of which a key always reaches the same one.

Tree:  wherever an application puts it / partition 0, 1, 2...
Holds: what a Supervisor holds; in the runtime, under its name: the pid of each partition
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeAlias

from lemon_otp.child_spec import ChildSpec, Restart
from lemon_otp.children import pid_of
from lemon_otp.errors import AlreadyRegistered, BadArgument, NoRegistry
from lemon_otp.machine import Process
from lemon_otp.pid import ALIVE, Pid
from lemon_otp.process import current_process
from lemon_otp.restarts import Backoff, Strategy
from lemon_otp.supervision import supervisor_spec
from lemon_otp.supervisor import Supervisor

PartitionFunction: TypeAlias = Callable[[int], ChildSpec]
"""The spec of the partition of this number; its id is replaced by the number."""


class Partitions:
    """The running partitions of one supervisor, for `Via(name, key)`."""

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.pids: list[Pid | None] = [None] * count

    def number_of(self, key: Any) -> int:
        """The partition a key belongs to: an integer's own, modulo their count, or one by its hash."""
        return (abs(key) if isinstance(key, int) else hash(key)) % len(self.pids)

    def whereis(self, key: Any) -> Pid | None:
        """The live process of the partition a key belongs to."""
        pid = self.pids[self.number_of(key)]
        return pid if pid is not None and pid.exit_reason is ALIVE else None

    def register_name(self, key: Any, value: Any, process: Process) -> None:
        """Nobody registers here: every key has its partition."""
        holder = self.whereis(key)
        if holder is not None:
            raise AlreadyRegistered(holder)
        raise BadArgument(f"{self.name!r} is a PartitionSupervisor: its partitions cannot be registered by hand")

    def numbered(self, number: int, spec: ChildSpec) -> ChildSpec:
        """The spec of one partition, which notes its pid whenever it starts."""

        async def start() -> Any:
            started = await spec.start()
            self.pids[number] = pid_of(started)
            return started

        return spec.replace(id=number, start=start)


class PartitionSupervisor:
    """One process a partition; the caller's key says which."""

    @staticmethod
    async def start_link(
        child: ChildSpec | PartitionFunction,
        *,
        name: str,
        partitions: int | None = None,
        strategy: Strategy = "one_for_one",
        max_restarts: int = 3,
        max_seconds: float = 5.0,
        backoff: Backoff | None = None,
    ) -> Pid:
        """Start the partitions under a supervisor linked to the caller.

        Args:
            child: What to start for each partition; a function is given the partition's number.
            name: Its registered name; `Via(name, key)` reaches the partition of a key.
            partitions: How many; by default as many as the machine has processors.
            strategy: As for `Supervisor`, like the rest.
            max_restarts: As for `Supervisor`.
            max_seconds: As for `Supervisor`.
            backoff: As for `Supervisor`.

        Raises:
            AlreadyStarted: The name belongs to a running process.
            StartFailed: A partition did not start; the others have been stopped.
            BadArgument: An argument is nonsense. Nothing was started.
        """
        count = partitions if partitions is not None else os.cpu_count() or 1
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise BadArgument(f"partitions is a positive number, not {partitions!r}")

        def children() -> list[ChildSpec]:
            me = current_process()
            table = Partitions(name, count)
            services = me.runtime.name_services
            services[name] = table

            def forget(_pid: Pid, _reason: Any) -> None:
                if services.get(name) is table:
                    del services[name]

            me.at_exit(forget)
            return [
                table.numbered(number, child if isinstance(child, ChildSpec) else child(number))
                for number in range(count)
            ]

        return await Supervisor.start_link(
            children,
            strategy=strategy,
            max_restarts=max_restarts,
            max_seconds=max_seconds,
            backoff=backoff,
            name=name,
        )

    @staticmethod
    def child_spec(
        child: ChildSpec | PartitionFunction,
        *,
        name: str,
        id: Any = None,  # noqa: A002 - the name that child specifications have for it
        restart: Restart = "permanent",
        **options: Any,
    ) -> ChildSpec:
        """How another supervisor starts this one; options as for `start_link`. Its id is by default its name."""

        async def start() -> Pid:
            return await PartitionSupervisor.start_link(child, name=name, **options)

        return supervisor_spec(PartitionSupervisor, start, name, id, restart=restart)

    @staticmethod
    def partitions(name: str) -> int:
        """How many partitions there are. Raises NoRegistry when it is not running."""
        return len(_table(name).pids)

    @staticmethod
    def whereis(name: str, key: Any) -> Pid | None:
        """The live process of the partition a key belongs to; None while it is being restarted."""
        return _table(name).whereis(key)

    which_children = staticmethod(Supervisor.which_children)
    count_children = staticmethod(Supervisor.count_children)


def _table(name: str) -> Partitions:
    table = current_process().runtime.name_services.get(name)
    if not isinstance(table, Partitions):
        raise NoRegistry(name)
    return table
