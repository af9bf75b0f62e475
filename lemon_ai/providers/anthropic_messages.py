"""Edge. Anthropic's Messages API, at Anthropic and at whoever copied it."""

from typing import ClassVar, Final

from attrs import frozen

from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.anthropic_decode import AnthropicDecoder
from lemon_ai.providers.anthropic_encode import RETRY, VERSION, auth_headers, encode_body
from lemon_ai.providers.asking import HttpProvider, base_of, fold_of, headers_of, key_of
from lemon_ai.providers.wire import Decoder, WireCall
from lemon_ai.retry_helper import RetryPolicy

BASE_URL: Final = "https://api.anthropic.com"


def encode_call(request: ProviderRequest) -> WireCall:
    """The HTTP request of one call.

    Raises:
        MissingCredential: No key was given.
        BadRequest: No message was left to send.
    """
    base = base_of(request, BASE_URL).removesuffix("/v1")
    return WireCall(
        url=f"{base}/v1/messages",
        headers=headers_of(request, {"anthropic-version": VERSION}, auth_headers(key_of(request, base))),
        body={"model": request.model.id, "stream": True} | encode_body(request),
    )


@frozen
class AnthropicProvider(HttpProvider):
    """Anthropic's Messages API, streaming; an answer that comes as one document is read as well."""

    api: ClassVar[str] = "anthropic_messages"
    retry: ClassVar[RetryPolicy] = RETRY

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        return encode_call(request), AnthropicDecoder(fold_of(request))
