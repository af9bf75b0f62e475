"""Edge. What the observer knows: the latest look at the tree, the last minutes in figures, what happened; who looks.

The tree is looked at only while a page is open, and less often the longer a look takes.
"""

import os
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from attrs import define, field

from coding_agent.observer.feed import Feed, Feeds
from coding_agent.observer.snapshot import Snapshot, changes, look
from coding_agent.observer.timeline import Timeline
from coding_agent.repl.ledger import ledger
from lemon_otp import introspect, monotonic_s, wall_ms

EVERY_S: Final = 1.0
SELDOM_S: Final = 5.0
SHARE: Final = 20
"""A look is followed by a pause of so many times its length: looking stays a small part of what the host does."""
FIGURES_MAX: Final = 300
CHUNK: Final = 500
"""Rows of one message of the whole picture: no message takes long to make."""


@define(eq=False)
class Watching:
    """The state of an observer."""

    wake: Callable[[], None]
    feeds: Feeds = field(factory=Feeds)
    latest: Snapshot = field(factory=Snapshot)
    timeline: Timeline = field(init=False)
    _figures: deque[dict[str, Any]] = field(factory=lambda: deque(maxlen=FIGURES_MAX))

    def __attrs_post_init__(self) -> None:
        self.timeline = Timeline(self.feeds.say)

    def add(self, feed: Feed) -> bool:
        """Whether there was room for one more page; the first one begins the looking."""
        if not self.feeds.add(feed):
            return False
        self.wake()
        return True

    def remove(self, feed: Feed) -> None:
        """A page has gone."""
        self.feeds.remove(feed)

    def look(self) -> float:
        """Look at the tree and tell the pages what has changed; how long to wait before the next look."""
        began_s = monotonic_s()
        runs = ledger()
        snapshot, totals = look(introspect.tree(), self.latest, began_s, None if runs is None else runs.details())
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
            "lag_ms": round(self.timeline.taken_lag_s() * 1000, 1),
        }
        self._figures.append(figures)
        self.feeds.say("figures", figures)
        return min(SELDOM_S, max(EVERY_S, SHARE * (monotonic_s() - began_s)))

    def whole(self) -> list[tuple[str, Any]]:
        """Everything, for a page that has seen nothing yet or has lost track."""
        if monotonic_s() - self.latest.at_s > 2 * EVERY_S or not self.latest.order:
            self.look()
        now = self.latest
        host = {"os_pid": os.getpid(), "figures": list(self._figures), "now": wall_ms()}
        told: list[tuple[str, Any]] = [("hello", host), ("tree", {"order": now.order})]
        parts = (now.order[at : at + CHUNK] for at in range(0, len(now.order), CHUNK))
        told.extend(("delta", {"rows": [[key, now.rows[key]] for key in part]}) for part in parts)
        told.append(("steps", self.timeline.bars()))
        told.append(("past", self.timeline.history()))
        return told
