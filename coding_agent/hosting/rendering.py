"""Edge. Custom messages on their way to a client, with what an extension shows of them. Nothing is stored of that."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from attrs import evolve

from coding_agent.events import SessionEvent
from coding_agent.hosting.input import PromptDesk, PromptHooks
from lemon_agent import MessageEnd, MessageStart

ALL_S: Final = 5.0
"""What the renderers may take for a whole conversation; the messages behind that are shown as they are."""


async def with_rendering(event: SessionEvent, hooks: PromptHooks, desk: PromptDesk) -> SessionEvent:
    """The event; where it is about a message that an extension renders, with what is shown of it."""
    what = event.event
    if not isinstance(what, MessageStart | MessageEnd) or not hooks.renders(what.message):
        return event
    return evolve(event, event=evolve(what, message=await hooks.rendered(what.message, desk)))


async def all_rendered(messages: Iterable[Any], hooks: PromptHooks | None, desk: PromptDesk) -> list[Any]:
    """The messages, those that an extension renders with what is shown of them."""
    found = list(messages)
    if hooks is None:
        return found
    with suppress(TimeoutError):
        async with asyncio.timeout(ALL_S):
            for at, message in enumerate(found):
                if hooks.renders(message):
                    found[at] = await hooks.rendered(message, desk)
    return found
