"""Pure. The tree as rows for a page, and what has changed between two looks.

A row is a list, because thousands of them are sent: depth, id, pid, module, kind, state, mailbox, restarts, messages a
second, facts. Its key is the pid's number; of a node without a process, where it stands.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import define, field

from lemon_otp import Pid, TreeNode, repl

Key: TypeAlias = int | str
Row: TypeAlias = list[Any]

FIELDS: Final = ("depth", "id", "pid", "module", "kind", "state", "mailbox", "restarts", "rate", "facts")
ID_CHARS_MAX: Final = 200


@define(eq=False)
class Snapshot:
    """One look at the tree.

    Attributes:
        order: The keys, a node before those below it.
        rows: The row of each key.
        handled: Messages each process had taken by then, to work out rates.
        at_s: When it was taken.
    """

    order: list[Key] = field(factory=list)
    rows: dict[Key, Row] = field(factory=dict)
    handled: dict[Key, int] = field(factory=dict)
    at_s: float = 0.0


@define(eq=False)
class Totals:
    """What a look adds up to.

    Attributes:
        messages: Taken by living processes since the look before.
        mailbox: Messages that wait.
        longest: Those of the longest mailbox.
    """

    processes: int = 0
    supervisors: int = 0
    busy: int = 0
    mailbox: int = 0
    longest: int = 0
    messages: int = 0


def look(
    nodes: Sequence[TreeNode], before: Snapshot, at_s: float, known: Mapping[Pid, repl.Detail] | None = None
) -> tuple[Snapshot, Totals]:
    """The tree as a snapshot, with rates worked out from the one before; `known` is what others know of processes."""
    details = known or {}
    now, totals = Snapshot(at_s=at_s), Totals()
    passed_s = at_s - before.at_s if before.at_s else 0.0
    order, rows, handled, earlier = now.order, now.rows, now.handled, before.handled
    stack: list[tuple[TreeNode, int, str]] = [(node, 0, "") for node in reversed(nodes)]
    while stack:
        node, depth, path = stack.pop()
        here = f"{path}/{node.id}" if node.pid is None or node.children else path
        key: Key = _free(here, rows) if node.pid is None else node.pid.id
        if key in rows:
            continue
        taken = node.messages_handled
        fresh = max(0, taken - earlier.get(key, taken)) if passed_s > 0 else 0
        detail = None if node.pid is None else details.get(node.pid)
        order.append(key)
        handled[key] = taken
        rows[key] = [
            depth,
            node.id if len(node.id) <= ID_CHARS_MAX else f"{node.id[: ID_CHARS_MAX - 1]}…",
            None if node.pid is None else node.pid.id,
            node.module,
            node.kind,
            node.state,
            node.mailbox_length,
            node.restarts,
            round(fresh / passed_s, 1) if fresh else 0,
            node.facts if detail is None else _with_detail(node.facts, detail),
        ]
        _add(totals, node, fresh)
        stack.extend((child, depth + 1, here) for child in reversed(node.children))
    return now, totals


def changes(before: Snapshot, now: Snapshot) -> dict[str, Any] | None:
    """What somebody who has seen `before` needs to see `now`; None when that is nothing."""
    earlier = before.rows
    changed = [[key, row] for key, row in now.rows.items() if earlier.get(key) != row]
    found: dict[str, Any] = {}
    if changed:
        found["rows"] = changed
    if before.order != now.order:
        found["order"] = now.order
    return found or None


def _with_detail(facts: Mapping[str, str], detail: repl.Detail) -> dict[str, str]:
    """What a process says of itself, behind what is known of it."""
    found = {**facts, **detail.shown}
    if detail.elapsed_s is not None and detail.elapsed_s >= 1 and detail.shown.get("phase") != "idle":
        found["for"] = f"{int(detail.elapsed_s)} s"
    if detail.tokens:
        found["tokens"] = f"{detail.tokens:,}"
    if detail.cost:
        found["cost"] = f"${detail.cost:.4f}"
    return found


def _free(path: str, rows: dict[Key, Row]) -> str:
    """A key for a node without a process: siblings may be called the same."""
    key, number = path, 1
    while key in rows:
        number += 1
        key = f"{path}#{number}"
    return key


def _add(totals: Totals, node: TreeNode, fresh: int) -> None:
    totals.processes += node.pid is not None
    totals.supervisors += node.kind == "supervisor"
    totals.busy += node.state in ("busy", "ready")
    totals.mailbox += node.mailbox_length
    totals.longest = max(totals.longest, node.mailbox_length)
    totals.messages += fresh
