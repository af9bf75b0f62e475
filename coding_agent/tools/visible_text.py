"""Pure. Text from outside as a model may safely read it: no terminal codes, nothing invisible."""

import codecs
import re
from typing import Final

ESCAPE_SEQUENCE: Final = re.compile(
    r"\x1b(?:"
    r"\[[0-?]{0,256}[ -/]{0,16}[@-~]"  # colours, cursor movement
    r"|[\]PX^_][^\x07\x1b\n]{0,4000}(?:\x07|\x1b\\|(?=\n))"  # titles, links, device strings; never beyond a line
    r"|[ -/]{0,16}[0-~]"  # everything short
    r")"
)
UNFINISHED_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-?]{0,256}[ -/]{0,16}|[\]PX^_][^\x07\x1b\n]{0,4000}\x1b?|[ -/]{0,16})\Z"
)
LONGEST_SEQUENCE: Final = 4010
"""What goes on for longer than the bounds above is no escape sequence."""
CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

INVISIBLE: Final = re.compile(
    "["
    "\U000e0000-\U000e0fff"  # tag letters, variation selectors 17 to 256: whole sentences can hide in them
    "\u200b\u2060-\u2064\u206a-\u206f\ufeff\u00ad\u180e"  # no width
    "\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c"  # text direction
    "\u115f\u1160\u3164\uffa0\u17b4\u17b5"  # blank letters
    "\U0001d173-\U0001d17a\U0001bca0-\U0001bca3"  # musical and shorthand controls
    "]|[\ufe00-\ufe0f]{2,}|[\u200c\u200d]{2,}"  # one belongs to an emoji or a script, a run is a message
)
SHOWN: Final = re.compile(r"\\u\{([0-9a-f]{1,6})\}")


def reveal(text: str) -> tuple[str, bool]:
    r"""The text with each invisible character written as `\u{e0041}`, and whether there was any."""
    if text.isascii():
        return text, False
    shown = INVISIBLE.sub(lambda found: "".join(f"\\u{{{ord(char):x}}}" for char in found[0]), text)
    return shown, shown != text


def unreveal(text: str) -> str:
    """What `reveal` was given, for text that came back from whoever read its answer."""
    return SHOWN.sub(lambda found: chr(int(found[1], 16)) if int(found[1], 16) < 0x110000 else found[0], text)


def plain(text: str) -> str:
    """The text without terminal codes, carriage returns and other control characters; tabs and newlines stay."""
    if not CONTROLS.search(text):
        return text
    return CONTROLS.sub("", ESCAPE_SEQUENCE.sub("", text))


class PlainDecoder:
    """Bytes of a program's output, in pieces of any size, to plain text.

    The text is the same however the bytes were cut. What is no UTF-8 becomes the replacement character.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text that is certain by now."""
        text = self._held + self._decoder.decode(data, final)
        self._held = ""
        if "\x1b" in text and not final:
            unfinished = UNFINISHED_SEQUENCE.search(text, max(0, len(text) - LONGEST_SEQUENCE))
            if unfinished:
                self._held = text[unfinished.start() :]
                text = text[: unfinished.start()]
        return plain(text)
