"""Markdown that is still being written is cut where it cannot change any more."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coding_agent.terminal.markdown import markdown_lines, safe_length
from coding_agent.terminal.markdown_stream import CODE_LINES_MAX, PARAGRAPH_MAX, TAIL_MAX, MarkdownStream, Piece
from coding_agent.terminal.render import Renderer, plain_text

PARTS = st.sampled_from(
    ["word ", "**bold** ", "`code` ", "\n", "\n\n", "- item", "1. item", "# title", "```", "```python\n", "| a | b |",
     "|---|---|", "> quote", "    ", "<b>", "---", "[x](y)", "~~~", "\r\n", "*", "_"]
)  # fmt: skip


def streamed(text: str, size: int) -> list[Piece]:
    """The pieces of a text that comes in parts of one size."""
    stream = MarkdownStream()
    pieces = []
    for at in range(0, len(text), size):
        stream.feed(text[at : at + size])
        pieces += stream.take()
    return pieces + stream.finish()


@settings(max_examples=200)
@given(st.lists(PARTS, max_size=30).map("".join), st.integers(1, 20))
def test_nothing_is_lost_doubled_or_moved_however_it_comes(text, size):
    """All words of the text are in the pieces, once and in order."""
    pieces = streamed(text, size)

    assert "".join("".join(piece.text for piece in pieces).split()) == "".join(text.replace("\r", "").split())


def test_who_shows_markdown_as_it_is_written_takes_whole_lines():
    """Lines as they are, none twice, the last one when it is whole or all is said."""
    stream, pieces = MarkdownStream(), []
    for part in ("one\n\nt", "wo\nthr", "ee"):
        stream.feed(part)
        pieces += stream.take_lines()

    assert [*pieces, *stream.finish()] == [Piece("one\n"), Piece("two", joined=True), Piece("three", joined=True)]


def test_a_block_is_let_go_when_the_next_one_begins():
    """A paragraph that is followed by an empty line, a title and a closed code block are certain at once."""
    stream, pieces = MarkdownStream(), []
    for char in "one\n\n# Title\n```\ncode\n```\ntail":
        stream.feed(char)
        pieces += stream.take()

    assert [piece.text for piece in pieces] == ["one", "# Title", "```\ncode\n```"]
    assert stream.tail == "tail"


def test_items_of_a_list_are_let_go_one_by_one_and_keep_their_numbers():
    """An item is certain when the next one begins; they go on without an empty line between them."""
    pieces = streamed("1. one\n2. two\n3. three\n", 1)

    assert pieces == [Piece("1. one"), Piece("2. two", joined=True), Piece("3. three", joined=True)]


def test_long_code_is_let_go_while_it_is_written():
    """The tail of a code block stays short however long the block; each piece is code of the same language."""
    stream = MarkdownStream()
    pieces = []
    stream.feed("\n\n```python\n")
    for number in range(500):
        stream.feed(f"line_{number}\n")
        pieces += stream.take()
        assert stream.tail.count("\n") <= CODE_LINES_MAX + 2
    stream.feed("```\n")
    pieces += stream.finish()

    assert all(piece.text.startswith("```python\n") and piece.text.endswith("```") for piece in pieces)
    lines = [line for piece in pieces for line in piece.text.split("\n") if line.startswith("line_")]
    assert lines == [f"line_{number}" for number in range(500)]


def test_what_is_cut_out_of_nothing_known_is_still_bounded():
    """A quote or a table without end does not make the tail grow without end."""
    stream = MarkdownStream()
    for _ in range(500):
        stream.feed("> quoted words that go on\n")
        stream.take()

    assert len(stream.tail) <= TAIL_MAX + 100


@pytest.mark.parametrize("width", [20, 57, 100])
def test_the_first_lines_of_a_long_paragraph_are_let_go_where_they_end_on_the_screen(width):
    """What is printed piece by piece looks like the whole: no line is shorter for having been let go."""
    text = " ".join(f"word{number} **bold{number}** `code{number}` plain" for number in range(120))
    renderer = Renderer(width)
    whole = [plain_text(line) for line in markdown_lines(renderer, text)]
    stream, printed = MarkdownStream(), []
    for at in range(0, len(text), 50):
        stream.feed(text[at : at + 50])
        while stream.is_long_paragraph:
            length = safe_length(stream.tail, markdown_lines(renderer, stream.tail))
            if not length:
                break
            printed.append(stream.let_go(length))
        assert len(stream.tail) < PARAGRAPH_MAX + 1_000
    printed += stream.finish()

    assert [plain_text(line) for piece in printed for line in markdown_lines(renderer, piece.text)] == whole
    assert [piece.joined for piece in printed] == [False, *[True] * (len(printed) - 1)]


def test_markup_that_is_not_markdown_is_text():
    """HTML and things that look like it are shown as they were written, and nothing in them is obeyed."""
    (line,) = markdown_lines(Renderer(80), "<think>a</think> \x1b[2J ![alt](http://x/y.png)")

    assert plain_text(line) == "<think>a</think> \\x1b[2J !alt (http://x/y.png)"
