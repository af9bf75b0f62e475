"""Pure, over an open file. Reads the lines of a session in one pass and gives its tree.

The pass goes through the file once and keeps of each line what the tree needs. Messages are decoded on the way and
kept for the context that is usually asked for next; a compaction drops those it stands in for, so a long session costs
memory for its living part only.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field

from coding_agent.errors import NotASession, UnsupportedVersion
from coding_agent.messages import SessionMessage, message_from_json
from coding_agent.storage.lines import SCAN_ONCE, BadLine, Line, read_line
from coding_agent.storage.migrate import first_kept_id, upgrade, version_of
from coding_agent.storage.report import Report, TornTail
from coding_agent.storage.stamps import derived_entry_id
from coding_agent.storage.tree import SessionTree


@define
class Loader:
    """One session being read.

    Attributes:
        path: For error texts.
        header: The first line.
        header_span: Offset and length of the header's object.
        verbatim: Offsets and lengths of lines that are no entry of the tree and are kept as they are.
        messages: For each position its decoded message, or None: it is none, or it can be decoded again when needed.
        first_kept: For compactions of format 1, the entry they point to.
        read_at: Reads bytes of the same file again, by offset and length.
    """

    path: Path
    read_at: Callable[[int, int], bytes]
    tree: SessionTree = field(factory=SessionTree)
    report: Report = field(factory=Report)
    header: dict[str, Any] | None = None
    header_span: tuple[int, int] = (0, 0)
    verbatim: list[tuple[int, int]] = field(factory=list)
    messages: list[SessionMessage | None] = field(factory=list)
    first_kept: dict[int, str] = field(factory=dict)
    _order: list[str] = field(factory=lambda: [""])
    _offset: int = 0
    _dropped: int = 0
    _shared: dict[str, str] = field(factory=dict)

    def feed(self, lines: Iterable[bytes], offset: int = 0) -> None:
        """Read lines that stand in the file from `offset` on."""
        scan, take, report = SCAN_ONCE, self._take, self.report
        with _no_collection():
            for raw in lines:
                report.lines += 1
                try:
                    text = raw.decode("utf-8")
                    data, end = scan(text, 0)
                except (ValueError, StopIteration, RecursionError):
                    self._feed_odd(raw, offset)
                else:
                    if end == len(text) - 1 and text[end] == "\n" and type(data) is dict:
                        take(data, offset, len(raw) - 1)
                    else:
                        self._feed_odd(raw, offset)
                offset += len(raw)
        self._offset = offset
        self.tree.finish()
        self.report.size = self._offset
        self.report.entries = len(self.tree)
        self.report.problems = self.tree.problems

    def finish(self) -> None:
        """Check that there was a header; say what is wrong as a whole.

        Raises:
            NotASession: There was none.
        """
        if self.header is None:
            if self.report.lines == 0:
                raise NotASession(self.path, "empty_file", "an empty file is not a session")
            raise NotASession(self.path, "invalid_header", "no line of it is the header of a session")

    def _feed_odd(self, raw: bytes, offset: int) -> None:
        self._offset = offset
        line = read_line(raw)
        for record in line.records:
            self._take(record.data, self._offset + record.start, record.end - record.start)
        if not raw.endswith(b"\n"):
            self._torn(raw, line)
        elif line.problem is not None:
            self._bad(raw, line)

    def _bad(self, raw: bytes, line: Line) -> None:
        length = len(raw) - 1
        bad = BadLine(
            self.report.lines, self._offset, length, line.problem or "", recovered=len(line.records), lost=line.lost
        )
        self.report.bad_lines.append(bad)
        if line.rest is not None:
            self.verbatim.append((self._offset + line.rest, length - line.rest))
        if line.lost is not None or not line.records:
            self.tree.note_damage(line.lost)

    def _torn(self, raw: bytes, line: Line) -> None:
        if line.rest is None:
            self.report.torn_tail = TornTail(self._offset + len(raw), 0)
        else:
            self.report.torn_tail = TornTail(self._offset + line.rest, len(raw) - line.rest)

    def _take(self, data: dict[str, Any], offset: int, length: int) -> None:
        if self.header is None:
            self._take_header(data, offset, length)
            return
        if data.get("type") == "session":
            self.verbatim.append((offset, length))
            self._order.append("")
            return
        entry_id = data.get("id")
        if self.report.version < 3 or type(entry_id) is not str:
            data = self._upgraded(data)
            entry_id = data["id"]
        tree = self.tree
        clash = tree.clash(entry_id)
        if clash is None:
            position = tree.add(data, offset, length)
        elif self._is_repeated(clash, length, data):
            return
        else:
            position = tree.add_clashing(data, offset, length)
        self.messages.append(None)
        if self.report.version < 3:
            self._order.append(entry_id)
        kind = data.get("type")
        if kind == "message":
            self._decode(position, data)
        elif kind == "compaction":
            self._forget(position, data)

    def _take_header(self, data: dict[str, Any], offset: int, length: int) -> None:
        if data.get("kind") == "header":
            raise UnsupportedVersion(self.path, version_of(data))
        if data.get("type") != "session" or not isinstance(data.get("id"), str):
            raise NotASession(self.path, "invalid_header", "its first record is not the header of a session")
        self.header = data
        self.header_span = (offset, length)
        self.report.version = version_of(data)
        if self.report.version > 3:
            self.report.read_only = f"format {self.report.version} is newer than format 3"

    def _upgraded(self, data: dict[str, Any]) -> dict[str, Any]:
        """The entry with an id, a parent and the names of format 3."""
        tree = self.tree
        position = len(tree)
        fresh: str | None = None
        parent: str | None = None
        if type(data.get("id")) is not str:
            assert self.header is not None
            fresh = derived_entry_id(self.header["id"], self.report.lines, tree)
            parent = tree.ids[position - 1] if position else None
            tree.bent.add(position)
            if self.report.version > 1:
                tree.problems.without_id += 1
        kept = first_kept_id(data, self._order)
        if kept is not None:
            self.first_kept[position] = kept
        return upgrade(data, self.report.version, entry_id=fresh, parent_id=parent, first_kept=kept)

    def _is_repeated(self, position: int, length: int, data: dict[str, Any]) -> bool:
        if self.tree.lengths[position] != length or self._reread(position) != data:
            return False
        self.tree.problems.repeated.append(self.tree.ids[position])
        return True

    def _reread(self, position: int) -> Any:
        try:
            raw = self.read_at(self.tree.offsets[position], self.tree.lengths[position])
            return read_line(raw).records[0].data
        except (OSError, IndexError):
            return None

    def _decode(self, position: int, data: dict[str, Any]) -> None:
        message = data.get("message")
        try:
            if not isinstance(message, dict):
                raise ValueError("a message entry without a message")
            model = message.get("model")
            if type(model) is str:  # the same few names a hundred thousand times
                message["model"] = self._shared.setdefault(model, model)
            self.messages[position] = message_from_json(message)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            self.report.undecodable[self.tree.ids[position]] = f"no message can be made of it: {error}"

    def _forget(self, position: int, data: dict[str, Any]) -> None:
        """A compaction stands in for what came before: drop the messages it replaces."""
        if isinstance(data.get("retainedTail"), list):
            self._drop_before(position)
            return
        kept = data.get("firstKeptEntryId")
        first = self.tree.clash(kept) if isinstance(kept, str) else None
        if first is None:
            first = position
        self._drop_before(first)

    def _drop_before(self, position: int) -> None:
        for old in range(self._dropped, position):
            self.messages[old] = None
        self._dropped = max(self._dropped, position)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Objects are made by the hundred thousand here and none of them in circles: looking for circles is wasted."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
