"""Edge. Which credential a call uses: what the caller passed, else the provider's own variable.

A vendor's own key always wins over a generic one, and OpenAI's key is never sent to another vendor's host.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from lemon_ai.errors import MissingCredential
from lemon_ai.models.model import Model
from lemon_ai.stream_options import StreamOptions

KEY_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "anthropic": ("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY"),
        "azure_openai_responses": ("AZURE_OPENAI_API_KEY",),
        "cerebras": ("CEREBRAS_API_KEY",),
        "deepseek": ("DEEPSEEK_API_KEY",),
        "fireworks": ("FIREWORKS_API_KEY",),
        "github_copilot": ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
        "google": ("GOOGLE_GENERATIVE_AI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
        "google_gemini_cli": ("GOOGLE_GEMINI_CLI_API_KEY",),
        "groq": ("GROQ_API_KEY",),
        "huggingface": ("HF_TOKEN",),
        "kimi": ("KIMI_API_KEY", "MOONSHOT_API_KEY"),
        "kimi_coding": ("KIMI_API_KEY", "MOONSHOT_API_KEY"),
        "minimax": ("MINIMAX_API_KEY",),
        "minimax_cn": ("MINIMAX_CN_API_KEY", "MINIMAX_API_KEY"),
        "mistral": ("MISTRAL_API_KEY",),
        "openai": ("OPENAI_API_KEY",),
        "openai_codex": ("OPENAI_CODEX_API_KEY", "CHATGPT_TOKEN"),
        "opencode": ("OPENCODE_API_KEY",),
        "opencode_go": ("OPENCODE_API_KEY",),
        "openrouter": ("OPENROUTER_API_KEY",),
        "qwen": ("DASHSCOPE_API_KEY",),
        "together": ("TOGETHER_API_KEY",),
        "vercel_ai_gateway": ("AI_GATEWAY_API_KEY",),
        "xai": ("XAI_API_KEY",),
        "zai": ("ZAI_API_KEY",),
    }
)
"""The variables each provider's key is looked for in, in order."""

KEYLESS: Final = frozenset({"local", "ollama", "llama_cpp", "lmstudio", "vllm", "scripted", "replay"})
"""Providers that need no key. One that is passed is still sent."""

VENDOR_HOSTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "anthropic": ("anthropic.com",),
        "cerebras": ("cerebras.ai",),
        "deepseek": ("deepseek.com",),
        "fireworks": ("fireworks.ai",),
        "github_copilot": ("githubcopilot.com",),
        "google": ("googleapis.com",),
        "groq": ("groq.com",),
        "huggingface": ("huggingface.co",),
        "kimi": ("moonshot.ai", "moonshot.cn", "kimi.com"),
        "minimax": ("minimax.io", "minimaxi.com"),
        "mistral": ("mistral.ai",),
        "openai": ("openai.com",),
        "opencode": ("opencode.ai",),
        "openrouter": ("openrouter.ai",),
        "qwen": ("aliyuncs.com",),
        "together": ("together.xyz", "together.ai"),
        "vercel_ai_gateway": ("ai-gateway.vercel.sh",),
        "xai": ("x.ai",),
        "zai": ("z.ai",),
    }
)
"""Whose host an address is, by the end of its name."""


@lru_cache(256)  # every stored answer names two of them
def canonical(provider: str) -> str:
    """A provider's or an api's name as this package spells it: session files and people write hyphens."""
    return provider.strip().lower().replace("-", "_")


def vendor_of(url: str) -> str | None:
    """Whose host `url` is, where that is known."""
    from urllib.parse import urlsplit  # a run without a network needs no addresses

    host = (urlsplit(url).hostname or "").lower()
    for vendor, ends in VENDOR_HOSTS.items():
        if any(host == end or host.endswith("." + end) for end in ends):
            return vendor
    return None


def key_variables(provider: str, base_url: str = "") -> tuple[str, ...]:
    """The variables a key for this provider at this address may come from, in order.

    Where the address is a known vendor's, that vendor's variables come first, and those of a provider of another
    name are left out: they hold the key of another account.
    """
    name, vendor = canonical(provider), vendor_of(base_url)
    own = KEY_VARIABLES.get(name, (f"{name.upper()}_API_KEY",))
    if vendor is None or vendor == name or name.startswith(vendor):
        return own
    return KEY_VARIABLES[vendor] if name == "openai" else tuple(dict.fromkeys((*own, *KEY_VARIABLES[vendor])))


def find_api_key(
    model: Model, options: StreamOptions, *, base_url: str = "", environ: Mapping[str, str] | None = None
) -> str | None:
    """The key a call uses, or None: the options, then the options of this provider, then the environment."""
    if options.api_key:
        return options.api_key
    settings = options.for_provider(model.provider)
    if isinstance(settings.get("api_key"), str) and settings["api_key"]:
        return str(settings["api_key"])
    if canonical(model.provider) in KEYLESS:
        return None
    variables = key_variables(model.provider, base_url or model.base_url)
    values = os.environ if environ is None else environ
    return next((values[name] for name in variables if values.get(name)), None)


def require_api_key(
    model: Model, options: StreamOptions, *, base_url: str = "", environ: Mapping[str, str] | None = None
) -> str:
    """The key a call uses.

    Raises:
        MissingCredential: There is none; names the variables that were looked at.
    """
    key = find_api_key(model, options, base_url=base_url, environ=environ)
    if key is None:
        variables = key_variables(model.provider, base_url or model.base_url)
        raise MissingCredential(provider=model.provider, variables=variables)
    return key
