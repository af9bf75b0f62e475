"""Value. The providers of this package, registered on the road a stranger's would take; each is imported when used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from lemon_ai.provider_registry import Lazy, ProviderRegistry
from lemon_otp import define

if TYPE_CHECKING:
    from lemon_ai.providers.http import HttpTransport

_HERE: Final = "lemon_ai.providers"
_OVER_HTTP: Final[Mapping[str, tuple[str, str]]] = {
    "anthropic_messages": ("anthropic_messages", "AnthropicProvider"),
    "anthropic_vertex": ("google_vertex", "AnthropicVertexProvider"),
    "azure_openai_completions": ("azure_openai", "AzureCompletionsProvider"),
    "azure_openai_responses": ("azure_openai", "AzureResponsesProvider"),
    "bedrock_converse": ("bedrock_converse", "BedrockWholeProvider"),
    "bedrock_converse_stream": ("bedrock_converse", "BedrockProvider"),
    "bedrock_invoke_anthropic_stream": ("bedrock_invoke", "BedrockInvokeProvider"),
    "google_gemini_cli": ("google_gemini_cli", "GeminiCliProvider"),
    "google_generative_ai": ("google_generative_ai", "GoogleProvider"),
    "google_vertex": ("google_vertex", "VertexProvider"),
    "mistral_conversations": ("mistral", "MistralProvider"),
    "ollama_chat": ("ollama", "OllamaProvider"),
    "openai_codex_responses": ("openai_codex", "CodexProvider"),
    "openai_completions": ("openai_completions", "OpenAICompletionsProvider"),
    "openai_responses": ("openai_responses", "OpenAIResponsesProvider"),
}
_IN_PROCESS: Final[Mapping[str, tuple[str, str]]] = {
    "replay": ("replay", "ReplayProvider"),
    "scripted": ("scripted", "ScriptedProvider"),
}

APIS: Final = (*_OVER_HTTP, *_IN_PROCESS)
"""Wire formats this package speaks."""


@define(eq=False)
class Connections:
    """What the providers of one application open connections with; made when the first of them needs it."""

    _transport: HttpTransport | None = None

    def arguments(self) -> dict[str, HttpTransport]:
        """What a provider over HTTP is made with."""
        if self._transport is None:
            from lemon_ai.providers.http import HttpTransport

            self._transport = HttpTransport(keep_alive=True)
        return {"transport": self._transport}

    async def aclose(self) -> None:
        """Close those that are kept."""
        if self._transport is not None:
            await self._transport.aclose()


def builtin(connections: Connections) -> dict[str, Lazy]:
    """Where each provider is; those over HTTP share one way of opening connections."""
    over_http = {
        api: Lazy(f"{_HERE}.{module}", cls, connections.arguments) for api, (module, cls) in _OVER_HTTP.items()
    }
    return over_http | {api: Lazy(f"{_HERE}.{module}", cls) for api, (module, cls) in _IN_PROCESS.items()}


async def register_builtin(connections: Connections) -> None:
    """Register every provider of this package. Running it again only replaces them."""
    for api, make in builtin(connections).items():
        await ProviderRegistry.register(api, make)
