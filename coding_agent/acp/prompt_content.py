"""Pure. The blocks of a prompt as the text and the pictures a model reads."""

import base64
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from coding_agent.tools.images import picture_kind
from lemon_ai import ImageContent

EMBEDDED_MAX: Final = 2_000_000
"""Characters of one embedded resource; what is beyond can be read with a tool."""


class BadContent(ValueError):
    """A block cannot be taken; the text says why."""


def prompt_of(blocks: Sequence[Any]) -> tuple[str, tuple[ImageContent, ...]]:
    """What the model reads: text as it is, links as names, embedded files behind a line that says what they are.

    Raises:
        BadContent: A block is of a kind that was not offered, or holds no picture.
    """
    parts: list[str] = []
    images: list[ImageContent] = []
    for block in blocks:
        match block.type:
            case "text":
                parts.append(block.text)
            case "resource_link":
                parts.append(f"@{path_of(block.uri)}")
            case "resource":
                parts.append(_embedded(block.resource))
            case "image":
                images.append(_image(block))
            case other:
                raise BadContent(f"a prompt cannot hold {other}; only text, images, links and embedded files")
    return _joined(parts), tuple(images)


def path_of(uri: str) -> str:
    """A file's path where the address is one, else the address."""
    split = urlsplit(uri)
    return unquote(split.path) if split.scheme == "file" else uri


def _embedded(resource: Any) -> str:
    name = path_of(str(resource.uri))
    text = getattr(resource, "text", None)
    if text is None:
        return f"@{name}"
    cut = "" if len(text) <= EMBEDDED_MAX else f"\n[... {len(text) - EMBEDDED_MAX} characters left out ...]"
    return f'\n<file name="{name}">\n{text[:EMBEDDED_MAX]}{cut}\n</file>\n'


def _image(block: Any) -> ImageContent:
    try:
        data = base64.b64decode(block.data, validate=True)
    except ValueError:
        raise BadContent("an image is not base64") from None
    picture = picture_kind(data)
    if picture is None:
        raise BadContent(f"an image is of no kind that models take ({block.mime_type}); use png, jpeg, gif or webp")
    return ImageContent(block.data, picture.mime_type)


def _joined(parts: Sequence[str]) -> str:
    """Blocks side by side; editors put a mention between two of them without blanks of its own."""
    text = ""
    for part in parts:
        needs_blank = text and part and not text[-1].isspace() and not part[0].isspace()
        text += f" {part}" if needs_blank else part
    return text.strip("\n")
