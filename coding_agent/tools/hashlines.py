"""Pure. Lines named by number and content, `5#ZP`: whether they still are what they were, and what changes in them.

The two letters stand for the line without the blanks around it, so a model that names a line it has not read, or that
is not the same any more, is found out before anything is changed.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

from coding_agent.tools.edits import Change

ALPHABET: Final = "ZPMQVRWSNKTXJBYH"
REFERENCE: Final = re.compile(r"\s*(\d{1,9})\s*#\s*([A-Za-z]{2})(?::.*)?\s*\Z", re.DOTALL)
LINE: Final = re.compile(r"([^\n]*?)(\r?\n|\Z)")
CONTEXT: Final = 2
SHOWN_MAX: Final = 200

Op: TypeAlias = Literal["replace", "append", "prepend"]
OPS: Final[Sequence[Op]] = ("replace", "append", "prepend")
AT_ONE_PLACE: Final[Sequence[Op]] = ("append", "prepend", "replace")
"""What follows the line before comes first, then what goes in front of the next one, then that one, were it empty."""


class BadHashline(ValueError):
    """An edit cannot be made as it is; the text says why, for the model."""


@frozen
class HashlineEdit:
    """One edit.

    Attributes:
        op: `replace` the lines from `start` to `end`, or put lines after (`append`) or before (`prepend`) `start`.
        start, end: As number and letters; None for the end of the file, or its beginning.
        lines: What is put there; none takes lines away.
    """

    op: Op
    start: tuple[int, str] | None
    end: tuple[int, str] | None
    lines: tuple[str, ...]


def letters_of(number: int, line: str) -> str:
    """The two letters of a line; one without a letter or digit, such as a brace, is told apart by its number."""
    text = line.strip()
    if not any(char.isalnum() for char in text):
        text = f"{number}:{text}"
    value = zlib.crc32(text.encode(errors="surrogatepass")) & 0xFF
    return ALPHABET[value >> 4] + ALPHABET[value & 15]


def reference(number: int, line: str) -> str:
    """How a line is named."""
    return f"{number}#{letters_of(number, line)}"


def edits_of(given: Any) -> list[HashlineEdit]:
    """The edits asked for, each only once.

    Raises:
        BadHashline: They are not understood.
    """
    if not isinstance(given, list) or not given:
        raise BadHashline("edits must be a list of at least one edit")
    found: list[HashlineEdit] = []
    for index, fields in enumerate(given):
        if not isinstance(fields, Mapping):
            raise BadHashline(f"edits[{index}] must be an object")
        edit = one_edit(fields, f"edits[{index}]")
        if edit not in found:
            found.append(edit)
    return found


def one_edit(fields: Mapping[str, Any], where: str) -> HashlineEdit:
    op = next((each for each in OPS if each == fields.get("op")), None)
    if op is None:
        raise BadHashline(f"{where}.op must be one of {', '.join(OPS)}")
    start, end = (parsed(fields.get(name), f"{where}.{name}") for name in ("pos", "end"))
    if op == "replace" and start is None:
        raise BadHashline(f"{where}.pos is required with replace")
    if op != "replace" and end is not None:
        raise BadHashline(f"{where}.end goes with replace only")
    if start is not None and end is not None and end[0] < start[0]:
        raise BadHashline(f"{where}.end lies before its pos")
    lines = lines_of(fields.get("lines"), f"{where}.lines")
    if op != "replace" and not lines:
        raise BadHashline(f"{where}.lines is required with {op}")
    return HashlineEdit(op, start, end, lines)


def parsed(value: Any, where: str) -> tuple[int, str] | None:
    """A reference taken apart; what `read` shows behind it may still stand there."""
    if value is None or value == "":
        return None
    match = REFERENCE.match(value) if isinstance(value, str) else None
    if match is None or int(match[1]) < 1:
        raise BadHashline(f"{where} must be a reference such as 5#ZP")
    return int(match[1]), match[2].upper()


def lines_of(value: Any, where: str) -> tuple[str, ...]:
    """Lines as a list or as text; a line end at the end of text is no further line."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = value.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise BadHashline(f"{where} must be a list of strings")
    if any("\n" in line or "\r" in line for line in value):
        raise BadHashline(f"{where}: each string is one line, without its end")
    return tuple(value)


class Lines:
    """A text by its lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans = [match.span(1) for match in LINE.finditer(text)]
        self.ends = [match[2] for match in LINE.finditer(text)]
        if len(self.spans) > 1 and self.spans[-1][0] == len(text) and self.ends[-2] == "":
            del self.spans[-1], self.ends[-1]  # the empty match behind a last line without an end

    def __len__(self) -> int:
        return len(self.spans)

    def line(self, number: int) -> str:
        start, end = self.spans[number - 1]
        return self.text[start:end]

    def usual_end(self) -> str:
        """The line end of this text."""
        return next((end for end in self.ends if end), "\n")

    @property
    def last(self) -> int:
        """The number of the last line that is one: behind a last line end there is none."""
        return len(self) - 1 if len(self) > 1 and self.spans[-1][0] == len(self.text) else len(self)


def plan(text: str, edits: Sequence[HashlineEdit]) -> tuple[list[Change], int]:
    """The changes, in the order of the text, and how many edits change nothing.

    Raises:
        BadHashline: A line is not what its reference says, or two edits are about the same lines.
    """
    lines = Lines(text)
    check(lines, edits)
    taken: list[tuple[int, int, int]] = []
    pieces: dict[tuple[int, int, int], list[str]] = {}
    same = 0
    for index, edit in enumerate(edits):
        if edit.op == "replace":
            assert edit.start is not None
            first, last = edit.start[0], (edit.end or edit.start)[0]
            clash = next((other for low, high, other in taken if low <= last and first <= high), None)
            if clash is not None:
                raise BadHashline(f"edits[{clash}] and edits[{index}] are about the same lines; join them into one")
            taken.append((first, last, index))
            start, end, new = replacement(lines, first, last, edit.lines)
        else:
            start, new = insertion(lines, edit)
            end = start
        if text[start:end] == new:
            same += 1
        else:
            pieces.setdefault((start, end, AT_ONE_PLACE.index(edit.op)), []).append(new)
    changes = [Change(start, end, "".join(new), loose=False) for (start, end, _rank), new in sorted(pieces.items())]
    return joined(changes), same


def joined(changes: list[Change]) -> list[Change]:
    """An insertion in front of a replacement becomes part of it, so that no two changes touch one place."""
    found: list[Change] = []
    for change in changes:
        before = found[-1] if found else None
        if before is not None and before.end == change.start and before.start in (before.end, change.start):
            found[-1] = Change(before.start, change.end, before.new + change.new, loose=False)
        else:
            found.append(change)
    return found


def check(lines: Lines, edits: Sequence[HashlineEdit]) -> None:
    """Return when every line is what its reference says."""
    references = [each for edit in edits for each in (edit.start, edit.end) if each is not None]
    wrong = [each for each in references if not fits(lines, *each)]
    if not wrong:
        return
    shown = sorted({near for number, _letters in wrong for near in range(number - CONTEXT, number + CONTEXT + 1)})
    fresh = [
        f"{reference(near, lines.line(near))}: {clipped(lines.line(near))}" for near in shown if 1 <= near <= len(lines)
    ]
    named = ", ".join(dict.fromkeys(f"{number}#{letters}" for number, letters in wrong))
    raise BadHashline(
        "\n".join(
            [
                f"Nothing was changed: {named} is not in the file as it is now ({lines.last} lines). Near there is:",
                *fresh,
            ]
        )
    )


def fits(lines: Lines, number: int, letters: str) -> bool:
    return number <= len(lines) and letters_of(number, lines.line(number)) == letters


def clipped(line: str) -> str:
    return line if len(line) <= SHOWN_MAX else line[: SHOWN_MAX - 1] + "…"


def replacement(lines: Lines, first: int, last: int, new: Sequence[str]) -> tuple[int, int, str]:
    """Where the lines stand, and what stands there instead. Each new line has the end of the one it replaces."""
    start, end = lines.spans[first - 1][0], lines.spans[last - 1][1]
    own = lines.ends[first - 1 : last]
    usual = next((each for each in own if each), lines.usual_end())
    if not new:
        return start, end + len(own[-1]), ""
    ends = [*(each or usual for each in own[: len(new) - 1]), *[usual] * (len(new) - 1 - len(own))]
    return start, end, "".join(line + each for line, each in zip(new, [*ends, ""], strict=False))


def insertion(lines: Lines, edit: HashlineEdit) -> tuple[int, str]:
    """Where lines are put in, and as what text."""
    usual = lines.usual_end()
    body = usual.join(edit.lines)
    if edit.op == "prepend":
        number = 1 if edit.start is None else edit.start[0]
        return lines.spans[number - 1][0], body + usual if lines.text else body
    number = lines.last if edit.start is None else edit.start[0]
    end = lines.spans[number - 1][1]
    if not lines.text:
        return 0, body
    if not lines.ends[number - 1]:
        return end, usual + body
    return end + len(lines.ends[number - 1]), body + usual
