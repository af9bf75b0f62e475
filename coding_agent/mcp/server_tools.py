"""Edge. A tool of a server as a tool of ours: the call goes there, its answer comes back as untrusted material."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from coding_agent.errors import McpServerUnavailable
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.listing import ServerTool
from coding_agent.mcp.mcp_server import McpServer
from coding_agent.mcp.names import tool_names
from coding_agent.mcp.results import progress_result, tool_result
from coding_agent.tools.aborting import unless_aborted
from coding_agent.tools.visible_text import plain, reveal
from lemon_agent import (
    AbortSignal,
    AgentTool,
    AgentToolResult,
    ErrorInfo,
    OnUpdate,
    ToolError,
    check_abort,
    text_result,
)
from lemon_otp import CallFailed, CallTimeout, annotate

CONNECTION_S: Final = 35.0
"""How long a call waits for a server that is on its way."""
SLACK_MS: Final = 60_000
ERROR_MAX: Final = 2_000


class RemoteTool:
    """One tool of one server, to call."""

    def __init__(self, server: str, entry: ServerEntry, tool: ServerTool) -> None:
        self.server = server
        self.entry = entry
        self.tool = tool

    async def execute(
        self,
        _id: str,
        params: dict[str, Any],
        signal: AbortSignal | None = None,
        on_update: OnUpdate | None = None,
    ) -> AgentToolResult:
        """Make the call. Aborting or cancelling it tells the server so."""
        check_abort(signal)
        annotate(server=self.entry.name)
        return await unless_aborted(self._call(params, on_update), signal)

    async def _call(self, params: dict[str, Any], on_update: OnUpdate | None) -> AgentToolResult:
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT

        client = await self._client()
        try:
            async with asyncio.timeout(self.entry.timeout_s):
                answer = await client.call_tool(
                    self.tool.name,
                    params,
                    read_timeout_seconds=self.entry.timeout_s + 1,
                    progress_callback=None if on_update is None else _reporter(on_update),
                )
        except TimeoutError:
            McpServer.suspect(self.server, client)  # it may hang for good
            raise ToolError(f"{self.entry.name} did not answer within {self.entry.timeout_s:g} seconds") from None
        except MCPError as error:
            if error.code in (CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT):
                McpServer.suspect(self.server, client)
            return self._refused(error.message)
        except Exception as error:  # whatever the library makes of an answer that does not fit
            McpServer.suspect(self.server, client)
            return self._refused(str(error) or type(error).__name__)
        if any(block.type == "image" for block in answer.content):
            return await asyncio.to_thread(tool_result, answer, self.entry.name, self.tool.name)
        return tool_result(answer, self.entry.name, self.tool.name)

    async def _client(self) -> Any:
        try:
            return await McpServer.client(self.server, timeout_s=CONNECTION_S)
        except McpServerUnavailable as error:
            raise ToolError(str(error)) from error
        except (CallFailed, CallTimeout) as error:
            raise ToolError(f"the server {self.entry.name} does not run any more") from error

    def _refused(self, said: str) -> AgentToolResult:
        """An error in the server's words, which are as little to be trusted as its answers."""
        text = reveal(plain(self.entry.masked(said[:ERROR_MAX])))[0]
        result = text_result(
            f"{self.entry.name}: {text}",
            {"server": self.entry.name, "tool": self.tool.name},
            trust="untrusted",
        )
        return AgentToolResult(
            content=result.content, details=result.details, trust="untrusted", error_info=ErrorInfo("mcp_error")
        )


def _reporter(on_update: OnUpdate) -> Any:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        on_update(progress_result(progress, total, message))

    return report


def agent_tools(
    offers: Iterable[tuple[str, ServerEntry, Iterable[ServerTool]]], known: Mapping[str, AgentTool]
) -> dict[str, AgentTool]:
    """Our tools for what servers offer, by name.

    Args:
        offers: The server's registered name, its entry, its tools.
        known: Tools made before: one that still says the same stays the same object.
    """
    listed = [(address, entry, tool) for address, entry, tools in offers for tool in tools]
    names = tool_names((entry.name, tool.name) for _address, entry, tool in listed)
    made: dict[str, AgentTool] = {}
    for address, entry, tool in listed:
        name = names.get((entry.name, tool.name))
        if name is not None and name not in made:
            before = known.get(name)
            made[name] = before if before and _says(before, tool, address) else _tool(name, address, entry, tool)
    return made


def _says(made: AgentTool, tool: ServerTool, address: str) -> bool:
    remote = getattr(made.execute, "__self__", None)
    return isinstance(remote, RemoteTool) and remote.tool == tool and remote.server == address


def _tool(name: str, address: str, entry: ServerEntry, tool: ServerTool) -> AgentTool:
    return AgentTool(
        name=name,
        label=f"{entry.name}: {tool.name}",
        description=tool.description or f"The tool {tool.name} of the server {entry.name}.",
        parameters=tool.parameters,
        execute=RemoteTool(address, entry, tool).execute,
        timeout_ms=int(entry.timeout_s * 1000) + SLACK_MS,
    )
