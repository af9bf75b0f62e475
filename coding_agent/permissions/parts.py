"""Values. What a shell command comes down to: the programs it runs, the files it opens, and what nobody can tell."""

from typing import TypeAlias

from attrs import frozen

from coding_agent.permissions.shell_words import Word


@frozen
class Run:
    """A program is run with these words.

    Attributes:
        words: Program first.
        plain_wrapper: It only runs another command, which is a part of its own; no rule needs to allow it.
        environment: Names of variables set for it that may change what it does.
    """

    words: tuple[Word, ...]
    plain_wrapper: bool = False
    environment: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """For people."""
        return " ".join([*(f"{name}=…" for name in self.environment), *(word.shown for word in self.words)])


@frozen
class WritesFile:
    """A redirection writes this file."""

    path: str

    @property
    def shown(self) -> str:
        """For people."""
        return f"> {self.path}"


@frozen
class ReadsFile:
    """A redirection reads this file, or the shell runs what is in it."""

    path: str

    @property
    def shown(self) -> str:
        """For people."""
        return f"< {self.path}"


@frozen
class RunsFile:
    """A file of one's own is run; says something only beside a part that may have written it."""

    path: str

    @property
    def shown(self) -> str:
        """For people."""
        return self.path


@frozen
class Unclear:
    """Something whose effect cannot be known beforehand."""

    why: str

    @property
    def shown(self) -> str:
        """For people."""
        return self.why


Part: TypeAlias = Run | WritesFile | ReadsFile | RunsFile | Unclear
"""Closed."""
