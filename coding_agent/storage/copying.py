"""Edge. A new session file made of entries of another: forks, clones, rescued sessions, imports.

The new file appears at once and whole: it is written under another name first. Entries keep their ids and, wherever
nothing about them changes, their bytes. The session they come from is not touched, and what is appended to the new one
later is in the new one only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from attrs import frozen

from coding_agent.errors import BadUsage, EntryNotFound, SessionFileChanged
from coding_agent.messages import message_to_json
from coding_agent.storage.files import Files, OsFiles
from coding_agent.storage.lines import encode, read_line, to_bytes
from coding_agent.storage.locations import default_session_dir, file_for
from coding_agent.storage.navigation import text_for_editor
from coding_agent.storage.record_log import RecordLog
from coding_agent.storage.stamps import iso, new_entry_id, new_session_id
from coding_agent.storage.tree import ROOT, SessionTree
from lemon_otp import wall_ms

_NOT_INHERITED = ("id", "timestamp", "cwd", "version", "type", "parentSession", "branchedFrom")
_CHUNK = 1 << 20


@frozen
class Copy:
    """A session that was made out of another.

    Attributes:
        path: Its file.
        session_id: Its id.
        entries: How many entries it begins with.
        editor_text: The user's words it was forked in front of, to be edited and sent again; empty otherwise.
        lost: Entries of the original that could not be read any more.
    """

    path: Path
    session_id: str
    entries: int
    editor_text: str = ""
    lost: int = 0


def fork(
    log: RecordLog,
    entry_id: str | None = None,
    position: Literal["before", "at"] = "before",
    *,
    session_dir: Path | None = None,
    cwd: str | Path | None = None,
    files: Files | None = None,
) -> Copy:
    """A new session that shares the beginning of another.

    Args:
        log: The other session.
        entry_id: Where to fork; None copies every entry, all branches included.
        position: `before` the entry, which must be words of the user, or `at` it, which keeps it.
        session_dir: Where the new file goes; None for the user's own place.
        cwd: The working folder of the new session; None for that of the other.
        files: What files are written through.

    Raises:
        EntryNotFound: There is no such entry. Nothing was made.
        BadUsage: `before` an entry that is no message of the user. Nothing was made.
        OSError: The new file could not be written. Nothing was made.
    """
    if entry_id is None:
        return _publish(log, range(len(log.tree)), session_dir, cwd, files)
    if entry_id not in log.tree:
        raise EntryNotFound(log.path, entry_id)
    at = log.tree.position(entry_id)
    text = ""
    if position == "before":
        said = text_for_editor(log, at)
        if said is None:
            raise BadUsage(f"entry {entry_id} is no message of the user; fork at it, not before it")
        text, at = said, max(log.tree.parents[at], ROOT)
    return _publish(log, log.tree.path(at) if at >= 0 else (), session_dir, cwd, files, labels=True, editor_text=text)


def clone(
    log: RecordLog, *, session_dir: Path | None = None, cwd: str | Path | None = None, files: Files | None = None
) -> Copy:
    """A new session that holds the current branch of another."""
    return _publish(log, log.tree.path(), session_dir, cwd, files, labels=True)


def rescue(log: RecordLog, *, session_dir: Path | None = None, files: Files | None = None) -> Copy:
    """A new session that holds everything another one still has, entries that never reached its file included.

    What hangs on an entry that is gone hangs on the nearest one before it that is left, so no conversation falls apart.
    """
    header = _header(log, None)
    path = file_for(session_dir or log.path.parent.parent, header["cwd"], header["timestamp"], header["id"])
    left = {at: line for at in range(len(log.tree)) if (line := _left_of(log, at)) is not None}
    lines = [_rehung(log.tree, at, line, left) for at, line in left.items()]
    lines += _what_was_called(log.tree, left)
    write_session(path, [to_bytes(encode(header)), *lines], files)
    return Copy(path, header["id"], len(lines), "", len(log.tree) - len(left))


def write_session(path: Path, lines: Iterable[bytes], files: Files | None = None) -> None:
    """Write a whole session file; it is there complete, on the disk itself, or not at all.

    Raises:
        OSError: It could not be written. Nothing is left.
    """
    layer = files or OsFiles()
    layer.make_folder(path.parent)
    temporary = path.with_name(f"{path.name}.tmp.{os.urandom(6).hex()}")
    fd = layer.open(temporary, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
    try:
        for chunk in _chunks(lines):
            written = 0
            while written < len(chunk):
                written += layer.write(fd, chunk[written:])
        layer.fsync(fd)
        layer.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            layer.remove(temporary)
        raise
    finally:
        layer.close(fd)


def _publish(
    log: RecordLog,
    positions: Sequence[int],
    session_dir: Path | None,
    cwd: str | Path | None,
    files: Files | None,
    *,
    labels: bool = False,
    editor_text: str = "",
) -> Copy:
    header = _header(log, cwd)
    path = file_for(session_dir or default_session_dir(), header["cwd"], header["timestamp"], header["id"])
    lines = [line for at in positions if (line := _line(log, at)) is not None]
    extra = _label_lines(log, positions) if labels else []
    write_session(path, [to_bytes(encode(header)), *lines, *extra], files)
    return Copy(path, header["id"], len(lines) + len(extra), editor_text, len(positions) - len(lines))


def _header(log: RecordLog, cwd: str | Path | None) -> dict[str, Any]:
    inherited = {key: value for key, value in log.header.items() if key not in _NOT_INHERITED}
    return {
        "type": "session",
        "version": 3,
        "id": new_session_id(),
        "timestamp": iso(wall_ms()),
        "cwd": str(cwd) if cwd is not None else str(log.header.get("cwd") or ""),
        "parentSession": str(log.path),
        **inherited,
    }


def _line(log: RecordLog, position: int) -> bytes | None:
    """The line of an entry; where its bytes are gone, the message we still hold; None when nothing is left."""
    try:
        return log.entry_bytes(position)
    except (SessionFileChanged, OSError, IndexError, ValueError):
        return _held_line(log, position)


def _held_line(log: RecordLog, position: int) -> bytes | None:
    """The line of an entry whose message is in memory."""
    tree = log.tree
    message = log.held_message(position)
    if message is None:
        return None
    parent = tree.parents[position]
    return to_bytes(
        encode(
            {
                "type": "message",
                "id": tree.ids[position],
                "parentId": tree.ids[parent] if parent >= 0 else None,
                "timestamp": iso(message.timestamp),
                "message": message_to_json(message),
            }
        )
    )


def _left_of(log: RecordLog, position: int) -> bytes | None:
    """The line of an entry, if it still is that entry's, or what memory has of it."""
    line = _line(log, position)
    wanted = log.tree.ids[position]
    if line is not None and [record.data.get("id") for record in read_line(line).records] == [wanted]:
        return line
    return _held_line(log, position) or log.spare(position)


def _rehung(tree: SessionTree, position: int, line: bytes, left: Mapping[int, bytes]) -> bytes:
    """The line of an entry, hung on what is left before it."""
    parent = tree.parents[position]
    seen: set[int] = set()
    while parent >= 0 and parent not in left and parent not in seen:
        seen.add(parent)
        parent = tree.parents[parent]
    own = read_line(line).records[0].data
    wanted = tree.ids[parent] if parent in left else None
    return line if own.get("parentId") == wanted else to_bytes(encode({**own, "parentId": wanted}))


def _what_was_called(tree: SessionTree, left: Mapping[int, bytes]) -> list[bytes]:
    """Lines for labels and a name that no entry that is left gives."""
    labels: dict[str, str] = {}
    name: str | None = None
    for line in left.values():
        data = read_line(line).records[0].data
        if data.get("type") == "label":
            labels[str(data.get("targetId"))] = str(data.get("label") or "").strip()
        elif data.get("type") == "session_info":
            name = data.get("name")
    there = {tree.ids[at] for at in left}
    bodies: list[dict[str, Any]] = [
        {"type": "label", "targetId": target, "label": label}
        for target, label in tree.labels.items()
        if target in there and labels.get(target) != label
    ]
    bodies += [{"type": "session_info", "name": tree.name}] if tree.name and name != tree.name else []
    leaf = next((tree.ids[at] for at in reversed(tree.path()) if at in left), None)
    lines = []
    for body in bodies:
        entry_id = new_entry_id(tree)
        lines.append(to_bytes(encode({**body, "id": entry_id, "parentId": leaf, "timestamp": iso(wall_ms())})))
        leaf = entry_id
    return lines


def _label_lines(log: RecordLog, positions: Sequence[int]) -> list[bytes]:
    """Labels of the copied entries that were put on from elsewhere in the tree."""
    tree = log.tree
    own: dict[str, str] = {}
    for at in positions:
        if tree.kinds[at] == "label":
            data = log.entry_data(at)
            own[str(data.get("targetId"))] = str(data.get("label") or "").strip()
    parent = tree.ids[positions[-1]] if positions else None
    lines: list[bytes] = []
    for target, label in tree.labelled(positions).items():
        if own.get(target) != label:
            entry_id = new_entry_id(tree)
            data = {"type": "label", "id": entry_id, "parentId": parent, "timestamp": iso(wall_ms())}
            lines.append(to_bytes(encode({**data, "targetId": target, "label": label})))
            parent = entry_id
    return lines


def _chunks(lines: Iterable[bytes]) -> Iterable[bytes]:
    chunk = bytearray()
    for line in lines:
        chunk += line + b"\n"
        if len(chunk) >= _CHUNK:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)
