"""Edge. Google's generateContent as AI Studio serves it, with an API key."""

from typing import ClassVar, Final

from attrs import frozen

from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.asking import HttpProvider, base_of, fold_of, headers_of, key_of
from lemon_ai.providers.google_decode import GoogleDecoder
from lemon_ai.providers.google_encode import encode_body
from lemon_ai.providers.wire import Decoder, WireCall

BASE_URL: Final = "https://generativelanguage.googleapis.com/v1beta"


def encode_call(request: ProviderRequest) -> WireCall:
    """The HTTP request of one call.

    Raises:
        MissingCredential: No key was given.
        BadRequest: No message was left to send.
    """
    base = base_of(request, BASE_URL)
    key = key_of(request, base)
    return WireCall(
        url=f"{base}/models/{request.model.id}:streamGenerateContent?alt=sse",
        headers=headers_of(request, {"x-goog-api-key": key} if key else {}),
        body=encode_body(request),
    )


@frozen
class GoogleProvider(HttpProvider):
    """Gemini by API key, streaming; an answer that comes as one document or as an array is read as well."""

    api: ClassVar[str] = "google_generative_ai"

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        return encode_call(request), GoogleDecoder(fold_of(request))
