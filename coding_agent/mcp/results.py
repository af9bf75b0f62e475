"""Pure. What a server answered, as a tool's result: bounded, readable, and marked as somebody else's words."""

import base64
import json
from typing import Any, Final

from coding_agent.tools.images import BYTES_MAX, CannotShrink, picture_kind, shrunk
from coding_agent.tools.truncate import HeadTail
from coding_agent.tools.visible_text import plain, reveal
from lemon_agent import AgentToolResult, ErrorInfo
from lemon_ai import ImageContent, TextContent

IMAGES_MAX: Final = 8
IMAGE_BYTES_MAX: Final = 20_000_000
"""A larger one is not decoded at all."""
STRUCTURED_MAX: Final = 200_000


def tool_result(answer: Any, server: str, tool: str) -> AgentToolResult:
    """The result for the model. Decodes pictures: for a worker thread when there are some.

    Args:
        answer: A `CallToolResult` of the library.
        server: Who answered, as configured.
        tool: What was called, as the server calls it.
    """
    texts = HeadTail()
    images: list[ImageContent] = []
    said = False
    for block in answer.content:
        said = True
        if block.type == "image" and len(images) < IMAGES_MAX:
            image, note = _image(block.data)
            images += [image] if image else []
            texts.feed(f"{note}\n" if note else "")
        else:
            texts.feed(f"{_text(block)}\n")
    if not said and answer.structured_content is not None:
        texts.feed(_json(answer.structured_content))
    shown = texts.shortened()
    text, _hidden = reveal(plain(shown.text.rstrip("\n")))
    if not text and not images:
        text = "(no output)"
    details = {
        "server": server,
        "tool": tool,
        "truncated": shown.truncated,
        "total_bytes": shown.total_bytes,
        "structured": _structured(answer.structured_content),
    }
    return AgentToolResult(
        content=(*([TextContent(text)] if text else []), *images),
        details=details,
        trust="untrusted",
        error_info=ErrorInfo("mcp_tool_error") if answer.is_error else None,
    )


def progress_result(progress: float, total: float | None, message: str | None) -> AgentToolResult:
    """What a server says on the way."""
    share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
    note = reveal(plain(str(message)[:500]))[0] if message else ""
    return AgentToolResult(
        content=(TextContent(f"{share} {note}".strip()),),
        details={"progress": progress, "total": total},
        trust="untrusted",
    )


def _text(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image":
            return f"[one more image, {len(block.data)} characters, left out]"
        case "audio":
            return f"[audio, {block.mime_type}, {len(block.data)} characters, left out]"
        case "resource_link":
            return f"[resource {block.name}: {block.uri}]"
        case "resource":
            found = block.resource
            if (text := getattr(found, "text", None)) is not None:
                return f"[resource {found.uri}]\n{text}"
            return f"[resource {found.uri}, {found.mime_type or 'binary'}, left out]"
        case other:
            return f"[{str(other)[:40]}, left out]"


def _image(data: str) -> tuple[ImageContent | None, str]:
    """A picture that models take, else why there is none."""
    if len(data) * 3 // 4 > IMAGE_BYTES_MAX:
        return None, f"[image of {len(data) * 3 // 4} bytes, too large]"
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError:
        return None, "[image that is not base64, left out]"
    picture = picture_kind(raw)
    if picture is None:
        return None, f"[image of an unknown kind, {len(raw)} bytes, left out]"
    if picture.fits and len(raw) <= BYTES_MAX:
        return ImageContent(data, picture.mime_type), ""
    try:
        smaller, mime_type = shrunk(raw, picture)
    except CannotShrink as error:
        return None, f"[image of {picture.width} x {picture.height}, left out: {error}]"
    return ImageContent(base64.b64encode(smaller).decode(), mime_type), ""


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=1)
    except (TypeError, ValueError, RecursionError):
        return str(value)[:STRUCTURED_MAX]


def _structured(value: Any) -> Any:
    """For logs and screens, when it is not too much."""
    return value if value is not None and len(_json(value)) <= STRUCTURED_MAX else None
