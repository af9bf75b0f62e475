"""Pure, but for rich. Each block of a conversation as the lines that are printed for it."""

import logging
from typing import Final, assert_never

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from coding_agent.terminal.blocks import (
    Asked,
    Banner,
    Block,
    Fold,
    Notice,
    Prose,
    Report,
    ShellRan,
    Summary,
    Thought,
    ToolRan,
    UserSaid,
)
from coding_agent.terminal.markdown import markdown_lines
from coding_agent.terminal.plain_lines import elapsed
from coding_agent.terminal.render import Line, Renderer
from coding_agent.terminal.screen_text import for_screen, one_line, spelled_out
from coding_agent.terminal.tool_lines import indented, output_text, tool_body, tool_ran

_log: Final = logging.getLogger(__name__)

PROMPT_LINES: Final = 40
"""Of a folded prompt: what was pasted can be a whole file."""
NOTICE_STYLES: Final = {"info": ("•", "faint"), "warning": ("!", "warn"), "error": ("✗", "bad")}


def lines_or_excuse(renderer: Renderer, block: Block, fold: Fold, before: Block | None = None) -> list[Line]:
    """As `block_lines`; a block that a fault keeps from being drawn is one line that says so."""
    try:
        return block_lines(renderer, block, fold, before)
    except Exception as error:
        _log.exception("a %s cannot be drawn", type(block).__name__)
        text = f"{type(block).__name__} cannot be drawn ({type(error).__name__}); /export shows it"
        return renderer.lines(Text(text, "bad"))


def block_lines(renderer: Renderer, block: Block, fold: Fold, before: Block | None = None) -> list[Line]:
    """The lines of a block, an empty one in front unless it goes on where the block before it ended."""
    lines: list[Line]
    if isinstance(block, ToolRan) and isinstance(before, ToolRan) and is_one_line(block, before, folded=fold.tools):
        return renderer.lines(tool_ran(block, folded=fold.tools, width=renderer.width))
    match block:
        case Prose(text, joined):
            lines = markdown_lines(renderer, text)
            return lines if joined or not lines else [[], *lines]
        case Thought() if fold.thinking:
            return [[], *renderer.lines(thought_line(block))]
        case Thought(text):
            body = indented(Text(for_screen(text).strip(), "aside"))
            return [[], *renderer.lines(Group(thought_line(block), body))]
        case Notice(text, level):
            mark, style = NOTICE_STYLES[level]
            return renderer.lines(hanging(mark, style, Text(for_screen(text).strip(), style)))
        case UserSaid() | ToolRan() | ShellRan() | Summary() | Asked() | Report() | Banner():
            return [[], *renderer.lines(_renderable(block, fold, renderer.width))]
        case _:
            assert_never(block)


def _renderable(
    block: UserSaid | ToolRan | ShellRan | Summary | Asked | Report | Banner, fold: Fold, width: int
) -> RenderableType:
    match block:
        case UserSaid(text, images):
            lines = for_screen(text).strip("\n").split("\n")
            more = len(lines) - PROMPT_LINES if fold.tools else 0
            words = Text("\n".join(lines[:PROMPT_LINES] if more > 0 else lines), "user")
            if more > 0:
                words.append(f"\n… {more} more lines (Ctrl-O shows them)", "aside")
            if images:
                words.append(f" [{images} picture{'s' if images > 1 else ''}]", "faint")
            return hanging("›", "mark.tool", words)
        case ToolRan():
            return tool_ran(block, folded=fold.tools, width=width)
        case ShellRan():
            return shell_ran(block, folded=fold.tools)
        case Summary(title, text):
            body = output_text(text, folded=False) if not fold.tools else None
            head = Text.assemble(("≡ ", "mark.tool"), (one_line(title), "bold"))
            if body is None:
                head.append("  (Ctrl-O shows the summary)" if text.strip() else "", "faint")
                return head
            return Group(head, indented(body))
        case Asked():
            return asked(block)
        case Report():
            return report(block)
        case Banner():
            return banner(block, width)
        case _:
            assert_never(block)


def is_one_line(*calls: ToolRan, folded: bool) -> bool:
    """Whether of all these calls nothing but their line is shown."""
    return all(tool_body(each, folded=folded)[0] is None for each in calls)


def thought_line(thought: Thought) -> Text:
    """The one line that stands for folded thinking."""
    spent = elapsed(thought.seconds)
    return Text(f"∴ thought{f' for {spent}' if spent else ''}", "aside", no_wrap=True)


def shell_ran(ran: ShellRan, *, folded: bool) -> RenderableType:
    """A command of the user's own and its output."""
    ok = ran.exit_code == 0 and not ran.cancelled
    head = Text.assemble(("$ ", "mark.ok" if ok else "mark.bad"), (one_line(ran.command), "bold"))
    notes = [
        "cancelled" if ran.cancelled else f"exit {ran.exit_code}" if ran.exit_code else "",
        "cut" if ran.truncated else "",
        "not told to the model" if ran.kept_out else "",
    ]
    if any(notes):
        head.append(f"  {' · '.join(filter(None, notes))}", "faint")
    body = output_text(ran.output, folded=folded, style="", most=30)
    return Group(head, indented(body)) if body is not None else head


def asked(block: Asked) -> RenderableType:
    """The whole of what would be done: nothing shortened, nothing invisible."""
    head = Text.assemble(
        ("? ", "mark.ask"), ("may ", "bold"), (one_line(block.tool_name), "bold"), (" do this?", "bold")
    )
    body = Text(spelled_out(block.shown).strip("\n"))
    parts: list[RenderableType] = [head, Padding(body, (0, 0, 0, 2))]
    if block.reason:
        parts.append(indented(Text(f"because {one_line(block.reason)}", "faint")))
    return Group(*parts)


def report(block: Report) -> RenderableType:
    """A title and two columns, or a text."""
    parts: list[RenderableType] = [Text(one_line(block.title), "bold")]
    if block.rows:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(overflow="fold", style="cyan")
        table.add_column(overflow="fold")
        for left, right in block.rows:
            table.add_row(one_line(left), for_screen(right))
        parts.append(indented(table))
    if block.text:
        parts.append(indented(Text(for_screen(block.text).strip("\n"))))
    return Group(*parts)


def banner(block: Banner, width: int) -> RenderableType:
    """Name, model, folder, and the three keys to know."""
    text = Text(overflow="fold")
    text.append("Lemon", "bold yellow")
    text.append(f" {one_line(block.version)}", "faint")
    for label, value in (("model", block.model), ("folder", block.cwd), ("session", block.session)):
        if value:
            text.append(f"\n{label:<8}", "faint")
            text.append(one_line(value))
    hints = "Enter sends · Alt+Enter new line · Esc stops · / commands · @ files · ! shell · Ctrl-D quits"
    text.append(f"\n{hints}" if width > 40 else "\n/help shows the keys", "faint")
    return text


def hanging(mark: str, style: str, words: Text) -> RenderableType:
    """A mark, and words beside it that stay clear of it on further lines."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True, style=style)
    table.add_column(overflow="fold")
    table.add_row(mark, words)
    return table
