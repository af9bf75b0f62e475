"""Edge. The prompts of a command line: what stands behind `-p`, further messages, files, and what is piped in."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from coding_agent.arguments import Arguments
from coding_agent.errors import BadUsage
from lemon_ai import ImageContent
from lemon_otp import frozen

FILE_BYTES_MAX: Final = 10 * 1024 * 1024
"""A larger file is not put into a prompt."""


@frozen
class Prompted:
    """One prompt: its text, and the pictures that go along."""

    text: str
    images: tuple[ImageContent, ...] = ()


def prompts_of(arguments: Arguments, piped: str | None = None) -> list[Prompted]:
    """The prompts in order: files and piped text go in front of the first; none when nothing was said.

    Args:
        arguments: `@FILE` among the messages is a file; behind `-p` only when there is such a file.
        piped: What came through standard input.

    Raises:
        BadUsage: A file is not there, cannot be read, is too large, or is neither text nor a picture.
    """
    said = list(arguments.messages)
    if arguments.prompt:
        said.insert(0, arguments.prompt)
    folder = Path(arguments.cwd or ".")
    files = [word for word in said if _names_a_file(word, folder, must=word is not arguments.prompt)]
    texts = [word for word in said if word not in files and word.strip()]
    parts, images = _read([folder / Path(word[1:]).expanduser() for word in files])
    if piped is not None and piped.strip():
        parts.append(piped)
    if parts or images:
        texts = ["\n".join([*parts, *texts[:1]]), *texts[1:]]
    if not texts:
        return []
    return [Prompted(texts[0], tuple(images)), *(Prompted(text) for text in texts[1:])]


def _names_a_file(word: str, folder: Path, *, must: bool) -> bool:
    if not word.startswith("@") or len(word) < 2 or "\n" in word:
        return False
    return must or (folder / Path(word[1:]).expanduser()).is_file()


def _read(paths: Sequence[Path]) -> tuple[list[str], list[ImageContent]]:
    from coding_agent.tools.images import picture_kind

    parts: list[str] = []
    images: list[ImageContent] = []
    for path in paths:
        try:
            with path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise BadUsage(f"{path} cannot be read: {error.strerror or error}") from error
        if len(data) > FILE_BYTES_MAX:
            raise BadUsage(f"{path} has more than {FILE_BYTES_MAX} bytes; let the agent read the part that matters")
        picture = picture_kind(data)
        if picture is not None:
            images.append(ImageContent(base64.b64encode(data).decode(), picture.mime_type))
            parts.append(f'<file name="{path.absolute()}"></file>')
        elif b"\0" in data[:8192]:
            raise BadUsage(f"{path} is neither text nor a picture")
        elif data.strip():
            parts.append(f'<file name="{path.absolute()}">\n{data.decode("utf-8", "replace")}\n</file>')
    return parts, images
