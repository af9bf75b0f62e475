"""Edge of prompt-toolkit. It draws character by character; here, what a person sees as one letter is drawn as one."""

from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

from prompt_toolkit.formatted_text.base import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.utils import get_cwidth
from wcwidth import iter_graphemes

from coding_agent.terminal.graphemes import cells

SIZES: Any = get_cwidth.__globals__.get("_CHAR_SIZES_CACHE", {})
"""Where prompt-toolkit looks up how wide a string is; for letters of several characters it would add them up."""


class Cluster(str):
    """A letter of several characters that is not taken apart."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        yield str(self)

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return [self]


def cluster(grapheme: str) -> str:
    """The letter as prompt-toolkit may be given it."""
    if len(grapheme) == 1:
        return grapheme
    if grapheme not in SIZES:
        SIZES[str(grapheme)] = cells(grapheme)
    return Cluster(grapheme)


def clustered(fragments: StyleAndTextTuples) -> StyleAndTextTuples:
    """The fragments with every letter of several characters as a fragment of its own."""
    found: StyleAndTextTuples = []
    for fragment in fragments:
        style, text = fragment[0], fragment[1]
        if text.isascii():
            found.append((style, text))
        else:
            found.extend((style, cluster(grapheme)) for grapheme in iter_graphemes(text))
    return found


class Graphemes(Processor):
    """Draws the lines of an editor by letters, and puts the cursor where a letter begins."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        fragments = transformation_input.fragments
        if all(fragment[1].isascii() for fragment in fragments):
            return Transformation(fragments)
        drawn: StyleAndTextTuples = []
        begins: list[int] = []
        at = 0
        for fragment in _joined(fragments):
            for grapheme in iter_graphemes(fragment[1]):
                drawn.append((fragment[0], cluster(grapheme)))
                begins.append(at)
                at += len(grapheme)
        begins.append(at)
        return Transformation(drawn, _to_drawn(begins), _to_source(begins))


def _joined(fragments: StyleAndTextTuples) -> StyleAndTextTuples:
    """Neighbours of one style as one, so that a letter whose characters came one by one is whole."""
    found: list[tuple[str, str]] = []
    for fragment in fragments:
        if found and found[-1][0] == fragment[0]:
            found[-1] = (found[-1][0], found[-1][1] + fragment[1])
        else:
            found.append((fragment[0], fragment[1]))
    return list(found)


def _to_drawn(begins: list[int]) -> Callable[[int], int]:
    from bisect import bisect_right

    def to_drawn(source: int) -> int:
        beyond = max(0, source - begins[-1])
        return bisect_right(begins, min(source, begins[-1])) - 1 + beyond

    return to_drawn


def _to_source(begins: list[int]) -> Callable[[int], int]:
    def to_source(drawn: int) -> int:
        return begins[drawn] if drawn < len(begins) else begins[-1] + drawn - len(begins) + 1

    return to_source
