"""Text made plain and visible."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.tools.visible_text import PlainDecoder, plain, reveal, unreveal

PIECES = st.lists(
    st.binary(max_size=8)
    | st.sampled_from(
        [b"\x1b[", b"31m", b"\x1b]0;", b"\x07", b"\x1b\\", b"\n", b"\r\n", b"\xf0\x9f", b"\x98\x80", b"\x1b"]
    ),
    max_size=20,
)


@given(pieces=PIECES)
def test_decoding_does_not_depend_on_how_the_bytes_were_cut(pieces: list[bytes]) -> None:
    """In pieces, byte by byte or whole, the text is the same, and it has no control characters."""
    data = b"".join(pieces)
    texts = []
    for cut in (pieces, [data], [data[index : index + 1] for index in range(len(data))]):
        decoder = PlainDecoder()
        texts.append("".join(decoder.feed(piece) for piece in cut) + decoder.feed(b"", final=True))

    assert texts[0] == texts[1] == texts[2]
    assert not any((ord(char) < 32 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0 for char in texts[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b(Bx\x1b=y\x1bMz", "xyz"),
        ("10%\r20%\n", "10%20%\n"),
        ("a\x1b]unfinished\nb", "a\nb"),
        ("tab\there", "tab\there"),
    ],
)
def test_terminal_codes_are_dropped(text: str, expected: str) -> None:
    """Colours, titles, links, and everything else that begins with an escape."""
    assert plain(text) == expected


@pytest.mark.requirement("BR-184")
@pytest.mark.parametrize(
    "char", ["\U000e0041", "\u200b", "\u202e", "\u2066", "\ufeff", "\U000e0101", "\u3164", "\ufe0f\ufe0f"]
)
def test_what_cannot_be_seen_is_shown(char: str) -> None:
    """As escapes, and it is said that there was something."""
    shown, hidden = reveal(f"a{char}b")

    assert hidden
    assert char not in shown
    assert shown.isprintable()
    assert unreveal(shown) == f"a{char}b"


@pytest.mark.parametrize(
    "text", ["plain", "caf\u00e9 \u4e2d\u6587", "\u2764\ufe0f", "\U0001f468\u200d\U0001f469", "\u0646\u200c\u0645"]
)
def test_what_belongs_to_writing_and_emoji_stays(text: str) -> None:
    """One variation selector, one joiner."""
    assert reveal(text) == (text, False)


@given(st.text())
def test_revealing_can_be_undone(text: str) -> None:
    """Unless the text itself looked like an escape."""
    if "\\u{" not in text:
        assert unreveal(reveal(text)[0]) == text
