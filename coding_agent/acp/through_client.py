"""Edge. The head that every tool has which works through the client: its call as one value, its path placed."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from attrs import evolve, frozen

from coding_agent.tools import Workspace
from coding_agent.tools.arguments import required_text
from coding_agent.tools.paths import Place, Purpose
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, check_abort


@frozen
class Call:
    """One call of a tool."""

    id: str
    params: dict[str, Any]
    signal: AbortSignal | None = None


Run: TypeAlias = Callable[[Call], Awaitable[AgentToolResult | None]]
"""Makes a call through the client; None leaves it to the tool that was there before."""
RunAt: TypeAlias = Callable[[Call, Place], Awaitable[AgentToolResult | None]]


def through_client(tool: AgentTool, run: Run) -> AgentTool:
    """The tool with its calls made by `run`, or by itself where that has nothing to do with them."""

    async def execute(
        call_id: str,
        params: dict[str, Any],
        signal: AbortSignal | None = None,
        on_update: OnUpdate | None = None,
    ) -> AgentToolResult:
        done = await run(Call(call_id, params, signal))
        if done is not None:
            return done
        result: AgentToolResult = await tool.execute(call_id, params, signal, on_update)
        return result

    return evolve(tool, execute=execute)


def at_place(workspace: Workspace, tool: AgentTool, purpose: Purpose, run: RunAt, *, tolerant: bool) -> AgentTool:
    """As `through_client`, for a tool with a `path`: it is found, and may be used so, while `run` works there."""

    async def placed(call: Call) -> AgentToolResult | None:
        check_abort(call.signal)
        path = required_text(call.params, "path", "Path is required")
        with await workspace.place(path, purpose, tolerant=tolerant) as place:
            return await run(call, place)

    return through_client(tool, placed)
