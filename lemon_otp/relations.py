"""Edge. What ties a process to others: its name, links, monitors both ways, hooks.

Most short-lived processes have none of these, and most servers have links alone. So links stand in the process itself,
and everything else in an object of its own that is made with the first such tie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from lemon_otp.errors import BadArgument, NameTaken
from lemon_otp.exits import Down
from lemon_otp.pid import ALIVE, MonitorRef
from lemon_otp.stepper import Stepper
from lemon_otp.telling import describe

if TYPE_CHECKING:
    from lemon_otp.machine import Process


class Watcher(Protocol):
    """What is told when a process ends: a monitor, or somebody who waits for an answer."""

    def target_down(self, reason: Any) -> None:
        """The process has ended."""
        ...


Keeper: TypeAlias = Callable[["Process", Any], None]
"""What keeps book of a process for the other end of a link: it is called when the process ends, as a hook is, and the
other end is sent no signal. So a registry forgets names, and a supervisor a temporary child, at once and by no message.
"""


class Ties:
    """The relations of one process but its links; a part that it has none of is None."""

    __slots__ = ("hooks", "monitoring", "monitors", "name", "trap")

    def __init__(self) -> None:
        self.name: str | None = None
        self.trap = False
        self.monitors: dict[Watcher, None] | None = None
        self.monitoring: dict[MonitorRef, None] | None = None
        self.hooks: list[Callable[[Process, Any], None]] | None = None


class Related(Stepper):
    """A stepper with relations.

    Attributes:
        ties: All of them but the links.
        linked: The processes it is linked to, each with the keeper that this one has there, if it has one.
    """

    __slots__ = ("linked", "ties")

    ties: Ties | None
    linked: dict[Process, Keeper | None] | None

    def tie(self) -> Ties:
        """The relations, made when there are none."""
        ties = self.ties
        if ties is None:
            ties = self.ties = Ties()
        return ties

    # To read.

    @property
    def name(self) -> str | None:
        """The locally registered name."""
        return None if self.ties is None else self.ties.name

    @property
    def trap(self) -> bool:
        """Whether exit signals become messages."""
        return self.ties is not None and self.ties.trap

    @property
    def links(self) -> tuple[Process, ...]:
        """The processes that this one is linked to."""
        return tuple(self.linked or ())

    @property
    def monitors(self) -> tuple[Watcher, ...]:
        """What will be told when this process ends."""
        return () if self.ties is None else tuple(self.ties.monitors or ())

    @property
    def monitoring(self) -> tuple[MonitorRef, ...]:
        """The monitors that this process has set."""
        return () if self.ties is None else tuple(self.ties.monitoring or ())

    @property
    def hooks(self) -> tuple[Callable[[Process, Any], None], ...]:
        """What is called when this process ends."""
        return () if self.ties is None else tuple(self.ties.hooks or ())

    # To change.

    def set_trap(self, flag: bool) -> bool:
        """Turn exit signals into messages, or stop doing so; the setting before."""
        ties = self.tie()
        before, ties.trap = ties.trap, flag
        return before

    def link(self, other: Process, keeper: Keeper | None = None) -> None:
        """Link two live processes, unless they are; with a keeper, this one's end is told to that alone."""
        mine, theirs = self.linked, other.linked
        if mine is None:
            self.linked = {other: keeper}
        elif keeper is not None or other not in mine:
            mine[other] = keeper
        if theirs is None:
            other.linked = {self: None}  # type: ignore[dict-item]
        else:
            theirs.setdefault(self)  # type: ignore[call-overload]

    def is_linked(self, other: Process) -> bool:
        """Whether the two are linked."""
        return self.linked is not None and other in self.linked

    def keeper_of(self, other: Process) -> Keeper | None:
        """What keeps book of this process for another that it is linked to."""
        return None if self.linked is None else self.linked.get(other)

    def unlink(self, other: Process) -> bool:
        """Take the link away; whether there was one."""
        mine, theirs = self.linked, other.linked
        if not mine or not theirs or other not in mine:
            return False
        del mine[other]
        del theirs[self]  # type: ignore[arg-type]
        return True

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher.target_down` when this live process ends."""
        ties = self.tie()
        if ties.monitors is None:
            ties.monitors = {}
        ties.monitors[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Forget a watcher."""
        if self.ties is not None and self.ties.monitors is not None:
            self.ties.monitors.pop(watcher, None)

    def monitor(self, target: Process | None, shown: Any) -> MonitorRef:
        """Watch `target`; a dead one is reported at once, and a process never hears of its own end."""
        ref = MonitorRef(self, target, shown)
        if target is self:
            ref.active = False
        elif target is None or target.exit_reason is not ALIVE:
            ref.active = False
            self.as_process().signal_self(Down(ref, shown, "noproc"))
        else:
            self.begin_monitor(ref, target)
        return ref

    def begin_monitor(self, ref: MonitorRef, target: Process) -> None:
        """Set a monitor of this process on a live one."""
        ties = self.tie()
        if ties.monitoring is None:
            ties.monitoring = {}
        ties.monitoring[ref] = None
        target.watch(ref)

    def end_monitor(self, ref: MonitorRef) -> None:
        """Forget a monitor whose target has ended."""
        if self.ties is not None and self.ties.monitoring is not None:
            self.ties.monitoring.pop(ref, None)

    def demonitor(self, ref: MonitorRef) -> bool:
        """Stop watching; whether the monitor was still active."""
        if not ref.active:
            return self.as_process().take_back(ref)
        ref.active = False
        ref.target.unwatch(ref)
        self.end_monitor(ref)
        return True

    def stop_monitoring(self) -> None:
        """Take every monitor of this process away, because it ends."""
        for ref in self.monitoring:
            self.demonitor(ref)

    def register(self, name: str) -> None:
        """Give this live process a local name. Raises NameTaken, and BadArgument for what is no name."""
        if not isinstance(name, str):
            raise BadArgument(f"{describe(name)} is no name; expected a str")
        if self.name is not None:
            raise NameTaken(name, f"cannot be given to {self!r}, which has a name")
        if name in self.runtime.names:
            raise NameTaken(name)
        self.tie().name = name
        self.runtime.names[name] = self.as_process()

    def unregister(self) -> None:
        """Take the local name away, if there is one."""
        if self.ties is not None and self.ties.name is not None:
            self.runtime.names.pop(self.ties.name, None)
            self.ties.name = None

    def at_exit(self, hook: Callable[[Process, Any], None]) -> None:
        """Call `hook(process, reason)` when the process ends, before links and monitors are told."""
        ties = self.tie()
        if ties.hooks is None:
            ties.hooks = []
        ties.hooks.append(hook)

    def not_at_exit(self, hook: Callable[[Process, Any], None]) -> None:
        """Forget a hook, if it is there."""
        if self.ties is not None and self.ties.hooks is not None and hook in self.ties.hooks:
            self.ties.hooks.remove(hook)
