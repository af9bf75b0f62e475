"""Edge. The tree as plain values: each node with what it says of itself and what others know of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lemon_otp import introspect
from lemon_otp.introspect import TreeNode
from lemon_otp.machine import Process
from lemon_otp.pid import Pid
from lemon_otp.process import current_runtime
from lemon_otp.repl.details import Detail, details, totals
from lemon_otp.repl.finding import find
from lemon_otp.repl.operations import Answer, Later


def look_at_tree(request: Mapping[str, Any]) -> Later:
    """What runs: `target` for only what is below one process, `text` for the tree as text as well."""
    target = request.get("target")
    root = None if target in (None, "") else find(target)
    nodes = introspect.tree(root)
    found = details()
    busy, cut = _busy(nodes)

    def finish() -> Answer:
        told = told_tree(nodes, found, busy)
        answer: dict[str, Any] = {"os_pid": os.getpid(), "tree": told}
        if cut:
            answer["partial"] = f"there are more than {introspect.NODES_MAX} processes; these are some of them"
        if request.get("text"):
            answer["text"] = introspect.render(nodes)
        return answer | ({"all": True} if request.get("all") else {})

    return Later(finish)


def _busy(nodes: list[TreeNode]) -> tuple[dict[Pid | None, float], bool]:
    """How long each process has been at its work, where it is in the middle of any; and whether nodes were left out."""
    cut = False
    now_s = current_runtime().clock.monotonic_s()
    found: dict[Pid | None, float] = {}
    left = [*nodes]
    while left:
        node = left.pop()
        left.extend(node.children)
        if node.state == "busy" and isinstance(node.pid, Process):
            found[node.pid] = round(max(0.0, now_s - node.pid.busy_since_s), 3)
        elif node.kind == "more":
            cut = True
    return found, cut


def told_tree(
    nodes: list[TreeNode], found: Mapping[Pid, Detail], busy: Mapping[Pid | None, float]
) -> list[dict[str, Any]]:
    """The nodes as JSON values."""
    used = totals(found, _members(nodes)) if found else {}
    marked = {*busy, *found, *used}

    def told(node: TreeNode) -> dict[str, Any]:
        value = introspect.to_json(node, children=False)
        if node.pid in marked:
            _mark(value, node.pid)
        if node.children:
            value["children"] = [told(child) for child in node.children]
        return value

    def _mark(value: dict[str, Any], pid: Any) -> None:
        if pid in busy:
            value["elapsed_s"] = busy[pid]
        if pid in found:
            _add_detail(value, found[pid])
        if pid in used:
            value["subtree_tokens"], value["subtree_cost"] = used[pid][0], round(used[pid][1], 6)

    return [told(node) for node in nodes]


def _members(nodes: list[TreeNode]) -> dict[Pid, list[Pid]]:
    return {
        node.pid: [child.pid for child in node.children if child.pid is not None]
        for node in introspect.walk(nodes)
        if node.pid is not None and node.children
    }


def _add_detail(value: dict[str, Any], detail: Detail) -> None:
    value["facts"] = {**detail.shown, **{key: fact for key, fact in value["facts"].items() if key not in detail.shown}}
    if detail.elapsed_s is not None:
        value["elapsed_s"] = round(detail.elapsed_s, 3)
    if detail.progress_s is not None:
        value["progress_s"] = round(detail.progress_s, 3)
    if detail.tokens or detail.cost:
        value["tokens"], value["cost"] = detail.tokens, round(detail.cost, 6)
