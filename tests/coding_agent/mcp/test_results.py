"""What a server answers as a result for the model: every kind of content, each bounded."""

import asyncio
import base64

import mcp_types as types
import pytest

from coding_agent.mcp.backoff import ATTEMPTS_MAX, LONGEST_S, delay_s
from coding_agent.mcp.bounded_http import bounded_transport
from coding_agent.mcp.results import IMAGES_MAX, progress_result, tool_result
from lemon_ai import ImageContent
from tests.coding_agent.mcp.demo_server import PIXEL
from tests.coding_agent.mcp.support import text_of

DATA = base64.b64encode(PIXEL).decode()


def result(*content, **more):
    return tool_result(types.CallToolResult(content=list(content), **more), "s", "t")


def test_every_kind_of_content_is_said_or_named():
    """What a model cannot read is named with its size, never put in."""
    text = types.TextResourceContents(uri="file:///b", text="inside")
    blob = types.BlobResourceContents(uri="file:///c", blob="A" * 999)
    shown = text_of(
        result(
            types.TextContent(type="text", text="words"),
            types.AudioContent(type="audio", data="A" * 1000, mime_type="audio/wav"),
            types.ResourceLink(type="resource_link", name="n", uri="file:///a"),
            types.EmbeddedResource(type="resource", resource=text),
            types.EmbeddedResource(type="resource", resource=blob),
        )
    )

    assert shown.splitlines() == [
        "words",
        "[audio, audio/wav, 1000 characters, left out]",
        "[resource n: file:///a]",
        "[resource file:///b]",
        "inside",
        "[resource file:///c, binary, left out]",
    ]


def test_pictures_are_counted_and_checked_by_their_bytes():
    """What is none, is broken or is one too many becomes a line."""
    picture = types.ImageContent(type="image", data=DATA, mime_type="text/html")
    broken = types.ImageContent(type="image", data="%%%", mime_type="image/png")
    none = types.ImageContent(type="image", data=base64.b64encode(b"GIF?").decode(), mime_type="image/gif")

    made = result(*[picture] * (IMAGES_MAX + 2))
    bad = result(broken, none)

    images = [block for block in made.content if isinstance(block, ImageContent)]
    assert len(images) == IMAGES_MAX
    assert {image.mime_type for image in images} == {"image/png"}
    assert text_of(made).count("one more image") == 2
    assert "not base64" in text_of(bad)
    assert "unknown kind" in text_of(bad)


def test_what_is_said_in_data_alone_is_shown_as_json():
    """Some servers answer nothing else; an empty answer says that it is empty."""
    assert '"a": 1' in text_of(result(structured_content={"a": 1}))
    assert text_of(result()) == "(no output)"


@pytest.mark.parametrize("size", [10, 10_000_000])
def test_a_result_is_untrusted_and_no_longer_than_fifty_kilobytes(size):
    """However much a server says."""
    made = result(types.TextContent(type="text", text="line\n" * (size // 5)))

    assert made.trust == "untrusted"
    assert len(text_of(made).encode()) <= 50_000
    assert made.details["truncated"] is (size > 50_000)


def test_progress_is_one_short_line():
    """Whatever the server puts into it."""
    assert text_of(progress_result(1, 4, "half\x1b[31m" + "x" * 9_999)).startswith("1/4 half")
    assert len(text_of(progress_result(1, 4, "x" * 9_999))) < 600
    assert text_of(progress_result(2, None, None)) == "2"


def test_waits_grow_to_a_minute_and_then_nobody_tries_again():
    """Six failures in a row are enough."""
    waits = [delay_s(failures) for failures in range(1, ATTEMPTS_MAX + 1)]

    assert waits[-1] is None
    assert waits[:-1] == sorted(waits[:-1])
    assert max(waits[:-1]) == LONGEST_S


async def test_an_answer_over_http_that_is_too_long_is_cut_off():
    """While it is read, not afterwards; a stream of events may go on."""
    import httpx2

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        kind = b"text/event-stream" if b"/events" in request else b"application/json"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nConnection: close\r\n\r\n" + b"x" * 5_000)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, httpx2.AsyncClient(transport=bounded_transport(1_000)) as http:
        assert len((await http.get(f"{address}/events")).content) == 5_000
        with pytest.raises(httpx2.ReadError, match="longer than 1000 bytes"):
            await http.get(f"{address}/json")
