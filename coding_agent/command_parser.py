"""Edge. The command line of one command: what is wrong with it is one line that says where to read more."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

from coding_agent.errors import BadUsage

PROGRAM: Final = "python -m coding_agent"
NEAR: Final = 0.75
"""How much alike two words must be for one to be taken for the other, as `difflib` counts."""


def or_first(argv: Sequence[str], usual: str) -> list[str]:
    """The words, with the usual command in front where none stands there: a flag, or nothing at all."""
    given = list(argv)
    asks_for_help = given[:1] in (["-h"], ["--help"])
    return given if asks_for_help or (given and not given[0].startswith("-")) else [usual, *given]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """What was probably meant by a word that nobody knows; None where nothing is near."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, known, 1, NEAR)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What to add to a complaint about a word that nobody knows; empty where nothing is near."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""


class CommandParser(argparse.ArgumentParser):
    """Reads a command line; raises `BadUsage` where `argparse` would print its usage and leave."""

    def _print_message(self, message: str, file: Any = None) -> None:
        """As `argparse` does, but a message that cannot be written is an error and not passed over in silence."""
        if message:
            (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        command = self.prog.removeprefix(PROGRAM).strip()
        raise BadUsage(f"{message}; see {command} --help" if command else f"{message}; see --help")
