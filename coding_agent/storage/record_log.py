"""Edge. The entries of one session, wherever they are: in the file, or still on their way to it.

Reads an entry by its position in the tree, and writes new ones. An entry that could not be written waits in memory;
the next write takes all that wait, in order, as one piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from coding_agent.errors import SessionClosed, SessionFileChanged, SessionLocked, SessionReadOnly, SessionWriteFailed
from coding_agent.messages import SessionMessage, message_from_json
from coding_agent.storage.bounds import bounded_result
from coding_agent.storage.files import Files, OsFiles
from coding_agent.storage.jsonl import FsyncPolicy, SessionFile
from coding_agent.storage.lines import encode, read_line, to_bytes
from coding_agent.storage.loader import Loader
from coding_agent.storage.migrate import CURRENT, upgrade, upgrade_header_text, upgrade_text
from coding_agent.storage.report import Report, TornTail
from coding_agent.storage.stamps import Stamper, new_entry_id
from coding_agent.storage.tree import SessionTree

MAX_BYTES: Final = 4 << 30
"""A session file larger than this is refused before it is read."""

_LONG_LINE: Final = 128 << 10
_NOT_IN_FILE: Final = -1


class RecordLog:
    """The entries of one session and the file they are stored in."""

    def __init__(self, path: Path, header: dict[str, Any], file: SessionFile, loader: Loader) -> None:
        self.path = path
        self.header = header
        self.tree: SessionTree = loader.tree
        self._report: Report = loader.report
        self._file = file
        self._loader = loader
        self._messages: list[SessionMessage | None] = loader.messages
        self._waiting: dict[int, bytes] = {}
        self._spare: dict[int, bytes] = {}
        self._stamper = Stamper()
        self._closed = False
        self._is_ordinary = False  # the file is ours, open and of the present format; known from the first write on

    @classmethod
    def new(cls, path: Path, header: dict[str, Any], *, files: Files | None = None, fsync: FsyncPolicy) -> RecordLog:
        """A session without entries; its file comes into being with the first one."""
        file = SessionFile(path, files or OsFiles(), fsync)
        return cls(path, header, file, Loader(path, file.read_at, header=header))

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        writing: bool = True,
        files: Files | None = None,
        fsync: FsyncPolicy = "turn",
        max_bytes: int | None = MAX_BYTES,
    ) -> RecordLog:
        """A session as its file has it. Reading changes nothing on disk, damage included.

        Raises:
            SessionError: It is not there, no session, too new, too large or in use; the class says which.
        """
        file = SessionFile(path, files or OsFiles(), fsync)
        file.open(writing=writing, max_bytes=max_bytes)
        try:
            loader = Loader(path, file.read_at)
            loader.feed(file.lines())
            loader.finish()
            loader.tree.to_be_rewritten = loader.report.version < CURRENT
        except BaseException:
            file.close()
            raise
        assert loader.header is not None
        report = loader.report
        report.stale_lock = file.stale_lock
        report.read_only = report.read_only or file.read_only
        file.torn_tail = report.torn_tail
        if report.version > CURRENT and writing:
            file.close()
            file.open(writing=False, max_bytes=None)
        return cls(path, loader.header, file, loader)

    @classmethod
    def imported(
        cls, path: Path, header: dict[str, Any], entries: Sequence[dict[str, Any]], problems: Sequence[str], why: str
    ) -> RecordLog:
        """A session of another program, held in memory for reading."""
        log = cls.new(path, header, fsync="none")
        for data in entries:
            line = to_bytes(encode(data))
            log._waiting[log.tree.add(data, _NOT_IN_FILE, len(line))] = line
            log._messages.append(None)
        log.report.notes += problems
        log.report.read_only = why
        return log

    @property
    def report(self) -> Report:
        """What was found wrong with the file and what has been noticed since."""
        report = self._report
        report.entries = len(self.tree)
        report.size = self._file.size
        report.torn_tail = self._file.torn_tail
        return report

    # Reading.

    def entry_data(self, position: int) -> dict[str, Any]:
        """The object of an entry as format 3 has it, under the id and parent it has in the tree."""
        waiting = self._waiting.get(position)
        raw = self._raw(position) if waiting is None else waiting
        records = read_line(raw).records
        data = records[0].data if records else {"type": self.tree.kinds[position].partition("/")[0]}
        return self._upgraded(position, data) if self._needs_change(position) else data

    def entry_bytes(self, position: int) -> bytes:
        """The line of an entry as a file of format 3 has it; the bytes of the file itself wherever they can stay."""
        waiting = self._waiting.get(position)
        raw = self._raw(position) if waiting is None else waiting
        if not self._needs_change(position):
            return raw
        line = read_line(raw)
        data = line.records[0].data
        upgraded = self._upgraded(position, data)
        if line.problem is not None:
            return to_bytes(encode(upgraded))
        return to_bytes(upgrade_text(raw.decode("utf-8"), data, upgraded))

    def message_at(self, position: int) -> SessionMessage | None:
        """The message of an entry; None when none can be made of it."""
        found = self._messages[position]
        if found is None:
            if self.tree.ids[position] in self._report.undecodable:
                return None
            try:
                found = message_from_json(self.entry_data(position)["message"])
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                self._report.undecodable[self.tree.ids[position]] = f"no message can be made of it: {error}"
                return None
            self._messages[position] = found
        return found

    def held_message(self, position: int) -> SessionMessage | None:
        """The message of an entry if it is in memory; the file is not looked at."""
        return self._messages[position]

    def spare(self, position: int) -> bytes | None:
        """The line of an entry that is in memory, should its bytes be gone; messages are held otherwise."""
        if position in self._spare:
            return self._spare[position]
        state = self.tree.states.get(position)
        return None if state is None else to_bytes(encode(state))

    def keep_only(self, positions: Sequence[int]) -> None:
        """Forget decoded messages of other entries; they are read again when they are asked for."""
        kept = set(positions)
        for at in range(len(self._messages)):
            if at not in kept:
                self._messages[at] = None

    def _raw(self, position: int) -> bytes:
        length = self.tree.lengths[position]
        raw = self._file.read_at(self.tree.offsets[position], length)
        if len(raw) < length:
            detail = "a part of it is gone"
            raise SessionFileChanged(self.path, unsaved=self.unsaved, change="truncated", detail=detail)
        return raw

    def _needs_change(self, position: int) -> bool:
        return position in self.tree.bent or (self._report.version < CURRENT and position not in self._waiting)

    def _upgraded(self, position: int, data: dict[str, Any]) -> dict[str, Any]:
        tree = self.tree
        parent = tree.parents[position]
        return upgrade(
            data,
            self._report.version,
            entry_id=tree.ids[position],
            parent_id=tree.ids[parent] if parent >= 0 else None,
            first_kept=self._loader.first_kept.get(position),
        )

    # Writing.

    @property
    def unsaved(self) -> int:
        """Entries that wait in memory because a write failed."""
        return 0 if self._report.read_only else len(self._waiting)

    def append(self, body: Mapping[str, Any], message: SessionMessage | None = None) -> str:
        """Hang one entry on the leaf and write it: `add` by a shorter way where nothing out of the ordinary is due.

        Raises:
            SessionReadOnly, SessionClosed, SessionWriteFailed: See `add`.
        """
        file, tree = self._file, self.tree
        if not self._is_ordinary or self._waiting or file.torn_tail is not None or file.has_changed():
            return self.add((body,), (message,))[0]
        data = self._stamped(body)
        line = to_bytes(encode(data))
        if len(line) > _LONG_LINE:
            return self.add((body,), (message,))[0]
        position = tree.add(data, file.size, len(line))
        self._messages.append(message)
        if message is None:
            self._keep_spare(position, line)
        try:
            file.append(line + b"\n")
        except OSError as error:
            tree.offsets[position], self._waiting[position] = _NOT_IN_FILE, line
            raise self._failed(error, data["id"]) from error
        self._report.lines += 1
        if file.syncs_each:
            self._sync("entry")
        return tree.ids[position]

    def add(self, bodies: Sequence[Mapping[str, Any]], messages: Sequence[SessionMessage | None] = ()) -> list[str]:
        """Hang entries on the leaf, each on the one before it, and write them as one piece.

        Args:
            bodies: For each entry its type and the members of its own; `parentId` overrides the leaf.
            messages: For each entry its message, so that it need not be decoded again, or None.

        Returns:
            Their ids.

        Raises:
            SessionReadOnly, SessionClosed: Nothing was added.
            SessionWriteFailed: They were added to the tree and wait in memory.
        """
        if self._closed:
            raise SessionClosed(self.path)
        if self._report.read_only is not None:
            raise SessionReadOnly(self.path, self._report.read_only)
        failure: Exception | None = None
        try:
            grown = self._file.grown()
            if grown:
                self._take_in_foreign(grown)
        except (SessionFileChanged, OSError) as error:
            failure = error
        first = len(self.tree)
        for body, message in zip(bodies, messages or [None] * len(bodies), strict=True):
            self._hang(body)
            self._messages.append(message)
        if failure is None:
            try:
                self._write_waiting()
            except (OSError, SessionLocked) as error:
                failure = error
        ids = self.tree.ids[first:]
        if failure is not None:
            raise self._failed(failure, ids[-1] if ids else None) from failure
        return ids

    def flush(self) -> None:
        """Write what waits.

        Raises:
            SessionWriteFailed: It still waits.
        """
        if self._waiting:
            self.add(())

    def turn_end(self) -> None:
        """Write what waits and force it to the disk, if the policy is to.

        Raises:
            SessionWriteFailed: Something still waits, or the disk did not take it.
        """
        self.flush()
        self.force()

    @property
    def is_force_due(self) -> bool:
        """Has the policy something to be forced to the disk at the end of a turn?"""
        return self._file.is_due("turn")

    def force(self) -> None:
        """Force the turn to the disk, if the policy is to; on any thread, while the log is not used on another.

        Raises:
            SessionWriteFailed: The disk did not take it.
        """
        self._sync("turn")

    def close(self) -> None:
        """Write what waits, give up the file and its lock. Closing twice is allowed.

        Raises:
            SessionWriteFailed: Something could not be written and is lost unless the caller has it; the lock is gone.
        """
        if self._closed:
            return
        try:
            if self._report.read_only is None:
                self.turn_end()
        finally:
            self._closed, self._is_ordinary = True, False
            self._file.close()

    def abandon(self) -> None:
        """Give up the file without writing what waits: somebody else has taken it over."""
        self._closed, self._is_ordinary = True, False
        self._file.close()

    def _hang(self, body: Mapping[str, Any]) -> None:
        tree, data = self.tree, self._stamped(body)
        line = to_bytes(encode(data))
        if len(line) > _LONG_LINE and data["type"] == "message":
            data["message"] = bounded_result(data["message"])
            line = to_bytes(encode(data))
        position = tree.add(data, _NOT_IN_FILE, len(line))
        self._waiting[position] = line
        self._keep_spare(position, line)

    def _keep_spare(self, position: int, line: bytes) -> None:
        """What is no message is small and nowhere else in memory: keep it, in case the file is taken from us."""
        if self.tree.kinds[position][:8] != "message/" and len(line) <= _LONG_LINE:
            self._spare[position] = line

    def _stamped(self, body: Mapping[str, Any]) -> dict[str, Any]:
        tree = self.tree
        return {
            "type": body["type"],
            "id": new_entry_id(tree),
            "parentId": tree.disk_id(tree.leaf),
            "timestamp": self._stamper.now(),
            **body,
        }

    def _write_waiting(self) -> None:
        if self._report.version < CURRENT:
            self._migrate()
        waiting, offsets = self._waiting, self.tree.offsets
        data = b"\n".join([*waiting.values(), b""])
        offset = self._file.append(data) if self._file.is_open else self._create(data)
        for position, line in waiting.items():
            offsets[position] = offset
            offset += len(line) + 1
        self._report.lines += len(waiting)
        waiting.clear()
        self._is_ordinary = True
        self._file.sync("entry")

    def _create(self, data: bytes) -> int:
        header = to_bytes(encode(self.header)) + b"\n"
        self._file.create()
        try:
            start = self._file.append(header + data)
        except OSError:
            self._file.discard_empty()
            raise
        self._report.lines += 1
        return start + len(header)

    def _take_in_foreign(self, grown: int) -> None:
        """Read what another program has added; our leaf stays where it is."""
        torn = self._file.torn_tail
        start = torn.offset if torn is not None and torn.length else self._file.size
        end = self._file.size + grown
        before, leaf = len(self.tree), self.tree.leaf
        self._report.torn_tail = None
        self._loader.feed(self._file.lines(start, end), start)
        self.tree.leaf = leaf
        self._file.size = end
        # Another program may be in the middle of this line: it is not cut off, the next one begins below it.
        self._file.torn_tail = TornTail(end, 0) if self._report.torn_tail is not None else None
        self._report.foreign_entries += len(self.tree) - before

    def _migrate(self) -> None:
        """Write the file anew in format 3; the old one stays as `.bak`."""
        tree = self.tree
        spans: list[tuple[int, int, int | None]] = [(offset, length, None) for offset, length in self._loader.verbatim]
        spans += [(tree.offsets[at], 0, at) for at in range(len(tree)) if tree.offsets[at] >= 0]
        spans.sort(key=lambda span: span[0])
        offsets: dict[int, tuple[int, int]] = {}
        with self._file.replacing() as successor:
            successor.append(self._upgraded_header() + b"\n")
            for offset, length, position in spans:
                line = self._file.read_at(offset, length) if position is None else self.entry_bytes(position)
                start = successor.append(line + b"\n")
                if position is not None:
                    offsets[position] = (start, len(line))
        for position, (start, length) in offsets.items():
            tree.offsets[position], tree.lengths[position] = start, length
        tree.straighten()
        self.header["version"] = self._report.version = CURRENT

    def _upgraded_header(self) -> bytes:
        text = self._file.read_at(*self._loader.header_span).decode("utf-8", "surrogateescape")
        try:
            return upgrade_header_text(text).encode("utf-8", "surrogateescape")
        except ValueError:  # readable, but not to the letter of JSON
            return to_bytes(encode({**self.header, "version": CURRENT}))

    def _sync(self, moment: FsyncPolicy) -> None:
        try:
            self._file.sync(moment)
        except OSError as error:
            raise self._failed(error, None) from error

    def _failed(self, error: Exception, entry_id: str | None) -> SessionWriteFailed:
        if isinstance(error, SessionFileChanged):
            return SessionFileChanged(self.path, entry_id, self.unsaved, error.detail, error.change)
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return SessionWriteFailed(self.path, entry_id, self.unsaved, said)
