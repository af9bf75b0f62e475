"""Pure. Whether an automatic compaction may be made now: as a table of what has happened since the user last spoke.

A compaction is judged by its outcome. One that removed nothing, or left the conversation as full as before, is not made
a third time; the user is told instead. Nothing here outlives a prompt of the user or a change of model.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import evolve, frozen

from coding_agent.session.compaction import CompactionSettings

Trigger: TypeAlias = Literal["manual", "threshold", "overflow"]
"""What asks for a compaction: a person, the size of the conversation, a provider that refused it as too long."""

Decision: TypeAlias = Literal["compact", "skip", "give_up"]
"""Do it; leave it, one is under way or none is wanted; leave it and show the error that led here."""


@frozen
class AutoCompaction:
    """What has happened since the user last spoke.

    Attributes:
        in_flight: A compaction is under way.
        fruitless: Compactions in a row that gave no room.
        overflow_tried: One was made because a provider refused the conversation.
    """

    in_flight: bool = False
    fruitless: int = 0
    overflow_tried: bool = False

    def decide(self, trigger: Trigger, settings: CompactionSettings) -> Decision:
        """What to do about a trigger."""
        if self.in_flight:
            return "skip"
        if trigger == "manual":
            return "compact"
        if not settings.enabled:
            return "give_up" if trigger == "overflow" else "skip"
        if self.fruitless >= settings.max_fruitless or (trigger == "overflow" and self.overflow_tried):
            return "give_up"
        return "compact"

    def started(self, trigger: Trigger) -> AutoCompaction:
        """A compaction begins."""
        return evolve(self, in_flight=True, overflow_tried=self.overflow_tried or trigger == "overflow")

    def finished(self, *, removed: int, fits: bool, settings: CompactionSettings) -> AutoCompaction:
        """A compaction is over.

        Args:
            removed: How many messages it took away; 0 also when it failed.
            fits: Whether the conversation has room now.
            settings: How compaction is set.
        """
        if removed == 0:  # the next one would take away nothing either
            return evolve(self, in_flight=False, fruitless=settings.max_fruitless)
        return evolve(self, in_flight=False, fruitless=0 if fits else self.fruitless + 1)

    def answered(self) -> AutoCompaction:
        """A model has answered well: it took the conversation as it is."""
        return evolve(self, overflow_tried=False)

    def reset(self) -> AutoCompaction:
        """The user has spoken, or another model answers from here on."""
        return AutoCompaction(in_flight=self.in_flight)
