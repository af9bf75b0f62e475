"""Pure. One content block while it arrives: its pieces, and the moment each of them came at.

Pieces are only appended, so the block as of any moment can be read at any later one without a copy having been kept.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Any, Literal

from lemon_ai.messages import AssistantContent, TextContent, ThinkingContent, ToolCall
from lemon_ai.partial_json import PartialJson
from lemon_ai.wire_text import clean
from lemon_otp import frozen

Kind = Literal["text", "thinking", "tool"]


@frozen
class Facts:
    """What is known of a block beside its pieces."""

    id: str = ""
    name: str = ""
    signature: str | None = None
    redacted: bool = False


NO_FACTS = Facts()


class Block:
    """One content block: its pieces, and the moment each of them came at."""

    __slots__ = (
        "_json",
        "_json_read",
        "_prefix",
        "_prefix_count",
        "closed_at",
        "facts",
        "final",
        "half",
        "index",
        "kind",
        "marks",
        "opened_at",
        "parts",
    )

    def __init__(self, kind: Kind, index: int, opened_at: int, facts: Facts) -> None:
        self.kind: Kind = kind
        self.index = index
        self.opened_at = opened_at
        self.closed_at: int | None = None
        self.final: AssistantContent | None = None
        self.half = ""
        self.parts: list[str] = []
        self.marks = array("q")
        self.facts: list[tuple[int, Facts]] = [(opened_at, facts)]
        self._prefix = ""
        self._prefix_count = 0
        self._json: PartialJson | None = None
        self._json_read = 0

    def whole(self, piece: str) -> str:
        """A piece in whole characters: behind a half the last piece ended in, and without a half it ends in itself.

        Servers that cut their tokens anywhere send the two escapes of one character in two pieces.
        """
        piece = self.half + piece
        self.half = piece[-1:] if "\ud800" <= piece[-1:] <= "\udbff" else ""
        return clean(piece[:-1] if self.half else piece)

    def text_at(self, at: int) -> str:
        count = len(self.parts) if not self.marks or self.marks[-1] <= at else bisect_right(self.marks, at)
        if count < self._prefix_count:
            return "".join(self.parts[:count])
        if count > self._prefix_count:
            self._prefix += "".join(self.parts[self._prefix_count : count])
            self._prefix_count = count
        return self._prefix

    def facts_at(self, at: int) -> Facts:
        for since, facts in reversed(self.facts):
            if since <= at:
                return facts
        return NO_FACTS

    def arguments_at(self, at: int) -> dict[str, Any]:
        count = bisect_right(self.marks, at)
        if self._json is None or count < self._json_read:
            self._json, self._json_read = PartialJson(), 0
        for fragment in self.parts[self._json_read : count]:
            self._json.feed(fragment)
        self._json_read = count
        return self._json.value()

    def content_at(self, at: int) -> AssistantContent:
        if self.final is not None and self.closed_at is not None and self.closed_at <= at:
            return self.final
        facts = self.facts_at(at)
        if self.kind == "text":
            return TextContent(self.text_at(at), facts.signature)
        if self.kind == "thinking":
            return ThinkingContent(self.text_at(at), facts.signature, facts.redacted)
        return ToolCall(facts.id, facts.name or "unknown_tool", self.arguments_at(at), facts.signature)
