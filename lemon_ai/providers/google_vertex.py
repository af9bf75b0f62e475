"""Edge. Vertex AI: Gemini in Google's format, and Claude in Anthropic's, with an access token."""

from typing import ClassVar, Final

from attrs import field, frozen

from lemon_ai.errors import BadRequest
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.anthropic_decode import AnthropicDecoder
from lemon_ai.providers.anthropic_encode import BETAS, RETRY
from lemon_ai.providers.anthropic_encode import encode_body as encode_message
from lemon_ai.providers.asking import HttpProvider, base_of, bearer, fold_of, headers_of, setting
from lemon_ai.providers.google_decode import GoogleDecoder
from lemon_ai.providers.google_encode import encode_body
from lemon_ai.providers.google_tokens import GoogleTokens
from lemon_ai.providers.wire import Decoder, WireCall
from lemon_ai.retry_helper import RetryPolicy

ANTHROPIC_VERSION: Final = "vertex-2023-10-16"


def model_url(request: ProviderRequest, publisher: str, operation: str) -> str:
    """The address of an operation on the request's model in the caller's project.

    Raises:
        BadRequest: No project or no location was given.
    """
    project = request.options.project or setting(request, "project", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
    location = request.options.location or setting(request, "location", "GOOGLE_CLOUD_LOCATION")
    if not project or not location:
        missing = "project" if not project else "location"
        raise BadRequest(
            provider=request.model.provider, message=f"Vertex needs a {missing}: set GOOGLE_CLOUD_{missing.upper()}."
        )
    host = "aiplatform.googleapis.com" if location == "global" else f"{location}-aiplatform.googleapis.com"
    base = base_of(request, f"https://{host}").removesuffix("/v1")
    place = f"projects/{project}/locations/{location}/publishers/{publisher}/models/{request.model.id}"
    return f"{base}/v1/{place}:{operation}"


def encode_call(request: ProviderRequest, token: str) -> WireCall:
    """The HTTP request of one call of Gemini."""
    return WireCall(
        url=model_url(request, "google", "streamGenerateContent?alt=sse"),
        headers=headers_of(request, bearer(token)),
        body=encode_body(request),
    )


def encode_anthropic_call(request: ProviderRequest, token: str) -> WireCall:
    """The HTTP request of one call of Claude: the model is in the path, the version in the body."""
    return WireCall(
        url=model_url(request, "anthropic", "streamRawPredict"),
        headers=headers_of(request, {"anthropic-beta": ",".join(BETAS)}, bearer(token)),
        body={"anthropic_version": ANTHROPIC_VERSION, "stream": True} | encode_message(request),
    )


@frozen
class VertexProvider(HttpProvider):
    """Gemini on Vertex AI."""

    api: ClassVar[str] = "google_vertex"
    tokens: GoogleTokens = field(factory=GoogleTokens, repr=False, kw_only=True)

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        token = await self.tokens.token_for(request)
        return encode_call(request, token), GoogleDecoder(fold_of(request))


@frozen
class AnthropicVertexProvider(HttpProvider):
    """Claude on Vertex AI."""

    api: ClassVar[str] = "anthropic_vertex"
    retry: ClassVar[RetryPolicy] = RETRY
    tokens: GoogleTokens = field(factory=GoogleTokens, repr=False, kw_only=True)

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        token = await self.tokens.token_for(request)
        return encode_anthropic_call(request, token), AnthropicDecoder(fold_of(request))
