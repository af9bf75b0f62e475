"""Pure. What a session used: tokens and dollars, by model, over every branch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from coding_agent.storage.session_manager import SessionManager


@define
class Spent:
    """What one model was used for.

    Attributes:
        answers: How often it answered.
        cost: US dollars.
    """

    answers: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0

    def add(self, usage: Mapping[str, Any]) -> None:
        """One more answer, with its usage as it is stored."""
        self.answers += 1
        self.input += _number(usage, "input")
        self.output += _number(usage, "output")
        self.cache_read += _number(usage, "cacheRead")
        self.cache_write += _number(usage, "cacheWrite")
        cost = usage.get("cost")
        total = cost.get("total") if isinstance(cost, dict) else None
        self.cost += float(total) if isinstance(total, int | float) and 0 <= total < 1e12 else 0.0


@define
class Totals:
    """Of a whole session.

    Attributes:
        by_model: `provider/model`, in the order of their first answer.
    """

    by_model: dict[str, Spent] = field(factory=dict)
    user_messages: int = 0
    tool_calls: int = 0

    @property
    def cost(self) -> float:
        """US dollars."""
        return sum(spent.cost for spent in self.by_model.values())


def count(manager: SessionManager) -> Totals:
    """Add up every entry of the file."""
    totals = Totals()
    kinds = manager.tree.kinds
    for position, kind in enumerate(kinds):
        if kind == "message/user":
            totals.user_messages += 1
        elif kind == "message/assistant":
            _answer(totals, manager.log.entry_data(position).get("message"))
        elif kind in ("compaction", "branch_summary"):
            usage = manager.log.entry_data(position).get("usage")
            if isinstance(usage, dict):
                totals.by_model.setdefault("summaries", Spent()).add(usage)
    return totals


def _answer(totals: Totals, message: Any) -> None:
    if not isinstance(message, dict):
        return
    name = f"{message.get('provider') or '?'}/{message.get('model') or '?'}"
    usage = message.get("usage")
    totals.by_model.setdefault(name, Spent()).add(usage if isinstance(usage, dict) else {})
    content = message.get("content")
    if isinstance(content, list):
        totals.tool_calls += sum(isinstance(block, dict) and block.get("type") == "toolCall" for block in content)


def _number(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e15 else 0
