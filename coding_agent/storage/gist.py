"""Pure. What one entry of a session says, in its own words: for lists, where an entry has one line."""

from typing import Any

from coding_agent.storage.session_manager import SessionManager


def entry_words(manager: SessionManager, position: int) -> str:
    """The words of an entry, of any length; empty where it has none, as a note that an extension keeps for itself."""
    kind = manager.tree.kinds[position]
    if kind.startswith("message/"):
        return message_words(manager.log.message_at(position))
    if kind == "custom":
        return ""
    data = manager.log.entry_data(position)
    said = data.get("summary") or data.get("content")
    return said if isinstance(said, str) else ""


def message_words(message: Any) -> str:
    """The words of a message: its text, the names of what it calls, what else it holds in brackets, or its error."""
    for member in ("summary", "command"):
        if isinstance(found := getattr(message, member, None), str):
            return found
    content = getattr(message, "content", "")
    if isinstance(content, str):
        return content
    parts = [getattr(block, "text", "") or getattr(block, "name", "") or f"[{block.type}]" for block in content]
    return " ".join(parts) or str(getattr(message, "error_message", "") or "")
