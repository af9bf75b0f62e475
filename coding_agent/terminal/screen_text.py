r"""Pure. Text from models, tools and files as a terminal may be given it: nothing in it can steer the terminal.

What would (escape sequences, other control characters, characters that are invisible or turn the direction of what is
read) is written out, `\x1b` or `\u{202e}`, so that whoever reads sees that it is there.
"""

import re
from typing import Final

from coding_agent.tools.visible_text import reveal

STEERING: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]|[\ud800-\udfff]")
OVERWRITTEN: Final = re.compile(r"[^\n]*\r(?=[^\n])")
"""What a carriage return sent back to the start of its line: a progress bar prints its line again and again."""
TAB: Final = "    "


def for_screen(text: str) -> str:
    """The text with everything that could steer a terminal written out; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    if "\r" in text:
        text = OVERWRITTEN.sub("", text.replace("\r\n", "\n")).replace("\r", "")
    return STEERING.sub(_written_out, reveal(text)[0])


def one_line(text: str) -> str:
    """The text as `for_screen` has it, on one line, runs of blanks as one."""
    return " ".join(for_screen(text).split())


def spelled_out(text: str) -> str:
    """The text for a question about it: as `for_screen`, but what a carriage return hides is shown as well."""
    return STEERING.sub(_written_out, reveal(text)[0]).replace("\t", TAB)


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"
