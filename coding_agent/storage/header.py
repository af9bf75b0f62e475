"""Value. The first line of a session file, and what is spelled differently in older ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from attrs import field, frozen

Stamp: TypeAlias = str | int | float | None
"""When an entry was written: ISO text from us and from pi, milliseconds in older Lemon files."""

TYPE_SPELLINGS: Final[Mapping[str, str]] = {
    "modelChange": "model_change",
    "thinkingLevelChange": "thinking_level_change",
    "activeToolsChange": "active_tools_change",
    "branchSummary": "branch_summary",
    "customMessage": "custom_message",
    "sessionInfo": "session_info",
}
"""Names older Lemon files use, read and never written."""


@frozen
class SessionHeader:
    """The first line of a session file.

    Attributes:
        id: The session's id.
        cwd: The working folder it belongs to; empty in very old files.
        version: The format of the file; 1 when it does not say.
        timestamp: When the session began.
        parent_session: File of the session it came out of.
        data: The whole object, members we do not know included.
    """

    id: str
    cwd: str = ""
    version: int = 3
    timestamp: Stamp = None
    parent_session: str | None = None
    data: Mapping[str, Any] = field(factory=dict, repr=False)


def header_from_json(data: Mapping[str, Any]) -> SessionHeader:
    """The header of a JSON object; members of the wrong kind count as missing."""
    cwd, parent, version = data.get("cwd"), data.get("parentSession"), data.get("version")
    return SessionHeader(
        id=str(data.get("id", "")),
        cwd=cwd if isinstance(cwd, str) else "",
        version=version if isinstance(version, int) else 1,
        timestamp=data.get("timestamp"),
        parent_session=parent if isinstance(parent, str) else None,
        data=data,
    )
