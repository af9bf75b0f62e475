"""Edge. What a server offers as tools of ours: the call goes there, its answer comes back as untrusted material.

Each tool of its own is one of ours; what can be read there is behind one more, `mcp__SERVER__resources`, unless the
server has a tool of that name itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from attrs import field, frozen

from coding_agent.errors import McpRequestFailed
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.listing import Offer, ServerTool
from coding_agent.mcp.names import tool_names
from coding_agent.mcp.requests import request
from coding_agent.mcp.results import listed_result, progress_result, resource_result, tool_result
from coding_agent.mcp.standing import Reachable, Standing
from coding_agent.tools.aborting import unless_aborted
from coding_agent.tools.arguments import optional_text
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
from lemon_otp import annotate

SLACK_MS: Final = 3_600_000
"""On top of the time a call may take by itself: in the middle of it a person may be asked."""
RESOURCES: Final = "resources"
RESOURCES_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "uri": {"type": "string", "description": "What to read. Leave it out to list what there is."},
        "search": {"type": "string", "description": "List only what has these words in its address or description."},
    },
}


@frozen
class RemoteTool:
    """One tool of one server, to call."""

    server: Reachable
    tool: ServerTool

    async def execute(
        self,
        _id: str,
        params: dict[str, Any],
        signal: AbortSignal | None = None,
        on_update: OnUpdate | None = None,
    ) -> AgentToolResult:
        """Make the call. Aborting or cancelling it tells the server so."""
        name = self.tool.name
        told = None if on_update is None else _reporter(on_update)
        return await _made(
            self.server,
            name,
            lambda client: client.call_tool(name, params, progress_callback=told),
            lambda answer: tool_result(answer, self.server.entry.name, name),
            signal,
        )


@frozen
class RemoteResources:
    """What can be read at one server, as of whenever it is asked: the tool stays the same when that changes."""

    server: Reachable
    standing: Standing = field(eq=False, repr=False)

    async def execute(
        self,
        _id: str,
        params: dict[str, Any],
        signal: AbortSignal | None = None,
        _on_update: OnUpdate | None = None,
    ) -> AgentToolResult:
        """Read one, or list them."""
        name = self.server.entry.name
        uri = (optional_text(params, "uri") or "").strip()
        if not uri:
            offer = self.standing.status(name).offer
            return listed_result(() if offer is None else offer.resources, name, optional_text(params, "search") or "")
        return await _made(
            self.server,
            RESOURCES,
            lambda client: client.read_resource(uri, cache_mode="bypass"),
            lambda answer: resource_result(answer, name, uri),
            signal,
        )


async def _made(
    server: Reachable,
    what: str,
    ask: Callable[[Any], Awaitable[Any]],
    result: Callable[[Any], AgentToolResult],
    signal: AbortSignal | None,
) -> AgentToolResult:
    """The answer as a result; pictures are decoded and long texts cut by a thread."""
    check_abort(signal)
    annotate(server=server.entry.name)
    try:
        answer = await unless_aborted(request(server, ask), signal)
    except McpRequestFailed as failed:
        if not failed.said:
            raise ToolError(str(failed)) from failed
        details = {"server": server.entry.name, "tool": what}
        told = text_result(str(failed), details, trust="untrusted")
        return AgentToolResult(told.content, details, trust="untrusted", error_info=ErrorInfo("mcp_error"))
    return await asyncio.to_thread(result, answer)


def _reporter(on_update: OnUpdate) -> Any:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        on_update(progress_result(progress, total, message))

    return report


def agent_tools(standing: Standing, known: Mapping[str, AgentTool]) -> dict[str, AgentTool]:
    """Our tools for what servers offer, by name.

    Args:
        standing: Each server with what it offers.
        known: Tools made before: one that still says the same stays the same object.
    """
    remotes = [remote for server, offer in standing.offers() for remote in _remotes(server, offer, standing)]
    names = tool_names((remote.server.entry.name, _called(remote)) for remote in remotes)
    made: dict[str, AgentTool] = {}
    for remote in remotes:
        name = names.get((remote.server.entry.name, _called(remote)))
        if name is not None and name not in made:
            before = known.get(name)
            same = before is not None and getattr(before.execute, "__self__", None) == remote
            made[name] = before if before is not None and same else _tool(name, remote)
    return made


def _remotes(server: Reachable, offer: Offer, standing: Standing) -> Iterable[RemoteTool | RemoteResources]:
    for tool in offer.tools:
        yield RemoteTool(server, tool)
    if offer.reads and RESOURCES not in {tool.name for tool in offer.tools}:
        yield RemoteResources(server, standing)


def _called(remote: RemoteTool | RemoteResources) -> str:
    return remote.tool.name if isinstance(remote, RemoteTool) else RESOURCES


def _tool(name: str, remote: RemoteTool | RemoteResources) -> AgentTool:
    entry = remote.server.entry
    if isinstance(remote, RemoteTool):
        tool = remote.tool
        description = tool.description or f"The tool {tool.name} of the server {entry.name}."
        parameters = tool.parameters
    else:
        description = (
            f"Reads what the server {entry.name} has: give the uri of one of its resources, or leave it out to list "
            "them. In a listed address with {names}, put values in their places."
        )
        parameters = RESOURCES_SCHEMA
    return AgentTool(
        name=name,
        label=f"{entry.name}: {_called(remote)}",
        description=description,
        parameters=parameters,
        execute=remote.execute,
        timeout_ms=_timeout_ms(entry),
    )


def _timeout_ms(entry: ServerEntry) -> int:
    return int(entry.timeout_s * 1000) + SLACK_MS
