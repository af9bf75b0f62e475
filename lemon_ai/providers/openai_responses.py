"""Edge. OpenAI's Responses API, at OpenAI and at whoever copied it."""

from typing import ClassVar, Final

from attrs import frozen

from lemon_ai.environment import canonical
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.asking import HttpProvider, base_of, bearer, fold_of, headers_of, key_of, settings_of
from lemon_ai.providers.openai_completions_encode import copilot_headers
from lemon_ai.providers.openai_responses_decode import ResponsesDecoder
from lemon_ai.providers.openai_responses_encode import encode_body, responses_url
from lemon_ai.providers.wire import Decoder, WireCall

BASE_URL: Final = "https://api.openai.com/v1"


def encode_call(request: ProviderRequest) -> WireCall:
    """The HTTP request of one call.

    Raises:
        MissingCredential: No key was given.
        BadRequest: No message was left to send.
    """
    base = base_of(request, BASE_URL)
    copilot = copilot_headers(request) if canonical(request.model.provider) == "github_copilot" else {}
    return WireCall(
        url=responses_url(base),
        headers=headers_of(request, bearer(key_of(request, base)), copilot),
        body=encode_body(request, settings_of(request)),
    )


@frozen
class OpenAIResponsesProvider(HttpProvider):
    """The Responses API, streaming; a response that comes as one document is read as well."""

    api: ClassVar[str] = "openai_responses"

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        call = encode_call(request)
        return call, ResponsesDecoder(fold_of(request), tier=call.body.get("service_tier"))
