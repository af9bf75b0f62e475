"""Edge. What a connected server offers: its tools, and what else it has, each list bounded."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from attrs import field, frozen

from coding_agent.mcp.schemas import TOOLS_MAX, description, parameters

PAGES_MAX: Final = 20
ITEMS_MAX: Final = 500


@frozen
class ServerTool:
    """One tool, as its server describes it.

    Attributes:
        name: As the server calls it.
        description: Bounded, without hidden characters.
        parameters: A schema whose root is an object.
        read_only: The server says that it changes nothing; only a hint.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(factory=dict)
    read_only: bool = False


@frozen
class Offer:
    """Everything a server offers.

    Attributes:
        resources, prompts: Their addresses and names, for people.
        left_out: How many tools were too many.
    """

    tools: tuple[ServerTool, ...] = ()
    resources: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    left_out: int = 0
    instructions: str = ""
    version: str = ""


async def offer_of(client: Any) -> Offer:
    """Ask for all lists the server says it has."""
    can = client.server_capabilities
    raw = [] if can.tools is None else await _all(client.list_tools, "tools", TOOLS_MAX * 4)
    tools = {tool.name: tool for each in raw if (tool := _tool(each)) is not None}
    resources = [] if can.resources is None else await _optional(client.list_resources, "resources")
    prompts = [] if can.prompts is None else await _optional(client.list_prompts, "prompts")
    return Offer(
        tools=tuple(tools.values())[:TOOLS_MAX],
        resources=tuple(description(str(each.uri)) for each in resources),
        prompts=tuple(description(each.name) for each in prompts),
        left_out=max(0, len(tools) - TOOLS_MAX),
        instructions=description(client.instructions),
        version=client.protocol_version,
    )


def _tool(raw: Any) -> ServerTool | None:
    if not raw.name or len(raw.name) > 512:
        return None
    hints = raw.annotations
    return ServerTool(
        name=raw.name,
        description=description(raw.description or raw.title or ""),
        parameters=parameters(raw.input_schema),
        read_only=bool(hints is not None and hints.read_only_hint),
    )


async def _all(ask: Callable[..., Awaitable[Any]], what: str, most: int) -> list[Any]:
    """All pages of a list, until there are too many."""
    found: list[Any] = []
    cursor: str | None = None
    for _page in range(PAGES_MAX):
        answer = await ask(cursor=cursor, cache_mode="bypass")
        found += getattr(answer, what)
        cursor = answer.next_cursor
        if not cursor or len(found) >= most:
            break
    return found[:most]


async def _optional(ask: Callable[..., Awaitable[Any]], what: str) -> list[Any]:
    """As `_all`; a server that says it has something and then has not loses nothing else."""
    from mcp.shared.exceptions import MCPError

    try:
        return await _all(ask, what, ITEMS_MAX)
    except (MCPError, ValueError):
        return []
