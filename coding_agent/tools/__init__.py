"""The tools of a coding agent. Start with `default_tools`; each tool also has a factory of its own."""

from coding_agent.tools.bash import bash_tool
from coding_agent.tools.edit import edit_tool
from coding_agent.tools.read import read_tool
from coding_agent.tools.write import write_tool

__all__ = ["bash_tool", "edit_tool", "read_tool", "write_tool"]
