"""Pure. What can be typed at a host's prompt beside what every tree has, and how its answers are shown."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from lemon_otp import repl_shell as sheet

ID_SHOWN: Final = 18
"""Characters of a session's id that tell it from the others; the beginning is all that need be typed."""
_SESSION: Final = sheet.Argument("target")

COMMANDS: Final[tuple[sheet.Command, ...]] = (
    sheet.Command("sessions", "every session: what it is at, and what it has used up"),
    sheet.Command("events", "follow what a session says", (_SESSION,), how="feed"),
    sheet.Command("dispatcher", "model calls under way and waiting, by provider"),
    sheet.Command("breakers", "circuit breakers and rate limiters, by provider"),
    sheet.Command("metrics", "the Prometheus series of this host"),
    sheet.Command(
        "steer",
        "give a session's model a text before its next call",
        (_SESSION, sheet.Argument("text", "text")),
        act=True,
    ),
    sheet.Command("abort", "end the run of a session; the session goes on", (_SESSION,), act=True),
)


def _sessions(answer: Mapping[str, Any]) -> sheet.Page:
    rows = []
    for told in answer["sessions"]:
        phase = str(told["phase"])
        rows.append(
            (
                sheet.cell(str(told["session"])[:ID_SHOWN], "id"),
                sheet.cell(told["pid"], "number"),
                sheet.cell(
                    sheet.doing({name: told[name] for name in ("phase", "tool", "argument") if name in told}),
                    "dim" if phase == "idle" else "busy",
                    width=70,
                ),
                sheet.cell(sheet.seconds(told.get("elapsed_s")), "number"),
                sheet.cell(sheet.seconds(told.get("progress_s")), "number"),
                sheet.cell(f"{told['tokens']:,}" if told["tokens"] else "", "number"),
                sheet.cell(f"${told['cost']:.4f}" if told["cost"] else "", "number"),
                sheet.cell(str(told["parent"] or "")[:ID_SHOWN], "dim"),
                sheet.cell(PurePath(str(told["cwd"])).name, "dim"),
            )
        )
    headings = ("session", "pid", "doing", "for", "progress", "tokens", "cost", "for session", "folder")
    return sheet.page(sheet.Table(headings, tuple(rows), frozenset({1, 3, 4, 5, 6}), "(no sessions)"))


def _dispatcher(answer: Mapping[str, Any]) -> sheet.Page:
    rows = tuple(
        (
            sheet.cell(p["provider"], "id"),
            sheet.cell(p["active"]),
            sheet.cell(p["queued"], "bad" if p["queued"] else ""),
            sheet.cell(p["cap"]),
        )
        for p in answer["providers"]
    )
    table = sheet.Table(
        ("provider", "under way", "waiting", "cap"), rows, frozenset({1, 2, 3}), "(no model was called)"
    )
    return sheet.page(table)


def _breakers(answer: Mapping[str, Any]) -> sheet.Page:
    rows = []
    for told in answer["breakers"]:
        state = told["state"] or "none"
        retry = f"tried again in {sheet.seconds(told['retry_in_ms'] / 1000)}" if state == "open" else ""
        tokens = "" if told["tokens"] is None else f"{told['tokens']} of {told['capacity']}"
        rows.append(
            (
                sheet.cell(told["provider"], "id"),
                sheet.cell(state, "good" if state == "closed" else "bad"),
                sheet.cell(told["failures"] or ""),
                sheet.cell(tokens, "number"),
                sheet.cell(retry),
                sheet.cell(told["last_failure"] or "", "bad"),
            )
        )
    headings = ("provider", "breaker", "failures", "rate tokens", "", "last failure")
    return sheet.page(sheet.Table(headings, tuple(rows), frozenset({2, 3}), "(no provider is in use)"))


def _metrics(answer: Mapping[str, Any]) -> sheet.Page:
    return sheet.page(sheet.lines(*str(answer["text"]).splitlines()))


RENDERERS: Final[Mapping[str, sheet.Renderer]] = {
    "sessions": _sessions,
    "dispatcher": _dispatcher,
    "breakers": _breakers,
    "metrics": _metrics,
}
