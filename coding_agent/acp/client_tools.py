"""Edge. Which of a session's tools work through the client: those it can do what they need for."""

from collections.abc import Callable
from typing import TypeAlias

from attrs import evolve

from coding_agent.acp.client_calls import Capabilities, ClientCalls
from coding_agent.acp.client_files import ClientFiles, Held
from coding_agent.acp.client_terminal import Announced, ClientTerminal
from coding_agent.checkpoints.guarded_tools import Checkpoints, with_checkpoints
from coding_agent.session.options import SessionOptions
from coding_agent.tools import Workspace
from lemon_agent import AgentTool

Maker: TypeAlias = Callable[[AgentTool], AgentTool]


def with_client_tools(
    options: SessionOptions,
    calls: ClientCalls,
    can: Capabilities,
    *,
    held: Held,
    announced: Announced,
    sandboxed: bool,
) -> SessionOptions:
    """The options with the tools that go through the client, behind the same checkpoints.

    Args:
        options: Of a session that is about to be started.
        calls: Asks the client.
        can: What it said it can do.
        held: Told what a file held before it is written.
        announced: Waited for before a terminal is shown with a call.
        sandboxed: Commands run in a sandbox of ours, and so not in the client's terminal.
    """
    workspace = options.companion(Workspace)
    if workspace is None:
        return options
    files, terminal = ClientFiles(calls, workspace, held), ClientTerminal(calls, workspace, announced)
    makers: dict[str, Maker] = {}
    if can.read_files:
        makers["read"] = files.reading
    if can.read_files and can.write_files:
        makers |= {"write": files.writing, "edit": files.editing}
    if can.terminals and not sandboxed:
        makers["bash"] = terminal.running
    checkpoints = options.companion(Checkpoints)
    tools = [
        _replaced(tool, makers[tool.name], workspace, checkpoints) if tool.name in makers else tool
        for tool in options.tools
        if not (tool.name == "patch" and "write" in makers)  # it knows the disk only
    ]
    return evolve(options, tools=tuple(tools))


def _replaced(tool: AgentTool, maker: Maker, workspace: Workspace, checkpoints: Checkpoints | None) -> AgentTool:
    """Another tool in the place of one, behind the same checkpoints."""
    watch = getattr(tool.execute, "__self__", None)
    inner = getattr(watch, "tool", None)
    if checkpoints is None or not isinstance(inner, AgentTool):
        return maker(tool)
    return with_checkpoints([maker(inner)], workspace, checkpoints)[0]
