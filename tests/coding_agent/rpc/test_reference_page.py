"""The page about the protocol names every command there is."""

import re
from pathlib import Path

from coding_agent.rpc.commands import COMMANDS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "rpc.md"


def test_the_page_lists_every_command_and_no_other():
    """The first column of the table, taken apart."""
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE.read_text(), re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed == set(COMMANDS)
