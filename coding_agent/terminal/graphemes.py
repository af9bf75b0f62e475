"""Pure. Text as a person counts it: accents and joined emoji are part of one letter, as wide as it is drawn."""

from itertools import pairwise
from typing import Final

from wcwidth import iter_graphemes, width

ELLIPSIS: Final = "…"


def cells(text: str) -> int:
    """How many columns the text takes."""
    return len(text) if text.isascii() and text.isprintable() else max(0, width(text))


def clip(text: str, columns: int) -> str:
    """The text in so many columns, its end given up for an ellipsis where it is longer."""
    if cells(text) <= columns:
        return text
    if columns <= 0:
        return ""
    kept, used = [], 0
    for grapheme in iter_graphemes(text):
        used += cells(grapheme)
        if used > columns - 1:
            break
        kept.append(grapheme)
    return "".join(kept) + ELLIPSIS


def boundaries(text: str) -> list[int]:
    """Where graphemes begin, and the end of the text."""
    found = [0]
    for grapheme in iter_graphemes(text):
        found.append(found[-1] + len(grapheme))
    return found


def before(text: str, at: int) -> int:
    """Where the grapheme begins that ends at `at`, or that `at` is inside of."""
    start = text.rfind("\n", 0, max(0, at - 1)) + 1 if at > 0 else 0
    starts = [start + each for each in boundaries(text[start : at + 32]) if start + each < at]
    return starts[-1] if starts else max(0, at - 1)


def after(text: str, at: int) -> int:
    """Where the grapheme ends that begins at `at`, or that `at` is inside of."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : len(text) if end < 0 else end]
    for low, high in pairwise(boundaries(line)):
        if start + low <= at < start + high:
            return start + high
    return min(len(text), at + 1)


def word_start(text: str, at: int) -> int:
    """Where the word begins that ends before `at`; blanks between, of whatever kind, belong to it."""
    while at > 0 and text[at - 1].isspace():
        at -= 1
    if at > 0 and not _is_word(text[at - 1]):
        while at > 0 and not _is_word(text[at - 1]) and not text[at - 1].isspace():
            at -= 1
        return at
    while at > 0 and _is_word(text[at - 1]):
        at -= 1
    return at


def word_end(text: str, at: int) -> int:
    """Where the word ends that begins after `at`; blanks before it belong to it."""
    while at < len(text) and text[at].isspace():
        at += 1
    if at < len(text) and not _is_word(text[at]):
        while at < len(text) and not _is_word(text[at]) and not text[at].isspace():
            at += 1
        return at
    while at < len(text) and _is_word(text[at]):
        at += 1
    return at


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_" or ord(char) > 0x2FFF or (ord(char) > 0x7F and not char.isspace())
