"""Edge, over pure rules. What a person types for a server: `/mcp__SERVER__PROMPT words` and `@SERVER:ADDRESS`.

A prompt's words stand in the place of the line, as if the person had typed them: they chose it. What is read from an
address is put behind their words as somebody else's, between the markers that say so.
"""

import asyncio
import re
import shlex
from collections.abc import Sequence
from typing import Any, Final

from coding_agent.errors import BadUsage
from coding_agent.mcp.listing import PromptArgument, ServerPrompt
from coding_agent.mcp.requests import request
from coding_agent.mcp.results import IMAGES_MAX, block_part, resource_result
from coding_agent.mcp.standing import Reachable, Standing
from coding_agent.tools.truncate import HeadTail
from coding_agent.tools.visible_text import plain, reveal
from lemon_agent import AgentToolResult, external_content
from lemon_ai import ImageContent, TextContent

MENTIONS_MAX: Final = 10
_MENTION: Final = re.compile(r"(?<!\S)@([\w.-]+):(\S+)")
_NAMED: Final = re.compile(r"([\w.-]+)=(.*)", re.DOTALL)

Images = tuple[ImageContent, ...]


async def with_prompt(standing: Standing, name: str, words: str) -> tuple[str, Images] | None:
    """What a server's prompt of this name says; None when there is none.

    Raises:
        BadUsage: Its arguments are not what it takes; the text says how it is used.
        McpRequestFailed: The server did not answer, or refused.
    """
    found = standing.prompts().get(name)
    if found is None:
        return None
    server, prompt = found
    arguments = arguments_of(name, prompt, words)
    answer = await request(server, lambda client: client.get_prompt(prompt.name, arguments))
    return await asyncio.to_thread(_said, answer.messages)


def arguments_of(name: str, prompt: ServerPrompt, words: str) -> dict[str, str]:
    """The words behind a prompt's name as its arguments: in order, or `NAME=VALUE`; quotes keep blanks together.

    What is left over belongs to the last argument.

    Raises:
        BadUsage: Something it needs is missing, or it takes less.
    """
    try:
        parts = shlex.split(words)
    except ValueError:  # an apostrophe is no quote
        parts = words.split()
    known = {argument.name for argument in prompt.arguments}
    found: dict[str, str] = {}
    loose: list[str] = []
    for part in parts:
        named = _NAMED.fullmatch(part)
        if named is not None and named[1] in known:
            found[named[1]] = named[2]
        else:
            loose.append(part)
    free = [argument.name for argument in prompt.arguments if argument.name not in found]
    if loose and not free:
        raise BadUsage(f"/{name} takes {usage_of(prompt) or 'nothing'}")
    if len(loose) > len(free):
        loose = [*loose[: len(free) - 1], " ".join(loose[len(free) - 1 :])]
    found.update(zip(free, loose, strict=False))
    if missing := [each.name for each in prompt.arguments if each.required and not found.get(each.name)]:
        raise BadUsage(f"/{name} needs {', '.join(missing)}: /{name} {usage_of(prompt)}")
    return found


def usage_of(prompt: ServerPrompt) -> str:
    """What is typed behind a prompt's name."""

    def one(argument: PromptArgument) -> str:
        return argument.name if argument.required else f"[{argument.name}]"

    return " ".join(map(one, prompt.arguments))


def _said(messages: Sequence[Any]) -> tuple[str, Images]:
    """A prompt's messages as one text with pictures; who speaks is said where it is not only the person."""
    texts, images = HeadTail(), list[ImageContent]()
    alone = all(message.role == "user" for message in messages)
    for number, message in enumerate(messages):
        text, image = block_part(message.content, room=len(images) < IMAGES_MAX)
        images += [image] if image else []
        gap = "\n\n" if number else ""
        head = "" if alone else f"{'User' if message.role == 'user' else 'Assistant'}: "
        texts.feed(f"{gap}{head}{text}" if text else "")
    return reveal(plain(texts.shortened().text))[0], tuple(images)


async def with_mentions(standing: Standing, text: str) -> tuple[str, Images]:
    """The text with what stands at the addresses it names behind it. Names of nothing stay as they are.

    Raises:
        McpRequestFailed: A server did not answer, or refused.
    """
    images: list[ImageContent] = []
    parts = [text]
    for server, uri in mentioned(standing, text):
        read = await _read(server, uri)
        said = "".join(block.text for block in read.content if isinstance(block, TextContent))
        images += [block for block in read.content if isinstance(block, ImageContent)]
        parts.append(external_content.wrap_external_content(said, sender=f"{server.entry.name}:{uri}"))
    return "\n\n".join(parts), tuple(images[:IMAGES_MAX])


async def _read(server: Reachable, uri: str) -> AgentToolResult:
    answer = await request(server, lambda client: client.read_resource(uri, cache_mode="bypass"))
    return await asyncio.to_thread(resource_result, answer, server.entry.name, uri)


def mentioned(standing: Standing, text: str) -> list[tuple[Reachable, str]]:
    """The servers and addresses that a text names with `@SERVER:ADDRESS`, each once."""
    found: dict[tuple[str, str], tuple[Reachable, str]] = {}
    reading = {server.entry.name: server for server, offer in standing.offers() if offer.reads}
    for name, uri in _MENTION.findall(text):
        uri = uri.rstrip(".,;!?)\"'")
        if name in reading and uri and len(found) < MENTIONS_MAX:
            found.setdefault((name, uri), (reading[name], uri))
    return list(found.values())


def addresses(standing: Standing, beginning: str) -> list[str]:
    """What `SERVER:ADDRESS` can be named that begins so, templates left out."""
    found = (
        f"{server.entry.name}:{resource.uri}"
        for server, offer in standing.offers()
        for resource in offer.resources
        if not resource.is_template
    )
    return [each for each in found if each.startswith(beginning)]
