"""The command line of one command."""

import pytest

from coding_agent.command_parser import CommandParser
from coding_agent.errors import BadUsage


@pytest.mark.parametrize(
    ("prog", "hint"),
    [
        ("python -m coding_agent", "see --help"),
        ("python -m coding_agent login", "see login --help"),
        ("python -m coding_agent serve stop", "see serve stop --help"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_one_line_that_names_the_help_to_read(prog: str, hint: str) -> None:
    """A flag that is not known raises `BadUsage`, whose text names the command's own help; nothing is printed."""
    with pytest.raises(BadUsage, match=f"--nonsense; {hint}$"):
        CommandParser(prog=prog).parse_args(["--nonsense"])


def test_a_command_below_a_command_names_its_own_help() -> None:
    """Parsers of sub-commands refuse in the same way."""
    parser = CommandParser(prog="python -m coding_agent models")
    parser.add_subparsers(required=True).add_parser("list")

    with pytest.raises(BadUsage, match=r"--nonsense; see models --help$"):
        parser.parse_args(["list", "--nonsense"])
