"""Pure. The question on the screen as lines: what is asked, what may be answered, which keys do it."""

from typing import Final

from coding_agent.terminal.graphemes import cells, clip
from coding_agent.terminal.questions import Option, Question
from coding_agent.terminal.screen_text import one_line

Fragments = list[tuple[str, str]]

OPTIONS_SHOWN: Final = 10


def panel_fragments(question: Question, width: int, rows: int) -> Fragments:
    """The panel in at most `rows` lines, for prompt-toolkit."""
    if question.kind == "permit" and rows < len(question.options) + 2:
        return _permit_in_short(question, width)
    lines: list[Fragments] = [_title(question, width)]
    if question.message and not question.is_field:
        lines.append([("", clip(one_line(question.message), width))])
    if question.is_field:
        if question.message:
            lines.append([("class:faint", clip(one_line(question.message), width))])
    elif question.kind == "permit":
        lines += [_permit_line(question, option, width) for option in question.options]
    else:
        lines += _options(question, width, max(1, min(OPTIONS_SHOWN, rows - len(lines) - 1)))
    lines.append(_hint(question, width))
    fragments: Fragments = []
    for number, line in enumerate(lines[: max(1, rows)]):
        if number:
            fragments.append(("", "\n"))
        fragments += line
    return fragments


def panel_height(question: Question, rows: int) -> int:
    """How many lines the panel takes of at most `rows`."""
    count = 2 + bool(question.message)
    if question.kind == "permit":
        count += len(question.options)
        if rows < count:
            return 1
    elif not question.is_field:
        count += min(OPTIONS_SHOWN, max(1, len(question.visible())))
    return max(1, min(rows, count))


def _title(question: Question, width: int) -> Fragments:
    if question.kind == "permit":
        return [("class:ask", clip("May this be done? It is shown above.", width))]
    title = one_line(question.title)
    typed = f"  {question.typed}" if question.typed else ""
    return [("class:ask", clip(title, max(1, width - cells(typed)))), ("class:typed", clip(typed, width))]


def _permit_in_short(question: Question, width: int) -> Fragments:
    """All of it in one line, for a terminal that has no more."""
    if not question.is_armed:
        return [("class:faint", clip("a moment…", width))]
    words = " · ".join(f"{option.key} {option.label.split()[0].lower()}" for option in question.options)
    return [("class:ask", clip(words, width))]


def _permit_line(question: Question, option: Option, width: int) -> Fragments:
    style = "" if question.is_armed else "class:faint"
    under = "class:chosen" if question.is_armed and option is question.chosen() else style
    return [
        ("class:key" if question.is_armed else style, f" {option.key} "),
        (under, clip(one_line(option.label), width - 3)),
    ]


def _options(question: Question, width: int, rows: int) -> list[Fragments]:
    visible = question.visible()
    if not visible:
        return [[("class:faint", clip("  nothing has these words", width))]]
    first = max(0, min(question.at - rows // 2, len(visible) - rows))
    return [
        _option(option, width, is_chosen=first + n == question.at)
        for n, option in enumerate(visible[first : first + rows])
    ]


def _option(option: Option, width: int, *, is_chosen: bool) -> Fragments:
    mark = "› " if is_chosen else "  "
    indent = "  " * min(option.depth, 8)
    room = width - cells(mark) - len(indent)
    note = f"  {option.note}" if option.note and cells(option.note) + 12 < room else ""
    label = clip(one_line(option.label), max(1, room - cells(note)))
    key = f"{option.key} " if option.key else ""
    style = "class:chosen" if is_chosen else ""
    return [(style, mark + indent), ("class:key", key), (style, label), ("class:faint", one_line_note(note))]


def one_line_note(note: str) -> str:
    """A note that keeps its distance."""
    return f"  {one_line(note)}" if note else ""


def _hint(question: Question, width: int) -> Fragments:
    if not question.is_armed:
        text = "a moment: keys do not count yet"
    elif question.kind == "permit":
        text = "y, a, n, or Enter; Esc is no"
        if not any(option.key == "a" for option in question.options):
            text = text.replace("y, a, n", "y, n")
    elif question.is_field:
        text = "Enter answers · Esc does not"
    elif len(question.options) > OPTIONS_SHOWN:
        text = f"{len(question.visible())} of {len(question.options)} · type to narrow down · Enter · Esc"
    else:
        text = "Enter · Esc"
    return [("class:faint", clip(text, width))]
