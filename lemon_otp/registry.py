"""Process. Names that die with their process: a registry, its partitions, and the functions that read it at once.

Tree:  registry name (a supervisor, one_for_all) / partition[n], permanent
Told:  Down and Exit of nobody: the keys of a process are gone before anybody is told of its death
Holds: in the runtime, under the registry's name: its entries and metadata; a restart begins empty
Emits: `Registered` and `Unregistered` to its listeners

Every function acts at once, without a message. A registered process is linked to a partition: when the registry
ends badly, so do the processes it lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from lemon_otp.callbacks import NoReply
from lemon_otp.child_spec import ChildSpec, Restart
from lemon_otp.errors import AlreadyRegistered, BadArgument, NoRegistry, NotFound
from lemon_otp.exits import Exit
from lemon_otp.gen_server import GenServer
from lemon_otp.machine import Process
from lemon_otp.pid import Pid
from lemon_otp.process import current_process, living_process
from lemon_otp.registry_entries import ANY, KEY_KINDS, DuplicateEntries, Entry, KeyKind, UniqueEntries, matches
from lemon_otp.scheduler import CURRENT, Scheduler
from lemon_otp.supervision import supervisor_spec
from lemon_otp.supervisor import Supervisor


@frozen
class Registered:
    """Message to the listeners of a registry: a process took a key."""

    registry: str
    key: Any
    pid: Pid
    value: Any


@frozen
class Unregistered:
    """Message to the listeners of a registry: a process left a key, or died."""

    registry: str
    key: Any
    pid: Pid


class RunningRegistry:
    """What a running registry knows. The runtime finds it by name, for `Via` and for `Registry`."""

    def __init__(self, name: str, keys: KeyKind, partitions: int, listeners: Sequence[str], runtime: Scheduler) -> None:
        self.name = name
        # The dictionary of a unique registry outlives it, so that a `reader` serves its successor too.
        self.entries = UniqueEntries(_unique_keys(runtime, name)) if keys == "unique" else DuplicateEntries()
        self.unique = keys == "unique"
        self.of_key = self.entries.of_key
        self.keeper = self.forget  # looked up once, not for every process that registers
        self.meta: dict[Any, Any] = {}
        self.partitions: list[Process | None] = [None] * partitions
        self.listeners = tuple(listeners)
        self.runtime = runtime

    # What a Via needs.

    def whereis(self, key: Any) -> Pid | None:
        """The process registered under a unique key."""
        if not self.unique:
            raise self._no_single_process()
        entries = self.of_key(key)
        return entries[0][0] if entries else None

    def register_name(self, key: Any, value: Any, process: Process) -> None:
        """Register a live process under a unique key; raises AlreadyRegistered."""
        if not self.unique:
            raise self._no_single_process()
        self.register(key, value, process)

    def _no_single_process(self) -> BadArgument:
        return BadArgument(f"registry {self.name!r} has duplicate keys, which name no single process")

    # Registering.

    def register(self, key: Any, value: Any, process: Process) -> None:
        """Register a live process; raises AlreadyRegistered."""
        taken_by = self.entries.add(key, process, value)
        if taken_by is not None:
            raise AlreadyRegistered(taken_by)
        partition = self.partition_of(process)
        if partition is not None:
            process.link(partition, self.keeper)
        else:
            process.at_exit(self.keeper)
        if self.listeners:
            self._tell(Registered(self.name, key, process, value))

    def unregister_name(self, key: Any, pid: Pid, pattern: Any = ANY) -> None:
        """Forget what `pid` registered under `key` with a matching value."""
        assert isinstance(pid, Process)
        if not self.entries.remove(key, pid, pattern):
            return
        if pid not in self.entries.by_process:
            partition = self.partition_of(pid)
            if partition is not None:
                pid.unlink(partition)
        if self.listeners:
            self._tell(Unregistered(self.name, key, pid))

    # Partitions.

    def partition_number(self, pid: Pid) -> int:
        """The partition a process belongs to."""
        return -pid.id % len(self.partitions)

    def partition_of(self, pid: Pid) -> Process | None:
        """The process of that partition."""
        return self.partitions[self.partition_number(pid)]

    def partition_ended(self, number: int) -> None:
        """Forget everything that belonged to a partition."""
        self.partitions[number] = None
        for pid in [pid for pid in self.entries.by_process if self.partition_number(pid) == number]:
            self.forget(pid)

    def by_partition(self, entries: list[Entry]) -> list[list[Entry]]:
        """The same entries, grouped by partition."""
        groups: dict[int, list[Entry]] = {}
        for entry in entries:
            groups.setdefault(self.partition_number(entry[0]), []).append(entry)
        return [groups[number] for number in sorted(groups)]

    def forget(self, pid: Pid, _reason: Any = None) -> None:
        """The keeper of those who are registered: drop what one that has ended had here."""
        keys = self.entries.drop_process(pid)
        if self.listeners:
            for key in keys:
                self._tell(Unregistered(self.name, key, pid))

    def _tell(self, message: Any) -> None:
        for listener in self.listeners:
            process = self.runtime.names.get(listener)
            if process is not None:
                process.deliver(message)


class Partition(GenServer[tuple[RunningRegistry, int], Any, Any, RunningRegistry]):
    """Holds the links of the processes that registered; when it ends, their entries do."""

    trap_exit = True

    def init(self, arg: tuple[RunningRegistry, int]) -> RunningRegistry:
        registry, number = arg
        me = current_process()
        registry.partitions[number] = me
        me.at_exit(lambda _pid, _reason: registry.partition_ended(number))
        return registry

    def handle_info(self, message: Any, registry: RunningRegistry) -> NoReply[RunningRegistry]:
        if not isinstance(message, Exit):
            return super().handle_info(message, registry)  # type: ignore[return-value]
        return NoReply(registry)


class Registry:
    """Named registries. Functions that change something act for the calling process."""

    @staticmethod
    async def start_link(
        name: str, *, keys: KeyKind = "unique", partitions: int = 1, listeners: Sequence[str] = ()
    ) -> Pid:
        """Start an empty registry linked to the caller, registered as `name`.

        Args:
            name: What other functions, and `Via`, call it by.
            keys: Whether a key belongs to one process or to any number.
            partitions: Over how many processes the links of the registered are spread; nobody else sees them.
            listeners: Names of processes that are sent `Registered` and `Unregistered`.

        Raises:
            AlreadyStarted: The name belongs to a running process.
            BadArgument: An argument is nonsense. Nothing was started.
        """
        if keys not in KEY_KINDS:
            raise BadArgument(f"keys is one of {', '.join(KEY_KINDS)}, not {keys!r}")
        if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
            raise BadArgument(f"partitions is a positive number, not {partitions!r}")

        def children() -> list[ChildSpec]:
            me = current_process()
            registry = RunningRegistry(name, keys, partitions, listeners, me.runtime)
            me.runtime.name_services[name] = registry
            me.at_exit(lambda _pid, _reason: _registry_ended(registry))
            return [Partition.child_spec((registry, number), id=f"partition[{number}]") for number in range(partitions)]

        return await Supervisor.start_link(children, strategy="one_for_all", name=name)

    @staticmethod
    def child_spec(
        name: str,
        *,
        id: Any = None,  # noqa: A002 - the name that child specifications have for it
        keys: KeyKind = "unique",
        partitions: int = 1,
        listeners: Sequence[str] = (),
        restart: Restart = "permanent",
    ) -> ChildSpec:
        """How a supervisor starts this registry; its id is by default its name."""

        async def start() -> Pid:
            return await Registry.start_link(name, keys=keys, partitions=partitions, listeners=listeners)

        return supervisor_spec(Registry, start, name, id, restart=restart)

    # Registering: for the calling process.

    @staticmethod
    def register(registry: str, key: Any, value: Any = None) -> None:
        """Register the calling process under `key`.

        Raises:
            AlreadyRegistered: The key is unique and taken, perhaps by the caller.
            NoRegistry: No registry of this name is running.
        """
        _running(registry).register(key, value, living_process())

    @staticmethod
    def unregister(registry: str, key: Any) -> None:
        """Take back what the calling process registered under `key`, if anything."""
        _running(registry).unregister_name(key, current_process())

    @staticmethod
    def unregister_match(registry: str, key: Any, pattern: Any) -> None:
        """Take back what the calling process registered under `key` with a matching value."""
        _running(registry).unregister_name(key, current_process(), pattern)

    @staticmethod
    def update_value(registry: str, key: Any, change: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Change the value beside the calling process's unique key: the new value and the old one.

        Raises:
            NotFound: The caller has not registered this key.
            BadArgument: The registry has duplicate keys.
        """
        running = _running(registry)
        if not isinstance(running.entries, UniqueEntries):
            raise BadArgument("only a value of a unique key can be updated")
        changed = running.entries.update(key, current_process(), change)
        if changed is None:
            raise NotFound(key)
        return changed

    # Reading.

    @staticmethod
    def lookup(registry: str, key: Any) -> list[Entry]:
        """The live processes under `key`, with their values."""
        try:
            return CURRENT.get().runtime.name_services[registry].of_key(key)  # type: ignore[attr-defined, no-any-return]
        except (LookupError, AttributeError):
            return _running(registry).of_key(key)

    @staticmethod
    def reader(registry: str) -> Callable[[Any], Entry | None]:
        """A function that finds the live process under a unique key, with its value, as fast as a dict.

        It belongs to the caller's runtime, stays good when the registry is restarted, and finds nothing while it is
        down. Raises BadArgument when the keys of the registry are not unique.
        """
        running = _running(registry)
        if not isinstance(running.entries, UniqueEntries):
            raise BadArgument(f"registry {registry!r} has duplicate keys: one key may have many processes")
        return running.entries.by_key.get

    @staticmethod
    def whereis(registry: str, key: Any) -> Pid | None:
        """The live process under a unique key, or None."""
        return _running(registry).whereis(key)

    @staticmethod
    def keys(registry: str, pid: Pid) -> list[Any]:
        """The keys of a process, each as often as it registered it."""
        return _running(registry).entries.keys_of(pid)

    @staticmethod
    def values(registry: str, key: Any, pid: Pid) -> list[Any]:
        """What a process registered beside `key`."""
        return [value for holder, value in _running(registry).of_key(key) if holder is pid]

    @staticmethod
    def match(registry: str, key: Any, pattern: Any) -> list[Entry]:
        """The entries under `key` whose value matches; `ANY` in the pattern stands for anything."""
        return [entry for entry in _running(registry).of_key(key) if matches(pattern, entry[1])]

    @staticmethod
    def count_match(registry: str, key: Any, pattern: Any) -> int:
        """How many entries `match` finds."""
        return len(Registry.match(registry, key, pattern))

    @staticmethod
    def select(registry: str, key: Any = ANY, pid: Any = ANY, value: Any = ANY) -> list[tuple[Any, Pid, Any]]:
        """Every registration that matches, as key, process and value."""
        return [
            (a_key, a_pid, a_value)
            for a_key, a_pid, a_value in _running(registry).entries.all()
            if (pid is ANY or a_pid is pid) and matches(key, a_key) and matches(value, a_value)
        ]

    @staticmethod
    def count(registry: str) -> int:
        """How many registrations there are."""
        return _running(registry).entries.size

    @staticmethod
    def dispatch(registry: str, key: Any, callback: Callable[[list[Entry]], object]) -> None:
        """Call `callback` with the entries under `key`, if there are any; once for each partition of duplicate keys."""
        running = _running(registry)
        entries = running.of_key(key)
        if not entries:
            return
        if running.entries.kind == "unique" or len(running.partitions) == 1:
            callback(entries)
        else:
            for group in running.by_partition(entries):
                callback(group)

    # Metadata of the registry itself.

    @staticmethod
    def put_meta(registry: str, key: Any, value: Any) -> None:
        """Keep a value with the registry."""
        _running(registry).meta[key] = value

    @staticmethod
    def meta(registry: str, key: Any) -> Any:
        """What was kept under `key`. Raises NotFound."""
        meta = _running(registry).meta
        if key not in meta:
            raise NotFound(key)
        return meta[key]

    @staticmethod
    def delete_meta(registry: str, key: Any) -> None:
        """Forget what was kept under `key`, if anything."""
        _running(registry).meta.pop(key, None)


def _running(registry: str) -> RunningRegistry:
    running = current_process().runtime.name_services.get(registry)
    if not isinstance(running, RunningRegistry):
        raise NoRegistry(registry)
    return running


def _unique_keys(runtime: Scheduler, name: str) -> dict[Any, Entry]:
    kept: dict[str, dict[Any, Entry]] = runtime.store.setdefault("registry_keys", {})
    keys = kept.setdefault(name, {})
    keys.clear()
    return keys


def _registry_ended(registry: RunningRegistry) -> None:
    """The registry's supervisor is dead: its name is free for a successor, and so are all keys."""
    services = registry.runtime.name_services
    if services.get(registry.name) is registry:
        del services[registry.name]
        for number in range(len(registry.partitions)):
            registry.partition_ended(number)
