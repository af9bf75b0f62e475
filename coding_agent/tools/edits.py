"""Pure. Where the text of an edit stands in a file: exactly, or in a looser reading that is always reported."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from attrs import frozen

from coding_agent.tools.text_file import with_line_endings
from coding_agent.tools.visible_text import unreveal

BLANKS: Final = " \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
SINGLE: Final = "'\u2018\u2019\u201a\u201b\u2032"
DOUBLE: Final = '"\u201c\u201d\u201e\u201f\u2033'
DASHES: Final = "\\-\u2010-\u2015\u2212"
TOKEN: Final = re.compile(
    f"(\\r\\n?|\\n)|([{BLANKS}]+)|([{SINGLE}])|([{DOUBLE}])|([{DASHES}])|([^{BLANKS}{SINGLE}{DOUBLE}{DASHES}\\r\\n]+)"
)
NEWLINE_HERE: Final = r"(?:\r\n?|\n)"
WINDOW: Final = 4000
"""How much more room than its own length a match may take up, in characters."""
ANCHORS_MAX: Final = 2000


@frozen
class Edit:
    """Replace `old` by `new`: the one place where it stands, or with `all` every one."""

    old: str
    new: str
    all: bool = False


@frozen
class Change:
    """One replacement in the original text.

    Attributes:
        start, end: What is replaced.
        new: By what, with the line endings that belong there.
        loose: The text there is not letter for letter what the edit named.
    """

    start: int
    end: int
    new: str
    loose: bool


class EditRefused(Exception):
    """An edit cannot be made; nothing was changed. The text says why.

    Attributes:
        kind: "empty", "not_found", "ambiguous", "overlap" or "no_change".
        index: Which of the edits, from 0.
        count: Occurrences found.
    """

    def __init__(self, kind: str, index: int, count: int = 0) -> None:
        super().__init__(kind)
        self.kind = kind
        self.index = index
        self.count = count


def plan(text: str, edits: Sequence[Edit]) -> list[Change]:
    """Every replacement, in the order of the text. All edits refer to the text as it is now.

    Raises:
        EditRefused: One of them does not fit; then none should be made.
    """
    found: list[tuple[Change, int]] = []
    for index, edit in enumerate(edits):
        found += [(change, index) for change in places(text, edit, index)]
    found.sort(key=lambda pair: (pair[0].start, pair[0].end))
    for (before, _), (after, index) in pairwise(found):
        if after.start < before.end or (after.start, after.end) == (before.start, before.end):
            raise EditRefused("overlap", index)
    changes = [change for change, _index in found]
    if all(text[change.start : change.end] == change.new for change in changes):
        raise EditRefused("no_change", 0)
    return changes


def places(text: str, edit: Edit, index: int = 0) -> list[Change]:
    """Where one edit applies.

    Raises:
        EditRefused: Nowhere, or in several places without being meant for all.
    """
    if not edit.old:
        raise EditRefused("empty", index)
    new = edit.new
    spans, loose = spans_of(text, edit.old, edit.all)
    if not spans and "\\u{" in edit.old:
        new = unreveal(new)
        spans, loose = spans_of(text, unreveal(edit.old), edit.all)
    if not spans:
        raise EditRefused("not_found", index)
    if len(spans) > 1 and not edit.all:
        raise EditRefused("ambiguous", index, len(spans))
    return [Change(start, end, with_line_endings(new, text, start, end), loose) for start, end in spans]


def spans_of(text: str, old: str, every: bool) -> tuple[list[tuple[int, int]], bool]:
    """Where `old` stands and whether that is a loose reading. To be unique it must be so in the loose reading too."""
    if every and (exact := exact_spans(text, old)):
        return exact, False
    loose = loose_spans(text, old)
    if not loose:
        return exact_spans(text, old), False
    if len(loose) == 1:
        start, end = loose[0]
        exact = exact_spans(text[start:end], old)
        if exact:
            return [(start + low, start + high) for low, high in exact], False
    return loose, True


def exact_spans(text: str, old: str) -> list[tuple[int, int]]:
    """Letter for letter, from left to right and apart; only line endings may be others."""
    plain = old.replace("\r\n", "\n")
    if "\n" not in plain:
        return list(find_all(text, plain))
    if "\r" not in text:
        return list(find_all(text, plain))
    if text.count("\r\n") == text.count("\n") == text.count("\r"):
        return list(find_all(text, plain.replace("\n", "\r\n")))
    return pattern_spans(text, plain, NEWLINE_HERE.join(map(re.escape, plain.split("\n"))))


def find_all(text: str, piece: str) -> Iterator[tuple[int, int]]:
    at = text.find(piece)
    while at >= 0:
        yield at, at + len(piece)
        at = text.find(piece, at + len(piece))


def loose_spans(text: str, old: str) -> list[tuple[int, int]]:
    """With quotes and dashes of any style, blanks of any number, and blanks at line ends not counted."""
    plain = old.replace("\r\n", "\n")
    if not plain.strip():
        return []
    return pattern_spans(text, plain, loose_pattern(plain))


def loose_pattern(old: str) -> str:
    """A regular expression for the loose reading."""
    parts: list[str] = []
    for newline, blanks, single, double, dash, rigid in TOKEN.findall(old):
        if newline:
            if parts and parts[-1] == f"[{BLANKS}]+":
                parts.pop()
            parts.append(f"[{BLANKS}]*{NEWLINE_HERE}")
        elif blanks:
            parts.append(f"[{BLANKS}]+")
        elif single:
            parts.append(f"[{SINGLE}]")
        elif double:
            parts.append(f"[{DOUBLE}]")
        elif dash:
            parts.append(f"[{DASHES}]")
        else:
            parts.append(re.escape(rigid))
    if parts and parts[-1] == f"[{BLANKS}]+":
        parts[-1] = f"[{BLANKS}]*"
    return "".join(parts)


def pattern_spans(text: str, old: str, pattern: str) -> list[tuple[int, int]]:
    """Where the pattern made from `old` matches.

    Its longest piece without freedom is searched for first, which is fast in any text, and the pattern tried only
    around there.
    """
    compiled = re.compile(pattern)
    rigid = max((match for match in TOKEN.finditer(old) if match[6]), key=lambda match: len(match[6]), default=None)
    if rigid is None:
        return [match.span() for match in compiled.finditer(text)]
    spans: dict[int, int] = {}
    lines_before = old.count("\n", 0, rigid.start())
    lines_after = old.count("\n", rigid.end())
    for count, (start, end) in enumerate(find_all(text, rigid[6])):
        if count > ANCHORS_MAX:
            return [match.span() for match in compiled.finditer(text)]
        begin = window_start(text, start, lines_before, start - len(old) - WINDOW)
        stop = window_end(text, end, lines_after, end + len(old) + WINDOW)
        for match in compiled.finditer(text, begin, stop):
            spans.setdefault(*match.span())
    return apart(sorted(spans.items()))


def window_start(text: str, at: int, lines: int, lowest: int) -> int:
    for _line in range(2 * lines + 2):  # CR LF is met as two
        at = max(text.rfind("\n", max(0, lowest), at), text.rfind("\r", max(0, lowest), at))
        if at < 0:
            return max(0, lowest)
    return at


def window_end(text: str, at: int, lines: int, highest: int) -> int:
    for _line in range(lines + 1):
        following = text.find("\n", at, highest)
        if following < 0:
            return min(len(text), highest)
        at = following + 1
    return at


def apart(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that do not overlap one before them."""
    kept: list[tuple[int, int]] = []
    for start, end in spans:
        if not kept or start >= kept[-1][1]:
            kept.append((start, end))
    return kept
