"""Bytes, cut anywhere, to server-sent events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_ai.providers import sse
from lemon_ai.providers.sse import FramingError, ServerSentEvent, SseFramer


def read(*chunks: bytes) -> list[tuple[str | None, str]]:
    framer = SseFramer()
    events = [event for chunk in chunks for event in framer.feed(chunk)]
    return [(event.event, event.data) for event in [*events, *framer.close()]]


@pytest.mark.requirement("BR-022")
def test_a_comment_and_a_blank_line_are_no_event() -> None:
    """Data is dispatched by a blank line only if there is data."""
    assert read(b"id: 1\ndata: {ok}\n\n: ping\n\ndata: {ok2}\n\n") == [(None, "{ok}"), (None, "{ok2}")]


@pytest.mark.requirement("BR-023")
def test_a_comment_does_not_swallow_the_event_behind_it() -> None:
    """One read may hold a comment and an event."""
    framer = SseFramer()
    assert framer.feed(b': ping\n\ndata: {"a":1}\n\n') == [ServerSentEvent('{"a":1}')]


@pytest.mark.requirement("BR-024")
def test_cr_and_lf_in_two_reads_are_one_line_end() -> None:
    """Line ends are LF, CR or CRLF, however the reads fall."""
    assert read(b"data: x\r", b"\nevent: endpoint\r\n\r\n") == [("endpoint", "x")]
    assert read(b"data: a\rdata: b\r\rdata: c\r\r") == [(None, "a\nb"), (None, "c")]


def test_lines_of_data_are_joined_and_one_space_after_the_colon_is_dropped() -> None:
    """As the specification says; a field without a colon is an empty line of data."""
    assert read(b"data:  two spaces\ndata:none\ndata\n\n") == [(None, " two spaces\nnone\n")]


def test_an_event_without_its_blank_line_is_given_at_the_end() -> None:
    """The last event of a body that ends early is not lost."""
    assert read(b"event: x\ndata: last") == [("x", "last")]


def test_a_byte_order_mark_is_no_part_of_the_first_field() -> None:
    """Also when it comes in pieces."""
    assert read(b"\xef\xbb", b"\xbfdata: x\n\n") == [(None, "x")]
    assert read(b"\xef\xbb\xbfdata: x") == [(None, "x")]


def test_json_behind_the_last_event_is_an_event_of_its_own() -> None:
    """Some servers put a bare error object into the stream; it is not thrown away with unknown fields."""
    body = b'data: {"a": 1}\n\n{\n  "error": {\n    "code": 499\n  }\n}\n'
    assert [data for _, data in read(body)] == ['{"a": 1}', '{\n  "error": {\n    "code": 499\n  }\n}']


def test_an_endless_line_is_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept for the next read is bounded."""
    monkeypatch.setattr(sse, "LONGEST_EVENT", 100)
    framer = SseFramer()
    with pytest.raises(FramingError):
        for _ in range(20):
            framer.feed(b"data: xxxx")


LINES = st.lists(
    st.sampled_from(['data: {"é": "😀"}', "data:", ": comment", "event: e", "", "", "id: 4", "garbage", "retry: 5"]),
    max_size=12,
)


@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_how_the_bytes_are_cut_makes_no_difference(lines: list[str], end: str, data: st.DataObject) -> None:
    """Whole, byte by byte and at random, inside a character too: the same events."""
    body = end.join([*lines, ""]).encode()
    whole = read(body)
    assert read(*[body[at : at + 1] for at in range(len(body))]) == whole
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
    assert read(*[body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]) == whole
