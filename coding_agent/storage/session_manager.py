"""Edge. One session: its tree in memory, its file on disk, and the only way to add to either.

Not a process: the session process that owns it is the one caller, and every method returns when its work is done. An
append adds the entry to the tree and writes one line, so what returned is with the operating system. When a write
fails the entry stays in the tree and the next write takes it along, in order; nothing is dropped and nothing is
written twice.

The file is not this program's alone. Another one may add to it meanwhile: its entries are read before the next append
and become a branch beside ours. That the file was replaced, cut short or removed is noticed before each append.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from attrs import evolve

from coding_agent.errors import EntryNotFound, StaleCompaction
from coding_agent.messages import SessionMessage, content_to_json, message_to_json
from coding_agent.storage import copying
from coding_agent.storage.context import Chosen, Projector, SessionContext, build_context, chosen, project
from coding_agent.storage.files import Files
from coding_agent.storage.header import SessionHeader, header_from_json
from coding_agent.storage.jsonl import FsyncPolicy
from coding_agent.storage.listing import newest_session
from coding_agent.storage.locations import default_session_dir, file_for, new_session_file
from coding_agent.storage.record_log import MAX_BYTES, RecordLog
from coding_agent.storage.report import Report
from coding_agent.storage.retained import holds_words, kept_part, retained_tail
from coding_agent.storage.stamps import iso, new_session_id
from coding_agent.storage.transcript import repair
from coding_agent.storage.tree import ROOT, SessionTree
from lemon_ai import ToolResultMessage
from lemon_otp import wall_ms

if TYPE_CHECKING:
    from coding_agent.storage.entries import Compaction, Entry


class Keep:
    """As a target: the leaf stays where it is."""


class SessionManager:
    """One session that is open. Use it as a context manager, or close it."""

    def __init__(self, log: RecordLog) -> None:
        self._log = log
        self._owed: tuple[ToolResultMessage, ...] = ()
        self._owed_at: int = ROOT

    # Opening and closing.

    @classmethod
    def create(
        cls,
        cwd: str | Path,
        session_dir: Path | None = None,
        session_id: str | None = None,
        parent_session: str | Path | None = None,
        fsync: FsyncPolicy = "turn",
        path: Path | None = None,
        files: Files | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> SessionManager:
        """A new session. Nothing is on disk before its first append.

        Args:
            cwd: The working folder it belongs to.
            session_dir: Where session files lie; None for the user's own place.
            path: The file itself, instead of a name made up in `session_dir`.
            session_id: Its id; None for a new UUID.
            parent_session: File of the session it came out of.
            fsync: When bytes are forced to the disk.
            files: What files are written through; for tests.
            metadata: Anything else for the header.
        """
        timestamp = iso(wall_ms())
        header: dict[str, Any] = {
            "type": "session",
            "version": 3,
            "id": session_id or new_session_id(),
            "timestamp": timestamp,
            "cwd": str(cwd),
        }
        if parent_session is not None:
            header["parentSession"] = str(parent_session)
        if metadata:
            header["metadata"] = dict(metadata)
        file = path or file_for(session_dir or default_session_dir(), cwd, timestamp, header["id"])
        return cls(RecordLog.new(file.absolute(), header, files=files, fsync=fsync))

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        read_only: bool = False,
        fsync: FsyncPolicy = "turn",
        files: Files | None = None,
        max_bytes: int | None = MAX_BYTES,
    ) -> SessionManager:
        """A stored session, ours until it is closed. Nothing on disk changes before the first append.

        A file of an older format is written anew by that append and kept beside as `.bak`. A file of a newer one, and
        one that cannot be written, opens for reading; `report.read_only` says why.

        Args:
            path: The file.
            read_only: Take no lock and refuse to append.
            fsync: When bytes are forced to the disk.
            files: What files are written through; for tests.
            max_bytes: A larger file is refused unread.

        Raises:
            SessionNotFound, NotASession, UnsupportedVersion, SessionTooLarge, SessionLocked: Nothing was changed.
        """
        absolute = Path(path).absolute()
        log = RecordLog.open(absolute, writing=not read_only, files=files, fsync=fsync, max_bytes=max_bytes)
        return cls(log)

    @classmethod
    def continue_recent(
        cls, cwd: str | Path, session_dir: Path | None = None, fsync: FsyncPolicy = "turn"
    ) -> SessionManager:
        """The session of a working folder that was written last, or a new one when there is none.

        Raises:
            SessionError: The last one cannot be opened; `SessionLocked` when another host has it.
        """
        directory = session_dir or default_session_dir()
        newest = newest_session(cwd, directory)
        return cls.create(cwd, directory, fsync=fsync) if newest is None else cls.open(newest, fsync=fsync)

    def close(self) -> None:
        """Write what waits, give up the file and its lock. Closing twice is allowed.

        Raises:
            SessionWriteFailed: Something could not be written.
        """
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Asking.

    @property
    def path(self) -> Path:
        """The session file, whether it is there yet or not."""
        return self._log.path

    @property
    def header(self) -> SessionHeader:
        """The first line of the file."""
        return header_from_json(self._log.header)

    @property
    def session_id(self) -> str:
        """The session's id."""
        return str(self._log.header["id"])

    @property
    def name(self) -> str | None:
        """What the user called it."""
        return self._log.tree.name

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels by the id of the entry they are on."""
        return dict(self._log.tree.labels)

    @property
    def tree(self) -> SessionTree:
        """The skeleton of the session, for reading."""
        return self._log.tree

    @property
    def report(self) -> Report:
        """What was found wrong with the file and what has been noticed since."""
        return self._log.report

    @property
    def leaf_id(self) -> str | None:
        """The entry the next one attaches to; None before the first."""
        return self._log.tree.leaf_id

    @property
    def unsaved(self) -> int:
        """Entries that wait in memory because a write failed."""
        return self._log.unsaved

    @property
    def log(self) -> RecordLog:
        """The entries themselves, for the modules of this folder."""
        return self._log

    def entry(self, entry_id: str) -> Entry:
        """One entry.

        Raises:
            EntryNotFound: No entry has that id.
        """
        return self._entry_at(self.position(entry_id))

    def branch(self, entry_id: str | None = None) -> list[Entry]:
        """The entries from the root to one of them, by default to the leaf."""
        position = None if entry_id is None else self.position(entry_id)
        return [self._entry_at(at) for at in self.tree.path(position)]

    def children(self, entry_id: str | None) -> list[str]:
        """Ids of the entries that hang on one; None asks for the roots."""
        position = ROOT if entry_id is None else self.position(entry_id)
        return [self.tree.ids[at] for at in self.tree.children().get(position, [])]

    def position(self, entry_id: str) -> int:
        """Where an entry is in the tree.

        Raises:
            EntryNotFound: No entry has that id.
        """
        try:
            return self.tree.position(entry_id)
        except KeyError as error:
            raise EntryNotFound(self.path, entry_id) from error

    def build_context(
        self,
        entry_id: str | None = None,
        projectors: Mapping[str, Projector] | None = None,
        *,
        repaired: bool = True,
    ) -> SessionContext:
        """What a model is given at an entry, by default at the leaf.

        Args:
            entry_id: The entry.
            projectors: For types of `custom` entries, what turns them into messages.
            repaired: Give every call that the conversation has moved on from a result directly behind it. The calls of
                the last answer are left as they are: they may still be running.
        """
        position = None if entry_id is None else self.position(entry_id)
        context = build_context(self._log, position, projectors)
        if not repaired:
            return context
        whole = repair(context.messages)
        kept = whole.messages[: len(whole.messages) - len(whole.open_at_end)]
        return evolve(context, messages=kept)

    def chosen(self) -> Chosen:
        """Model, thinking level and tools at the leaf; the messages are not looked at."""
        return chosen(self._log)

    def context_items(self) -> list[tuple[str | None, SessionMessage]]:
        """The messages of the current context with the entries they come from; None for one only a compaction holds."""
        ids = self.tree.ids
        return [(ids[at] if at >= 0 else None, message) for at, message in project(self._log, self.tree.path())]

    def last_compaction(self) -> Compaction | None:
        """The newest compaction of the current branch."""
        tree = self.tree
        newest = next((at for at in reversed(tree.path()) if tree.kinds[at] == "compaction"), None)
        entry = None if newest is None else self._entry_at(newest)
        return None if entry is None or entry.type != "compaction" else cast("Compaction", entry)

    @property
    def ends_in_compaction(self) -> bool:
        """Whether nothing has been said on the current branch since its newest compaction."""
        kinds = self.tree.kinds
        spoken = (kinds[at] for at in reversed(self.tree.path()) if holds_words(kinds[at]))
        return next(spoken, None) == "compaction"

    def repair_dangling_calls(self) -> list[ToolResultMessage]:
        """Answer the calls of the last answer whose result was never stored, each with an error.

        They belong behind the messages of `build_context`. The next append stores them in front of what it stores,
        unless the leaf has been moved before.
        """
        self._owed, self._owed_at = repair(build_context(self._log).messages).open_at_end, self.tree.leaf
        return list(self._owed)

    # Appending. Each returns the new entry's id.

    def append_message(self, message: SessionMessage) -> str:
        """Store one message.

        Raises:
            SessionWriteFailed: It is in the tree and waits in memory; do not append it again.
        """
        return self._add({"type": "message", "message": message_to_json(message)}, message)

    def append_model_change(self, provider: str, model_id: str) -> str:
        """From here on another model answers."""
        return self._add({"type": "model_change", "provider": provider.replace("_", "-"), "modelId": model_id})

    def append_thinking_level_change(self, thinking_level: str) -> str:
        """From here on the model thinks more, or less."""
        return self._add({"type": "thinking_level_change", "thinkingLevel": thinking_level})

    def append_active_tools_change(self, active_tool_names: Iterable[str]) -> str:
        """From here on these tools are offered."""
        return self._add({"type": "active_tools_change", "activeToolNames": list(active_tool_names)})

    def append_compaction(
        self,
        summary: str,
        *,
        first_kept_entry_id: str | None = None,
        tokens_before: int = 0,
        details: Any = None,
        from_hook: bool = False,
        usage: Any = None,
        kept: Sequence[SessionMessage] | None = None,
        as_of: str | None = None,
    ) -> str:
        """Let a summary stand in for what came before the kept part.

        What was appended while the summary was being made is kept as well, behind the rest of the kept part.

        Args:
            summary: The words.
            first_kept_entry_id: Where the kept part begins.
            tokens_before: Estimated size of the context until now.
            details: Files read and modified in the summarised part.
            from_hook: An extension wrote the summary.
            usage: What making it cost, as a JSON object.
            kept: The kept messages, when no entry marks their beginning.
            as_of: The leaf when `kept` was chosen.

        Raises:
            StaleCompaction: The kept part is not on the current branch any more; nothing was appended.
        """
        path = self.tree.path()
        start = kept_part(self.tree, path, first_kept_entry_id, as_of)
        if start is None:
            raise StaleCompaction(self.path)
        body: dict[str, Any] = {"type": "compaction", "summary": summary}
        if first_kept_entry_id is not None:
            body["firstKeptEntryId"] = self.tree.disk_id(path[start])
        body["tokensBefore"] = tokens_before
        body |= _given(details=details, fromHook=from_hook or None, usage=usage)
        tail = [] if kept is None or first_kept_entry_id is not None else [message_to_json(one) for one in kept]
        body["retainedTail"] = tail + retained_tail(self._log, path[start:])
        entry_id = self._add(body)
        self._log.keep_only(self.tree.path())
        return entry_id

    def append_branch_summary(
        self,
        summary: str,
        from_id: str | None = None,
        *,
        details: Any = None,
        from_hook: bool = False,
        usage: Any = None,
        target: str | type[Keep] | None = Keep,
    ) -> str:
        """Say what happened on a branch that was left.

        Args:
            summary: The words.
            from_id: The leaf that was left; by default the present one.
            details: Files read and modified there.
            from_hook: An extension wrote the summary.
            usage: What making it cost, as a JSON object.
            target: Move the leaf there in the same write; None is before the first entry.
        """
        left = from_id or self.leaf_id or "root"
        body = {"type": "branch_summary", "fromId": left, "summary": summary}
        body |= _given(details=details, fromHook=from_hook or None, usage=usage)
        if target is Keep:
            return self._add(body)
        assert target is None or isinstance(target, str)
        return self._move(target, body)[-1]

    def append_custom(self, custom_type: str, data: Any = None) -> str:
        """Store the state of an extension; a model never sees it."""
        return self._add({"type": "custom", "customType": custom_type} | _given(data=data))

    def append_custom_message(self, custom_type: str, content: Any, display: bool = True, details: Any = None) -> str:
        """Store a message of an extension; a model reads it as the user's words. `content` is text or blocks."""
        shown = content if isinstance(content, str) else content_to_json(tuple(content))
        body = {"type": "custom_message", "customType": custom_type, "content": shown, "display": display}
        return self._add(body | _given(details=details))

    def append_label(self, target_id: str, label: str | None) -> str:
        """Put a bookmark on an entry; None or a blank one takes it away.

        Raises:
            EntryNotFound: There is no such entry; nothing was appended.
        """
        target = self.tree.disk_id(self.position(target_id))
        return self._add({"type": "label", "targetId": target} | _given(label=(label or "").strip() or None))

    def append_session_name(self, name: str | None) -> str:
        """Name the session; None or a blank name takes the name away."""
        return self._add({"type": "session_info"} | _given(name=" ".join((name or "").split("\n")).strip() or None))

    def set_leaf(self, target_id: str | None) -> str | None:
        """Let the next entry attach elsewhere; None is before the first entry.

        Returns:
            Id of the leaf entry; None when the leaf was there already and nothing was written.

        Raises:
            EntryNotFound: There is no such entry; nothing was appended.
        """
        if target_id == self.leaf_id:
            return None
        # Programs that do not know leaf entries take the last line for the leaf, so a line that changes nothing
        # follows it, hung on the target.
        return self._move(target_id, {"type": "session_info"} | _given(name=self.name))[0]

    def turn_end(self) -> None:
        """Force the turn to the disk, if the policy is to; also write what waits.

        Raises:
            SessionWriteFailed: Something still waits, or the disk did not take it.
        """
        self._log.turn_end()

    @property
    def is_force_due(self) -> bool:
        """Has `force` something to do?"""
        return self._log.is_force_due

    def force(self) -> None:
        """The part of `turn_end` that waits for the disk; on any thread, while this is not used on another.

        Raises:
            SessionWriteFailed: The disk did not take it.
        """
        self._log.force()

    def flush(self) -> None:
        """Write what waits.

        Raises:
            SessionWriteFailed: It still waits.
        """
        self._log.flush()

    def rescue(self, session_dir: Path | None = None) -> Path:
        """Go on in a new file, after the old one was replaced, cut short or removed.

        Everything this manager still has goes into the new file: what it can read of the old one, what it remembers,
        what waits. The old file is left as it is found.

        Args:
            session_dir: Where the new file goes; None for the place of the old one.

        Returns:
            The new file; `path` names it from now on.

        Raises:
            OSError: It could not be written; nothing changed.
        """
        made = copying.rescue(self._log, session_dir=session_dir)
        successor = RecordLog.open(made.path)
        leaf = self.leaf_id
        if leaf is None or leaf in successor.tree:
            successor.tree.leaf = ROOT if leaf is None else successor.tree.position(leaf)
        if made.lost:
            successor.report.notes.append(f"{made.lost} entries of {self.path} could not be read any more")
        self._log.abandon()
        self._log = successor
        return made.path

    def _entry_at(self, position: int) -> Entry:
        from coding_agent.storage.entries import entry_from_json  # a dozen classes that most runs never need

        return entry_from_json(self._log.entry_data(position))

    def _add(self, body: Mapping[str, Any], message: SessionMessage | None = None) -> str:
        owed, self._owed = self._owed, ()
        if not owed or self.tree.leaf != self._owed_at:
            return self._log.append(body, message)
        # Interrupted calls are answered in the same write, in front of what comes next.
        results = [{"type": "message", "message": message_to_json(result)} for result in owed]
        return self._log.add([*results, body], [*owed, message])[-1]

    def _move(self, target_id: str | None, following: Mapping[str, Any]) -> list[str]:
        target = None if target_id is None else self.tree.disk_id(self.position(target_id))
        self._owed = ()
        ids = self._log.add(({"type": "leaf", "targetId": target}, following))
        self._log.keep_only(self.tree.path())
        return ids


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


__all__ = ["Keep", "SessionManager", "new_session_file", "newest_session"]
