"""Pure. An answer becomes a page: what a person is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from lemon_otp.repl_shell.commands import Command
from lemon_otp.repl_shell.sheets import Cell, Lines, Meaning, Page, Table, cell, lines, page

Renderer: TypeAlias = Callable[[Mapping[str, Any]], Page]

STATES: Final[Mapping[str, Meaning]] = {
    "busy": "busy", "ready": "good", "idle": "dim", "suspended": "bad", "restarting": "bad", "stopped": "bad",
    "dead": "bad",
}  # fmt: skip
SHOWN_FIRST: Final = ("phase", "tool", "argument")
AT_REST: Final = ("idle", "working")
"""Phases that wait for nothing."""
SHOWN_ELSEWHERE: Final = ("session", "state", "tools")
"""Facts that the phase, or the id of the process, says already."""
ROWS_MAX: Final = 1_000
KNOWN: Final = ("wall_ms", "pid", "event", "system_time", "count")
"""What a line of the history says otherwise, or need not say."""


def render(op: str, answer: Mapping[str, Any], more: Mapping[str, Renderer] | None = None) -> Page:
    """The page for an answer of this operation.

    Args:
        op: What was asked.
        answer: What was answered, good or bad.
        more: How the operations of packages above are shown.
    """
    warnings = _warnings(answer)
    if not answer.get("ok"):
        return Page((lines(f"error: {answer.get('error', 'the answer cannot be read')}", meaning="bad"),), warnings)
    renderer = (more or {}).get(op) or RENDERERS.get(op)
    try:
        shown = _fallback(answer) if renderer is None else renderer(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # a host that answers otherwise than we expect
        shown = page(lines(f"error: the answer cannot be shown: {type(error).__name__}: {error}", meaning="bad"))
    return Page(shown.parts, (*warnings, *shown.warnings))


def _warnings(answer: Mapping[str, Any]) -> tuple[str, ...]:
    found = [str(answer["partial"])] if answer.get("partial") else []
    held = answer.get("held")
    if isinstance(held, Mapping):
        stack = held.get("stack") or []
        at = [f"    {frame_line(frame)}" for frame in stack[-6:]]
        found += [f"{held.get('holder')} holds the event loop up, at", *at]
    return tuple(found)


def _fallback(answer: Mapping[str, Any]) -> Page:
    if isinstance(answer.get("text"), str):
        return page(lines(*answer["text"].splitlines()))
    rest = {key: value for key, value in answer.items() if key not in ("ok", "id", "partial", "held")}
    return page(pairs(rest))


# Pieces that others use, too.


def seconds(value: Any) -> str:
    """A time as people read it."""
    if not isinstance(value, int | float):
        return ""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(int(value), 60)
    return f"{minutes} m {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} m"


def size(value: Any) -> str:
    """Bytes as people read them."""
    if not isinstance(value, int | float):
        return ""
    for unit in ("B", "KB", "MB"):
        if value < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} GB"


def clock_time(wall_ms: Any) -> str:
    """A moment as the time of day."""
    if not isinstance(wall_ms, int | float):
        return ""
    return datetime.fromtimestamp(wall_ms / 1000).strftime("%H:%M:%S.%f")[:-3]


def process(value: Any) -> str:
    """A process as number and id."""
    if isinstance(value, Mapping):
        return f"{value.get('pid')} {value.get('id')}"
    return "" if value is None else str(value)


def pairs(values: Mapping[str, Any]) -> Table:
    """A name and a value on each line."""
    rows = [(cell(name.replace("_", " "), "dim"), cell(_told(value))) for name, value in values.items()]
    return Table(("", ""), tuple(rows))


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return process(value) if "pid" in value else ", ".join(f"{key}={_told(item)}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_told(item) for item in value)
    return "" if value is None else {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def frame_line(frame: Mapping[str, Any]) -> str:
    """A frame on one line."""
    place = f"{frame.get('file')}:{frame.get('line_number')} in {frame.get('function')}"
    return f"{place}: {frame['line']}" if frame.get("line") else place


# One page for each operation.


def _tree(answer: Mapping[str, Any]) -> Page:
    every = [row for node in answer["tree"] for row in _tree_rows(node, "", "")]
    rows = every if answer.get("all") else every[:ROWS_MAX]
    left = [] if len(rows) == len(every) else [f"… {len(every) - len(rows)} more; `tree --all`, or `tree PROCESS`"]
    headings = ("process", "pid", "state", "doing", "for", "progress", "tokens", "cost", "box", "restarts")
    kept = [i for i, heading in enumerate(headings) if i < 3 or heading == "doing" or any(row[i].text for row in rows)]
    told = tuple(tuple(row[i] for i in kept) for row in rows)
    right = {i for i, column in enumerate(kept) if column in (1, 4, 5, 6, 7, 8, 9)}
    return page(Table(tuple(headings[i] for i in kept), told, frozenset(right)), *([lines(*left)] if left else []))


def _tree_rows(node: Mapping[str, Any], lead: str, below: str) -> Iterator[tuple[Cell, ...]]:
    facts = dict(node.get("facts") or {})
    if node.get("kind") == "more":
        yield (cell(lead + str(node["id"]), "dim"), *(cell("") for _ in range(9)))
        return
    state = str(node.get("state"))
    yield (
        cell(lead + str(node["id"]), "id"),
        cell(node.get("pid"), "number"),
        cell(state, STATES.get(state, "")),
        cell(doing(facts), width=90),
        cell(seconds(node.get("elapsed_s")), "number"),
        cell(seconds(node.get("progress_s")), "number"),
        cell(_own_and_all(node, "tokens", "{:,}"), "number"),
        cell(_own_and_all(node, "cost", "${:.4f}"), "number"),
        cell(node.get("mailbox_length") or "", "number"),
        cell(node.get("restarts") or "", "bad"),
    )
    children = node.get("children") or []
    for index, child in enumerate(children):
        last = index == len(children) - 1
        yield from _tree_rows(child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))


def doing(facts: Mapping[str, Any]) -> str:
    """What a process is at, in a few words."""
    phase, tool, argument = (str(facts.get(name, "")) for name in SHOWN_FIRST)
    words = [] if not phase else [f"tool {tool}" if phase == "tool" and tool else f"waits for {phase}"]
    if phase in AT_REST:
        words = [phase]
    if tool and phase != "tool":
        words.append(tool)
    if argument:
        words.append(argument)
    rest = [f"{name}={value}" for name, value in facts.items() if name not in SHOWN_FIRST + SHOWN_ELSEWHERE]
    return " ".join([": ".join([words[0], " ".join(words[1:])]) if len(words) > 1 else "".join(words), *rest]).strip()


def _own_and_all(node: Mapping[str, Any], name: str, form: str) -> str:
    own, everything = node.get(name), node.get(f"subtree_{name}")
    if everything and everything != own:
        return f"{form.format(own)} of {form.format(everything)}" if own else form.format(everything)
    return form.format(own) if own else ""


def _top(answer: Mapping[str, Any]) -> Page:
    rows = []
    for row in answer["rows"]:
        state = str(row["state"])
        rows.append(
            (
                cell(row["pid"], "number"),
                cell(row["id"], "id", width=48),
                cell(state, STATES.get(state, "")),
                cell(row["messages_handled"], "number"),
                cell(row.get("rate") if row.get("rate") is not None else "", "number"),
                cell(row["mailbox_length"], "number"),
                cell(seconds(row["elapsed_s"]), "busy"),
                cell(size(row["memory_bytes"]), "number"),
                cell(doing(row.get("facts") or {}), width=60),
            )
        )
    headings = ("pid", "process", "state", "messages", "per s", "mailbox", "for", "memory", "doing")
    told = f"{answer['processes']} processes, {answer['totals']['mailbox']} messages wait, by {answer['sort']}"
    return page(lines(told, meaning="title"), Table(headings, tuple(rows), frozenset({0, 3, 4, 5, 6, 7})))


def _info(answer: Mapping[str, Any]) -> Page:
    shown = {key: value for key, value in answer.items() if key not in ("ok", "id", "partial", "held")}
    shown["elapsed"] = seconds(shown.pop("elapsed_s", None))
    shown["memory"] = size(shown.pop("memory_bytes", None))
    return page(pairs({key: value for key, value in shown.items() if value not in (None, "", [], {}, False)}))


def _state(answer: Mapping[str, Any]) -> Page:
    return page(lines(str(answer["value"]), meaning="code"))


def _stack(answer: Mapping[str, Any]) -> Page:
    parts = [part for told in (answer, *answer.get("helpers", ())) for part in _one_stack(told)]
    return page(*parts)


def _one_stack(answer: Mapping[str, Any]) -> Iterator[Lines]:
    words = {
        "runs": "runs on the event loop right now, at",
        "thread": "runs on a thread of its own, at",
        "waits": "waits at",
        "idle": "is in the middle of nothing",
    }
    yield lines(
        f"{answer['process']} (pid {answer['pid']}) {words.get(answer['where'], answer['where'])}", meaning="title"
    )
    yield Lines(
        tuple(
            row
            for frame in answer["frames"]
            for row in (
                (cell(f"  {frame['file']}:{frame['line_number']} in {frame['function']}", "dim"),),
                (cell(f"    {frame['line']}", "code"),),
            )
            if row[0].text.strip()
        )
    )


def _messages(answer: Mapping[str, Any]) -> Page:
    told = answer["messages"]
    rest = answer["waiting"] - len(told)
    more = [f"… {rest} more"] if rest > 0 else []
    return page(lines(*(told or ["(no message waits)"]), *more))


def _registry(answer: Mapping[str, Any]) -> Page:
    if "entries" in answer:
        rows = tuple((cell(e["key"], "id"), cell(process(e["pid"])), cell(e["value"])) for e in answer["entries"])
        return page(Table(("key", "process", "value"), rows))
    registries = tuple(
        (cell(r["name"], "id"), cell(r["keys"]), cell(r["entries"], "number"), cell(r["processes"], "number"))
        for r in answer["registries"]
    )
    names = tuple((cell(n["name"], "id"), cell(n["pid"], "number")) for n in answer["names"])
    return page(
        Table(("registry", "keys", "entries", "processes"), registries, frozenset({2, 3}), "(no registries)"),
        Table(("name", "pid"), names, frozenset({1}), "(no names)"),
    )


def _tables(answer: Mapping[str, Any]) -> Page:
    rows = tuple(
        (
            cell(t["name"], "id"),
            cell(t["type"]),
            cell(t["access"]),
            cell(process(t["owner"])),
            cell(process(t["heir"])),
            cell(t["size"], "number"),
        )
        for t in answer["tables"]
    )
    return page(Table(("table", "type", "access", "owner", "heir", "rows"), rows, frozenset({5}), "(no tables)"))


def _apps(answer: Mapping[str, Any]) -> Page:
    rows = tuple(
        (
            cell(a["name"], "id"),
            cell("runs" if a["running"] else "stopped", "good" if a["running"] else "dim"),
            cell(process(a["top"])),
            cell(", ".join(a["needs"])),
        )
        for a in answer["applications"]
    )
    return page(Table(("application", "", "top", "needs"), rows, empty="(no applications)"))


def _streams(answer: Mapping[str, Any]) -> Page:
    rows = tuple(
        (
            cell(s["pid"], "number"),
            cell(process(s["owner"])),
            cell("open" if s["open"] else s["outcome"], "good" if s["open"] else "dim"),
            cell(s["depth"], "number"),
            cell(s["high_water"], "number"),
            cell(s["max"], "number"),
            cell(s["dropped"] or "", "bad"),
        )
        for s in answer["streams"]
    )
    headings = ("pid", "for", "", "depth", "high water", "max", "dropped")
    return page(Table(headings, rows, frozenset({0, 3, 4, 5, 6}), "(no streams)"))


def _zombies(answer: Mapping[str, Any]) -> Page:
    rows = tuple(
        (
            cell(z["pid"], "number"),
            cell(z["id"], "id"),
            cell(z["what"]),
            cell(frame_line(z["at"]) if z["at"] else ""),
            cell(z["reason"], "bad"),
        )
        for z in answer["zombies"]
    )
    return page(Table(("pid", "process", "what goes on", "at", "ended with"), rows, frozenset({0}), "(no zombies)"))


def _history(answer: Mapping[str, Any]) -> Page:
    rows = []
    for entry in answer["entries"]:
        rest = {k: _short(v) for k, v in entry.items() if k not in KNOWN and v not in (None, "{}")}
        bad = any(word in entry["event"] for word in ("crash", "give_up", "error", "zombie", "held", "orphan"))
        rows.append(
            (
                cell(clock_time(entry["wall_ms"]), "dim"),
                cell(entry["pid"], "number"),
                cell(entry["event"], "bad" if bad else "id"),
                cell(" ".join(f"{key}={value}" for key, value in rest.items()), width=160),
            )
        )
    return page(Table(("", "pid", "", ""), tuple(rows), frozenset({1}), "(nothing has happened)"))


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _log(answer: Mapping[str, Any]) -> Page:
    return (
        page(*(part for record in answer["records"] for part in log_lines(record)))
        if answer["records"]
        else page(lines("(nothing was logged)"))
    )


def log_lines(record: Mapping[str, Any]) -> Iterator[Lines]:
    """A log record: its first line with the time, the others below it."""
    first, *rest = str(record["text"]).splitlines() or [""]
    bad: Meaning = "bad" if record["level"] in ("ERROR", "CRITICAL") else "busy" if record["level"] == "WARNING" else ""
    head = f"{clock_time(record['wall_ms'])} {record['level'].lower()} "
    yield Lines(((cell(head, bad), cell(first)), *((cell(f"    {line}", "dim"),) for line in rest)))


def _lag(answer: Mapping[str, Any]) -> Page:
    told = f"median {answer['median_ms']} ms, worst {answer['worst_ms']} ms over {answer['passes']} passes"
    held = [
        f"{clock_time(entry['wall_ms'])} held for {seconds(entry.get('held_s'))} by {entry.get('holder')}"
        for entry in answer["held"]
    ]
    return page(lines(told, f"{answer['queue']} processes in the run queue", *held))


def event_page(op: str, event: Any) -> Page:
    """One event of a feed."""
    if op == "follow_log":
        return page(*log_lines(event))
    if isinstance(event, Mapping) and "what" in event:
        marks: Mapping[str, Meaning] = {"in": "good", "out": "busy", "note": "bad"}
        what = str(event["what"])
        time = clock_time(event.get("wall_ms"))
        return page(
            Lines(((cell(f"{time} ", "dim"), cell(f"{what} ", marks.get(what, "id")), cell(event.get("text"))),))
        )
    return page(lines(str(event)))


def help_page(commands: Mapping[str, Command], name: str | None, *, unsafe: bool = False) -> Page:
    """What can be asked, or how one command is typed."""
    if name is not None and name in commands:
        command = commands[name]
        flags = [f"  --{flag.name}  {flag.summary}" for flag in command.flags if flag.summary]
        return page(lines(f"usage: {command.usage()}", command.summary, *flags))
    if name is not None:
        return page(lines(f"error: there is no command {name}", meaning="bad"))
    rows = tuple(
        (cell(command.usage(), "id"), cell(command.summary))
        for command in commands.values()
        if unsafe or not command.unsafe
    )
    hint = "A process is meant by its number, its registered name, or (the beginning of) its id in the tree."
    return page(Table(("", ""), rows), lines("", hint))


RENDERERS: Final[Mapping[str, Renderer]] = {
    "tree": _tree,
    "top": _top,
    "info": _info,
    "state": _state,
    "stack": _stack,
    "messages": _messages,
    "registry": _registry,
    "tables": _tables,
    "apps": _apps,
    "streams": _streams,
    "zombies": _zombies,
    "history": _history,
    "log": _log,
    "lag": _lag,
}
