"""Pure. The patch language: operations on files, and hunks found by their own lines instead of by numbers.

*** Begin Patch
*** Add File: new.txt
+its lines
*** Update File: old.txt
*** Move to: renamed.txt
@@ def here():
 a line that stays
-a line that goes
+a line that comes
*** Delete File: gone.txt
*** End Patch
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from attrs import field, frozen

from coding_agent.tools.edits import Change
from coding_agent.tools.text_file import NEWLINE, line_ending_near

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
ADD: Final = "*** Add File: "
UPDATE: Final = "*** Update File: "
DELETE: Final = "*** Delete File: "
MOVE: Final = "*** Move to: "
END_OF_FILE: Final = "*** End of File"

Mark: TypeAlias = Literal[" ", "-", "+"]


class BadPatch(ValueError):
    """The patch cannot be read or does not fit; the text says where and why."""


@frozen
class Hunk:
    """Lines of one place.

    Attributes:
        anchors: Lines to be met before, one after the other, such as a function's head.
        lines: Marked lines: kept, removed, added.
        at_end: The place is the end of the file.
    """

    anchors: tuple[str, ...]
    lines: tuple[tuple[Mark, str], ...]
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        """The lines as they must stand in the file."""
        return [line for mark, line in self.lines if mark != "+"]


@frozen
class Operation:
    """What is to be done to one file.

    Attributes:
        kind: "add", "update" or "delete".
        path: As written.
        content: Of a new file.
        hunks: Of an update.
        move_to: Where an updated file goes, None when it stays.
    """

    kind: Literal["add", "update", "delete"]
    path: str
    content: str = field(default="", repr=False)
    hunks: tuple[Hunk, ...] = ()
    move_to: str | None = None


def parse(text: str) -> list[Operation]:
    """The operations of a patch.

    Raises:
        BadPatch: It is no patch; the line is named.
    """
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    lines = unquoted(lines)
    if not lines or lines[0].strip() != BEGIN:
        raise BadPatch(f"the patch must begin with the line {BEGIN!r}")
    if lines[-1].strip() != END:
        raise BadPatch(f"the patch must end with the line {END!r}")
    operations = list(_operations(lines[1:-1]))
    if not operations:
        raise BadPatch("the patch holds no operation")
    return operations


def unquoted(lines: list[str]) -> list[str]:
    """Without the fence or here-document that some put around."""
    if len(lines) > 2 and lines[0].strip().startswith(("```", "<<")) and lines[1].strip() == BEGIN:
        return lines[1:-1]
    return lines


def _operations(lines: Sequence[str]) -> Iterator[Operation]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
            continue
        body, at = _body(lines, at + 1)
        number = at - len(body) + 1
        if line.startswith(ADD):
            yield Operation("add", line[len(ADD) :].strip(), content=_added(body, number))
        elif line.startswith(DELETE):
            if any(each.strip() for each in body):
                raise BadPatch(f"line {number + 1}: nothing may follow a deletion")
            yield Operation("delete", line[len(DELETE) :].strip())
        elif line.startswith(UPDATE):
            yield _update(line[len(UPDATE) :].strip(), body, number)
        else:
            raise BadPatch(f"line {number}: expected an operation such as {UPDATE.strip()!r}, found {line[:80]!r}")


def _body(lines: Sequence[str], start: int) -> tuple[list[str], int]:
    """The lines up to the next operation, and where that is."""
    end = start
    while end < len(lines) and not lines[end].startswith((ADD, UPDATE, DELETE)):
        end += 1
    return list(lines[start:end]), end


def _added(body: Sequence[str], number: int) -> str:
    for offset, line in enumerate(body):
        if not line.startswith("+") and line.strip():
            raise BadPatch(f"line {number + 1 + offset}: every line of a new file must begin with '+'")
    return "".join(f"{line[1:]}\n" for line in body if line.startswith("+"))


def _update(path: str, body: Sequence[str], number: int) -> Operation:
    move_to = None
    if body and body[0].startswith(MOVE):
        move_to = body[0][len(MOVE) :].strip()
        body = body[1:]
        number += 1
    hunks = tuple(_hunks(body, number))
    if not hunks and move_to is None:
        raise BadPatch(f"line {number}: the update of {path} changes nothing")
    return Operation("update", path, hunks=hunks, move_to=move_to)


def _hunks(body: Sequence[str], number: int) -> Iterator[Hunk]:
    anchors: list[str] = []
    lines: list[tuple[Mark, str]] = []
    at_end = False
    bare = 0  # empty lines at the end, which may stand between hunks only; a kept empty line is a space

    def finished() -> Iterator[Hunk]:
        if len(lines) > bare:
            yield Hunk(tuple(anchors), tuple(lines[: len(lines) - bare]), at_end)

    for offset, line in enumerate(body):
        if not line:
            bare += 1
        elif not line.startswith("@@"):
            bare = 0
        if line.startswith("@@"):
            if lines:
                yield from finished()
                anchors, lines, at_end, bare = [], [], False, 0
            anchor = line.removeprefix("@@").strip().removesuffix("@@").strip()
            if anchor and not anchor.startswith("-"):  # the numbers of a unified diff say nothing here
                anchors.append(anchor)
        elif line.strip() == END_OF_FILE:
            at_end = True
        elif line[:1] == " ":
            lines.append((" ", line[1:]))
        elif line[:1] == "-":
            lines.append(("-", line[1:]))
        elif line[:1] == "+":
            lines.append(("+", line[1:]))
        elif not line:
            lines.append((" ", ""))
        else:
            raise BadPatch(f"line {number + 1 + offset}: a line of a hunk must begin with ' ', '-', '+' or '@@'")
    yield from finished()


def changes_of(text: str, hunks: Sequence[Hunk], path: str) -> list[Change]:
    """What the hunks change in a file's text, in order.

    Raises:
        BadPatch: The lines of a hunk do not stand there, or two hunks want the same ones.
    """
    lines = _lines(text)
    plain = [line for line, _start, _end in lines]
    changes: list[Change] = []
    at = 0
    for number, hunk in enumerate(hunks, 1):
        for anchor in hunk.anchors:
            at = _anchor(plain, anchor, at, path)
        place = _find(plain, hunk, at) or (None if hunk.anchors else _find(plain, hunk, 0))
        if place is None:
            shown = "\n".join(hunk.old[:6])
            raise BadPatch(f"Context not found in {path} (hunk {number}):\n{shown}")
        first, loose = place
        changes += _hunk_changes(text, lines, hunk, first, loose)
        at = first + len(hunk.old)
    changes.sort(key=lambda change: (change.start, change.end))
    if any(after.start < before.end for before, after in pairwise(changes)):
        raise BadPatch(f"two hunks change the same lines of {path}")
    return changes


def _lines(text: str) -> list[tuple[str, int, int]]:
    """Each line with where it begins and where it ends, its line ending included."""
    found = []
    at = 0
    for ending in NEWLINE.finditer(text):
        found.append((text[at : ending.start()], at, ending.end()))
        at = ending.end()
    if at < len(text):
        found.append((text[at:], at, len(text)))
    return found


def _anchor(plain: Sequence[str], anchor: str, at: int, path: str) -> int:
    for index in range(at, len(plain)):
        if plain[index].strip() == anchor:
            return index + 1
    for index in range(at, len(plain)):
        if anchor in plain[index]:
            return index + 1
    raise BadPatch(f"Context not found in {path}: no line {anchor!r} after line {at}")


def _find(plain: Sequence[str], hunk: Hunk, at: int) -> tuple[int, bool] | None:
    """Where the hunk's lines stand, from line `at` on: letter for letter, else up to blanks at line ends."""
    old = hunk.old
    if not old:
        return (len(plain), False) if hunk.at_end or not hunk.anchors else (at, False)
    last = len(plain) - len(old)
    starts = range(last, last + 1) if hunk.at_end and last >= at else range(at, last + 1)
    for start in starts:
        if plain[start] == old[0] and list(plain[start : start + len(old)]) == old:
            return start, False
    bare = [line.rstrip() for line in old]
    for start in starts:
        if plain[start].rstrip() == bare[0] and [line.rstrip() for line in plain[start : start + len(old)]] == bare:
            return start, True
    return None


def _hunk_changes(
    text: str, lines: Sequence[tuple[str, int, int]], hunk: Hunk, first: int, loose: bool
) -> Iterator[Change]:
    """The runs of removed and added lines, each as one change; kept lines stay as they are in the file."""
    at = first
    removed = 0
    added: list[str] = []
    for mark, line in (*hunk.lines, (" ", "")):
        if mark == "-":
            removed += 1
        elif mark == "+":
            added.append(line)
        else:
            if removed or added:
                yield _change(text, lines, at, removed, added, loose)
                at += removed
                removed, added = 0, []
            at += 1


def _change(
    text: str, lines: Sequence[tuple[str, int, int]], at: int, removed: int, added: Sequence[str], loose: bool
) -> Change:
    start = lines[at][1] if at < len(lines) else len(text)
    end = lines[at + removed - 1][2] if removed else start
    ending = line_ending_near(text, start, end)
    new = "".join(f"{line}{ending}" for line in added)
    if start == end == len(text) and text and not text.endswith(("\n", "\r")):
        new = ending + new.removesuffix(ending)  # the file goes on not ending with a line's end
    elif removed and end == len(text) and not text.endswith(("\n", "\r")):
        new = new.removesuffix(ending)
    return Change(start, end, new, loose)
