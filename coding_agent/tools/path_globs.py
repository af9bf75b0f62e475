"""Pure. Shell patterns for paths as regular expressions. Shared with the program `search_main`: imports nothing heavy.

`*` and `?` stay within a name, `**` crosses directories, `[a-z]` and `[!a]` are sets, `{a,b}` are alternatives, and a
backslash takes the next character as it is. A pattern without a slash is about names anywhere.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

SPECIAL: Final = frozenset("*?[{")
ALTERNATIVES_MAX: Final = 200


class BadGlob(ValueError):
    """The pattern cannot be read; the text says why."""


def is_glob(pattern: str) -> bool:
    """Does it hold anything that is not taken literally?"""
    return any(char in SPECIAL for char in pattern)


def name_pattern(glob: str, *, ignore_case: bool = False) -> re.Pattern[str] | None:
    """Matches, with `fullmatch`, the names that a glob without a slash means; None for any other glob.

    Raises:
        BadGlob: An unclosed bracket or brace.
    """
    if "/" in glob or "**" in glob:
        return None
    return compiled(glob, translated(glob), ignore_case)


def path_pattern(glob: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """Matches, with `fullmatch`, the relative paths that the glob means.

    Raises:
        BadGlob: An unclosed bracket or brace.
    """
    anchored = "/" in glob.rstrip("/")
    body = translated(glob.strip("/"))
    return compiled(glob, body if anchored else f"(?:.*/)?{body}", ignore_case)


def compiled(glob: str, expression: str, ignore_case: bool) -> re.Pattern[str]:
    try:
        return re.compile(expression, re.DOTALL | (re.IGNORECASE if ignore_case else 0))
    except re.error as error:
        raise BadGlob(f"cannot read the pattern {glob!r}: {error}") from error


def translated(glob: str) -> str:
    """The glob as the text of a regular expression."""
    parts: list[str] = []
    depth = commas = at = 0
    while at < len(glob):
        char = glob[at]
        if glob.startswith("**", at):
            text, at = double_star(glob, at)
            parts.append(text)
            continue
        at += 1
        if char == "*":
            parts.append("[^/]*")
        elif char == "?":
            parts.append("[^/]")
        elif char == "[":
            text, at = character_set(glob, at)
            parts.append(text)
        elif char == "{":
            depth += 1
            parts.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            parts.append(")")
        elif char == "," and depth:
            commas += 1
            parts.append("|")
        else:
            if char == "\\" and at < len(glob):
                char, at = glob[at], at + 1
            parts.append(re.escape(char))
    if depth:
        raise BadGlob(f"a brace is not closed in the pattern {glob!r}")
    if commas > ALTERNATIVES_MAX:
        raise BadGlob("the pattern has too many alternatives")
    return "".join(parts)


def double_star(glob: str, at: int) -> tuple[str, int]:
    """Two or more stars: directories when they stand alone in their part of the path, else as one star."""
    end = at
    while end < len(glob) and glob[end] == "*":
        end += 1
    alone = (at == 0 or glob[at - 1] in "/{,") and (end == len(glob) or glob[end] in "/},")
    if not alone:
        return "[^/]*", end
    if end < len(glob) and glob[end] == "/":
        return "(?:[^/]+/)*", end + 1
    return ".+", end


def character_set(glob: str, at: int) -> tuple[str, int]:
    """A bracket expression, from behind its opening bracket."""
    end = at
    if end < len(glob) and glob[end] in "!^":
        end += 1
    if end < len(glob) and glob[end] == "]":
        end += 1
    while end < len(glob) and glob[end] != "]":
        end += 1
    if end >= len(glob):
        raise BadGlob(f"a bracket is not closed in the pattern {glob!r}")
    inner = glob[at:end]
    negated = inner[:1] in ("!", "^")
    body = re.sub(r"([\\\[\]&~|])", r"\\\1", inner[1:] if negated else inner)
    return (f"(?![/])[^{body}]" if negated else f"(?![/])[{body}]"), end + 1
