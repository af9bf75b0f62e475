"""Bytes and text of a file: encodings told apart, changes spliced in without touching anything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.tools.text_file import NotText, decode, line_ending_near, looks_binary, with_line_endings

SAMPLES = {
    "gb18030": "中文测试文件，里面有一些常用的汉字。\r\n第二行\r\n",
    "shift_jis": "これは日本語のテキストです。カタカナも。\n",
    "euc_jp": "これは日本語のテキストです。カタカナも。\n",
    "euc_kr": "이것은 한국어 문장입니다. 여러 단어가 있습니다.\n",
    "big5": "這是一個繁體中文的測試檔案，裡面有常用的漢字。\n",
    "cp1251": "Это русский текст в старой кодировке.\n",
    "cp1252": "un café crème, déjà vu, naïve\n",
}


@pytest.mark.parametrize(("encoding", "text"), SAMPLES.items())
def test_old_encodings_are_told_apart(encoding: str, text: str) -> None:
    """Ordinary text in each of them is read as what it is."""
    file = decode(text.encode(encoding))

    assert file.text == text
    assert file.encoding == encoding


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_is_kept_apart(encoding: str) -> None:
    """The text does not begin with it, the bytes still do."""
    data = "aé\nb".encode(encoding)
    file = decode(data)

    assert file.text == "aé\nb"
    assert b"".join(file.spliced([])) == data
    assert b"".join(file.spliced([(0, 1, "X")])) == "Xé\nb".encode(encoding)


def test_binary_is_no_text() -> None:
    """A NUL byte says so."""
    assert looks_binary(b"\x7fELF\0\0")
    with pytest.raises(NotText):
        decode(b"abc\0def")


@given(data=st.binary(max_size=300))
def test_any_bytes_survive_being_read_as_text(data: bytes) -> None:
    """Whatever they are taken for, writing them back without a change gives the same bytes."""
    try:
        file = decode(data)
    except NotText:
        return
    assert b"".join(file.spliced([])) == data


@given(
    before=st.text(max_size=30),
    old=st.text(max_size=10),
    after=st.text(max_size=30),
    new=st.text(max_size=10),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_a_change_touches_only_its_own_bytes(before: str, old: str, after: str, new: str, encoding: str) -> None:
    """In front of it and behind it every byte stays."""
    text = before + old + after
    if "\0" in text:
        return
    file = decode(text.encode(encoding))
    if file.text != text:
        return
    start = len(before)
    changed = b"".join(file.spliced([(start, start + len(old), new)]))

    assert changed == (before + new + after).encode(encoding)


def test_line_endings_come_from_the_replaced_lines_one_by_one() -> None:
    """New lines beyond them take the last one's."""
    text = "a\r\nb\nc\r\n"

    assert with_line_endings("1\n2\n3\n4\n", text, 0, 8) == "1\r\n2\n3\r\n4\r\n"
    assert with_line_endings("x\ny", text, 5, 6) == "x\r\ny"
    assert line_ending_near("one", 0, 3) == "\n"
    assert line_ending_near("a\r\nb", 3, 4) == "\r\n"
