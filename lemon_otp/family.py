"""Edge. What a supervisor does with the children it knows: start, stop and restart them as the rules say.

Runs in the supervisor's process; the process itself only takes messages and answers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from random import Random
from typing import Any, Final, TypeAlias

from attrs import define, field, frozen

from lemon_otp import children as child_work
from lemon_otp.child_spec import ChildSpec
from lemon_otp.children import Child, Refused, how_many
from lemon_otp.clock import monotonic_s
from lemon_otp.errors import AlreadyPresent, AlreadyStarted, BadChildSpec, ChildRunning, NotFound
from lemon_otp.gen_server import cast
from lemon_otp.pid import Pid
from lemon_otp.process import current_process, self_pid, send_after
from lemon_otp.restarts import (
    AutoShutdown,
    Backoff,
    RestartWindow,
    Strategy,
    check_spec,
    disturbed_by,
    starts_again,
    stops_supervisor,
)

ChildrenFunction: TypeAlias = Callable[[], Any]
"""Called in the supervisor's process: its specs, or `Ignore()` when there is nothing to supervise."""

_NOBODY: Final = object()


@frozen
class Options:
    """What a supervisor is started with."""

    children: Sequence[ChildSpec] | ChildrenFunction = field(repr=False)
    strategy: Strategy = "one_for_one"
    max_restarts: int = 3
    max_seconds: float = 5.0
    auto_shutdown: AutoShutdown = "never"
    backoff: Backoff | None = None


@frozen
class TryAgain:
    """Message of a supervisor to itself: start this child, whose restart failed."""

    id: Hashable


@frozen
class Due:
    """Message of a supervisor to itself: the wait before this child's restart is over."""

    id: Hashable


@define(eq=False)
class Family:
    """The state of a supervisor: its children in the order of starting, and the window that counts restarts."""

    options: Options
    window: RestartWindow
    random: Random = field(factory=Random, repr=False)
    children: dict[Hashable, Child] = field(factory=dict, repr=how_many)
    ids: dict[Pid, Hashable] = field(factory=dict, repr=False)

    def listed(self) -> list[Child]:
        """The children in the order of starting."""
        return list(self.children.values())

    # All of them.

    async def start_all(self, specs: Iterable[ChildSpec]) -> tuple[Hashable, Any] | None:
        """Start these children in order; the id and the reason of the first that fails.

        Those before it have been stopped then.
        """
        self.children = {spec.id: Child(spec) for spec in specs}
        for child in self.listed():
            refused = await self._start(child)
            if refused is not None:
                await self.stop_all()
                return child.spec.id, refused.reason
        return None

    async def stop_all(self) -> None:
        """Stop every child, the last started first."""
        for child in reversed(self.listed()):
            await self._stop(child)

    # On request: what is returned answers it, an exception among it.

    async def add(self, spec: ChildSpec) -> Any:
        """Start one more child."""
        try:
            check_spec(spec, self.options.auto_shutdown)
        except BadChildSpec as error:
            return error
        known = self.children.get(spec.id)
        if known is not None:
            return AlreadyPresent() if known.pid is None else AlreadyStarted(known.pid)
        started = await child_work.start(spec)
        if isinstance(started, Refused):
            child_work.note_refused(current_process(), spec, started)
            return _as_exit(started).as_error()
        pid = child_work.pid_of(started)
        if pid is not None or spec.restart != "temporary":
            self.children[spec.id] = Child(spec)
            self._started(self.children[spec.id], pid)
        return started

    async def terminate(self, id: Hashable) -> Any:  # noqa: A002 - what a child specification calls it
        """Stop a child for good."""
        child = self.children.get(id)
        if child is None:
            return NotFound(id)
        await self._stop(child)
        return None

    async def restart_stopped(self, id: Hashable) -> Any:  # noqa: A002 - what a child specification calls it
        """Start a stopped child in its old place."""
        child = self._idle_child(id)
        if not isinstance(child, Child):
            return child
        started = await child_work.start(child.spec)
        if isinstance(started, Refused):
            child_work.note_refused(current_process(), child.spec, started)
            return _as_exit(started).as_error()
        self._started(child, child_work.pid_of(started))
        return started

    def delete(self, id: Hashable) -> Any:  # noqa: A002 - what a child specification calls it
        """Forget a stopped child."""
        child = self._idle_child(id)
        if not isinstance(child, Child):
            return child
        del self.children[id]
        return None

    # When one ends by itself: whether the supervisor goes on.

    async def child_ended(self, pid: Pid, reason: Any) -> bool:
        """Do what the rules say about an end."""
        child = self.children.get(self.ids.pop(pid, _NOBODY))
        if child is None:
            return True
        child_work.note_end(current_process(), child, pid, reason)
        spec, mode = child.spec, self.options.auto_shutdown
        if starts_again(spec.restart, reason):
            child.pid = None
            return await self._restart(child)
        self._stopped(child)
        if mode == "never":
            return True
        return not stops_supervisor(mode, significant=spec.significant, significant_left=self._significant_left())

    async def try_again(self, id: Hashable) -> bool:  # noqa: A002 - what a child specification calls it
        """Make another attempt at a restart that failed, which counts as one more."""
        child = self.children.get(id)
        return True if child is None or not child.restarting else await self._restart(child)

    async def restart_due(self, id: Hashable) -> bool:  # noqa: A002 - what a child specification calls it
        """Make the restart for which the backoff had it wait."""
        child = self.children.get(id)
        if child is not None and child.restarting:
            await self._restart_now(child)
        return True

    async def _restart(self, child: Child) -> bool:
        options, window = self.options, self.window
        if not window.record(monotonic_s()):
            child_work.note_give_up(child.spec, options.max_restarts, options.max_seconds)
            self._stopped(child)
            return False
        child.restarts += 1
        child_work.note_restart(child.spec, window.count)
        if options.backoff is not None:
            child.restarting = True
            send_after(self_pid(), Due(child.spec.id), options.backoff.delay_s(window.count, self.random))
        else:
            await self._restart_now(child)
        return True

    async def _restart_now(self, child: Child) -> None:
        if self.options.strategy == "one_for_one":
            failed = _NOBODY if await self._start(child) is None else child.spec.id
        else:
            disturbed = disturbed_by(self.options.strategy, list(self.children), child.spec.id)
            await self._stop_for_restart(disturbed)
            failed = await self._start_in_order(disturbed)
        if failed is not _NOBODY:
            # Back to the mailbox before trying again: requests and exits get their turn between two attempts.
            self.children[failed].restarting = True
            cast(self_pid(), TryAgain(failed))

    async def _stop_for_restart(self, ids: Sequence[Hashable]) -> None:
        began_s = monotonic_s()
        for id in reversed(ids):  # noqa: A001 - what a child specification calls it
            await self._stop(self.children[id])
        self.window.discount(monotonic_s() - began_s)

    async def _start_in_order(self, ids: Sequence[Hashable]) -> Hashable:
        """Start what is left of these children; the first that fails, or `_NOBODY`."""
        for id in ids:  # noqa: A001 - what a child specification calls it
            child = self.children.get(id)
            if child is not None and await self._start(child) is not None:
                return id
        return _NOBODY

    # One of them.

    async def _start(self, child: Child) -> Refused | None:
        """Start a known child; why it did not start."""
        started = await child_work.start(child.spec)
        if isinstance(started, Refused):
            refused = _as_exit(started)
            child_work.note_refused(current_process(), child.spec, refused)
            return refused
        pid = child_work.pid_of(started)
        if pid is None and child.spec.restart == "temporary":
            self._stopped(child)
        else:
            self._started(child, pid)
        return None

    async def _stop(self, child: Child) -> None:
        if child.pid is not None:
            me, spec = current_process(), child.spec
            if not child_work.ask_to_end(me, child.pid, spec.shutdown):
                await child_work.see_end(me, spec, child.pid)
        self._stopped(child)

    def _started(self, child: Child, pid: Pid | None) -> None:
        """Note that a child runs; None when it declined to."""
        child.pid, child.restarting = pid, False
        if pid is not None:
            self.ids[pid] = child.spec.id

    def _stopped(self, child: Child) -> None:
        """Note that a child does not run; a temporary one is forgotten."""
        if child.pid is not None:
            self.ids.pop(child.pid, None)
        child.pid, child.restarting = None, False
        if child.spec.restart == "temporary":
            self.children.pop(child.spec.id, None)

    def _idle_child(self, id: Hashable) -> Child | NotFound | ChildRunning:  # noqa: A002
        child = self.children.get(id)
        if child is None:
            return NotFound(id)
        if child.restarting or child.pid is not None:
            return ChildRunning("restarting" if child.restarting else "running")
        return child

    def _significant_left(self) -> bool:
        return any(child.spec.significant and (child.pid or child.restarting) for child in self.children.values())


def _as_exit(refused: Refused) -> Refused:
    """What a start function raised, as a static supervisor reports it."""
    return Refused(("EXIT", refused.reason), refused.error) if refused.exited else refused
