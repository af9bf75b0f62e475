"""Pure. What an edit changed, as a unified diff of the places touched; its size and cost do not grow with the file."""

import re
from collections.abc import Sequence
from typing import Final

from coding_agent.tools.edits import Change
from coding_agent.tools.truncate import clip_around, clip_text

CONTEXT: Final = 4
LINE_WIDTH: Final = 400
LONG_LINE: Final = 4 * LINE_WIDTH
BYTES_MAX: Final = 16_000
COMPARED_LINES_MAX: Final = 1_000
LINES: Final = re.compile(r"[^\r\n]*(?:\r\n?|\n)?")


def unified(text: str, changes: Sequence[Change], first_line: int | None = None) -> str:
    """The diff of making `changes` (in order, apart) to `text`; cut with a note when very long.

    `first_line` is `first_changed_line`, for who knows it already.
    """
    blocks: list[str] = []
    line_delta = 0
    counted, line_number = changes[0].start, first_line or first_changed_line(text, changes)
    for group in grouped(text, changes):
        start = lines_up(text, group[0].start, CONTEXT)
        end = lines_down(text, group[-1].end, CONTEXT)
        line_number += text.count("\n", counted, start) - text.count("\n", start, counted)
        counted = start
        block, added = hunk(text, start, end, group, line_number, line_number + line_delta)
        line_delta += added
        blocks.append(block)
        if sum(map(len, blocks)) > BYTES_MAX:
            break
    diff = "".join(blocks)
    clipped = clip_text(diff, BYTES_MAX)
    return diff if clipped == diff else clipped + "\n[... the rest of this diff is left out ...]\n"


def first_changed_line(text: str, changes: Sequence[Change]) -> int:
    """The number of the first line that changes, from 1."""
    return text.count("\n", 0, changes[0].start) + 1


def whole(old: str, new: str) -> str:
    """The diff of two versions of a file, as one change between their common beginning and end."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    low = 0
    while low < min(len(before), len(after)) and before[low] == after[low]:
        low += 1
    high = 0
    while high < min(len(before), len(after)) - low and before[-1 - high] == after[-1 - high]:
        high += 1
    start = sum(map(len, before[:low]))
    end = len(old) - sum(map(len, before[len(before) - high :]))
    inserted = "".join(after[low : len(after) - high])
    return unified(old, [Change(start, end, inserted, False)]) if old != new else ""


def grouped(text: str, changes: Sequence[Change]) -> list[list[Change]]:
    """Changes so near each other that their context touches come together."""
    groups: list[list[Change]] = []
    reach = -1
    for change in changes:
        if groups and lines_up(text, change.start, CONTEXT) <= reach:
            groups[-1].append(change)
        else:
            groups.append([change])
        reach = lines_down(text, change.end, CONTEXT)
    return groups


def lines_up(text: str, at: int, lines: int) -> int:
    """Where the line begins that is so many above the one of `at`."""
    for _line in range(lines + 1):
        at = text.rfind("\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def lines_down(text: str, at: int, lines: int) -> int:
    """Where the line ends that is so many below the one of `at`."""
    if at > 0 and text[at - 1] == "\n":
        lines -= 1
    for _line in range(lines + 1):
        at = text.find("\n", at)
        if at < 0:
            return len(text)
        at += 1
    return at


def hunk(text: str, start: int, end: int, group: Sequence[Change], old_number: int, new_number: int) -> tuple[str, int]:
    """One block of the diff, and by how many lines the text grew in it."""
    pieces: list[str] = []
    marks_old: list[int] = []
    marks_new: list[int] = []
    at, length = start, 0
    for change in group:
        pieces += [text[at : change.start], change.new]
        length += change.start - at
        marks_old.append(change.start - start)
        marks_new.append(length)
        length += len(change.new)
        at = change.end
    pieces.append(text[at:end])
    old_lines = shown_lines(text[start:end], marks_old)
    new_lines = shown_lines("".join(pieces), marks_new)
    header = f"@@ -{old_number},{len(old_lines)} +{new_number},{len(new_lines)} @@\n"
    return header + "".join(compare(old_lines, new_lines)), len(new_lines) - len(old_lines)


def shown_lines(text: str, marks: Sequence[int]) -> list[str]:
    """The lines without their ends, the long ones cut to the part around the first mark in them."""
    lines: list[str] = []
    for match in LINES.finditer(text):
        if not match[0]:
            continue
        line = match[0].rstrip("\r\n")
        if len(line) > LONG_LINE:
            mark = next((each - match.start() for each in marks if match.start() <= each < match.end()), 0)
            line = clip_around(line, mark, mark, LINE_WIDTH)
        lines.append(line)
    return lines


def compare(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The lines of both, marked as a diff marks them."""
    if len(old) > COMPARED_LINES_MAX or len(new) > COMPARED_LINES_MAX:
        return [*(f"-{line}\n" for line in old), *(f"+{line}\n" for line in new)]
    import difflib

    marked: list[str] = []
    for kind, low, high, low_new, high_new in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            marked += [f" {line}\n" for line in old[low:high]]
        else:
            marked += [f"-{line}\n" for line in old[low:high]]
            marked += [f"+{line}\n" for line in new[low_new:high_new]]
    return marked
