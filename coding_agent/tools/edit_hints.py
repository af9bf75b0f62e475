"""Pure. Why the text of an edit was not found, said so that the next try can succeed."""

import re
from collections import Counter
from typing import Final

from coding_agent.tools.truncate import clip_around

NUMBERED: Final = re.compile(r"\s*\d+: ?")
SEARCHED_CHARACTERS: Final = 2_000_000
COMPARED_LINES: Final = 5_000
SHOWN_LINES: Final = 6
SHOWN_WIDTH: Final = 160


def hint(text: str, old: str) -> str:
    """A sentence or a few lines of the file; empty when nothing in it resembles `old`."""
    lines = [line for line in old.replace("\r\n", "\n").split("\n") if line.strip()]
    if lines and all(NUMBERED.match(line) for line in lines):
        return "The text begins with the line numbers that read adds; leave them out."
    if len(text) > SEARCHED_CHARACTERS or not lines:
        return ""
    at = text.casefold().find(old.casefold()) if len(old) < 10_000 else -1
    if at >= 0:
        return f"Line {text.count(chr(10), 0, at) + 1} differs from it only in upper and lower case."
    return nearest(text.splitlines(), lines)


def nearest(file_lines: list[str], lines: list[str]) -> str:
    """The region of the file most like these lines."""
    start = aligned_start([line.strip() for line in file_lines], [line.strip() for line in lines])
    if start is None:
        return ""
    shown = [
        f"{number + 1}: {clip_around(file_lines[number], 0, 0, SHOWN_WIDTH)}"
        for number in range(start, min(len(file_lines), start + min(len(lines), SHOWN_LINES)))
    ]
    return "The most similar lines are:\n" + "\n".join(shown)


def aligned_start(file_lines: list[str], lines: list[str]) -> int | None:
    """Where the lines begin in the file if most that occur in both are laid over each other."""
    wanted = {line: index for index, line in reversed(list(enumerate(lines)))}
    votes = Counter(number - wanted[line] for number, line in enumerate(file_lines) if line in wanted)
    if votes:
        return max(0, votes.most_common(1)[0][0])
    if len(file_lines) > COMPARED_LINES:
        return None
    import difflib

    key = max(lines, key=len)[:500]
    close = difflib.get_close_matches(key, [line[:500] for line in file_lines], n=1, cutoff=0.6)
    if not close:
        return None
    position = next(number for number, line in enumerate(file_lines) if line[:500] == close[0])
    return max(0, position - lines.index(max(lines, key=len)))
