"""Pure. Views of what processes hold in common: streams, registries, tables, applications."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen

from lemon_otp.application import known_in
from lemon_otp.event_queue import StreamStats
from lemon_otp.event_stream import HELD_STREAMS
from lemon_otp.pid import Pid
from lemon_otp.process import current_runtime
from lemon_otp.registry import RunningRegistry
from lemon_otp.registry_entries import KeyKind
from lemon_otp.scheduler import Scheduler
from lemon_otp.table import TableInfo, tables_of


@frozen
class StreamInfo:
    """How an event stream stands.

    Attributes:
        pid: Its guard process.
        open: Whether it has no terminal event yet.
        outcome: How it ended, in the words of its class; None while it is open.
        stats: How full it is, how full it has been and what it dropped.
    """

    pid: Pid
    open: bool
    outcome: str | None
    stats: StreamStats


@frozen
class RegistryInfo:
    """How a registry stands.

    Attributes:
        name: What it is called.
        keys: Whether a key belongs to one process or to any number.
        entries: How many registrations there are.
        processes: How many processes have registered.
    """

    name: str
    keys: KeyKind
    entries: int
    processes: int


@frozen
class ApplicationInfo:
    """How an application stands.

    Attributes:
        name: What it is called.
        running: Whether it was started, and has not ended or been stopped.
        top: Its top supervisor, while that lives.
        needs: The applications that it depends on.
    """

    name: str
    running: bool
    top: Pid | None
    needs: tuple[str, ...]


def applications(*, runtime: Scheduler | None = None) -> list[ApplicationInfo]:
    """Every application: those that run in the order of starting, then the others."""
    return [
        ApplicationInfo(known.name, runs, top, tuple(dep if isinstance(dep, str) else dep.name for dep in known.deps))
        for known, top, runs in known_in(_runtime(runtime))
    ]


def streams(*, runtime: Scheduler | None = None) -> list[StreamInfo]:
    """Every stream that is open, or whose events somebody may still read; the oldest first."""
    held: Iterable[Any] = _runtime(runtime).store.get(HELD_STREAMS, ())
    infos = [
        StreamInfo(stream.pid, not stream.done, type(stream.outcome).__name__ if stream.done else None, stream.stats())
        for stream in held
    ]
    return sorted(infos, key=lambda info: info.pid.id)


def registries(*, runtime: Scheduler | None = None) -> list[RegistryInfo]:
    """Every running registry, by name."""
    services = _runtime(runtime).name_services
    return [
        RegistryInfo(name, service.entries.kind, service.entries.size, len(service.entries.by_process))
        for name, service in sorted(services.items())
        if isinstance(service, RunningRegistry)
    ]


def tables(*, runtime: Scheduler | None = None) -> list[TableInfo]:
    """Every table, by name."""
    infos = [table.info() for _, table in sorted(tables_of(_runtime(runtime)).items())]
    return [info for info in infos if info is not None]


def _runtime(runtime: Scheduler | None) -> Scheduler:
    return current_runtime() if runtime is None else runtime
