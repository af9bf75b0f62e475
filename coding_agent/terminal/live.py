"""Pure, but for rich. What is on its way, drawn again and again: the end of an answer, tools at work, what waits."""

from typing import Final

from rich.text import Text

from coding_agent.terminal.blocks import Fold
from coding_agent.terminal.graphemes import clip
from coding_agent.terminal.markdown import markdown_lines
from coding_agent.terminal.plain_lines import elapsed
from coding_agent.terminal.render import Line, Renderer
from coding_agent.terminal.screen_text import for_screen, one_line
from coding_agent.terminal.tool_lines import call_text
from coding_agent.terminal.view import Answer, Running, View

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TURNS_A_SECOND: Final = 4
THOUGHT_LINES: Final = 6
OUTPUT_LINES: Final = 5
WORDS: Final = {
    "waiting": "waiting for the model",
    "thinking": "thinking",
    "answering": "answering",
    "calling": "writing a tool call",
    "tools": "working",
    "retrying": "waiting to try again",
    "compacting": "making the conversation shorter",
    "shell": "running your command",
}


def live_lines(renderer: Renderer, view: View, fold: Fold, now_s: float, rows: int) -> list[Line]:
    """The lines of what is on its way; where they are more than `rows`, the last ones."""
    if rows <= 0:
        return []
    lines: list[Line] = []
    if view.answer is not None:
        lines += _answer(renderer, view.answer, fold, rows)
    for running in view.tools.values():
        lines += ([[]] if not lines else []) + _running(renderer, running, fold, now_s)
    if view.shell is not None:
        lines += _running(renderer, view.shell, fold, now_s)
    for widget in view.widgets.values():
        lines += [_one(renderer, Text(clip(one_line(line), renderer.width))) for line in widget[:10]]
    below = _queue(renderer, view)
    if view.is_running or view.shell is not None:
        below.insert(0, _one(renderer, activity(view, now_s, renderer.width)))
        if lines or rows > 6:
            below.insert(0, [])
    return lines[-max(0, rows - len(below)) :] + below if rows > len(below) else below[-rows:]


def activity(view: View, now_s: float, width: int) -> Text:
    """What is done right now, for how long, and what stops it."""
    since = view.run_since_s if view.run_since_s is not None else view.shell.since_s if view.shell else now_s
    words = WORDS.get("shell" if view.shell is not None and not view.is_running else view.phase, "working")
    if view.questions and not view.questions[0].is_ours:
        words = "waiting for your answer"
    elif view.phase == "tools" and len(view.tools) > 1:
        words = f"{len(view.tools)} tools at work"
    if view.phase == "calling" and view.answer is not None and view.answer.call_characters > 200:
        words += f", {view.answer.call_characters:,} characters"
    if view.phase == "retrying" and view.retry_at_s is not None:
        words = f"{view.retry_text} in {max(0, round(view.retry_at_s - now_s))}s"
    spinner = SPINNER[int(now_s * TURNS_A_SECOND) % len(SPINNER)]
    text = Text(no_wrap=True)
    text.append(f"{spinner} ", "mark.tool")
    note = " · ".join(filter(None, (elapsed(now_s - since), "Esc stops")))
    text.append(clip(words, width - 2))
    if text.cell_len + len(note) + 2 <= width:
        text.append(f"  {note}", "faint")
    return text


def _answer(renderer: Renderer, answer: Answer, fold: Fold, rows: int) -> list[Line]:
    lines: list[Line] = []
    if answer.thinking:
        text = for_screen("".join(answer.thinking)[-4_000:]).strip()
        if fold.thinking:
            last = text.rpartition("\n")[2]
            lines += [[], _one(renderer, Text(clip(f"∴ {last}", renderer.width), "aside"))]
        else:
            lines += [[], *renderer.lines(Text(text, "aside"))[-THOUGHT_LINES:]]
    if answer.text.tail.strip():
        tail = markdown_lines(renderer, answer.text.tail)
        lines += tail if answer.text.joined else [[], *tail]
    return lines


def _running(renderer: Renderer, running: Running, fold: Fold, now_s: float) -> list[Line]:
    note = elapsed(now_s - running.since_s)
    head = call_text(running.name, running.args, mark="●", style="mark.tool", note=note, width=renderer.width)
    output = for_screen(running.output[-20_000:]).expandtabs(4).rstrip("\n").split("\n")
    shown = output[-(OUTPUT_LINES if fold.tools else OUTPUT_LINES * 3) :] if running.output.strip() else []
    room = max(1, renderer.width - 2)
    return [_one(renderer, head), *(_one(renderer, Text(f"  {clip(line, room)}", "faint")) for line in shown)]


def _queue(renderer: Renderer, view: View) -> list[Line]:
    waiting = [("next", text) for text in view.steering] + [("then", text) for text in view.follow_up]
    lines = []
    for when, text in waiting[:5]:
        lines.append(_one(renderer, Text(clip(f"  {when}: {one_line(text)}", renderer.width), "faint")))
    if len(waiting) > 5:
        lines.append(_one(renderer, Text(f"  and {len(waiting) - 5} more", "faint")))
    return lines


def _one(renderer: Renderer, text: Text) -> Line:
    text.no_wrap = True
    text.overflow = "crop"
    lines = renderer.lines(text)
    return lines[0] if lines else []
