"""Pure. One regular expression for two engines: ripgrep's, and Python's where there is no ripgrep.

Both are given a form of the same pattern, so that they answer alike. What only one of them knows is said to be so.
"""

import re
import sys
import unicodedata
import warnings
from functools import lru_cache
from typing import Final

from attrs import frozen

PATTERN_BYTES_MAX: Final = 10_000
QUANTIFIER: Final = re.compile(r"\{\d*(?:,\d*)?\}")
LOOKS_AROUND: Final = re.compile(r"\(\?(?:[=!>(]|<[=!]|P=)|\\[1-9]|(?<!\\)[*+?}]\+")
NAMED: Final = re.compile(r"\(\?<([A-Za-z_]\w*)>")
BRACED_CODE: Final = re.compile(r"\\[xuU]\{([0-9A-Fa-f]{1,6})\}")
PROPERTY: Final = re.compile(r"\\([pP])(?:\{(\^?)([\w=: -]+)\}|([A-Z]))")
POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
CATEGORIES: Final = frozenset(
    "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf".split()  # noqa: SIM905
)


class BadPattern(ValueError):
    """The pattern cannot be used; the text says why, and what would help."""


@frozen
class Pattern:
    """A pattern in both forms.

    Attributes:
        rust: For ripgrep; None when only Python can do it.
        python: For `re`; None when only ripgrep can do it.
        by_line: Python must be given each line by itself, because the pattern looks at what is around it.
    """

    rust: str | None
    python: str | None
    by_line: bool = False


def literal(text: str) -> Pattern:
    """Text to be found as it stands.

    Raises:
        BadPattern: It is too long or holds a line break.
    """
    check_plain(text)
    return Pattern(rust=text, python=re.escape(text))


def pattern(text: str) -> Pattern:
    """A regular expression.

    Raises:
        BadPattern: Neither engine can read it.
    """
    check_plain(text)
    looks_around = LOOKS_AROUND.search(text) is not None
    rust = escape_stray_braces(text)
    python: str | None
    try:
        python = to_python(rust)
    except LookupError:
        python = None
    if python is not None:
        try:
            compiled(python)
        except (re.error, OverflowError, RecursionError) as error:
            raise BadPattern(f"cannot read the regular expression: {error}{advice(text)}") from error
    return Pattern(rust=None if looks_around else rust, python=python, by_line=looks_around)


def check_plain(text: str) -> None:
    if len(text.encode(errors="replace")) > PATTERN_BYTES_MAX:
        raise BadPattern(f"the pattern is longer than {PATTERN_BYTES_MAX} bytes")
    if "\n" in text or "\r" in text:
        raise BadPattern("a pattern matches within one line and cannot hold a line break")
    if "\0" in text:
        raise BadPattern("the pattern holds a NUL character")


def advice(text: str) -> str:
    """What to try instead."""
    return "; set literal to search for this text as it stands" if re.search(r"[\[\](){}*+?\\]", text) else ""


def compiled(python: str) -> re.Pattern[str]:
    """For Python's engine, without its warnings about what may change some day."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.compile(python)


def escape_stray_braces(text: str) -> str:
    """`func() {` as it was meant: a brace that is no count is a brace. Sets and escapes are left alone."""
    parts: list[str] = []
    at, in_set = 0, False
    while at < len(text):
        char = text[at]
        if char == "\\":
            known = BRACED_CODE.match(text, at) or PROPERTY.match(text, at)
            step = known.end() - at if known else 2
            parts.append(text[at : at + step])
            at += step
            continue
        if in_set:
            in_set = char != "]"
        elif char == "[":
            in_set = True
            closing = re.compile(r"\[\^?\]?").match(text, at)
            assert closing is not None
            parts.append(closing[0])
            at = closing.end()
            continue
        elif char == "{":
            count = QUANTIFIER.match(text, at)
            if count and at > 0 and re.search(r"\d", count[0]):
                parts.append(count[0])
                at = count.end()
                continue
            char = "\\{"
        elif char == "}":
            char = "\\}"
        parts.append(char)
        at += 1
    return "".join(parts)


def to_python(text: str) -> str:
    """The same for Python's `re`.

    Raises:
        LookupError: It uses something that only the other engine has.
    """
    text = NAMED.sub(r"(?P<\1>", text)
    text = BRACED_CODE.sub(lambda found: re.escape(chr(min(int(found[1], 16), sys.maxunicode))), text)
    text = re.sub(r"\[:(\^?)(\w+):\]", posix_class, text)
    text = PROPERTY.sub(property_class, text)
    if re.search(r"(?<!\\)\[[^\]]*(?:&&|--|~~)", text):
        raise LookupError("set operations")
    return text.replace("\\z", "\\Z")


def posix_class(found: re.Match[str]) -> str:
    if found[1]:
        raise LookupError("a negated named class")
    return POSIX[found[2]]


def property_class(found: re.Match[str]) -> str:
    """A Unicode category as a set; inside a set of the pattern only the plain form can stand."""
    name = (found[3] or found[4]).replace("Letter", "L").replace("Number", "N")
    name = {"Alphabetic": "L", "Uppercase": "Lu", "Lowercase": "Ll", "Punctuation": "P"}.get(name, name)
    if name not in CATEGORIES:
        raise LookupError(name)
    inside = found.string.count("[", 0, found.start()) > found.string.count("]", 0, found.start())
    negated = (found[1] == "P") != bool(found[2])
    if inside and negated:
        raise LookupError("a negated property in a set")
    ranges = category_ranges(name)
    return ranges if inside else f"[{'^' if negated else ''}{ranges}]"


@lru_cache(maxsize=32)
def category_ranges(name: str) -> str:
    """All characters of a Unicode category, as the inside of a set."""
    parts: list[str] = []
    start = -1
    for code in range(0x20000):
        fits = unicodedata.category(chr(code)).startswith(name)
        if fits and start < 0:
            start = code
        elif not fits and start >= 0:
            parts.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = -1
    return "".join(parts)
