"""Edge. Ollama's native chat, by default on this machine."""

from typing import ClassVar, Final

from attrs import frozen

from lemon_ai.environment import find_api_key
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.asking import HttpProvider, base_of, bearer, fold_of, headers_of, settings_of
from lemon_ai.providers.ollama_decode import NdjsonFramer, OllamaDecoder
from lemon_ai.providers.ollama_encode import chat_url, encode_body
from lemon_ai.providers.wire import Decoder, WireCall

BASE_URL: Final = "http://127.0.0.1:11434"


def encode_call(request: ProviderRequest) -> WireCall:
    """The HTTP request of one call; a key is sent only if there is one.

    Raises:
        BadRequest: No message was left to send.
    """
    base = base_of(request, BASE_URL)
    key = find_api_key(request.model, request.options, base_url=base)
    return WireCall(
        url=chat_url(base),
        headers=headers_of(request, {"accept": "application/x-ndjson"}, bearer(key or "")),
        body=encode_body(request, settings_of(request)),
        framer=NdjsonFramer,
        sniff=False,
    )


@frozen
class OllamaProvider(HttpProvider):
    """Ollama's native chat, streaming."""

    api: ClassVar[str] = "ollama_chat"

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        return encode_call(request), OllamaDecoder(fold_of(request))
