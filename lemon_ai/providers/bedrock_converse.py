"""Edge. Bedrock's Converse API: streamed, and in one piece for models that cannot stream."""

from typing import ClassVar, Final, Literal

from attrs import frozen

from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.asking import HttpProvider, base_of, fold_of, headers_of, settings_of
from lemon_ai.providers.bedrock_decode import BedrockDecoder
from lemon_ai.providers.bedrock_encode import encode_body, model_path
from lemon_ai.providers.bedrock_frames import FrameFramer
from lemon_ai.providers.bedrock_signing import AWS_HOST, AwsAuth, aws_auth, region_of
from lemon_ai.providers.wire import Decoder, WireCall

EVENT_STREAM: Final = "application/vnd.amazon.eventstream"
IDLE_TIMEOUT_S: Final = 60.0

Operation = Literal["converse-stream", "converse", "invoke-with-response-stream"]


def bedrock_url(request: ProviderRequest, operation: Operation) -> str:
    """The address of an operation on the request's model; the service's own address follows the region."""
    service = f"https://bedrock-runtime.{region_of(request)}.amazonaws.com"
    base = base_of(request, service)
    return (service if AWS_HOST.fullmatch(base) else base) + model_path(request.model.id, operation)


def encode_call(request: ProviderRequest, auth: AwsAuth, operation: Operation) -> WireCall:
    """The HTTP request of one call.

    Raises:
        BadRequest: No message was left to send, or an image is of a kind Bedrock does not take.
    """
    streams = operation == "converse-stream"
    accept = EVENT_STREAM if streams else "application/json"
    return WireCall(
        url=bedrock_url(request, operation),
        headers=headers_of(request, {"accept": accept}, auth.headers),
        body=encode_body(request, settings_of(request)),
        framer=FrameFramer,
        sign=auth.sign,
        idle_timeout_s=IDLE_TIMEOUT_S if streams else 300.0,
    )


@frozen
class BedrockProvider(HttpProvider):
    """Converse, streaming."""

    api: ClassVar[str] = "bedrock_converse_stream"

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        call = encode_call(request, await aws_auth(request), "converse-stream")
        return call, BedrockDecoder(fold_of(request))


@frozen
class BedrockWholeProvider(HttpProvider):
    """Converse in one piece: the whole answer arrives at once, as one burst of events."""

    api: ClassVar[str] = "bedrock_converse"

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        call = encode_call(request, await aws_auth(request), "converse")
        return call, BedrockDecoder(fold_of(request))
