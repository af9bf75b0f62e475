"""Value. What one run of a scenario knows: definitions, labels, handles, and the log of what happened."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from attrs import define, field, frozen

from lemon_otp import Pid

DRIVER: Final = "driver"
DYNAMIC: Final = ("dynamic_supervisor", "task_supervisor")
"""Kinds of supervisors that stop their children at the same time."""


@define(eq=False)
class Actor:
    """Who executes ops: a process, or the start callback of an application.

    Attributes:
        label: `name#number`; just the name for the driver and for applications.
        parent: The label of whose start call brought it to life.
        args: The arguments of its start function.
        number: Its incarnation, 0 for the driver.
        state: What `put` and `incr` keep.
    """

    label: str
    parent: str = ""
    args: Any = ()
    number: int = 0
    state: dict[str, Any] = field(factory=dict)


@frozen
class Event:
    """Something that a process observed: `[name, *terms]` in its own stream."""

    who: str
    name: str
    terms: tuple[Any, ...]


@frozen
class Life:
    """A lifecycle callback ran."""

    kind: str
    who: str
    parent: str
    reason: tuple[Any, ...] = ()


@frozen
class Running:
    """A body of a stream began (1) or ended (-1)."""

    change: int


class UnknownProcess(Exception):
    """A reference to a process that never came to life; the message says which."""


class InterpreterFault(BaseException):
    """The scenario asks for what the interpreter does not know; the whole scenario fails with it."""


@define(eq=False)
class World:
    """One scenario while it runs.

    Attributes:
        definitions: What can be started, by name.
        counts: How many incarnations each name has had.
        pids: Processes by label.
        actors: Who each process is.
        labels: Labels by process; parts of a registry go by the registry's.
        last: The highest incarnation of each name that came to life.
        tasks, timers, monitors, callers: Handles kept under `as`.
        dealt_with: Tasks of the driver that it awaited, yielded, shut down or ignored.
        controller: Held while an application is stopped: the recorded system then serves nobody who asks for one.
        log: What happened since the last step, oldest first.
        fault: Why the scenario cannot be run, once that is known.
    """

    definitions: dict[str, dict[str, Any]]
    counts: dict[str, int] = field(factory=dict)
    pids: dict[str, Pid] = field(factory=dict)
    actors: dict[Pid, Actor] = field(factory=dict)
    labels: dict[Pid, str] = field(factory=dict)
    last: dict[str, int] = field(factory=dict)
    tasks: dict[str, Any] = field(factory=dict)
    timers: dict[str, Any] = field(factory=dict)
    monitors: dict[str, Any] = field(factory=dict)
    callers: dict[str, Any] = field(factory=dict)
    dealt_with: set[Any] = field(factory=set)
    controller: asyncio.Lock = field(factory=asyncio.Lock)
    log: list[Event | Life | Running] = field(factory=list)
    told_dead: set[str] = field(factory=set)
    fault: str | None = None

    def definition(self, name: str) -> dict[str, Any]:
        """The definition of that name; fails as an uncaught error of the executing process."""
        if name not in self.definitions:
            raise UnknownProcess(f"no definition {name}")
        return self.definitions[name]

    def next_number(self, name: str) -> int:
        """A new incarnation of `name`."""
        self.counts[name] = number = self.counts.get(name, 0) + 1
        return number

    def reserve(self, name: str, how_many: int) -> int:
        """Take the next numbers of `name`; the first of them."""
        first = self.counts.get(name, 0) + 1
        self.counts[name] = first + how_many - 1
        return first

    def came_to_life(self, actor: Actor, pid: Pid) -> None:
        """From now on the actor's label means `pid`."""
        if pid in self.labels:
            return
        self.labels[pid] = actor.label
        self.pids[actor.label] = pid
        self.actors[pid] = actor
        name = actor.label.partition("#")[0]
        self.last[name] = max(self.last.get(name, 0), actor.number)

    def is_dynamic(self, pid: Any) -> bool:
        """Whether a process is a dynamic supervisor or a task supervisor."""
        definition = self.definitions.get(self.labels.get(pid, "").partition("#")[0], {})
        return definition.get("kind") in DYNAMIC

    def process(self, reference: str) -> Pid:
        """The process of a label, or the youngest of a name."""
        label = reference if "#" in reference else f"{reference}#{self.last.get(reference)}"
        if label not in self.pids:
            raise UnknownProcess(f"unknown process {reference}")
        return self.pids[label]

    def deaths(self) -> dict[str, Any]:
        """Label and exit reason of every process that ended and was not told before."""
        ended = {
            label: pid.exit_reason
            for label, pid in self.pids.items()
            if not pid.alive and label not in self.told_dead and label != DRIVER
        }
        for reason in ended.values():
            if isinstance(reason, InterpreterFault):
                raise reason
        self.told_dead.update(ended)
        return ended

    def take_log(self) -> list[Event | Life | Running]:
        """What happened since this was last called."""
        log, self.log = self.log, []
        return log
