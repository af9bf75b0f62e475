"""The tool `read`: lines and their numbers, limits, and what is not read at all."""

import base64
import json
import os
import struct
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coding_agent.tools.images import picture_kind
from coding_agent.tools.read import LINES_MAX
from coding_agent.tools.read_file import BYTES_MAX
from lemon_agent import ToolError
from lemon_ai import ImageContent
from tests.coding_agent.tools.support import Bench, text_of

Put = Callable[[str, str | bytes], Path]


async def test_lines_come_with_their_numbers(bench: Bench, put: Put) -> None:
    """A file's last line end gives one more, empty line, which is counted."""
    put("f", "a\n\nb\n")
    result = await bench.call("read", path="f")

    assert text_of(result) == "1: a\n2: \n3: b\n4: "
    assert result.details == {
        "path": "f",
        "total_lines": 4,
        "start_line": 1,
        "lines_shown": 4,
        "truncation": None,
        "encoding": "utf-8",
    }


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (3, 2, "3: 3\n4: 4\n\n[Showing lines 3-4 of 11 (lines limit). Use offset=5 to go on.]"),
        (0, 1, "1: 1\n\n[Showing lines 1-1 of 11 (lines limit). Use offset=2 to go on.]"),
        (-5, 1, "1: 1\n\n[Showing lines 1-1 of 11 (lines limit). Use offset=2 to go on.]"),
        (10, None, "10: 10\n11: "),
        (11, None, "11: "),
    ],
)
async def test_a_part_is_shown_with_the_way_to_go_on(
    bench: Bench, put: Put, offset: int, limit: int | None, expected: str
) -> None:
    """From any line, so many lines; an offset below one is the first line."""
    put("f", "".join(f"{number}\n" for number in range(1, 11)))
    params = {"path": "f", "offset": offset} | ({} if limit is None else {"limit": limit})

    assert await bench.text("read", **params) == expected


async def test_a_line_beyond_the_end_is_told(bench: Bench, put: Put) -> None:
    """With how many there are."""
    put("f", "a\nb")

    assert await bench.refusal("read", path="f", offset=3) == "f has 2 lines; line 3 is beyond its end"
    assert "byte 9 is beyond its end" in await bench.refusal("read", path="f", byte_offset=9)


async def test_long_files_are_cut_at_the_line_and_byte_limits(bench: Bench, put: Put) -> None:
    """Whichever comes first, and following the footers leads through the whole file once."""
    put("lines", "x\n" * 5000)
    put("bytes", ("y" * 99 + "\n") * 3000)
    lines = await bench.call("read", path="lines")
    assert lines.details["lines_shown"] == LINES_MAX
    assert lines.details["truncation"] == {"reason": "lines", "next_offset": LINES_MAX + 1}

    seen, offset = 0, 1
    while offset:
        part = await bench.call("read", path="bytes", offset=offset)
        assert len(text_of(part).rpartition("\n\n[")[0].encode()) <= BYTES_MAX
        assert part.details["start_line"] == seen + 1
        seen += part.details["lines_shown"]
        offset = (part.details["truncation"] or {}).get("next_offset", 0)
    assert seen == 3001


@pytest.mark.requirement("BR-096")
async def test_one_long_line_is_shown_in_parts(bench: Bench, put: Put) -> None:
    """Its beginning, and the byte to go on at; the parts together are the line, no character cut."""
    line = "0123456789\u00e9\U0001f600" * 12_000
    put("f", "first\n" + line)
    shown, offset, number = "", 6, 0
    while offset:
        part = await bench.call("read", path="f", byte_offset=offset)
        body = text_of(part).rpartition("\n\n[Line")[0] or text_of(part)
        assert body.startswith("2: ")
        shown += body[3:]
        offset = (part.details["truncation"] or {}).get("next_byte_offset", 0)
        number += 1
    assert shown == line
    assert number > 2

    first = await bench.text("read", path="f", offset=2)
    assert "Use byte_offset=" in first
    assert first.startswith("2: 0123456789")


@pytest.mark.requirement("BR-097")
async def test_binary_files_are_refused_with_their_kind_and_size(bench: Bench, put: Put) -> None:
    """Nothing of them reaches the model but advice."""
    put("prog", Path("/bin/true").read_bytes())
    put("x.zip", b"PK\x03\x04" + bytes(100))

    assert "binary file (ELF executable" in await bench.refusal("read", path="prog")
    assert "zip archive, 104 bytes" in await bench.refusal("read", path="x.zip")


async def test_text_that_is_dense_in_tokens_is_cut_earlier(bench: Bench, put: Put) -> None:
    """The limit counts tokens too, not only bytes."""
    put("f", "\n".join(["{}[]();:,.<>?/!@#$%^&*" * 4] * 2000))
    result = await bench.call("read", path="f")

    assert result.details["truncation"]["reason"] == "tokens"
    assert len(text_of(result)) < 40_000


@pytest.mark.requirement("BR-098")
async def test_a_huge_file_is_read_in_little_memory(bench: Bench, put: Put) -> None:
    """300 MB: the lines asked for and the number of lines come quickly and without holding the file."""
    path = put("f", b"")
    block = (b"z" * 99 + b"\n") * 10_000
    with path.open("wb") as file:
        for _block in range(300):
            file.write(block)
    tracemalloc.start()
    began = time.monotonic()
    result = await bench.call("read", path="f", offset=2_999_999)
    taken, peak = time.monotonic() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    path.unlink()

    assert result.details["total_lines"] == 3_000_001
    assert text_of(result).startswith("2999999: z")
    assert peak < 20_000_000
    assert taken < 10


@pytest.mark.requirement("BR-098")
async def test_what_is_no_file_is_refused_at_once(bench: Bench) -> None:
    """A pipe, a socket, a device: not opened, so nothing waits."""
    os.mkfifo(bench.folder / "pipe")
    (bench.folder / "zero").symlink_to("/dev/zero")
    began = time.monotonic()

    assert "named pipe" in await bench.refusal("read", path="pipe")
    assert "devices" in await bench.refusal("read", path="zero")
    assert await bench.refusal("read", path=".") == "Path is a directory, not a file: ."
    assert await bench.refusal("read", path="none") == "File not found: none"
    assert await bench.refusal("read", path="") == "Path is required"
    assert time.monotonic() - began < 1


async def test_other_encodings_are_read_and_named(bench: Bench, put: Put) -> None:
    """UTF-16 with its mark, and old encodings."""
    put("wide", "a\r\n\u4e2d\u6587\n".encode("utf-16"))
    put("mark", b"\xef\xbb\xbfx\n")
    put("latin", "caf\u00e9\n".encode("cp1252"))

    assert (await bench.text("read", path="wide")).startswith("1: a\n2: \u4e2d\u6587\n3: ")
    assert await bench.text("read", path="mark") == "1: x\n2: "
    assert "encoded in cp1252" in await bench.text("read", path="latin")


@pytest.mark.requirement("BR-184")
async def test_invisible_characters_are_shown(bench: Bench, put: Put) -> None:
    """As escapes, with a note, and the result is untrusted."""
    put("f", "a\U000e0041\u200bb\u202e")
    result = await bench.call("read", path="f")

    assert text_of(result).startswith(r"1: a\u{e0041}\u{200b}b\u{202e}")
    assert result.trust == "untrusted"


async def test_line_separators_of_unicode_do_not_make_lines(bench: Bench, put: Put) -> None:
    """Only LF ends a line, so numbers are those of every other program."""
    put("f", "a\u2028b\u0085c\x0cd\ne")

    assert (await bench.call("read", path="f")).details["total_lines"] == 2


def png(width: int, height: int) -> bytes:
    """A picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"".join(b"\0" + b"\x80" * width for _row in range(height)))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


async def test_a_picture_is_shown_as_one(bench: Bench, put: Put) -> None:
    """By its bytes, whatever its name; with its size in the text."""
    put("p.txt", png(20, 10))
    result = await bench.call("read", path="p.txt")

    picture = result.content[1]
    assert isinstance(picture, ImageContent)
    assert base64.b64decode(picture.data) == png(20, 10)
    assert "image/png, 20 x 10" in text_of(result)
    assert result.details == {"path": "p.txt", "size": len(png(20, 10)), "mime_type": "image/png"}


async def test_a_picture_that_unfolds_to_too_much_is_refused(bench: Bench, put: Put) -> None:
    """A header that promises a hundred thousand pixels each way is not decoded."""
    put("bomb.png", png(1, 1)[:16] + struct.pack(">II", 100_000, 100_000) + png(1, 1)[24:])

    assert "too large a picture (100000 x 100000" in await bench.refusal("read", path="bomb.png")


async def test_a_large_picture_is_made_smaller(bench: Bench, put: Put) -> None:
    """In pixels, keeping its shape; and what cannot be decoded is said."""
    put("large.png", png(4000, 1000))
    result = await bench.call("read", path="large.png")
    picture = result.content[1]
    assert isinstance(picture, ImageContent)
    small = picture_kind(base64.b64decode(picture.data))

    assert small is not None
    assert (small.width, small.height) == (1568, 392)
    assert "4000 x 1000" in text_of(result)
    assert "made smaller" in text_of(result)
    put("broken.png", png(4000, 1000)[:200])
    assert "cannot be decoded" in await bench.refusal("read", path="broken.png")


def test_kinds_of_pictures_are_told_by_their_bytes() -> None:
    """Four kinds, with width and height."""
    gif = b"GIF89a" + struct.pack("<HH", 3, 4)
    jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 6, 5) + b"\x03"
    webp = b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + (6).to_bytes(3, "little") + (7).to_bytes(3, "little")
    found = [picture_kind(data) for data in (png(1, 2), gif, jpeg, webp, b"text")]

    assert [(each.mime_type, each.width, each.height) if each else None for each in found] == [
        ("image/png", 1, 2),
        ("image/gif", 3, 4),
        ("image/jpeg", 5, 6),
        ("image/webp", 7, 8),
        None,
    ]


async def test_a_notebook_comes_as_text(bench: Bench, put: Put) -> None:
    """Cells and what they printed, without pictures and codes for terminals."""
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "text": ["\x1b[31m1\x1b[0m\n"]},
                {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<Figure>"}},
                {"output_type": "error", "ename": "E", "evalue": "v", "traceback": []},
            ],
        },
    ]
    put("n.ipynb", json.dumps({"cells": cells}))
    put("bad.ipynb", "{not json")
    text = await bench.text("read", path="n.ipynb")

    assert "# Title" in text
    assert "print(1)" in text
    assert "\x1b" not in text
    assert "[image/png, 4 characters]" in text
    assert "E: v" in text
    assert await bench.text("read", path="bad.ipynb") == "1: {not json"


async def test_reading_works_in_a_thread_and_leaves_the_loop_alone(bench: Bench, put: Put) -> None:
    """The file is not read on the event loop's thread."""
    import coding_agent.tools.read_file as module

    threads = []
    look = module.look

    def watched(*args: object) -> object:
        threads.append(threading.current_thread())
        return look(*args)  # type: ignore[arg-type]

    put("f", "x")
    module.look = watched  # type: ignore[assignment]
    try:
        await bench.call("read", path="f")
    finally:
        module.look = look

    assert threads[0] is not threading.main_thread()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=400) | st.text(max_size=200).map(str.encode),
    offset=st.integers(-2, 30),
    limit=st.integers(1, 30),
)
async def test_any_file_is_shown_or_refused(bench: Bench, content: bytes, offset: int, limit: int) -> None:
    """Whatever is in it: numbered lines that fit together, or a ToolError; never anything else."""
    (bench.folder / "f").write_bytes(content)
    try:
        result = await bench.call("read", path="f", offset=offset, limit=limit)
    except ToolError:
        return
    details = result.details
    if "total_lines" in details and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        assert details["total_lines"] == content.count(b"\n") + 1
        assert details["lines_shown"] <= limit
        text_of(result).encode()
