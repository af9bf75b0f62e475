"""Pure. The content of a Claude Code message, which is a Messages API message, as blocks of ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final


def blocks_of(content: Any) -> list[dict[str, Any]]:
    """The blocks of a content that is a list; none of one that is text."""
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def plain_text(content: Any) -> str:
    """The words of a content."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text") or "") for block in blocks_of(content) if block.get("type") == "text")


def convert_block(block: Mapping[str, Any]) -> dict[str, Any] | None:
    """A block of ours; None for one that has no counterpart."""
    maker = _MAKERS.get(str(block.get("type")))
    return maker(block) if maker else None


def _image(block: Mapping[str, Any]) -> dict[str, Any] | None:
    source = block.get("source")
    if not isinstance(source, dict) or source.get("type") != "base64":
        return None
    mime_type = str(source.get("media_type") or "image/png")
    return {"type": "image", "data": str(source.get("data") or ""), "mimeType": mime_type}


def _thinking(block: Mapping[str, Any]) -> dict[str, Any]:
    made = {"type": "thinking", "thinking": str(block.get("thinking") or "")}
    return made | ({"thinkingSignature": block["signature"]} if block.get("signature") else {})


def _call(block: Mapping[str, Any]) -> dict[str, Any]:
    arguments = block.get("input")
    return {
        "type": "toolCall",
        "id": str(block.get("id") or ""),
        "name": str(block.get("name") or ""),
        "arguments": arguments if isinstance(arguments, dict) else {},
    }


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any] | None]]] = {
    "text": lambda block: {"type": "text", "text": str(block.get("text") or "")},
    "image": _image,
    "thinking": _thinking,
    "redacted_thinking": lambda block: {
        "type": "thinking",
        "thinking": "",
        "thinkingSignature": str(block.get("data") or ""),
        "redacted": True,
    },
    "tool_use": _call,
}


def result_content(content: Any) -> list[dict[str, Any]]:
    """The content of a tool result as text and image blocks; what has no counterpart is shown as JSON."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    made = [
        convert_block(block) or {"type": "text", "text": json.dumps(block, ensure_ascii=False)}
        for block in blocks_of(content)
    ]
    return [block for block in made if block["type"] in ("text", "image")]


def convert_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Counted tokens; prices are not known there."""
    counted = {
        ours: value if isinstance(value := usage.get(theirs), int) else 0
        for ours, theirs in (
            ("input", "input_tokens"),
            ("output", "output_tokens"),
            ("cacheRead", "cache_read_input_tokens"),
            ("cacheWrite", "cache_creation_input_tokens"),
        )
    }
    cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
    return {**counted, "totalTokens": sum(counted.values()), "cost": cost}


def stop_reason(reason: Any, *, calls: bool) -> str:
    """Why an answer ended; one that does not say ended in its calls, if it made any."""
    return _STOP_REASONS.get(str(reason), "toolUse" if calls else "stop")


_STOP_REASONS: Final = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "toolUse", "max_tokens": "length"}
