"""Edge. Gemini through Code Assist: Google's format in a wrapper, with a user's token and project in one secret."""

import json
from typing import Any, ClassVar, Final
from uuid import uuid4

from attrs import frozen

from lemon_ai.errors import MissingCredential, ProviderUnavailable
from lemon_ai.events import StreamEvent
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.asking import HttpProvider, base_of, bearer, fold_of, headers_of, key_of
from lemon_ai.providers.google_decode import GoogleDecoder
from lemon_ai.providers.google_encode import encode_body
from lemon_ai.providers.wire import Decoder, WireCall
from lemon_ai.retry_helper import RetryPolicy
from lemon_ai.wire_text import clean

BASE_URL: Final = "https://cloudcode-pa.googleapis.com"
USER_AGENT: Final = "lemon-ai"


def read_secret(provider: str, secret: str) -> tuple[str, str]:
    """The token and the project in `{"token": ..., "projectId": ...}`.

    Raises:
        MissingCredential: It is not that.
    """
    try:
        parsed: Any = json.loads(secret)
        return str(parsed["token"]), str(parsed["projectId"])
    except (ValueError, KeyError, TypeError) as error:
        hint = 'the API key must be JSON with "token" and "projectId".'
        raise MissingCredential(provider=provider, variables=("GOOGLE_GEMINI_CLI_API_KEY",), hint=hint) from error


def encode_call(request: ProviderRequest) -> WireCall:
    """The HTTP request of one call.

    Raises:
        MissingCredential: No key, or one that is not the JSON it should be.
        BadRequest: No message was left to send.
    """
    base = base_of(request, BASE_URL)
    token, project = read_secret(request.model.provider, key_of(request, base))
    inner = encode_body(request)
    if request.options.session_id:
        inner["sessionId"] = clean(request.options.session_id)
    wrapper = {"project": project, "model": request.model.id, "request": inner, "userAgent": USER_AGENT}
    return WireCall(
        url=f"{base}/v1internal:streamGenerateContent?alt=sse",
        headers=headers_of(request, bearer(token), {"user-agent": USER_AGENT}),
        body=wrapper | {"requestId": f"lemon-{uuid4()}"},
    )


class CodeAssistDecoder(GoogleDecoder):
    """Code Assist sometimes ends an answer before it said anything: that is a failure worth another try."""

    def close(self) -> list[StreamEvent]:
        """The bytes ended."""
        provider = self.fold.model.provider
        ended = self._finish_reason is not None and not self.blocked
        if ended and not self.fold.has_content and not self.fold.finished:
            said = f"{provider} returned an empty response."
            return self.fold.fail("error", ProviderUnavailable(provider=provider, message=said, in_stream=True))
        return super().close()


@frozen
class GeminiCliProvider(HttpProvider):
    """Gemini through Code Assist, streaming."""

    api: ClassVar[str] = "google_gemini_cli"
    retry: ClassVar[RetryPolicy] = RetryPolicy(max_retries=3, base_ms=1000)

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        return encode_call(request), CodeAssistDecoder(fold_of(request))
