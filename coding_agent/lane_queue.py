"""Process. Hands out seats in lanes, so that no more work goes on at once than the machine is meant to bear.

Tree:  coding_agent.supervisor / lane_queue, permanent
Emits: `Seated` to whoever asked, once its holder may work
Owns:  the lanes, lost on restart: who asked asks again when it sees the process end
"""

from typing import Any, Final

from attrs import field

from coding_agent.lanes import Lanes
from lemon_otp import (
    Address,
    Caller,
    Down,
    GenServer,
    MonitorRef,
    NoReply,
    Pid,
    Reply,
    Request,
    call,
    cast,
    define,
    demonitor,
    frozen,
    monitor,
    send,
)

NAME: Final = "lane_queue"


@frozen
class Ask:
    """A seat for `holder`; `tell` gets `Seated` when it has one."""

    lane: str
    holder: Pid
    tell: Pid


@frozen
class Release:
    """The holder is done."""

    holder: Pid


@frozen
class StepAside:
    """The holder waits for others and gives its seat away meanwhile."""

    holder: Pid


@frozen
class StepBack:
    """The holder has work again; `tell` gets `Seated` when it has its seat back, at once when it never had one."""

    holder: Pid
    tell: Pid


@frozen
class Seated:
    """Sent to whoever asked: the holder may work."""

    holder: Pid


@frozen
class Counts(Request[dict[str, tuple[int, int, int]]]):
    """How many are seated, wait and stand aside, by lane."""


@define
class Books:
    """The lanes, whom to tell, and the monitors that give back the seats of the dead."""

    lanes: Lanes[Pid]
    tell: dict[Pid, Pid] = field(factory=dict)
    watches: dict[Pid, MonitorRef] = field(factory=dict)


class LaneQueue(GenServer[dict[str, int], Counts, Any, Books]):
    """Seats in lanes; whoever ends without a word gives its seat back."""

    # Client side: runs in the caller. None of these waits, none fails when the process is down.

    @staticmethod
    def ask(lane: str, holder: Pid, tell: Pid, *, queue: Address = NAME) -> None:
        """Ask for a seat; `tell` gets `Seated`."""
        cast(queue, Ask(lane, holder, tell))

    @staticmethod
    def release(holder: Pid, *, queue: Address = NAME) -> None:
        """Give a seat, or a place in the line, up."""
        cast(queue, Release(holder))

    @staticmethod
    def step_aside(holder: Pid, *, queue: Address = NAME) -> None:
        """Give the seat away until `step_back`."""
        cast(queue, StepAside(holder))

    @staticmethod
    def step_back(holder: Pid, tell: Pid, *, queue: Address = NAME) -> None:
        """Ask for the seat back, first in line; `tell` gets `Seated`."""
        cast(queue, StepBack(holder, tell))

    @staticmethod
    async def counts(*, queue: Address = NAME) -> dict[str, tuple[int, int, int]]:
        """How many are seated, wait and stand aside, by lane."""
        return await call(queue, Counts())

    # Server side.

    def init(self, caps: dict[str, int] | None) -> Books:
        return Books(Lanes(caps) if caps else Lanes())

    def handle_call(self, message: Counts, caller: Caller, books: Books) -> Reply[Books]:
        return Reply(books.lanes.counts(), books)

    def handle_cast(self, message: Any, books: Books) -> NoReply[Books]:
        match message:
            case Ask(lane, holder, tell):
                if holder not in books.watches:
                    books.watches[holder] = monitor(holder)
                books.tell[holder] = tell
                _seat(books, books.lanes.ask(lane, holder))
            case Release(holder):
                _forget(books, holder)
            case StepAside(holder):
                _seat(books, books.lanes.step_aside(holder))
            case StepBack(holder, tell):
                _seat(books, books.lanes.step_back(holder), {holder: tell})
                if books.lanes.is_seated(holder):
                    send(tell, Seated(holder))
                else:
                    books.tell[holder] = tell
        return NoReply(books)

    def handle_info(self, message: Any, books: Books) -> NoReply[Books]:
        if isinstance(message, Down) and isinstance(message.process, Pid):
            _forget(books, message.process)
        return NoReply(books)


def _forget(books: Books, holder: Pid) -> None:
    watch = books.watches.pop(holder, None)
    if watch is not None:
        demonitor(watch, flush=True)
    books.tell.pop(holder, None)
    _seat(books, books.lanes.release(holder))


def _seat(books: Books, granted: list[Pid], but: dict[Pid, Pid] | None = None) -> None:
    for holder in granted:
        if holder not in (but or {}):
            send(books.tell[holder], Seated(holder))
