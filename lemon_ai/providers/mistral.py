"""Edge. Mistral's chat API."""

from typing import ClassVar, Final

from attrs import frozen

from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.asking import HttpProvider, base_of, bearer, fold_of, headers_of, key_of
from lemon_ai.providers.mistral_decode import MistralDecoder
from lemon_ai.providers.mistral_encode import encode_body
from lemon_ai.providers.wire import Decoder, WireCall

BASE_URL: Final = "https://api.mistral.ai"


def encode_call(request: ProviderRequest) -> WireCall:
    """The HTTP request of one call.

    Raises:
        MissingCredential: No key was given.
        BadRequest: No message was left to send.
    """
    base = base_of(request, BASE_URL).removesuffix("/v1")
    return WireCall(
        url=f"{base}/v1/chat/completions",
        headers=headers_of(request, bearer(key_of(request, base))),
        body=encode_body(request),
    )


@frozen
class MistralProvider(HttpProvider):
    """Mistral's chat API, streaming; a completion that comes as one document is read as well."""

    api: ClassVar[str] = "mistral_conversations"

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        return encode_call(request), MistralDecoder(fold_of(request))
