"""Pure. What a server answered, as a tool's result: bounded, readable, and marked as somebody else's words."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from coding_agent.mcp.listing import ServerResource
from coding_agent.tools.images import BYTES_MAX, CannotShrink, picture_kind, shrunk
from coding_agent.tools.truncate import HeadTail
from coding_agent.tools.visible_text import plain, reveal
from lemon_agent import AgentToolResult, ErrorInfo
from lemon_ai import ImageContent, TextContent

IMAGES_MAX: Final = 8
IMAGE_BYTES_MAX: Final = 20_000_000
"""A larger one is not decoded at all."""
STRUCTURED_MAX: Final = 200_000

Part: TypeAlias = Callable[..., tuple[str, ImageContent | None]]
"""Makes a text or a picture of a piece of an answer; told with `room` whether one more picture may come."""


def tool_result(answer: Any, server: str, tool: str) -> AgentToolResult:
    """The result for the model. Decodes pictures: for a worker thread when there are some.

    Args:
        answer: A `CallToolResult` of the library.
        server: Who answered, as configured.
        tool: What was called, as the server calls it.
    """
    texts, images = _gathered(answer.content, block_part)
    if not answer.content and answer.structured_content is not None:
        texts.feed(_json(answer.structured_content))
    details = {"server": server, "tool": tool, "structured": _structured(answer.structured_content)}
    error = ErrorInfo("mcp_tool_error") if answer.is_error else None
    return _result(texts, images, details, "(no output)", error)


def resource_result(answer: Any, server: str, uri: str) -> AgentToolResult:
    """What was read, for the model; as `tool_result`. Decodes pictures: for a worker thread."""
    texts, images = _gathered(answer.contents, _resource_part)
    return _result(texts, images, {"server": server, "uri": uri}, "(nothing in it)")


def _gathered(pieces: Iterable[Any], part: Part) -> tuple[HeadTail, list[ImageContent]]:
    """The texts of all pieces, a line break behind each, and their pictures."""
    texts = HeadTail()
    images: list[ImageContent] = []
    for piece in pieces:
        text, image = part(piece, room=len(images) < IMAGES_MAX)
        images += [image] if image else []
        texts.feed("" if image else f"{text}\n")
    return texts, images


def _result(
    texts: HeadTail,
    images: Sequence[ImageContent],
    details: Mapping[str, Any],
    empty: str,
    error: ErrorInfo | None = None,
) -> AgentToolResult:
    shown = texts.shortened()
    text = reveal(plain(shown.text.rstrip("\n")))[0] or ("" if images else empty)
    return AgentToolResult(
        content=(*([TextContent(text)] if text else []), *images),
        details={**details, "truncated": shown.truncated, "total_bytes": shown.total_bytes},
        trust="untrusted",
        error_info=error,
    )


def _resource_part(part: Any, *, room: bool) -> tuple[str, ImageContent | None]:
    """A piece of a resource: its text, or a picture when there is room for one, or a line about what is left out."""
    text = getattr(part, "text", None)
    if text is not None:
        return str(text), None
    kind = str(part.mime_type or "binary")
    if not (room and kind.startswith("image/")):
        return f"[{kind}, {len(part.blob)} characters of base64, left out]", None
    image, note = _image(part.blob)
    return note, image


def block_part(block: Any, *, room: bool) -> tuple[str, ImageContent | None]:
    """A block of an answer or of a prompt: its text, or a picture when there is room for one."""
    if block.type != "image" or not room:
        return _text(block), None
    image, note = _image(block.data)
    return note, image


def listed_result(resources: Sequence[ServerResource], server: str, search: str) -> AgentToolResult:
    """What can be read, one to a line."""
    words = search.casefold().split()
    found = [each for each in resources if all(word in _told(each).casefold() for word in words)]
    texts = HeadTail()
    texts.feed("\n".join(map(_told, found)) or ("nothing has these words" if words else "the server lists nothing"))
    shown = texts.shortened()
    details = {"server": server, "count": len(found), "truncated": shown.truncated}
    return AgentToolResult(content=(TextContent(shown.text),), details=details, trust="untrusted")


def _told(resource: ServerResource) -> str:
    more = " ".join(f"{resource.name}. {resource.description}".split()).strip(". ")
    return f"{resource.uri}  {more[:200]}".rstrip()


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
