"""Pure, over the lines of a file. Reads a Claude Code session and gives it in our format; it is never written.

That format is known from observation only, so anything in it may be missing or new. One answer of a model is spread
over several lines there, tool results arrive as words of the user, and housekeeping stands between: the lines become
the messages they were. Where one line of theirs became an entry of ours, a `custom` entry keeps the line's own id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

from attrs import define, field, frozen

from coding_agent.errors import NotASession, SessionNotFound, SessionTooLarge
from coding_agent.storage.claude_blocks import (
    blocks_of,
    convert_block,
    convert_usage,
    plain_text,
    result_content,
    stop_reason,
)
from coding_agent.storage.lines import read_line
from coding_agent.storage.stamps import derived_entry_id, parse_iso

PROVENANCE: Final = "claude_code_line"
"""`custom_type` of the entries that say which line of the original an entry came from."""

LOCAL_COMMAND: Final = "claude_code_command"
"""`custom_type` of what the user did in that program itself, such as running one of its commands."""

MAX_BYTES: Final = 4 << 30
_WRAPPED: Final = re.compile(
    r"\s*<(command-name|command-message|local-command-stdout|local-command-stderr|bash-input)>"
)
_COMPACT_PREFIXES: Final = ("This session is being continued from a previous conversation",)


@frozen
class ImportedSession:
    """A Claude Code session in our format.

    Attributes:
        header: Its first line.
        entries: Its entries as JSON objects, parents before children; the last one is the leaf.
        skipped: How many lines were left out, by type.
        problems: What could not be read, in words.
    """

    header: dict[str, Any]
    entries: tuple[dict[str, Any], ...]
    skipped: Mapping[str, int] = field(factory=dict)
    problems: tuple[str, ...] = ()


def import_claude(path: str | Path, *, max_bytes: int = MAX_BYTES) -> ImportedSession:
    """Read a Claude Code session file.

    Raises:
        SessionNotFound, SessionTooLarge: As they say.
        NotASession: No line of it is one of that program's.
    """
    source = Path(path).absolute()
    try:
        size = source.stat().st_size
        if not source.is_file():
            raise NotASession(source, "not_a_file", "it is a folder or a device, not a session file")
        if size > max_bytes:
            raise SessionTooLarge(source, size, max_bytes)
        with source.open("rb") as file:
            imported = convert(file, source)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SessionNotFound(source) from error
    except OSError as error:
        raise NotASession(source, "unreadable", f"it cannot be read: {error.strerror}") from error
    return imported


def looks_like_claude(first_lines: Iterable[bytes]) -> bool:
    """Whether lines are of that program: one of them has an id, or a session's, in its spelling."""
    for raw in first_lines:
        for record in read_line(raw).records:
            data = record.data
            if "loglines" in data or (isinstance(data.get("type"), str) and _MARKS & data.keys()):
                return True
    return False


_MARKS: Final = {"sessionId", "uuid", "leafUuid"}


def convert(lines: Iterable[bytes], path: Path) -> ImportedSession:
    """The session some lines hold.

    Raises:
        NotASession: None of them is one of that program's.
    """
    reading = _Reading()
    for number, raw in enumerate(lines, 1):
        line = read_line(raw)
        if line.problem is not None:
            reading.problems.append(f"line {number}: {line.problem}")
        for record in line.records:
            wrapped = record.data.get("loglines")
            for data in wrapped if isinstance(wrapped, list) else (record.data,):
                reading.take(data)
    if not reading.lines and not reading.titles:
        raise NotASession(path, "invalid_header", "no line of it is one of Claude Code's")
    return _Building(reading, path).build()


@define
class _Reading:
    """The lines of the file by their ids, unknown and repeated ones set aside.

    Attributes:
        lines: What was said, in the order of the file.
        links: For every line with an id, what it follows: also those that are passed over stand in the chain.
    """

    lines: dict[str, dict[str, Any]] = field(factory=dict)
    links: dict[str, str | None] = field(factory=dict)
    titles: list[str] = field(factory=list)
    skipped: dict[str, int] = field(factory=dict)
    problems: list[str] = field(factory=list)

    def take(self, data: Any) -> None:
        if not isinstance(data, dict):
            self.problems.append("a line that is no object")
            return
        kind = str(data.get("type"))
        uuid = data.get("uuid")
        if isinstance(uuid, str):
            parent = data.get("parentUuid") or data.get("logicalParentUuid")
            self.links.setdefault(uuid, parent if isinstance(parent, str) else None)
        if kind == "summary":
            self._title(data.get("summary"))
        elif kind == "custom-title":
            self._title(data.get("customTitle", data.get("title")))
        elif kind not in ("user", "assistant", "system") or data.get("isSidechain"):
            key = "sidechain" if data.get("isSidechain") else kind
            self.skipped[key] = self.skipped.get(key, 0) + 1
        else:
            key = uuid if isinstance(uuid, str) else f"line-{len(self.lines)}"
            self.lines.setdefault(key, data)

    def _title(self, title: Any) -> None:
        if isinstance(title, str) and title.strip():
            self.titles.append(" ".join(title.split()))


@define
class _Building:
    """Entries being made of lines."""

    reading: _Reading
    path: Path
    entries: list[dict[str, Any]] = field(factory=list)
    taken: set[str] = field(factory=set)
    last_of: dict[str, str | None] = field(factory=dict)
    tool_names: dict[str, str] = field(factory=dict)
    results_of: dict[str | None, str | None] = field(factory=dict)
    tail: str | None = None

    def build(self) -> ImportedSession:
        lines = self.reading.lines
        parents = _parents(lines, self.reading.links)
        groups = _grouped(lines, parents)
        heads = {uuid: head for head, group in groups.items() for uuid in group}
        for key, group in groups.items():
            parent = parents[group[0]]
            self._convert(key, group, parent, heads.get(parent or ""))
        # The last entry is the leaf, and it hangs on the newest line whichever branch was written last.
        self._move_to_main_line({parent for parent in parents.values() if parent is not None})
        title = {"name": self.reading.titles[-1]} if self.reading.titles else {}
        self._add({"type": "session_info", **title}, _latest_stamp(lines))
        return ImportedSession(self._header(), tuple(self.entries), self.reading.skipped, tuple(self.reading.problems))

    def _header(self) -> dict[str, Any]:
        first = next(iter(self.reading.lines.values()), {})
        known = [line for line in self.reading.lines.values() if isinstance(line.get("sessionId"), str)]
        return {
            "type": "session",
            "version": 3,
            "id": str(known[0]["sessionId"]) if known else self.path.stem,
            "timestamp": str(first.get("timestamp") or "1970-01-01T00:00:00.000Z"),
            "cwd": next((str(line["cwd"]) for line in chain(known, [first]) if isinstance(line.get("cwd"), str)), ""),
            "parentSession": str(self.path),
        }

    def _convert(self, key: str, group: list[str], parent: str | None, parent_head: str | None) -> None:
        first = self.reading.lines[key]
        # Results of one answer name different pieces of it as their parent; here they follow one another.
        follows = parent_head if parent_head is not None and _is_result(first) else None
        self.tail = self.results_of.get(follows) if follows in self.results_of else self.last_of.get(parent or "")
        made = len(self.entries)
        for body in self._bodies(first, [self.reading.lines[uuid] for uuid in group]):
            self._add(body, first.get("timestamp"))
        if len(self.entries) > made:
            origin = {"uuids": group} if len(group) > 1 else {"uuid": key}
            self._add({"type": "custom", "customType": PROVENANCE, "data": origin}, first.get("timestamp"))
        for uuid in group:
            self.last_of[uuid] = self.tail
        if follows is not None:
            self.results_of[follows] = self.tail

    def _bodies(self, first: dict[str, Any], lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        kind = first["type"]
        if kind == "assistant":
            yield from self._answer(lines)
        elif kind == "user":
            yield from self._said(first)

    def _answer(self, lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        messages = [line["message"] for line in lines if isinstance(line.get("message"), dict)]
        if not messages or messages[-1].get("model") == "<synthetic>":
            return
        pieces = [piece for message in messages for piece in blocks_of(message.get("content"))]
        content = [made for piece in pieces if (made := convert_block(piece)) is not None]
        for block in content:
            if block["type"] == "toolCall":
                self.tool_names[block["id"]] = block["name"]
        last = messages[-1]
        reason = next((m["stop_reason"] for m in reversed(messages) if isinstance(m.get("stop_reason"), str)), None)
        calls = any(block["type"] == "toolCall" for block in content)
        message = {
            "role": "assistant",
            "content": content,
            "api": "anthropic-messages",
            "provider": "anthropic",
            "model": str(last.get("model") or ""),
            "usage": convert_usage(
                next((m["usage"] for m in reversed(messages) if isinstance(m.get("usage"), dict)), {})
            ),
            "stopReason": stop_reason(reason, calls=calls),
            "timestamp": parse_iso(lines[0].get("timestamp")) or 0,
        }
        if isinstance(last.get("id"), str):
            message["responseId"] = last["id"]
        yield {"type": "message", "message": message}

    def _said(self, line: dict[str, Any]) -> Iterator[dict[str, Any]]:
        message = line.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        text = plain_text(content)
        if line.get("isCompactSummary") or (line.get("isMeta") and text.startswith(_COMPACT_PREFIXES)):
            yield {"type": "compaction", "summary": text, "tokensBefore": 0, "retainedTail": []}
            return
        if line.get("isMeta") or _WRAPPED.match(text):
            yield {"type": "custom", "customType": LOCAL_COMMAND, "data": {"text": text}}
            return
        stamp = parse_iso(line.get("timestamp")) or 0
        blocks = blocks_of(content)
        yield from self._results(line, blocks, stamp)
        words = [
            made for block in blocks if (made := convert_block(block)) is not None and made["type"] in ("text", "image")
        ]
        if isinstance(content, str):
            yield {"type": "message", "message": {"role": "user", "content": content, "timestamp": stamp}}
        elif words:
            yield {"type": "message", "message": {"role": "user", "content": words, "timestamp": stamp}}

    def _results(self, line: dict[str, Any], blocks: list[dict[str, Any]], stamp: int) -> Iterator[dict[str, Any]]:
        results = [block for block in blocks if block.get("type") == "tool_result"]
        for block in results:
            call = str(block.get("tool_use_id") or "")
            message = {
                "role": "toolResult",
                "toolCallId": call,
                "toolName": self.tool_names.get(call, "unknown"),
                "content": result_content(block.get("content")),
                "isError": bool(block.get("is_error")),
                "timestamp": stamp,
            }
            if len(results) == 1 and line.get("toolUseResult") is not None:
                message["details"] = line["toolUseResult"]
            yield {"type": "message", "message": message}

    def _add(self, body: dict[str, Any], timestamp: Any) -> None:
        entry_id = derived_entry_id(self.path.stem, len(self.entries), self.taken)
        self.taken.add(entry_id)
        stamp = timestamp if isinstance(timestamp, str) else "1970-01-01T00:00:00.000Z"
        self.entries.append(
            {"type": body["type"], "id": entry_id, "parentId": self.tail, "timestamp": stamp}
            | {key: value for key, value in body.items() if key != "type"}
        )
        self.tail = entry_id

    def _move_to_main_line(self, followed: set[str]) -> None:
        """The newest line that none follows is the leaf, whichever branch was written last."""
        ends = [
            (parse_iso(line.get("timestamp")) or 0, at, uuid)
            for at, (uuid, line) in enumerate(self.reading.lines.items())
            if uuid not in followed
        ]
        if ends:
            self.tail = self.last_of.get(max(ends)[2], self.tail)


def _latest_stamp(lines: Mapping[str, Mapping[str, Any]]) -> Any:
    """The latest time stamp of some lines."""
    return max((str(line.get("timestamp") or "") for line in lines.values()), default=None)


def _parents(lines: Mapping[str, Mapping[str, Any]], links: Mapping[str, str | None]) -> dict[str, str | None]:
    """The line each line follows: the nearest one above it that says something.

    In files that name no parents it is the line before.
    """
    found: dict[str, str | None] = {}
    previous: str | None = None
    for uuid, line in lines.items():
        if "parentUuid" not in line and "logicalParentUuid" not in line:
            found[uuid] = previous
        else:
            found[uuid] = _nearest(links.get(uuid), lines, links)
        previous = uuid
    return found


def _nearest(uuid: str | None, lines: Mapping[str, Mapping[str, Any]], links: Mapping[str, str | None]) -> str | None:
    seen: set[str] = set()
    while uuid is not None and uuid not in lines and uuid not in seen:
        seen.add(uuid)
        uuid = links.get(uuid)
    return uuid if uuid in lines else None


def _grouped(lines: Mapping[str, Mapping[str, Any]], parents: dict[str, str | None]) -> dict[str, list[str]]:
    """Lines in the order of the file, those that are pieces of one answer together under the first of them."""
    groups: dict[str, list[str]] = {}
    by_answer: dict[str, str] = {}
    for uuid, line in lines.items():
        message = line.get("message")
        answer = message.get("id") if line.get("type") == "assistant" and isinstance(message, dict) else None
        head = by_answer.get(answer) if isinstance(answer, str) else None
        if head is not None:
            groups[head].append(uuid)
            continue
        groups[uuid] = [uuid]
        if isinstance(answer, str):
            by_answer[answer] = uuid
    return groups


def _is_result(line: Mapping[str, Any]) -> bool:
    message = line.get("message")
    content = message.get("content") if line.get("type") == "user" and isinstance(message, dict) else None
    return any(block.get("type") == "tool_result" for block in blocks_of(content))
