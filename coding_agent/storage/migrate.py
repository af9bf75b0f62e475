"""Pure. Session files of format 1 and 2 as format 3, in memory first and in their text when the file is rewritten.

Format 1 has no ids: its entries are a chain, and a compaction names the first kept entry by its number in the file
(the header is 0). Format 2 calls custom messages `hookMessage`. Everything else is unchanged, unknown members included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from coding_agent.storage.splice import REMOVE, Raw, members, splice

CURRENT: Final = 3


def version_of(header: Mapping[str, Any]) -> int:
    """The format a header announces; a header that says nothing is of format 1."""
    version = header.get("version", 1)
    if isinstance(version, str) and version.isdecimal():
        version = int(version)
    return int(version) if isinstance(version, int | float) and version >= 1 else 1


def upgrade(
    data: dict[str, Any],
    version: int,
    *,
    entry_id: str | None = None,
    parent_id: str | None = None,
    first_kept: str | None = None,
) -> dict[str, Any]:
    """An entry as format 3 has it.

    Args:
        data: The object of the file; it is not changed.
        version: The format of the file.
        entry_id: The id to give it; None to keep its own.
        parent_id: The parent to give it along with `entry_id`.
        first_kept: The entry a compaction of format 1 points to, see `first_kept_id`.
    """
    if entry_id is not None:
        data = {**data, "id": entry_id, "parentId": parent_id}
    if version < 2 and data.get("type") == "compaction" and "firstKeptEntryIndex" in data:
        data = {key: value for key, value in data.items() if key != "firstKeptEntryIndex"}
        if first_kept is not None:
            data["firstKeptEntryId"] = first_kept
    if version < 3 and _has_hook_message(data):
        data = {**data, "message": {**data["message"], "role": "custom"}}
    return data


def first_kept_id(data: Mapping[str, Any], order: Sequence[str]) -> str | None:
    """The entry a compaction of format 1 points to by number.

    `order` holds the ids before it, the header's place first. None when the number is 0, out of range or missing: such
    a compaction keeps nothing.
    """
    index = data.get("firstKeptEntryIndex")
    if isinstance(index, int) and 0 < index < len(order) and order[index]:
        return order[index]
    return None


def _has_hook_message(data: Mapping[str, Any]) -> bool:
    message = data.get("message")
    return isinstance(message, dict) and message.get("role") == "hookMessage"


def upgrade_header_text(text: str) -> str:
    """The header line as format 3 has it."""
    return splice(text, {"version": CURRENT})


def upgrade_text(text: str, data: Mapping[str, Any], upgraded: Mapping[str, Any]) -> str:
    """The text of an entry changed to say what `upgraded` says; members that did not change keep their bytes.

    Args:
        text: The entry as it stands in the file.
        data: Its object.
        upgraded: The object it is to have.
    """
    changes: dict[str, Any] = {key: value for key, value in upgraded.items() if data.get(key, REMOVE) != value}
    changes |= {key: REMOVE for key in data if key not in upgraded}
    if "message" in changes and isinstance(data.get("message"), dict):
        changes["message"] = Raw(_message_text(text, data["message"], changes["message"]))
    return splice(text, changes) if changes else text


def _message_text(text: str, message: Mapping[str, Any], upgraded: Mapping[str, Any]) -> str:
    place = next(member for member in reversed(members(text)) if member.key == "message")
    return upgrade_text(text[place.value_start : place.end], message, upgraded)
