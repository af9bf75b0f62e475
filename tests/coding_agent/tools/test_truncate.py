"""Long text cut to limits in bytes, lines and characters."""

from hypothesis import given, settings
from hypothesis import strategies as st

from coding_agent.tools.truncate import (
    HeadTail,
    clip_around,
    clip_head,
    clip_tail,
    clip_text,
    token_estimate,
    whole_lines,
)

TEXT = st.text(alphabet=st.sampled_from("ab\n\n\U0001f600\u00e9"), max_size=60)


@given(text=TEXT, limit=st.integers(0, 100))
def test_clips_end_on_whole_characters_within_the_limit(text: str, limit: int) -> None:
    """From either end, and no more is cut than must be."""
    data = text.encode()
    head, tail = clip_head(data, limit), clip_tail(data, limit)

    assert data.startswith(head)
    assert data.endswith(tail)
    for part in (head, tail, clip_text(text, limit).encode(), whole_lines(text, limit).encode()):
        part.decode()
        assert len(part) <= limit
    assert len(data) <= limit or min(len(head), len(tail)) > limit - 4


@settings(max_examples=300)
@given(parts=st.lists(TEXT, max_size=12), max_bytes=st.integers(1, 400), max_lines=st.integers(1, 30))
def test_what_is_kept_of_a_stream_is_within_the_limits(parts: list[str], max_bytes: int, max_lines: int) -> None:
    """However it arrives; what fits is kept whole, and the totals are those of all there was."""
    kept = HeadTail(max_bytes, max_lines)
    for part in parts:
        kept.feed(part)
    text = "".join(parts)
    shown = kept.shortened()

    assert len(shown.text.encode()) <= max_bytes
    assert shown.total_bytes == len(text.encode())
    assert shown.total_lines == len(text.split("\n")) - (text.endswith("\n") or not text)
    assert shown.text.count("\n") <= max(max_lines, 3)
    assert shown.truncated or shown.text == text


def test_beginning_and_end_are_both_there() -> None:
    """A fifth of the room for the beginning, the rest for the end, cut between lines."""
    kept = HeadTail(1000, 100)
    for number in range(1000):
        kept.feed(f"line {number}\n")
    lines = kept.shortened().text.split("\n")

    assert lines[0] == "line 0"
    assert lines[-2] == "line 999"
    assert sum(line.startswith("[...") for line in lines) == 1
    assert all(line.startswith(("line ", "[...")) for line in lines[:-1])


@given(line=st.text(max_size=80), start=st.integers(0, 80), size=st.integers(0, 10), width=st.integers(15, 60))
def test_a_line_cut_around_a_match_shows_the_match(line: str, start: int, size: int, width: int) -> None:
    """Within the width, with the match in it when it fits."""
    start = min(start, len(line))
    end = min(start + size, len(line))
    shown = clip_around(line, start, end, width)

    assert len(shown) <= width
    assert line[start:end] in shown


def test_dense_text_costs_more_tokens() -> None:
    """Punctuation and other scripts count one each, words a quarter."""
    assert token_estimate("word " * 100) < 250
    assert token_estimate("{}[];" * 100) == 500
    assert token_estimate("\u4e2d" * 100) == 100
