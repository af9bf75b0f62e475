"""Pure, but for rich. Tool calls: what was asked in one line, what came of it below, diffs in colours."""

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from coding_agent.terminal.blocks import ToolRan
from coding_agent.terminal.graphemes import clip
from coding_agent.terminal.plain_lines import elapsed, main_argument
from coding_agent.terminal.screen_text import for_screen, one_line

OUTPUT_LINES: Final = 10
"""Of a folded result."""
LINE_COLUMNS: Final = 400
"""Of a line of a folded result."""
DIFF_LINES: Final = 40
UNFOLDED_LINES: Final = 2_000
"""Nobody reads more in a terminal."""
QUIET_TOOLS: Final = ("read", "ls", "find", "grep")
"""Their results are for the model; a person wants to know that they ran, and how much they found."""
STATUS_MARKS: Final = {"completed": "☒", "in_progress": "◐"}


def call_text(name: str, args: Mapping[str, Any], *, mark: str, style: str, note: str = "", width: int = 80) -> Text:
    """The line that stands for a call: a mark, the tool, the argument that says most, a note."""
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{mark} ", style)
    text.append(one_line(name), "bold")
    room = width - text.cell_len - len(note) - 2
    argument = main_argument(args)
    if argument and room > 4:
        text.append(f" {clip(argument, room)}")
    if note:
        text.append(f" {note}", "faint")
    return text


def tool_ran(ran: ToolRan, *, folded: bool, width: int) -> RenderableType:
    """A finished call."""
    mark, style = ("✗", "mark.bad") if ran.is_error else ("✓", "mark.ok")
    body, summary = tool_body(ran, folded=folded)
    note = " · ".join(filter(None, (summary, elapsed(ran.seconds))))
    head = call_text(ran.name, ran.args, mark=mark, style=style, note=note, width=width)
    parts: list[RenderableType] = [head]
    command = ran.args.get("command") if isinstance(ran.args, Mapping) else None
    if isinstance(command, str) and "\n" in command.strip() and not folded:
        parts.append(indented(Text(for_screen(command.strip()), "faint")))
    if body is not None:
        parts.append(indented(body))
    return Group(*parts)


def tool_body(ran: ToolRan, *, folded: bool) -> tuple[Text | None, str]:
    """What is shown below the line of a finished call, and what is said in the line."""
    details = ran.details if isinstance(ran.details, Mapping) else {}
    if ran.is_error:
        return output_text(ran.text, folded=folded, style="bad"), ""
    diff = details.get("diff")
    if isinstance(diff, str) and diff.strip():
        return diff_text(diff, DIFF_LINES if folded else UNFOLDED_LINES), diff_counts(diff)
    if isinstance(details.get("todos"), list):
        return todo_text(details["todos"]), ""
    if ran.name == "write" and isinstance(ran.args.get("content"), str):
        return written(ran.args["content"], folded=folded)
    pictures = f"{ran.images} picture{'s' if ran.images > 1 else ''}" if ran.images else ""
    if ran.name in QUIET_TOOLS and folded:
        count = ran.text.count("\n") + 1 if ran.text.strip() else 0
        return None, pictures or f"{count} line{'' if count == 1 else 's'}"
    note = " · ".join(filter(None, (exit_note(details), pictures, "untrusted" if ran.untrusted else "")))
    return output_text(ran.text, folded=folded), note


def written(content: str, *, folded: bool) -> tuple[Text, str]:
    """A file that was written: its first lines, as added."""
    lines = for_screen(content).expandtabs(4).rstrip("\n").split("\n")
    most = OUTPUT_LINES if folded else UNFOLDED_LINES
    text = Text("\n".join(f"+{line}" for line in lines[:most]), "added")
    if len(lines) > most:
        text.append(f"\n… {len(lines) - most} more lines", "faint")
    return text, f"{len(lines)} line{'' if len(lines) == 1 else 's'}"


def output_text(output: str, *, folded: bool, style: str = "faint", most: int = OUTPUT_LINES) -> Text | None:
    """The end of an output, and how much of it is not shown."""
    lines = for_screen(output).expandtabs(4).strip("\n").split("\n")
    if lines == [""]:
        return None
    most = most if folded else UNFOLDED_LINES
    text = Text()
    hidden = len(lines) - most
    if hidden > 0:
        more = " (Ctrl-O shows them)" if folded else ""
        text.append(f"… {hidden} line{'' if hidden == 1 else 's'} above{more}\n", "aside")
    shown = lines[-most:]
    text.append("\n".join(shown if not folded else (clip(line, LINE_COLUMNS) for line in shown)), style)
    return text


def diff_text(diff: str, most: int) -> Text:
    """A unified diff in colours."""
    lines = for_screen(diff).expandtabs(4).rstrip("\n").split("\n")
    text = Text()
    for number, line in enumerate(lines[:most]):
        style = {"+": "added", "-": "removed", "@": "hunk"}.get(line[:1], "faint")
        if line.startswith(("+++", "---")):
            style = "bold"
        text.append(("\n" if number else "") + line, style)
    if len(lines) > most:
        text.append(f"\n… {len(lines) - most} more lines (Ctrl-O shows them)", "aside")
    return text


def diff_counts(diff: str) -> str:
    """`+3 -1`."""
    lines = diff.split("\n")
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    return f"+{added} -{removed}"


def todo_text(todos: list[Any]) -> Text | None:
    """The session's list of things to do."""
    text = Text()
    for todo in todos[:50]:
        if not isinstance(todo, Mapping):
            continue
        status = str(todo.get("status", ""))
        style = {"completed": "faint", "in_progress": "bold"}.get(status, "")
        words = todo.get("content") or todo.get("text") or todo.get("title") or ""
        text.append(("\n" if text else "") + f"{STATUS_MARKS.get(status, '☐')} {one_line(str(words))}", style)
    return text if text else None


def exit_note(details: Mapping[str, Any]) -> str:
    """How a command ended, when not well."""
    if details.get("timed_out"):
        return "timed out"
    if details.get("cancelled"):
        return "cancelled"
    code = details.get("exit_code")
    return f"exit {code}" if isinstance(code, int) and code else ""


def indented(body: RenderableType) -> RenderableType:
    """Below its line."""
    return Padding(body, (0, 0, 0, 2))
