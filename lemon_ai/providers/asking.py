"""Edge. What the providers of this folder share: where to ask, under which headers, and the asking itself."""

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from attrs import field, frozen

from lemon_ai.environment import find_api_key, require_api_key
from lemon_ai.events import StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.http_trace import traced
from lemon_ai.network import is_loopback
from lemon_ai.provider import ProviderRequest, used_tool_ids
from lemon_ai.providers.copilot_address import address_of_token
from lemon_ai.providers.http import HttpTransport, merge_headers
from lemon_ai.providers.wire import Decoder, WireCall


def settings_of(request: ProviderRequest) -> Mapping[str, Any]:
    """The caller's settings for this provider."""
    return request.options.for_provider(request.model.provider)


def setting(request: ProviderRequest, name: str, *variables: str) -> str | None:
    """One setting of this provider: the caller's, else the first of the environment's `variables` that is set."""
    given = settings_of(request).get(name)
    if given:
        return str(given)
    return next((os.environ[variable] for variable in variables if os.environ.get(variable)), None)


def base_of(request: ProviderRequest, default: str) -> str:
    """Where requests go, without a slash at the end: the caller's choice, the token's, the model's, or `default`."""
    chosen = settings_of(request).get("base_url") or address_of_token(request) or request.model.base_url or default
    return str(chosen).rstrip("/")


def key_of(request: ProviderRequest, base_url: str) -> str:
    """The key to ask with; a server on this machine may do without, and gets an empty one.

    Raises:
        MissingCredential: There is none.
    """
    if is_loopback(base_url):
        return find_api_key(request.model, request.options, base_url=base_url) or ""
    return require_api_key(request.model, request.options, base_url=base_url)


def bearer(key: str) -> dict[str, str]:
    """The header of a bearer token; none for an empty one."""
    return {"authorization": f"Bearer {key}"} if key else {}


def headers_of(request: ProviderRequest, *layers: Mapping[str, str]) -> dict[str, str]:
    """The provider's own headers, below the model's, below the caller's."""
    return merge_headers(*layers, request.model.headers, request.options.headers)


def fold_of(request: ProviderRequest) -> Fold:
    """A fold for the answer; ids it makes up are none of the conversation's."""
    return Fold(request.model, taken_ids=used_tool_ids(request.context))


@frozen
class HttpProvider(ABC):
    """A provider over HTTP: a subclass says how a call is encoded and what decodes its answer.

    Attributes:
        transport: Opens the connections.
    """

    transport: HttpTransport = field(factory=HttpTransport, repr=False, kw_only=True)

    @abstractmethod
    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """The HTTP request of one call, and what reads its answer.

        Raises:
            MissingCredential: No usable key.
            BadRequest: The conversation cannot be encoded for this service.
        """

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[StreamEvent, None]:
        """See `Provider.stream`. The connection is closed when the reader stops, whenever that is."""
        call, decoder = await self.prepare(request)
        async with aclosing(traced(self.transport, request, call, decoder)) as events:
            async for event in events:
                yield event
