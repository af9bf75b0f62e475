"""Edge. OpenAI's Chat Completions, and every server that speaks it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import ClassVar

from attrs import field

from lemon_ai.environment import KEYLESS, canonical, find_api_key, require_api_key
from lemon_ai.events import StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.http_trace import traced
from lemon_ai.network import is_loopback
from lemon_ai.provider import ProviderRequest, used_tool_ids
from lemon_ai.providers.asking import base_of
from lemon_ai.providers.http import HttpTransport, merge_headers
from lemon_ai.providers.openai_compat import dialect_of
from lemon_ai.providers.openai_completions_decode import OpenAICompletionsDecoder
from lemon_ai.providers.openai_completions_encode import copilot_headers, encode_body
from lemon_ai.providers.wire import WireCall
from lemon_otp import frozen

DEFAULT_BASE_URL = "https://api.openai.com/v1"
_IDLE_TIMEOUT_S = 120.0


@frozen
class OpenAICompletionsProvider:
    """Chat Completions, streaming; an answer that comes as one document is read as well."""

    api: ClassVar[str] = "openai_completions"
    transport: HttpTransport = field(factory=HttpTransport, repr=False)

    async def stream(self, request: ProviderRequest) -> AsyncIterator[StreamEvent]:
        """See `Provider.stream`."""
        decoder = OpenAICompletionsDecoder(Fold(request.model, taken_ids=used_tool_ids(request.context)))
        async with aclosing(traced(self.transport, request, encode_call(request), decoder)) as events:
            async for event in events:
                yield event


def encode_call(request: ProviderRequest) -> WireCall:
    """The HTTP request of one call.

    Raises:
        MissingCredential: A host that is not this machine needs a key, and there is none.
        BadRequest: No message was left to send.
    """
    model, options = request.model, request.options
    base_url = base_of(request, DEFAULT_BASE_URL)
    keyless = is_loopback(base_url) or canonical(model.provider) in KEYLESS
    find = find_api_key if keyless else require_api_key
    api_key = find(model, options, base_url=base_url)
    auth = {"authorization": f"Bearer {api_key}"} if api_key else {}
    copilot = copilot_headers(request) if canonical(model.provider) == "github_copilot" else {}
    return WireCall(
        url=f"{base_url}/chat/completions",
        headers=merge_headers(auth, model.headers, copilot, options.headers),
        body=encode_body(request, dialect_of(model, base_url), base_url),
        idle_timeout_s=_IDLE_TIMEOUT_S,
    )
