"""Pure. A session as one HTML page: nothing outside it is needed, nothing in it runs.

The current branch stands from its first entry to its last; what went before a compaction is still there, and other
branches are folded in where they leave it. The page comes in pieces, so a long session needs little memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from coding_agent.exporting.blocks import gist, moment, render
from coding_agent.exporting.branches import Layout, groups, lay_out
from coding_agent.exporting.clean import Cleaner
from coding_agent.exporting.style import POLICY, STYLE
from coding_agent.exporting.totals import Totals, count
from coding_agent.storage.session_manager import SessionManager
from coding_agent.storage.stamps import parse_iso
from coding_agent.storage.tree import ROOT

_CONTENTS_MAX = 500


def html_page(manager: SessionManager, *, secrets: Iterable[str] = ()) -> str:
    """The whole page as text; see `page_parts`."""
    return "".join(page_parts(manager, secrets=secrets))


def page_parts(manager: SessionManager, *, secrets: Iterable[str] = ()) -> Iterator[str]:
    """The page of a session, piece by piece.

    Args:
        manager: The session.
        secrets: Exact values that are hidden beside whatever looks like a secret.
    """
    cleaner = Cleaner.hiding(secrets)
    layout, totals = lay_out(manager.tree), count(manager)
    title = cleaner.line(manager.name or f"Session {manager.session_id}", 200)
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="robots" content="noindex">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    )
    yield f"<header>\n<h1>{title}</h1>\n{_facts(manager, cleaner, totals)}</header>\n"
    yield _contents(manager, cleaner, layout)
    yield "<main>\n"
    yield from _conversation(manager, cleaner, layout)
    yield f"</main>\n<footer>{_spent(cleaner, totals)}</footer>\n</body>\n</html>\n"


def _facts(manager: SessionManager, cleaner: Cleaner, totals: Totals) -> str:
    header = manager.header.data
    started = parse_iso(header.get("timestamp"))
    facts = {
        "Session": manager.session_id,
        "Folder": str(header.get("cwd") or "-"),
        "Started": moment(started) if started is not None else "-",
        "Models": ", ".join(name for name in totals.by_model if name != "summaries") or "-",
        "Size": f"{totals.user_messages} prompts, {totals.tool_calls} tool calls, {len(manager.tree)} entries",
        "Cost": f"${totals.cost:.4f}",
    }
    rows = "".join(f"<dt>{name}</dt><dd>{cleaner.html(value)}</dd>" for name, value in facts.items())
    return f'<dl class="facts">{rows}</dl>\n'


def _contents(manager: SessionManager, cleaner: Cleaner, layout: Layout) -> str:
    """The prompts, the summaries and what has a label, as links."""
    tree = manager.tree
    named = [
        at for at in layout.main if tree.kinds[at] in ("message/user", "compaction") or tree.ids[at] in tree.labels
    ]
    if len(named) < 2:
        return ""
    left_out = len(named) - _CONTENTS_MAX
    items = []
    for at in named[:_CONTENTS_MAX]:
        label = tree.labels.get(tree.ids[at])
        mark = f' <span class="badge label">{cleaner.line(label)}</span>' if label else ""
        items.append(f'<li><a href="#n{at}">{gist(manager, cleaner, at) or "(no words)"}</a>{mark}</li>')
    more = f'<p class="note">and {left_out} more</p>' if left_out > 0 else ""
    return f"<nav><details><summary>Contents</summary><ol>{''.join(items)}</ol>{more}</details></nav>\n"


def _conversation(manager: SessionManager, cleaner: Cleaner, layout: Layout) -> Iterator[str]:
    first = layout.main[0] if layout.main else None
    yield from _branches(manager, cleaner, layout, ROOT, first)
    yield from _chain(manager, cleaner, layout, layout.main)
    if layout.outside:
        yield _unfold(f"Entries that hang on nothing: {len(layout.outside)}")
        for group in groups(manager.tree, layout.outside):
            yield from render(manager, cleaner, group)
        yield "</details>\n"


def _chain(manager: SessionManager, cleaner: Cleaner, layout: Layout, chain: Sequence[int]) -> Iterator[str]:
    following = dict(pairwise(chain))
    for group in groups(manager.tree, chain):
        yield from render(manager, cleaner, group)
        for position in group.positions:
            yield from _branches(manager, cleaner, layout, position, following.get(position))


def _branches(
    manager: SessionManager, cleaner: Cleaner, layout: Layout, position: int, following: int | None
) -> Iterator[str]:
    for start in layout.side_branches(position, following):
        chain = layout.chain(start)
        said = next((at for at in chain if manager.tree.kinds[at] == "message/user"), start)
        size = layout.shown_below(start)
        yield _unfold(f"Another branch, {size} {'entry' if size == 1 else 'entries'}: {gist(manager, cleaner, said)}")
        yield from _chain(manager, cleaner, layout, chain)
        yield "</details>\n"


def _unfold(words: str) -> str:
    return f'<details class="branch"><summary>{words}</summary>\n'


def _spent(cleaner: Cleaner, totals: Totals) -> str:
    if not totals.by_model:
        return ""
    numbers = ("answers", "input", "output", "cache_read", "cache_write")
    head = "".join(
        f'<th class="right">{name}</th>' for name in ("answers", "in", "out", "cache read", "cache written", "cost")
    )
    rows = []
    for name, spent in totals.by_model.items():
        cells = "".join(f'<td class="right">{getattr(spent, number):,}</td>' for number in numbers)
        rows.append(f'<tr><td>{cleaner.line(name)}</td>{cells}<td class="right">${spent.cost:.4f}</td></tr>')
    return f"<h2>Used, all branches</h2><table><tr><th>model</th>{head}</tr>{''.join(rows)}</table>"
