"""Which tools look at files and which change them."""

from pathlib import Path

from coding_agent.checkpoints.guarded_tools import RUNS_COMMANDS
from coding_agent.settings.schema import EXTRA_TOOLS
from coding_agent.subagents.tool_policy import PROFILES
from coding_agent.tool_kinds import CHANGES_FILES, LOOKS_AT_FILES
from coding_agent.tools import default_tools

ELSEWHERE = {
    "todo",
    "process",
    "web_fetch",
    "web_search",
    "web_download",
    "browser",
    "bash",
    "execute_code",
    "checkpoint",
}


def test_every_tool_that_names_a_file_is_of_a_kind(tmp_path: Path) -> None:
    """A new tool must be put with those that look, those that change, or those that do neither by a path."""
    ours = {tool.name for tool in default_tools(str(tmp_path))} | set(EXTRA_TOOLS)
    assert ours <= LOOKS_AT_FILES | CHANGES_FILES | ELSEWHERE
    assert not LOOKS_AT_FILES & CHANGES_FILES
    assert not CHANGES_FILES & RUNS_COMMANDS


def test_a_subagent_that_only_reads_gets_nothing_that_changes_a_file() -> None:
    """By the same names as permissions and checkpoints go by."""
    allowed = PROFILES["read_only"].allow
    assert allowed is not None
    assert not allowed & CHANGES_FILES
