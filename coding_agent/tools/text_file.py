"""Pure. A text file's bytes and its text, in both directions, without losing a byte that nobody changed.

Encoding, byte order mark and every line's own ending stay as they are: a change is spliced into the bytes.
"""

import codecs
import re
from collections.abc import Sequence
from typing import Final

from attrs import field, frozen

SNIFFED: Final = 8192
MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
NEWLINE: Final = re.compile(r"\r\n?|\n")

# How much of a legacy text looks at home in an encoding: the byte pairs of its everyday characters.
COMMON: Final[dict[str, re.Pattern[bytes]]] = {
    "shift_jis": re.compile(rb"\x82[\x9f-\xf1]|\x83[\x40-\x96]|\x81[\x40-\x7e]|[\x88-\x97][\x40-\x7e\x80-\xfc]"),
    "euc_jp": re.compile(rb"[\xa4\xa5][\xa1-\xf6]|\xa1[\xa1-\xfe]|[\xb0-\xcf][\xa1-\xfe]"),
    "euc_kr": re.compile(rb"[\xb0-\xc8][\xa1-\xfe]|\xa1[\xa1-\xfe]"),
    "gb18030": re.compile(rb"[\xb0-\xd7][\xa1-\xfe]|[\xa1-\xa3][\xa1-\xfe]"),
    "big5": re.compile(rb"[\xa4-\xc6][\x40-\x7e\xa1-\xfe]|\xa1[\x40-\x7e\xa1-\xfe]"),
}
KANA: Final = re.compile("[\u3040-\u30ff]")
AT_HOME: Final = 0.95
CYRILLIC_WORDS: Final = re.compile(rb"[\xc0-\xff\xa8\xb8]{3,}")


class NotText(Exception):
    """The bytes are no text in any encoding known here."""


@frozen
class TextFile:
    """A decoded file.

    Attributes:
        data: All its bytes.
        text: What follows the byte order mark, line endings as they are.
        encoding: A codec's name.
        mark: The byte order mark, often empty.
    """

    data: bytes = field(repr=False)
    text: str = field(repr=False)
    encoding: str
    mark: bytes = b""

    def spliced(self, changes: Sequence[tuple[int, int, str]]) -> list[bytes | memoryview]:
        """The bytes with each `text[start:end]` replaced, in pieces; all else is byte for byte what it was.

        Args:
            changes: Start, end and replacement, in order and apart.

        Raises:
            UnicodeEncodeError: A replacement has characters that the file's encoding has not.
        """
        whole = memoryview(self.data)
        parts: list[bytes | memoryview] = [self.mark]
        at, offset = 0, len(self.mark)
        for start, end, new in changes:
            begin = offset + self._size(at, start)
            parts.append(whole[offset:begin])
            parts.append(new.encode(self.encoding))
            at, offset = end, begin + self._size(start, end)
        parts.append(whole[offset:])
        return parts

    def _size(self, start: int, end: int) -> int:
        """How many bytes a piece of the text takes."""
        if len(self.text) + len(self.mark) == len(self.data):
            return end - start
        return len(self.text[start:end].encode(self.encoding))


def looks_binary(sample: bytes) -> bool:
    """Is this the beginning of something that is no text? A NUL byte says so, unless a byte order mark explains it."""
    return not any(sample.startswith(mark) for mark, _encoding in MARKS) and b"\0" in sample[:SNIFFED]


def decode(data: bytes) -> TextFile:
    """The file's text in the encoding it most likely has.

    Raises:
        NotText: It is binary.
    """
    for mark, encoding in MARKS:
        if data.startswith(mark):
            try:
                return TextFile(data, data[len(mark) :].decode(encoding), encoding, mark)
            except UnicodeDecodeError:
                break
    if looks_binary(data):
        raise NotText
    try:
        return TextFile(data, data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        encoding = legacy_encoding(data)
        return TextFile(data, data.decode(encoding), encoding)


def legacy_encoding(data: bytes) -> str:
    """The best guess for text that is no Unicode. Decoding with it and encoding again gives the same bytes."""
    sample = data[: 64 * SNIFFED]
    scores = {name: at_home(sample, name) for name in COMMON}
    # Japanese is told by its kana; Korean uses a narrower range than the Chinese encodings that contain it.
    for name in scores:
        if scores[name] >= AT_HOME and is_lossless(data, name):
            if name in ("shift_jis", "euc_jp") and not KANA.search(sample.decode(name, "ignore")):
                continue
            return name
    high = sum(map(len, CYRILLIC_WORDS.findall(sample)))
    if high > 0.8 * len(sample.translate(None, bytes(range(128)))) and is_lossless(data, "cp1251"):
        return "cp1251"
    return "cp1252" if is_lossless(data, "cp1252") else "latin-1"


def at_home(sample: bytes, encoding: str) -> float:
    """The share of the bytes above ASCII that everyday characters of `encoding` account for."""
    rest, _count = COMMON[encoding].subn(b"", sample)
    high = len(sample.translate(None, bytes(range(128))))
    return 1 - len(rest.translate(None, bytes(range(128)))) / high if high else 0.0


def is_lossless(data: bytes, encoding: str) -> bool:
    """Does every byte survive decoding and encoding?"""
    try:
        return data.decode(encoding).encode(encoding) == data
    except UnicodeError:
        return False


def line_ending_near(text: str, start: int, end: int) -> str:
    """The line ending in use at `text[start:end]`: within it, else of its line, else of the line before."""
    found = NEWLINE.search(text, start, end) or NEWLINE.search(text, end)
    if found:
        return found[0]
    before = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start))
    if before < 0:
        return "\n"
    return "\r\n" if text[before - 1 : before + 1] == "\r\n" else text[before]


def with_line_endings(new: str, text: str, start: int, end: int) -> str:
    """`new` with the line endings of the region it replaces, line by line, and of its surroundings beyond that."""
    plain = new.replace("\r\n", "\n")
    if "\n" not in plain:
        return plain
    own = NEWLINE.findall(text[start:end])
    usual = own[-1] if own else line_ending_near(text, start, end)
    lines = plain.split("\n")
    endings = [*own[: len(lines) - 1], *[usual] * max(0, len(lines) - 1 - len(own))]
    return "".join(line + ending for line, ending in zip(lines, [*endings, ""], strict=True))
