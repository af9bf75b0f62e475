"""Values. What a checkpoint says about files, as values and as the JSON they are kept in."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import evolve, field, frozen

Kind: TypeAlias = Literal["files", "shell", "rewind"]
"""`files`: before a tool that changes files. `shell`: what a command changed. `rewind`: before going back."""


@frozen
class FileState:
    """What stood at a path.

    Attributes:
        sha: SHA-256 of the content; None when nothing was there.
        mode: Its permission bits.
        size: In bytes.
    """

    sha: str | None
    mode: int = 0
    size: int = 0

    def same_content(self, other: "FileState | None") -> bool:
        """Is the content, or the absence, the same?"""
        return other is not None and self.sha == other.sha


ABSENT: Final = FileState(None)


@frozen
class FileChange:
    """One file of a checkpoint.

    Attributes:
        path: Absolute, without links.
        before: What stood there; None where only the change is known, not what was there.
        after: What the tool left; None while it works, or when somebody else had changed it again.
    """

    path: str
    before: FileState | None
    after: FileState | None = None


@frozen
class Checkpoint:
    """The files one tool call touched.

    Attributes:
        id: In the order they were begun.
        tool_call_id: The call, as the session file names it.
        at_ms: When, in Unix milliseconds.
        settled: In the order they ended; None while the call is going on, or when the host died in it.
        partial: There may be more changes than are listed.
        session: Whose call it was, as its session file is called, without the suffix; empty in older ones.
    """

    id: str
    kind: Kind
    tool_call_id: str
    tool: str
    at_ms: int
    files: tuple[FileChange, ...] = ()
    settled: int | None = None
    partial: bool = field(default=False)
    session: str = ""

    def with_files(self, files: tuple[FileChange, ...], settled: int, *, partial: bool = False) -> "Checkpoint":
        """The same, ended."""
        return evolve(self, files=files, settled=settled, partial=partial)

    def to_json(self) -> dict[str, Any]:
        """As it is kept."""
        return {
            "id": self.id,
            "kind": self.kind,
            "toolCallId": self.tool_call_id,
            "tool": self.tool,
            "at": self.at_ms,
            "settled": self.settled,
            "partial": self.partial,
            "session": self.session,
            "files": [
                {"path": one.path, "before": _state_json(one.before), "after": _state_json(one.after)}
                for one in self.files
            ],
        }


def checkpoint_from_json(data: Mapping[str, Any]) -> Checkpoint:
    """The checkpoint that was kept.

    Raises:
        ValueError: It is none.
    """
    try:
        kind = data["kind"]
        if kind not in ("files", "shell", "rewind"):
            raise ValueError(f"unknown kind {kind!r}")
        return Checkpoint(
            id=str(data["id"]),
            kind=kind,
            tool_call_id=str(data["toolCallId"]),
            tool=str(data["tool"]),
            at_ms=int(data["at"]),
            settled=None if data["settled"] is None else int(data["settled"]),
            partial=bool(data["partial"]),
            session=str(data.get("session") or ""),
            files=tuple(
                FileChange(str(one["path"]), _state(one["before"]), _state(one["after"])) for one in data["files"]
            ),
        )
    except (KeyError, TypeError) as error:
        raise ValueError("not a checkpoint") from error


def _state_json(state: FileState | None) -> dict[str, Any] | None:
    return None if state is None else {"sha": state.sha, "mode": state.mode, "size": state.size}


def _state(data: Any) -> FileState | None:
    if data is None:
        return None
    sha = data["sha"]
    if sha is not None and not (isinstance(sha, str) and len(sha) == 64 and set(sha) <= set("0123456789abcdef")):
        raise ValueError("not a hash")
    return FileState(sha, int(data["mode"]) & 0o7777, int(data["size"]))
