"""Edge. What a connected server offers: tools, resources, prompts, each list bounded and made safe to show."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from attrs import field, frozen

from coding_agent.mcp.schemas import TOOLS_MAX, description, parameters

PAGES_MAX: Final = 20
ITEMS_MAX: Final = 500
NAME_MAX: Final = 512
ADDRESS_MAX: Final = 4_000
ARGUMENTS_MAX: Final = 50


@frozen
class ServerTool:
    """One tool, as its server describes it.

    Attributes:
        name: As the server calls it.
        description: Bounded, without hidden characters.
        parameters: A schema whose root is an object.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(factory=dict)


@frozen
class ServerResource:
    """Something that can be read, or a pattern of addresses of such things.

    Attributes:
        uri: Its address as the server spells it; of a template, with `{names}` to fill in.
        name, description: Bounded, without hidden characters.
        is_template: The address is a pattern.
    """

    uri: str
    name: str = ""
    description: str = ""
    is_template: bool = False


@frozen
class PromptArgument:
    """Something a prompt is told."""

    name: str
    description: str = ""
    required: bool = False


@frozen
class ServerPrompt:
    """Words that a server has ready for a person to send.

    Attributes:
        name: As the server calls it.
        description: Bounded, without hidden characters.
        arguments: In the order in which they are typed.
    """

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@frozen
class Offer:
    """Everything a server offers.

    Attributes:
        resources: Those that are there, then the templates.
        reads: Resources can be read, whether or not any are listed.
    """

    tools: tuple[ServerTool, ...] = ()
    resources: tuple[ServerResource, ...] = ()
    prompts: tuple[ServerPrompt, ...] = ()
    reads: bool = False
    instructions: str = ""
    version: str = ""


async def offer_of(client: Any) -> Offer:
    """Ask for all lists the server says it has."""
    can = client.server_capabilities
    raw = [] if can.tools is None else await _all(client.list_tools, "tools", TOOLS_MAX * 4)
    tools = {tool.name: tool for each in raw if (tool := _tool(each)) is not None}
    resources, templates, prompts = [], [], []
    if can.resources is not None:
        resources = await _optional(client.list_resources, "resources")
        templates = await _optional(client.list_resource_templates, "resource_templates")
    if can.prompts is not None:
        prompts = await _optional(client.list_prompts, "prompts")
    return Offer(
        tools=tuple(tools.values())[:TOOLS_MAX],
        resources=(
            *(_resource(each, str(each.uri), False) for each in resources if _is_address(each.uri)),
            *(_resource(each, each.uri_template, True) for each in templates if _is_address(each.uri_template)),
        ),
        prompts=tuple(_prompt(each) for each in prompts if each.name and len(each.name) <= NAME_MAX),
        reads=can.resources is not None,
        instructions=description(client.instructions),
        version=client.protocol_version,
    )


def _tool(raw: Any) -> ServerTool | None:
    if not raw.name or len(raw.name) > NAME_MAX:
        return None
    return ServerTool(
        name=raw.name,
        description=description(raw.description or raw.title or ""),
        parameters=parameters(raw.input_schema),
    )


def _is_address(uri: object) -> bool:
    """Can it be named in a line? Whatever cannot is left out: it could neither be shown nor typed."""
    text = str(uri)
    return bool(text) and len(text) <= ADDRESS_MAX and text == description(text) and not any(map(str.isspace, text))


def _resource(raw: Any, uri: str, is_template: bool) -> ServerResource:
    return ServerResource(uri, description(raw.title or raw.name or ""), description(raw.description), is_template)


def _prompt(raw: Any) -> ServerPrompt:
    arguments = tuple(
        PromptArgument(each.name, description(each.description), bool(each.required))
        for each in (raw.arguments or ())[:ARGUMENTS_MAX]
    )
    return ServerPrompt(raw.name, description(raw.description or raw.title or ""), arguments)


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
