"""The tools a session has when nobody says otherwise."""

from typing import Any, Final

from coding_agent.tools.bash import bash_tool
from coding_agent.tools.browser import browser_tool, has_playwright
from coding_agent.tools.edit import edit_tool
from coding_agent.tools.find import find_tool
from coding_agent.tools.grep import grep_tool
from coding_agent.tools.hashline_edit import hashline_edit_tool
from coding_agent.tools.ls import ls_tool
from coding_agent.tools.patch import patch_tool
from coding_agent.tools.process import process_tool
from coding_agent.tools.read import read_tool
from coding_agent.tools.todo import todo_tool
from coding_agent.tools.web_download import web_download_tool
from coding_agent.tools.web_fetch import web_fetch_tool
from coding_agent.tools.web_search import web_search_tool
from coding_agent.tools.workspace import workspace_for
from coding_agent.tools.write import write_tool
from lemon_agent import AgentTool, ToolFactory

FACTORIES: Final[tuple[ToolFactory, ...]] = (
    read_tool,
    write_tool,
    edit_tool,
    patch_tool,
    bash_tool,
    ls_tool,
    grep_tool,
    find_tool,
    process_tool,
    todo_tool,
    web_fetch_tool,
    web_search_tool,
    web_download_tool,
)


def default_tools(cwd: str, **options: Any) -> list[AgentTool]:
    """The tools for a working directory; they share one `Workspace`, made from the options unless it is one of them.

    The browser is one of them where the extra `browser` is installed. With `hashlines`, `hashline_edit` stands in for
    `edit`, and `read` names lines for it.
    """
    workspace = workspace_for(cwd, options)
    extras: tuple[ToolFactory, ...] = (browser_tool,) if has_playwright() else ()
    editor = hashline_edit_tool if options.get("hashlines") else edit_tool
    factories = (editor if factory is edit_tool else factory for factory in (*FACTORIES, *extras))
    return [factory(cwd, workspace=workspace, **options) for factory in factories]
