"""One recorded exchange asked again: the real provider, pointed at the player, and what it made of the answer."""

from contextlib import aclosing
from typing import Any

from attrs import frozen

from lemon_ai.errors import ProviderError
from lemon_ai.events import StreamDone, StreamError
from lemon_ai.messages import AssistantMessage, ThinkingContent, ToolCall, UserMessage, get_text, get_tool_calls
from lemon_ai.models.model import Model
from lemon_ai.partial_json import parse_partial
from lemon_ai.provider import Provider, ProviderRequest
from lemon_ai.providers.anthropic_messages import AnthropicProvider
from lemon_ai.providers.azure_openai import AzureCompletionsProvider, AzureResponsesProvider
from lemon_ai.providers.bedrock_converse import BedrockProvider, BedrockWholeProvider
from lemon_ai.providers.bedrock_invoke import BedrockInvokeProvider
from lemon_ai.providers.google_generative_ai import GoogleProvider
from lemon_ai.providers.google_vertex import AnthropicVertexProvider, VertexProvider
from lemon_ai.providers.mistral import MistralProvider
from lemon_ai.providers.ollama import OllamaProvider
from lemon_ai.providers.openai_completions import OpenAICompletionsProvider
from lemon_ai.providers.openai_responses import OpenAIResponsesProvider
from lemon_ai.stream_options import Context, StreamOptions
from tests.cassettes.recording import Cassette

Json = dict[str, Any]

PROVIDERS: dict[str, Provider] = {
    "anthropic_messages": AnthropicProvider(),
    "anthropic_vertex": AnthropicVertexProvider(),
    "azure_openai_completions": AzureCompletionsProvider(),
    "azure_openai_responses": AzureResponsesProvider(),
    "bedrock_converse": BedrockWholeProvider(),
    "bedrock_converse_stream": BedrockProvider(),
    "bedrock_invoke_anthropic_stream": BedrockInvokeProvider(),
    "google_generative_ai": GoogleProvider(),
    "google_vertex": VertexProvider(),
    "mistral_conversations": MistralProvider(),
    "ollama_chat": OllamaProvider(),
    "openai_completions": OpenAICompletionsProvider(),
    "openai_responses": OpenAIResponsesProvider(),
}
_BLANK_LINE_BETWEEN = ("anthropic", "bedrock", "openai_responses", "azure_openai_responses")


@frozen
class Outcome:
    """How a call ended."""

    message: AssistantMessage
    error: ProviderError | None
    streamed: str


def api_of(cassette: Cassette) -> str:
    """Our name of the wire format."""
    if cassette.api == "mistral":
        return "mistral_conversations"
    if cassette.api == "anthropic_messages" and "/publishers/anthropic/" in str(cassette.request.get("path")):
        return "anthropic_vertex"
    return cassette.api


def request_for(cassette: Cassette, base_url: str) -> ProviderRequest:
    """A request of ours to the same model; the player does not look at it."""
    model = Model(
        id=cassette.model,
        api=api_of(cassette),
        provider=cassette.provider,
        base_url=base_url,
        reasoning=True,
        input=("text", "image"),
        context_window=200_000,
        max_tokens=8192,
    )
    keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "example"}
    options = StreamOptions(
        api_key=None if cassette.api.startswith("bedrock") else "example-key",
        access_token="example-token",
        project="example",
        location="us-central1",
        provider_options={cassette.provider: keys} if cassette.api.startswith("bedrock") else {},
    )
    return ProviderRequest(model, Context(messages=(UserMessage("Go on."),)), options)


async def ask(cassette: Cassette, base_url: str) -> Outcome:
    """The outcome of the call; a failure before the first event is one as well."""
    request = request_for(cassette, base_url)
    streamed: list[str] = []
    try:
        async with aclosing(PROVIDERS[request.model.api].stream(request)) as events:  # type: ignore[type-var]
            async for event in events:
                if event.type == "text_delta":
                    streamed.append(event.delta)
                if isinstance(event, StreamDone | StreamError):
                    error = event.error if isinstance(event, StreamError) else None
                    return Outcome(event.message, error, "".join(streamed))
    except ProviderError as error:
        return Outcome(AssistantMessage(stop_reason="error", error_message=str(error), timestamp=0), error, "")
    raise AssertionError("the stream ended without a terminal event")


def got(cassette: Cassette, outcome: Outcome) -> Json:
    """The outcome in the words a recording's expectations are written in."""
    message, usage = outcome.message, outcome.message.usage
    return {
        "text": get_text(message),
        "thinking": _thinking(cassette, message),
        "redacted_thinking_blocks": sum(
            isinstance(block, ThinkingContent) and block.redacted for block in message.content
        ),
        "tool_calls": [_call(call) for call in get_tool_calls(message)],
        "stop_reason": message.stop_reason,
        "usage": {
            "input": usage.input,
            "output": usage.output,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "total_tokens": usage.total_tokens,
        },
        "response_id": message.response_id,
        "error": None if outcome.error is None else _error(outcome.error),
    }


def _thinking(cassette: Cassette, message: AssistantMessage) -> str:
    blocks = [block.thinking for block in message.content if isinstance(block, ThinkingContent) and block.thinking]
    return ("\n\n" if cassette.api.startswith(_BLANK_LINE_BETWEEN) else "").join(blocks)


def _call(call: ToolCall) -> Json:
    """A call; one that is not whole shows what could be read of it, and says so."""
    call_id, bar, item_id = call.id.partition("|")
    shown: Json = {"id": call_id, "name": call.name, "arguments": dict(call.arguments)}
    if bar:
        shown["item_id"] = item_id
    if call.invalid is not None:
        shown |= {"arguments": None, "invalid": True, "read_so_far": parse_partial(call.invalid)}
    return shown


def _error(error: ProviderError) -> Json:
    return {
        "class": type(error).__name__,
        "category": error.category,
        "status": error.status,
        "type": error.type,
        "code": error.code,
        "message": error.provider_message or error.message,
        "retry_after_s": error.retry_after_s,
    }
