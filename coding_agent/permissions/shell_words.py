"""Pure. One word of a bash command as bash would see it: quotes taken off, escapes resolved, or known to be open.

A word is *open* when it cannot be known before the command runs: it holds a variable, a substitution, a glob, braces
or a tilde. What follows from that is for the rules to say; here nothing is guessed.
"""

import re
from typing import Final

from attrs import frozen

_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_NUMBERED: Final = re.compile(r"x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})")
_ENDS_A_WORD: Final = frozenset(" \t\n;&|<>()")
_EXPANDS: Final = re.compile(r"\$[A-Za-z0-9_@*#?$!({\[-]")


@frozen
class Word:
    """One word.

    Attributes:
        raw: As written.
        text: What the program gets; None for an open word.
        quoted: For an open word: it stays one word, whatever it holds.
    """

    raw: str
    text: str | None
    quoted: bool = False

    @property
    def shown(self) -> str:
        """For people."""
        return self.raw if self.text is None else self.text


OPEN: Final = Word("…", None)
"""Words that nobody knows, any number of them."""


class NotOneWord(ValueError):
    """The text is not exactly one word to bash."""


def literal(text: str) -> Word:
    """A word that is what it says."""
    return Word(text, text)


def word(raw: str) -> Word:
    """The word that this piece of a command is.

    Raises:
        NotOneWord: bash would not read it as one word, or not to its end.
    """
    reader = _Reader(raw)
    reader.read()
    if reader.open:
        return Word(raw, None, quoted=reader.quoted)
    return Word(raw, "".join(reader.out))


class _Reader:
    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.at = 0
        self.out: list[str] = []
        self.open = False
        self.quoted = True
        """Every open part stands within double quotes."""

    def read(self) -> None:
        raw = self.raw
        while self.at < len(raw):
            char = raw[self.at]
            if char == "'":
                self.out.append(self._until("'", self.at + 1))
            elif char == '"':
                self.at += 1
                self._double()
            elif char == "\\":
                self._escape()
            elif raw.startswith(("$'", '$"'), self.at):
                self._dollar_quote()
            elif char in "$`" or raw.startswith(("<(", ">("), self.at):
                self._expansion(within_quotes=False)
            elif char in _ENDS_A_WORD:
                raise NotOneWord(raw)
            else:
                self._plain(char)

    def _plain(self, char: str) -> None:
        if char in "*?[{" or (char == "~" and (self.at == 0 or self.raw[self.at - 1] in ":=")):
            self.open, self.quoted = True, False
        self.out.append(char)
        self.at += 1

    def _until(self, end: str, start: int) -> str:
        stop = self.raw.find(end, start)
        if stop < 0:
            raise NotOneWord(self.raw)
        self.at = stop + 1
        return self.raw[start:stop]

    def _escape(self) -> None:
        if self.at + 1 >= len(self.raw):
            raise NotOneWord(self.raw)
        char = self.raw[self.at + 1]
        if char != "\n":
            self.out.append(char)
        self.at += 2

    def _double(self) -> None:
        raw = self.raw
        while self.at < len(raw):
            char = raw[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\" and self.at + 1 < len(raw):
                following = raw[self.at + 1]
                self.out.append(following if following in '$`"\\' else "" if following == "\n" else "\\" + following)
                self.at += 2
            elif char in "$`":
                self._expansion(within_quotes=True)
            else:
                self.out.append(char)
                self.at += 1
        raise NotOneWord(raw)

    def _dollar_quote(self) -> None:
        if self.raw[self.at + 1] == '"':
            self.at += 2
            self._double()
            return
        self.at += 2
        start = self.at
        while self.at < len(self.raw) and self.raw[self.at] != "'":
            self.at += 2 if self.raw[self.at] == "\\" else 1
        if self.at >= len(self.raw):
            raise NotOneWord(self.raw)
        self.out.append(self._ansi_c(self.raw[start : self.at]))
        self.at += 1

    def _ansi_c(self, text: str) -> str:
        out: list[str] = []
        at = 0
        while at < len(text):
            char = text[at]
            if char != "\\" or at + 1 >= len(text):
                out.append(char)
                at += 1
            elif (simple := _SIMPLE_ESCAPES.get(text[at + 1])) is not None:
                out.append(simple)
                at += 2
            elif found := _NUMBERED.match(text, at + 1):
                hexadecimal = found[1] or found[2] or found[3]
                code = int(hexadecimal, 16) if hexadecimal else int(found[4], 8) & 0xFF
                if not 0 < code < 0x80:  # a NUL ends the string, bytes beyond ASCII depend on the locale
                    self.open = True
                    code = 0x3F
                out.append(chr(code))
                at = found.end()
            else:  # \cx, or an escape bash leaves alone: rare enough to be called unknown
                self.open = True
                at += 2
        return "".join(out)

    def _expansion(self, *, within_quotes: bool) -> None:
        """Step over a `$...`, a backtick or a process substitution; only its end matters here."""
        raw, at = self.raw, self.at
        if raw[at] == "$" and not _EXPANDS.match(raw, at):
            self.out.append("$")
            self.at += 1
            return
        self.open = True
        self.quoted = self.quoted and within_quotes and not raw.startswith(("$@", "${@", "${!", "${*"), at)
        if raw[at] == "`":
            stop = raw.find("`", at + 1)
            if stop < 0:
                raise NotOneWord(raw)
            self.at = stop + 1
        elif raw[at] == "$" and raw[at + 1] not in "({[":
            name = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|.").match(raw, at + 1)
            assert name is not None
            self.at = name.end()
        else:
            self.at = _closing(raw, at + 1)


def _closing(raw: str, at: int) -> int:
    """Behind the bracket that closes the one at `at`; quotes are respected, roughly: the grammar has parsed it."""
    closers = {"(": ")", "{": "}", "[": "]"}
    waiting = [closers[raw[at]]]
    at += 1
    quote = ""
    while at < len(raw) and waiting:
        char = raw[at]
        if char == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in closers:
            waiting.append(closers[char])
        elif char == waiting[-1]:
            waiting.pop()
        at += 1
    if waiting:
        raise NotOneWord(raw)
    return at
