"""Edge. OpenAI's Codex backend: the Responses API with a ChatGPT account's token.

The backend checks the shape of a request more strictly than the public API: instructions must be there, a limit of
output tokens must not.
"""

import base64
import json
import platform
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, ClassVar, Final

from attrs import frozen

from lemon_ai.errors import MissingCredential, QuotaExhausted, RateLimited
from lemon_ai.events import StreamEvent
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.asking import HttpProvider, base_of, bearer, fold_of, headers_of, key_of, settings_of
from lemon_ai.providers.openai_responses_decode import ResponsesDecoder
from lemon_ai.providers.openai_responses_encode import (
    caching,
    encode_history,
    encode_tool,
    encode_tool_choice,
    reasoning,
)
from lemon_ai.providers.wire import Decoder, WireCall
from lemon_ai.retry_helper import RetryPolicy
from lemon_ai.wire_text import clean

BASE_URL: Final = "https://chatgpt.com"
PATH: Final = "/backend-api/codex/responses"
CLAIM: Final = "https://api.openai.com/auth"
DEFAULT_INSTRUCTIONS: Final = "You are a coding assistant."
ORIGINATOR: Final = "lemon"
LIMIT_CODES: Final = frozenset({"usage_limit_reached", "usage_not_included", "rate_limit_exceeded"})


def account_id(provider: str, token: str) -> str:
    """The ChatGPT account a token belongs to, read from the token itself.

    Raises:
        MissingCredential: It is no JSON web token, or names no account.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise MissingCredential(provider=provider, hint="the token is not a JSON web token of three parts.")
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError as error:
        raise MissingCredential(provider=provider, hint="the token cannot be decoded.") from error
    account = (claims.get(CLAIM) or {}).get("chatgpt_account_id") if isinstance(claims, dict) else None
    if not account:
        raise MissingCredential(provider=provider, hint="the token names no ChatGPT account.")
    return str(account)


def encode_body(request: ProviderRequest) -> dict[str, Any]:
    """The body of one call.

    Raises:
        BadRequest: No message was left to send.
    """
    model, options = request.model, request.options
    verbosity = settings_of(request).get("text_verbosity") or options.thinking_budgets.get("text_verbosity")
    body: dict[str, Any] = {
        "model": model.id,
        "instructions": clean(request.context.system_prompt).strip() or DEFAULT_INSTRUCTIONS,
        "input": encode_history(request),
        "stream": True,
        "store": False,
        "text": {"verbosity": verbosity or "medium"},
        "include": ["reasoning.encrypted_content"],
        "tool_choice": encode_tool_choice(options.tool_choice),
        "parallel_tool_calls": True,
    }
    if request.context.tools:
        body["tools"] = [encode_tool(tool) for tool in request.context.tools]
    if options.temperature is not None:
        body["temperature"] = options.temperature
    return body | caching(model, options) | reasoning(model, options)


def encode_call(request: ProviderRequest) -> WireCall:
    """The HTTP request of one call.

    Raises:
        MissingCredential: No token, or one that is not a ChatGPT account's.
        BadRequest: No message was left to send.
    """
    base = base_of(request, BASE_URL)
    token = key_of(request, base)
    own = {
        "chatgpt-account-id": account_id(request.model.provider, token),
        "openai-beta": "responses=experimental",
        "originator": ORIGINATOR,
        "user-agent": f"lemon-ai ({platform.system()} {platform.machine()})",
    }
    if request.options.session_id:
        own["session_id"] = clean(request.options.session_id)
    url = base if base.endswith("/responses") else base.removesuffix("/backend-api") + PATH
    return WireCall(url=url, headers=headers_of(request, bearer(token), own), body=encode_body(request))


def explain_limit(error: RateLimited) -> RateLimited:
    """The same failure in words a ChatGPT user understands, with the time it ends if that is known."""
    if error.type not in LIMIT_CODES and error.code not in LIMIT_CODES:
        return error
    said = "You have hit your ChatGPT usage limit."
    if error.retry_after_s is not None:
        said += f" Try again in ~{max(1, round(error.retry_after_s / 60))} min."
    return QuotaExhausted(
        provider=error.provider,
        message=said,
        status=error.status,
        code=error.code,
        type=error.type,
        provider_message=error.provider_message,
        retry_after_s=error.retry_after_s,
        request_id=error.request_id,
        in_stream=error.in_stream,
    )


@frozen
class CodexProvider(HttpProvider):
    """The Codex backend, streaming."""

    api: ClassVar[str] = "openai_codex_responses"
    retry: ClassVar[RetryPolicy] = RetryPolicy(max_retries=3, base_ms=1000)

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        return encode_call(request), ResponsesDecoder(fold_of(request))

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[StreamEvent, None]:
        """See `Provider.stream`; a plan's limit is told in its own words."""
        try:
            async with aclosing(super().stream(request)) as events:
                async for event in events:
                    yield event
        except RateLimited as error:
            raise explain_limit(error) from error
