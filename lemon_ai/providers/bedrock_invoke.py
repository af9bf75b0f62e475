"""Edge. Anthropic's models on Bedrock, in Anthropic's own format: its events inside AWS frames."""

from typing import Any, ClassVar, Final

from attrs import frozen

from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.anthropic_decode import AnthropicDecoder
from lemon_ai.providers.anthropic_encode import BETAS, RETRY
from lemon_ai.providers.anthropic_encode import encode_body as encode_message
from lemon_ai.providers.asking import HttpProvider, fold_of, headers_of
from lemon_ai.providers.bedrock_converse import EVENT_STREAM, IDLE_TIMEOUT_S, bedrock_url
from lemon_ai.providers.bedrock_frames import ChunkFramer
from lemon_ai.providers.bedrock_signing import AwsAuth, aws_auth
from lemon_ai.providers.wire import Decoder, WireCall
from lemon_ai.retry_helper import RetryPolicy

VERSION: Final = "bedrock-2023-05-31"


def encode_body(request: ProviderRequest) -> dict[str, Any]:
    """Anthropic's body as Bedrock wants it: the model is in the path, version and betas are in the body."""
    return {"anthropic_version": VERSION, "anthropic_beta": list(BETAS)} | encode_message(request)


def encode_call(request: ProviderRequest, auth: AwsAuth) -> WireCall:
    """The HTTP request of one call.

    Raises:
        BadRequest: No message was left to send.
    """
    accept = {"accept": EVENT_STREAM, "x-amzn-bedrock-accept": "application/json"}
    return WireCall(
        url=bedrock_url(request, "invoke-with-response-stream"),
        headers=headers_of(request, accept, auth.headers),
        body=encode_body(request),
        framer=ChunkFramer,
        sign=auth.sign,
        idle_timeout_s=IDLE_TIMEOUT_S,
    )


@frozen
class BedrockInvokeProvider(HttpProvider):
    """Anthropic's Messages through InvokeModelWithResponseStream."""

    api: ClassVar[str] = "bedrock_invoke_anthropic_stream"
    retry: ClassVar[RetryPolicy] = RETRY

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        call = encode_call(request, await aws_auth(request))
        return call, AnthropicDecoder(fold_of(request))
