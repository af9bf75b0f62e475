"""Edge. What a process can do: spawn, send, receive, link, monitor, exit signals, names, timers.

Every function here acts for the calling process. Code that a process runs is one, and so is the task that
entered `async with Runtime()`; helper tasks of a process may send and call in its name, but not receive.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import copy_context
from threading import get_ident
from types import coroutine
from typing import Any, Final, Literal, NoReturn, TypeAlias

from lemon_otp.cell import Cell
from lemon_otp.clock import Timer
from lemon_otp.errors import BadArgument, NoProcess, NoRegistry, NotAProcess, ProcessExit
from lemon_otp.exits import Down, Exit
from lemon_otp.machine import Process
from lemon_otp.mailbox import Match
from lemon_otp.outside import outside_entry
from lemon_otp.pid import ALIVE, Address, MonitorRef, Name, Pid, Via
from lemon_otp.scheduler import AGAIN, MAIL, TASKS, Scheduler, running_process
from lemon_otp.telling import describe

__all__ = [
    "Address", "Down", "Exit", "MonitorRef", "Name", "Pid", "TimerRef", "Via", "alive", "annotate", "at_exit",
    "cancel_timer", "current_process", "current_runtime", "demonitor", "exit_process", "exit_signal", "link",
    "living_process", "mailbox_length", "monitor", "receive", "register", "resolve", "self_pid", "send", "send_after",
    "send_interval", "sleep_s", "spawn", "spawn_link", "spawn_monitor", "trap_exit", "unlink", "unregister",
    "whereis", "zombies",
]  # fmt: skip

Place: TypeAlias = Literal["loop", "thread", "process"]

NO_PROCESS: Final = "this code runs in no process; enter `async with Runtime()` or use `run(main)`"


def current_process() -> Process:
    """The calling process, which the caller means to change. Raises NotAProcess, from a thread too."""
    process = running_process(None)
    if process is None:
        raise NotAProcess(NO_PROCESS)
    if get_ident() != process.runtime.thread_id:
        raise NotAProcess("a thread may only send, cast, reply and send exit signals")
    return process


def living_process() -> Process:
    """The calling process, to which something is about to be tied that ends with it.

    What is left of a process that is dead, such as a `finally` block, ends here with the exit reason: nobody would ever
    take the tie away.
    """
    process = current_process()
    if process.exit_reason is not ALIVE:
        raise ProcessExit(process.exit_reason)
    return process


def current_runtime() -> Scheduler:
    """The runtime of the calling process. Raises NotAProcess."""
    process = running_process(None)
    if process is None:
        raise NotAProcess(NO_PROCESS)
    return process.runtime


def self_pid() -> Pid:
    """The pid of the calling process. Raises NotAProcess."""
    process = running_process(None)
    if process is None:
        raise NotAProcess(NO_PROCESS)
    return process


def alive(pid: Pid) -> bool:
    """Whether `pid` has not ended."""
    return pid.exit_reason is ALIVE


# Starting.


def spawn(
    fn: Callable[..., Any],
    *args: Any,
    name: str | None = None,
    link: bool = False,
    monitor: bool = False,
    trap_exit: bool = False,
    on: Place = "loop",
    label: str | None = None,
) -> Pid:
    """Start a process that runs `fn(*args)`; it exists when this returns and has its first turn later.

    Args:
        fn: An `async def`, or a plain function. It ends the process with "normal" when it returns.
        args: What it is called with.
        name: Register the process under this name before its first turn.
        link: Link it to the caller.
        monitor: Let the caller monitor it; see `spawn_monitor` for the reference.
        trap_exit: Begin with exit signals turned into messages.
        on: "thread" runs a plain function on a thread of its own, which nothing can stop; "process" runs a
            picklable one in a child process of the operating system, which is killed with the process.
        label: What it is called in logs; the function's name by default.

    Raises:
        NameTaken: Another process has the name. Nothing was started.
        BadArgument: `fn` cannot be run in that place.
        NotAProcess: The caller is no process.
    """
    me = living_process() if link else None
    process = _spawn(fn, args, name, trap_exit, on, label)
    if me is not None:
        me.link(process)
    if monitor:
        current_process().monitor(process, process)
    return process


def spawn_link(
    fn: Callable[..., Any],
    *args: Any,
    name: str | None = None,
    trap_exit: bool = False,
    on: Place = "loop",
    label: str | None = None,
) -> Pid:
    """`spawn` with a link to the caller from the beginning."""
    me = living_process()
    process = _spawn(fn, args, name, trap_exit, on, label)
    me.link(process)
    return process


def spawn_monitor(
    fn: Callable[..., Any],
    *args: Any,
    name: str | None = None,
    trap_exit: bool = False,
    on: Place = "loop",
    label: str | None = None,
) -> tuple[Pid, MonitorRef]:
    """`spawn` with a monitor of the caller from the beginning."""
    process = _spawn(fn, args, name, trap_exit, on, label)
    return process, current_process().monitor(process, process)


def _spawn(
    fn: Callable[..., Any], args: tuple[Any, ...], name: str | None, trap: bool, on: Place, label: str | None
) -> Process:
    parent = running_process(None)
    if parent is None:
        raise NotAProcess(NO_PROCESS)
    runtime = parent.runtime
    if get_ident() != runtime.thread_id:
        raise NotAProcess("a thread cannot spawn; send its process a message to do it")
    entry: Any = fn if not args else (fn, args)
    if on != "loop":
        entry = outside_entry(on, fn, args)
    process = Process(runtime, copy_context(), entry, parent)
    if name is not None:
        try:
            process.register(name)
        except BaseException:
            process.exit_reason = "normal"
            raise
    if trap:
        process.set_trap(True)
    if label is not None:
        process.label = label
    runtime.enqueue(process)
    return process


# Messages.


def _no_address(address: object) -> BadArgument:
    return BadArgument(f"{describe(address)} is no address; expected a Pid, a registered name or a Via")


def resolve(address: Address) -> Process | None:
    """The live process that an address names, if there is one.

    Raises:
        NoRegistry: The registry of a Via is not running.
    """
    if isinstance(address, Process):
        return address if address.exit_reason is ALIVE else None  # whoever asks, a process or not
    return find(current_runtime(), address)


def find(runtime: Scheduler, name: Address) -> Process | None:
    """The live process of an address in a runtime, if there is one. Raises NoRegistry."""
    if isinstance(name, str):
        return runtime.names.get(name)
    if isinstance(name, Process):
        return name if name.exit_reason is ALIVE else None
    if isinstance(name, Via):
        service = runtime.name_services.get(name.registry)
        if service is None:
            raise NoRegistry(name.registry)
        return service.whereis(name.key)  # type: ignore[return-value]
    raise _no_address(name)


def send(address: Address, message: Any) -> None:
    """Put `message` into the mailbox of a process. A dead pid swallows it.

    Raises:
        NoProcess: Nobody has this name.
    """
    if isinstance(address, Process):
        address.deliver(message)
        return
    process = resolve(address)
    if process is None:
        raise NoProcess(address)
    process.deliver(message)


@coroutine
def receive(match: Match | None = None, *, timeout_s: float | None = None) -> Generator[Any, None, Any]:
    """Take the oldest message, or the oldest that `match` accepts, waiting for it if need be.

    Args:
        match: Tells whether a message is wanted; the others stay in the mailbox in their order.
        timeout_s: Seconds to wait; 0 only looks; None waits for ever.

    Raises:
        ReceiveTimeout: No such message came in time.
        NotAProcess: The caller is not the main line of a process.

    Cancelling leaves the mailbox as it was.
    """
    process = running_process(None)
    if process is None:
        raise NotAProcess(NO_PROCESS)
    if match is None and timeout_s is None:
        runtime = process.runtime
        if TASKS.get(runtime.loop) is process:
            while True:
                if not process.mailbox:  # in no variable here, which would keep it while this waits
                    yield MAIL
                    if not process.mailbox:
                        continue
                elif runtime.fuel > 0 and not process.alert:
                    runtime.fuel -= 1
                else:
                    yield AGAIN
                    continue
                process.handled += 1
                return process.mailbox.popleft()
    return (yield from process.wait_message(match, timeout_s))


def mailbox_length(pid: Pid) -> int:
    """How many messages wait in a process's mailbox; 0 for a dead one."""
    box = pid.mailbox if isinstance(pid, Process) else None
    return len(box) if box else 0


# Relations and signals.


def _process(pid: Pid) -> Process:
    if isinstance(pid, Process):
        return pid
    raise BadArgument(f"{describe(pid)} is no pid")


def link(pid: Pid) -> None:
    """Tie the caller and `pid` together: when one ends badly, so does the other.

    A caller that traps exits is told of a dead `pid` by an Exit with "noproc".

    Raises:
        NoProcess: `pid` is dead, and the caller does not trap exits. Nothing was linked.
    """
    me, other = current_process(), _process(pid)
    if other is me:
        return
    if other.exit_reason is ALIVE:
        me.link(other)
    elif me.trap:
        me.link_broken(other, "noproc")
    else:
        raise NoProcess(pid)


def unlink(pid: Pid) -> None:
    """Take the link away; an Exit message that has come already stays in the mailbox."""
    me, other = current_process(), _process(pid)
    keeper = me.keeper_of(other)
    me.unlink(other)
    if keeper is not None:
        me.at_exit(keeper)  # it still has to know


def monitor(address: Address) -> MonitorRef:
    """Ask for one Down message when the process ends; at once, with "noproc", when there is none."""
    me = current_process()
    return me.monitor(resolve(address), address)


def demonitor(ref: MonitorRef, *, flush: bool = False) -> bool:
    """End a monitor; whether it was active. No Down of it comes any more; `flush` drops one that has come."""
    was_active = ref.owner.demonitor(ref) if ref.owner is current_process() else False
    if flush and not was_active:
        current_process().discard(down_of(ref))
    return was_active


def down_of(ref: MonitorRef) -> Callable[[Any], bool]:
    """For `receive`: takes the Down of this monitor and nothing else."""
    return lambda message: type(message) is Down and message.ref is ref


def exit_process(reason: Any) -> NoReturn:
    """End the calling process with `reason`; `finally` blocks run."""
    raise ProcessExit(reason)


def exit_signal(pid: Pid, reason: Any) -> None:
    """Send an exit signal.

    "kill" ends any process, with the reason "killed". "normal" does nothing, except to the caller itself.
    Any other reason ends a process that does not trap exits; one that does finds an Exit in its mailbox.
    """
    me, target = running_process(None), _process(pid)
    if me is None:
        raise NotAProcess(NO_PROCESS)
    if get_ident() != me.runtime.thread_id:
        me.runtime.post(target.exit_signal, me, reason)
        return
    target.exit_signal(me, reason)
    if target is me and me.exit_reason is not ALIVE:
        raise ProcessExit(me.exit_reason)


def trap_exit(flag: bool) -> bool:
    """Turn exit signals into Exit messages, or stop doing so; the setting before."""
    return current_process().set_trap(flag)


def at_exit(pid: Pid, hook: Callable[[Pid, Any], None]) -> None:
    """Call `hook(pid, reason)` when a live process ends: its name is free, links and monitors do not know yet."""
    _process(pid).at_exit(hook)


# Names.


def register(name: str, pid: Pid) -> None:
    """Give a live process a local name, until it ends.

    Raises:
        NameTaken: Another process has the name, or `pid` has one.
        NoProcess: `pid` is dead.
    """
    process = _process(pid)
    current_process()
    if process.exit_reason is not ALIVE:
        raise NoProcess(pid)
    process.register(name)


def unregister(name: str) -> None:
    """Take a local name away. Raises NoProcess."""
    process = current_process().runtime.names.get(name)
    if process is None:
        raise NoProcess(name)
    process.unregister()


def whereis(name: Name) -> Pid | None:
    """The live process of this name, if there is one."""
    return resolve(name)


# Timers.


class TimerRef:
    """A message that is to be sent later, once or again and again."""

    __slots__ = ("address", "every_s", "marked", "message", "runtime", "timer")

    def __init__(self, runtime: Scheduler, address: Address, message: Any, every_s: float | None) -> None:
        self.runtime = runtime
        self.address = address
        self.message = message
        self.every_s = every_s
        self.timer: Timer | None = None
        self.marked: Process | None = None

    def fire(self) -> None:
        """Send the message, if the receiver is there."""
        process = self._receiver()
        if process is not None:
            if self.every_s is not None and process is not self.marked:
                process.mark_repeated(self.message)
                self.marked = process
            process.deliver(self.message)
        elif isinstance(self.address, Pid):
            self.timer = None
        if self.every_s is not None and self.timer is not None:
            self.timer = self.runtime.timers.add_at(self.timer.when_s + self.every_s, self.fire)

    def _receiver(self) -> Process | None:
        address = self.address
        if isinstance(address, Process):
            return address if address.exit_reason is ALIVE else None
        if isinstance(address, Via):
            service = self.runtime.name_services.get(address.registry)
            return None if service is None else service.whereis(address.key)  # type: ignore[return-value]
        return self.runtime.names.get(address)  # type: ignore[arg-type]


def send_after(address: Address, message: Any, delay_s: float) -> TimerRef:
    """Send `message` after `delay_s` seconds, to whoever then has the address."""
    runtime = current_runtime()
    if not isinstance(address, Process | str | Via):
        raise _no_address(address)
    ref = TimerRef(runtime, address, message, None)
    ref.timer = runtime.timers.add(delay_s, ref.fire)
    return ref


def send_interval(address: Address, message: Any, every_s: float) -> TimerRef:
    """Send `message` every `every_s` seconds until it is cancelled or the pid ends.

    System messages overtake those that wait at the end of the receiver's mailbox.
    """
    if not every_s > 0:
        raise BadArgument(f"every_s={describe(every_s)}; expected a positive number of seconds")
    runtime = current_runtime()
    if not isinstance(address, Process | str | Via):
        raise _no_address(address)
    ref = TimerRef(runtime, address, message, every_s)
    ref.timer = runtime.timers.add(every_s, ref.fire)
    return ref


def cancel_timer(ref: TimerRef) -> bool:
    """Whether the timer was still to fire; it does not any more. A timer ends with the pid it is for."""
    timer, ref.timer = ref.timer, None
    if ref.marked is not None:
        ref.marked.unmark_repeated(ref.message)
    pending = timer is not None and ref.runtime.timers.cancel(timer)
    return pending and not (isinstance(ref.address, Process) and ref.address.exit_reason is not ALIVE)


async def sleep_s(seconds: float) -> None:
    """Wait `seconds` on the runtime's clock. Messages stay in the mailbox."""
    process = current_process()
    alarm = Cell()
    timer = process.runtime.timers.add(max(0.0, seconds), alarm.settle)
    try:
        await process.wait_cell(alarm)
    finally:
        process.runtime.timers.cancel(timer)


# For people.


def annotate(whole: dict[str, Any] | None = None, /, **facts: Any) -> None:
    """Note small facts about the calling process, for introspection; None takes one away.

    `whole` takes the place of all that was noted before. It is kept as it is: nobody may change it.
    """
    side = current_process().interrupts()
    if whole is not None:
        side.facts = whole
        return
    known = facts if side.facts is None else {**side.facts, **facts}
    if None in facts.values():
        known = {key: value for key, value in known.items() if value is not None}
    side.facts = known


def zombies() -> list[Pid]:
    """Dead processes of which something goes on: a coroutine that has not ended (yet, or ever), or a thread."""
    runtime = current_runtime()
    return list(dict.fromkeys((*runtime.zombies, *runtime.orphans)))
