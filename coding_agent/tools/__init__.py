"""The tools of a coding agent. Start with `default_tools`; each tool also has a factory of its own."""

from coding_agent.tools import background_supervisor, program_keeper, todo_store
from coding_agent.tools.bash import bash_tool
from coding_agent.tools.browser import browser_tool
from coding_agent.tools.edit import edit_tool
from coding_agent.tools.execute_code import execute_code_tool
from coding_agent.tools.find import find_tool
from coding_agent.tools.grep import grep_tool
from coding_agent.tools.hashline_edit import hashline_edit_tool
from coding_agent.tools.ls import ls_tool
from coding_agent.tools.patch import patch_tool
from coding_agent.tools.process import process_tool
from coding_agent.tools.read import read_tool
from coding_agent.tools.standing import tool_children
from coding_agent.tools.todo import todo_tool
from coding_agent.tools.toolset import default_tools
from coding_agent.tools.web_download import web_download_tool
from coding_agent.tools.web_fetch import web_fetch_tool
from coding_agent.tools.web_search import web_search_tool
from coding_agent.tools.workspace import Workspace
from coding_agent.tools.write import write_tool

__all__ = [
    "Workspace",
    "background_supervisor",
    "bash_tool",
    "browser_tool",
    "default_tools",
    "edit_tool",
    "execute_code_tool",
    "find_tool",
    "grep_tool",
    "hashline_edit_tool",
    "ls_tool",
    "patch_tool",
    "process_tool",
    "program_keeper",
    "read_tool",
    "todo_store",
    "todo_tool",
    "tool_children",
    "web_download_tool",
    "web_fetch_tool",
    "web_search_tool",
    "write_tool",
]
