"""Value. What a provider is: a wire format, and how one call is made in it.

A provider is two pure pieces, an encoder and a decoder, and a thin class. It keeps nothing between calls, so one
instance serves every process. It never registers itself: the application does, or whoever adds one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Protocol, runtime_checkable

from attrs import field

from lemon_ai.events import StreamEvent
from lemon_ai.messages import AssistantMessage, get_tool_calls
from lemon_ai.models.model import Model
from lemon_ai.stream_options import Context, StreamOptions
from lemon_otp import frozen


@frozen
class ProviderRequest:
    """One model call."""

    model: Model
    context: Context
    options: StreamOptions = field(factory=StreamOptions)


@runtime_checkable
class Provider(Protocol):
    """One wire format.

    Attributes:
        api: The name models refer to, such as "openai_completions".
    """

    @property
    def api(self) -> str:
        """The wire format's name in the catalogues."""
        ...

    def stream(self, request: ProviderRequest) -> AsyncIterator[StreamEvent]:
        """The events of one call, the last one terminal.

        An async generator: nothing happens before the first step, and closing it closes the connection.

        Raises:
            AiError: Before the first event, when no request could be made: a credential is missing, the
                conversation cannot be encoded. After the first event a failure is a `StreamError` instead.
        """
        ...


def used_tool_ids(context: Context) -> Iterator[str]:
    """The tool-call ids a conversation already holds, read when they are first asked for."""
    for message in context.messages:
        if isinstance(message, AssistantMessage):
            yield from (call.id for call in get_tool_calls(message))
