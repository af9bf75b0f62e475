"""Pure. The line at the bottom: who answers, how full the context is, what it cost, what waits, what is going on."""

from typing import Final

from attrs import frozen

from coding_agent.terminal.graphemes import cells, clip
from coding_agent.terminal.plain_lines import thousands
from coding_agent.terminal.screen_text import one_line
from coding_agent.terminal.view import View

APART: Final = " · "
TIGHT_FROM: Final = 80
"""Percent of the context from which it is shown as a warning."""


@frozen
class Part:
    """A piece of the line; of several that do not fit, those of the highest `rank` go first."""

    text: str
    rank: int
    style: str = "class:status"


def status_fragments(view: View, width: int, hint: str = "") -> list[tuple[str, str]]:
    """The line in at most `width` columns, for prompt-toolkit."""
    parts = [part for part in status_parts(view, hint) if part.text]
    while len(parts) > 1 and sum(cells(part.text) for part in parts) + len(APART) * (len(parts) - 1) > width:
        parts.remove(max(parts, key=lambda part: part.rank))
    fragments: list[tuple[str, str]] = []
    for number, part in enumerate(parts):
        if number:
            fragments.append(("class:status", APART))
        fragments.append((part.style, part.text if len(parts) > 1 else clip(part.text, width)))
    return fragments


def status_parts(view: View, hint: str = "") -> list[Part]:
    """What the line can say, from left to right."""
    waiting = len(view.steering) + len(view.follow_up)
    phase = "not connected" if view.phase == "closed" else "" if view.phase == "idle" else view.phase
    percent = used_percent(view)
    tight = percent is not None and percent >= TIGHT_FROM
    statuses = [Part(one_line(text), 8) for text in list(view.statuses.values())[:4]]
    return [
        Part(hint, 0, "class:status.hint"),
        Part(phase or "ready", 2, "class:status.phase"),
        Part(short_model(view.model) if view.phase != "starting" else "", 1),
        Part(f"thinking {view.thinking_level}" if view.thinking_level not in ("", "off") else "", 6),
        Part(context_text(view), 3, "class:status.tight" if tight else "class:status"),
        Part(f"${view.cost:.3f}" if view.cost else "", 4),
        Part(f"{waiting} waiting" if waiting else "", 5),
        Part(f"{view.permission_mode} mode" if view.permission_mode else "", 7),
        Part(one_line(view.name), 9),
        *statuses,
    ]


def short_model(model: str) -> str:
    """The model without the paths some providers put before its name."""
    return one_line(model) or "no model"


def used_percent(view: View) -> int | None:
    """How full the context is."""
    return round(100 * view.context_tokens / view.context_window) if view.context_window else None


def context_text(view: View) -> str:
    """How full the context is, in words."""
    percent = used_percent(view)
    if percent is None:
        return f"{thousands(view.context_tokens)} tokens" if view.context_tokens else ""
    return f"{percent}% of {thousands(view.context_window)}"
