"""What the tests of storage share: samples, messages, and files that fail when they are told to."""

import errno
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coding_agent.storage.files import OsFiles
from lemon_ai import AssistantMessage, TextContent, ToolCall, ToolResultMessage, UserMessage

SAMPLES = Path(__file__).resolve().parents[3] / ".." / "shared" / "samples"
PI = SAMPLES / "pi"
CLAUDE = SAMPLES / "claude-code"

HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-02T03:04:00.000Z", "cwd": "/p"}


def user(text: str, at: int = 1) -> UserMessage:
    return UserMessage((TextContent(text),), at)


def answer(text: str, *calls: str, at: int = 2) -> AssistantMessage:
    blocks = [TextContent(text), *(ToolCall(call, "bash", {"command": call}) for call in calls)]
    return AssistantMessage(
        blocks,
        api="anthropic_messages",
        provider="anthropic",
        model="claude-sonnet-4-5",
        stop_reason="tool_use" if calls else "stop",
        timestamp=at,
    )


def result(call: str, text: str = "done", at: int = 3) -> ToolResultMessage:
    return ToolResultMessage(call, "bash", (TextContent(text),), timestamp=at)


def entry(entry_id: str, parent: str | None, text: str = "hi", **members: Any) -> dict[str, Any]:
    """A stored message of the user."""
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent,
        "timestamp": "2026-01-02T03:04:01.000Z",
        "message": {"role": "user", "content": text, "timestamp": 1767323041000},
        **members,
    }


def chain(*texts: str) -> list[dict[str, Any]]:
    """Stored messages of the user, each on the one before: ids e1, e2 and so on."""
    return [entry(f"e{n}", f"e{n - 1}" if n > 1 else None, text) for n, text in enumerate(texts, 1)]


def line(data: dict[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode() + b"\n"


def write(path: Path, *parts: dict[str, Any] | bytes, header: dict[str, Any] | None = None) -> Path:
    """A session file: a header, then objects as lines and bytes as they are."""
    pieces = [line(HEADER if header is None else header)]
    pieces += [part if isinstance(part, bytes) else line(part) for part in parts]
    path.write_bytes(b"".join(pieces))
    return path


def said(messages: Iterable[Any]) -> list[str]:
    """The words of messages."""
    words = []
    for message in messages:
        if hasattr(message, "summary"):
            words.append(message.summary)
        elif not hasattr(message, "content"):
            words.append(f"<{message.role}>")
        elif isinstance(message.content, str):
            words.append(message.content)
        else:
            words.append("".join(getattr(block, "text", "") for block in message.content))
    return words


def disk_texts(path: Path) -> list[str]:
    """The words of the message entries of a file, in its order; a line that is no JSON fails."""
    found = []
    for raw in path.read_bytes().split(b"\n")[:-1]:
        data = json.loads(raw)
        if data["type"] == "message":
            content = data["message"]["content"]
            found.append(content if isinstance(content, str) else "".join(b.get("text", "") for b in content))
    return found


class FaultyFiles(OsFiles):
    """The operating system, which writes down what it is asked and fails when it is told to.

    Attributes:
        log: What was asked, in order: `write 17`, `fsync`, `truncate 40`...
        room: Bytes that can still be written before the disk is full; None for no limit.
        failing: The name of an operation and the error it gives from now on.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.room: int | None = None
        self.failing: dict[str, int] = {}
        self.bytes_read = 0

    def _ask(self, operation: str, detail: object = "") -> None:
        self.log.append(f"{operation} {detail}".rstrip())
        code = self.failing.get(operation)
        if code is not None:
            raise OSError(code, os.strerror(code))

    def write(self, fd: int, data: bytes) -> int:
        self._ask("write", len(data))
        if self.room is None:
            return super().write(fd, data)
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allowed, self.room = data[: self.room], max(0, self.room - len(data))
        return super().write(fd, allowed)

    def read(self, fd: int, length: int, offset: int) -> bytes:
        data = super().read(fd, length, offset)
        self.bytes_read += len(data)
        return data

    def truncate(self, fd: int, size: int) -> None:
        self._ask("truncate", size)
        super().truncate(fd, size)

    def fsync(self, fd: int) -> None:
        self._ask("fsync")
        super().fsync(fd)

    def sync_folder(self, path: Path) -> None:
        self._ask("sync_folder")
        super().sync_folder(path)

    def replace(self, source: Path, target: Path) -> None:
        self._ask("replace")
        super().replace(source, target)

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        self._ask("open", "write" if flags & (os.O_RDWR | os.O_WRONLY) else "read")
        return super().open(path, flags, mode)
