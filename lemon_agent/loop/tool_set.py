"""Pure. The tools a run offers its model, and which of them a name means."""

import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from lemon_agent.events import ToolSchemaSnapshot
from lemon_agent.tools import AgentTool
from lemon_ai import Tool
from lemon_otp import frozen, wall_ms

_unique: Final = itertools.count(1)
_described: "WeakKeyDictionary[AgentTool, tuple[Tool, bytes]]" = WeakKeyDictionary()


@frozen(eq=False)
class ToolSet:
    """Tools, in the order they are offered; the first of two with one name counts."""

    tools: tuple[AgentTool, ...]
    by_name: dict[str, AgentTool]
    shown: tuple[Tool, ...]
    """The tools as the model sees them."""
    names: tuple[str, ...]
    fingerprint: str

    @classmethod
    def of(cls, tools: Iterable[AgentTool]) -> "ToolSet":
        """The set of these tools."""
        kept = tuple(tools)
        by_name: dict[str, AgentTool] = {}
        for tool in kept:
            by_name.setdefault(normal_name(tool.name), tool)
        described = [_describe(tool) for tool in kept]
        print_of_all = fingerprint([encoded for _, encoded in described])
        return cls(
            kept, by_name, tuple([tool for tool, _ in described]), tuple(tool.name for tool in kept), print_of_all
        )

    def snapshot(self) -> ToolSchemaSnapshot:
        """What the model is shown from here on, under a name of its own."""
        number = next(_unique)
        return ToolSchemaSnapshot(
            f"tool_schema_{self.fingerprint}_{number}", self.shown, self.names, self.fingerprint, wall_ms()
        )

    def find(self, name: str) -> AgentTool | None:
        """The tool a model means by a name, stray and exotic spaces forgiven."""
        return self.by_name.get(normal_name(name))

    def with_added(self, names: Iterable[str], pool: Sequence[AgentTool]) -> "ToolSet":
        """With the named tools of `pool` too; this very set when there is nothing to add."""
        wanted = {normal_name(name) for name in names} - self.by_name.keys()
        added = [tool for tool in pool if normal_name(tool.name) in wanted]
        return ToolSet.of((*self.tools, *added)) if added else self


def normal_name(name: str) -> str:
    """A tool's name with every run of white space, no-break and ideographic included, as one blank, none outside."""
    return name if name.isidentifier() else " ".join(name.split())


def fingerprint(parts: Iterable[bytes]) -> str:
    """Sixteen hexadecimal digits that stand for these descriptions in this order."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:16]


def _describe(tool: AgentTool) -> tuple[Tool, bytes]:
    """A tool as the model sees it, worked out once for each tool object."""
    known = _described.get(tool)
    if known is None:
        shown = Tool(tool.name, tool.description, tool.parameters)
        parts: list[Any] = [tool.name, tool.description, tool.parameters]
        known = _described[tool] = (shown, json.dumps(parts, sort_keys=True, default=str).encode())
    return known
