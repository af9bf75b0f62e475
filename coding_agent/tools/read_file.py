"""Edge. What the tool `read` does with a file: text, picture or notebook. Loaded with the first reading."""

import base64
import io
import os
from typing import Any, BinaryIO, Final

from attrs import frozen

from coding_agent.tools.files import Fence, Version, open_regular
from coding_agent.tools.images import BYTES_MAX as IMAGE_BYTES_MAX
from coding_agent.tools.images import CannotShrink, Picture, picture_kind, shrunk
from coding_agent.tools.line_reader import Limits, Slice, read_bytes_from, read_lines
from coding_agent.tools.notebooks import NotANotebook, rendered
from coding_agent.tools.paths import Place
from coding_agent.tools.text_file import MARKS, NotText, decode, looks_binary
from coding_agent.tools.visible_text import reveal
from lemon_agent import AgentToolResult, ToolError, text_result
from lemon_ai import ImageContent, TextContent

BYTES_MAX: Final = 50_000
TOKENS_MAX: Final = 25_000
WHOLE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Pictures, notebooks and 16-bit text are read whole, up to this size."""

SIGNATURES: Final = (
    (b"\x7fELF", "ELF executable"),
    (b"%PDF", "PDF document"),
    (b"PK\x03\x04", "zip archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ", "xz archive"),
    (b"(\xb5/\xfd", "zstd archive"),
    (b"SQLite format 3", "SQLite database"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O binary"),
    (b"\xcf\xfa\xed\xfe", "Mach-O binary"),
    (b"MZ", "Windows executable"),
    (b"\0asm", "WebAssembly module"),
    (b"!<arch>", "ar archive"),
)


@frozen
class Answer:
    """What was found, and which version of the file it was found in."""

    result: AgentToolResult
    version: Version
    real: str


@frozen
class Shown:
    """How things are shown.

    Attributes:
        shrink: Pictures are made smaller when they are too large.
        hashlines: Lines are named by number and letters of their content.
    """

    shrink: bool = True
    hashlines: bool = False


def look(place: Place, offset: int, limit: int, byte_offset: int, shown: Shown, fence: Fence) -> Answer:
    """Read what is asked for, in a worker thread and in bounded memory.

    Raises:
        ToolError: It is no file that this tool can show.
    """
    with place, os.fdopen(open_regular(place), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        sample = file.read(65536) or b""
        file.seek(0)
        picture = picture_kind(sample)
        if picture is not None:
            result = picture_result(place, read_whole(place, file, status.st_size), picture, shrink=shown.shrink)
        else:
            source = text_source(place, file, sample, status.st_size)
            limits = Limits(lines=limit, bytes=BYTES_MAX, tokens=TOKENS_MAX)
            if byte_offset >= 0:
                part = read_bytes_from(source, byte_offset, limits, fence)
            else:
                part = read_lines(source, offset, limits, fence)
            result = text_answer(place, part, offset, sample, hashlines=shown.hashlines and byte_offset < 0)
        return Answer(result, Version.of(status), place.real)


def text_source(place: Place, file: BinaryIO, sample: bytes, size: int) -> BinaryIO:
    """Bytes whose lines end with LF or CRLF: the file itself, or what a notebook or 16-bit text says.

    Raises:
        ToolError: It is binary.
    """
    if place.name.endswith(".ipynb"):
        try:
            return io.BytesIO(rendered(read_whole(place, file, size)).encode(errors="replace"))
        except NotANotebook:
            file.seek(0)
    if looks_binary(sample):
        kind = next((name for signature, name in SIGNATURES if sample.startswith(signature)), "unknown type")
        raise ToolError(
            f"{place.given} is a binary file ({kind}, {size} bytes) and not shown. "
            "Look at it with bash, for example with file, strings, xxd, or a program made for its type"
        )
    if any(sample.startswith(mark) for mark, _encoding in MARKS[1:]):
        try:
            return io.BytesIO(decode(read_whole(place, file, size)).text.encode(errors="replace"))
        except NotText:
            raise ToolError(f"{place.given} begins like UTF-16 or UTF-32 text but is not ({size} bytes)") from None
    return file


def read_whole(place: Place, file: BinaryIO, size: int) -> bytes:
    """All bytes.

    Raises:
        ToolError: There are too many.
    """
    data = b""
    while len(data) <= WHOLE_BYTES_MAX >= size and (more := file.read(WHOLE_BYTES_MAX + 1 - len(data))):
        data += more
    if max(size, len(data)) > WHOLE_BYTES_MAX:
        raise ToolError(f"File is too large ({size} bytes, at most {WHOLE_BYTES_MAX} of this kind): {place.given}")
    return data


def picture_result(place: Place, data: bytes, picture: Picture, *, shrink: bool) -> AgentToolResult:
    """A picture as an image block, made smaller when needed and wanted."""
    size, mime_type, note = len(data), picture.mime_type, ""
    if shrink and (not picture.fits or size > IMAGE_BYTES_MAX):
        try:
            data, mime_type = shrunk(data, picture)
        except CannotShrink as error:
            raise ToolError(
                f"{place.given} is too large a picture ({picture.width} x {picture.height}, {size} bytes): {error}"
            ) from error
        note = ", made smaller"
    text = f"{place.shown}: {picture.mime_type}, {picture.width} x {picture.height}, {size} bytes{note}"
    details = {"path": place.shown, "size": size, "mime_type": mime_type}
    return AgentToolResult(
        content=(TextContent(text), ImageContent(base64.b64encode(data).decode(), mime_type)), details=details
    )


def text_answer(place: Place, part: Slice, offset: int, sample: bytes, *, hashlines: bool = False) -> AgentToolResult:
    """The lines with their numbers, and a last line that says how to go on.

    Raises:
        ToolError: The file ends before the line asked for.
    """
    if part.beyond:
        wanted = f"byte {part.start_byte}" if part.start_byte else f"line {offset}"
        raise ToolError(f"{place.given} has {part.total_lines} lines; {wanted} is beyond its end")
    text, encoding = part.decoded(sample)
    shown, hidden = reveal(text)
    lines = enumerate(shown.split("\n"), part.start_line)
    if hashlines:
        from coding_agent.tools.hashlines import reference

        names = (reference(number, line) for number, line in enumerate(text.split("\n"), part.start_line))
        body = "\n".join(f"{name}: {line}" for name, (_number, line) in zip(names, lines, strict=True))
    else:
        body = "\n".join(f"{number}: {line}" for number, line in lines)
    details: dict[str, Any] = {
        "path": place.shown,
        "total_lines": part.total_lines,
        "start_line": part.start_line,
        "lines_shown": part.lines_shown,
        "truncation": part.truncation(),
        "encoding": encoding,
    }
    notes = [part.footer()]
    if place.renamed:
        notes.append(f"[There is no {place.given}; this is {place.shown}.]")
    if encoding != "utf-8":
        notes.append(f"[The file is encoded in {encoding}.]")
    if hidden:
        notes.append("[Invisible characters are shown as \\u{...}.]")
    text = "\n\n".join([body, *filter(None, notes)])
    return text_result(text, details, trust="untrusted" if hidden else "trusted")
