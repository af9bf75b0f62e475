"""Edge. What the observer knows: the latest look at the tree, the last minutes in figures, what happened; who looks.

It lives in the thread of the page. The tree is looked at only while a page is open, and less often the longer a look
takes; while the host's loop is held up, from outside, and the pages are told who holds it.
"""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from coding_agent.observer.feed import Feed, Feeds
from coding_agent.observer.snapshot import Snapshot, changes, look
from coding_agent.observer.timeline import Timeline
from coding_agent.repl.ledger import ledger
from lemon_otp import introspect, monotonic_s, repl, wall_ms

EVERY_S: Final = 1.0
SELDOM_S: Final = 5.0
SHARE: Final = 20
"""A look is followed by a pause of so many times its length: looking stays a small part of what the host does."""
FIGURES_MAX: Final = 300
CHUNK: Final = 500
"""Rows of one message of the whole picture: no message takes long to make."""

_log: Final = logging.getLogger(__name__)


def _read(_: Mapping[str, Any]) -> Mapping[str, Any]:
    """All that a look needs of the tree; what is made of it needs the tree no more."""
    began_s = monotonic_s()
    runs = ledger()
    nodes, details = introspect.tree(), None if runs is None else runs.details()
    return {"nodes": nodes, "details": details, "took_s": monotonic_s() - began_s}


READ: Final = repl.Operation("observer_tree", _read)


@define(eq=False)
class Watching:
    """The state of an observer.

    Attributes:
        host: The way to the tree.
    """

    host: repl.FromThread
    feeds: Feeds = field(factory=Feeds)
    latest: Snapshot = field(factory=Snapshot)
    timeline: Timeline = field(init=False)
    _figures: deque[dict[str, Any]] = field(factory=lambda: deque(maxlen=FIGURES_MAX))
    _looking: asyncio.Lock = field(factory=asyncio.Lock)
    _looked_at: asyncio.Event = field(factory=asyncio.Event)
    _lag_s_max: float = 0.0
    _held: dict[str, Any] | None = None

    def __attrs_post_init__(self) -> None:
        self.timeline = Timeline(self.feeds.say)

    def add(self, feed: Feed) -> bool:
        """Whether there was room for one more page; the first one begins the looking."""
        if not self.feeds.add(feed):
            return False
        self._looked_at.set()
        return True

    def remove(self, feed: Feed) -> None:
        """A page has gone."""
        self.feeds.remove(feed)
        if not len(self.feeds):
            self._looked_at.clear()

    def hear(self, name: str, value: Any) -> None:
        """A recorder tells of something."""
        match name:
            case "step":
                self.timeline.step(value)
            case "history":
                self.timeline.happened(value)
            case "lag":
                self._lag_s_max = max(self._lag_s_max, value)

    async def run(self) -> None:
        """Look while somebody wants to see it, for ever."""
        while True:
            await self._looked_at.wait()
            pause_s = EVERY_S
            try:
                pause_s = await self.look()
            except Exception:
                _log.exception("the observer failed at a look and goes on")
            await asyncio.sleep(pause_s)

    async def look(self) -> float:
        """Look at the tree and tell the pages what has changed; how long to wait before the next look."""
        async with self._looking:
            answer = await self.host.look(READ, {})
            self._tell_held(answer.get("held"))
            if not answer["ok"]:  # it changed too fast to be read from outside
                return EVERY_S
            began_s = monotonic_s()
            snapshot, totals = look(answer["nodes"], self.latest, began_s, answer["details"])
            news = changes(self.latest, snapshot)
            passed_s = began_s - self.latest.at_s if self.latest.at_s else 0.0
            self.latest = snapshot
            if news is not None:
                self.feeds.say("delta", news)
            figures = {
                "at": wall_ms(),
                "processes": totals.processes,
                "supervisors": totals.supervisors,
                "busy": totals.busy,
                "mailbox": totals.mailbox,
                "longest": totals.longest,
                "rate": round(totals.messages / passed_s, 1) if 0 < passed_s < 10 * EVERY_S else None,
                "lag_ms": round(self._taken_lag_s() * 1000, 1),
            }
            self._figures.append(figures)
            self.feeds.say("figures", figures)
            took_s = float(answer["took_s"]) + monotonic_s() - began_s
            return min(SELDOM_S, max(EVERY_S, SHARE * took_s))

    async def whole(self) -> list[tuple[str, Any]]:
        """Everything, for a page that has seen nothing yet or has lost track."""
        if self._held is not None or monotonic_s() - self.latest.at_s > 2 * EVERY_S or not self.latest.order:
            await self.look()
        now = self.latest
        host = {"os_pid": os.getpid(), "figures": list(self._figures), "now": wall_ms(), "held": self._held}
        told: list[tuple[str, Any]] = [("hello", host), ("tree", {"order": now.order})]
        parts = (now.order[at : at + CHUNK] for at in range(0, len(now.order), CHUNK))
        told.extend(("delta", {"rows": [[key, now.rows[key]] for key in part]}) for part in parts)
        told.append(("steps", self.timeline.bars()))
        told.append(("past", self.timeline.history()))
        return told

    def _tell_held(self, held: Mapping[str, Any] | None) -> None:
        """Say who holds the host's loop up, since when and where; once more when that is over."""
        if held is None and self._held is None:
            return
        since = wall_ms() if self._held is None else self._held["since"]
        self._held = None if held is None else {"since": since, "holder": held["holder"], "at": _place(held)}
        self.feeds.say("held", self._held)

    def _taken_lag_s(self) -> float:
        """The longest lag since this was asked last; while the loop is held what has passed counts."""
        lag_s, self._lag_s_max = self._lag_s_max, 0.0
        return lag_s if self._held is None else max(lag_s, (wall_ms() - self._held["since"]) / 1000)


def _place(held: Mapping[str, Any]) -> str:
    """The innermost line that the loop stands at."""
    stack = held.get("stack") or ()
    return f"{stack[-1]['file']}:{stack[-1]['line_number']} {stack[-1]['function']}" if stack else ""
