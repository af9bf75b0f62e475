"""Pure. Where a server that speaks Chat Completions differs from OpenAI's.

What is known of a vendor comes from its name or its address; a catalogue's `compat` overrides it field by field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from attrs import evolve, fields

from lemon_ai.environment import canonical, vendor_of
from lemon_ai.models.model import Model
from lemon_ai.network import is_loopback
from lemon_otp import frozen


@frozen(kw_only=True)
class Dialect:
    """`lemon_ai.models.Compat` with every question answered."""

    supports_store: bool = True
    supports_developer_role: bool = True
    supports_reasoning_effort: bool = True
    supports_usage_in_streaming: bool = True
    supports_strict_mode: bool = True
    requires_tool_result_name: bool = False
    requires_assistant_after_tool_result: bool = False
    requires_thinking_as_text: bool = False
    requires_mistral_tool_ids: bool = False
    requires_string_content: bool = False
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_completion_tokens"
    thinking_format: Literal["openai", "zai", "qwen", "qwen-chat-template"] = "openai"
    reasoning_effort_map: Mapping[str, str] | None = None
    open_router_routing: Mapping[str, Any] | None = None
    vercel_gateway_routing: Mapping[str, Any] | None = None


_PLAIN: Final = Dialect(supports_store=False, supports_developer_role=False)

_LOOPBACK: Final = Dialect(
    supports_store=False,
    supports_developer_role=False,
    supports_reasoning_effort=False,
    supports_strict_mode=False,
    requires_string_content=True,
    max_tokens_field="max_tokens",
)

_VENDORS: Final[Mapping[str, Dialect]] = {
    "cerebras": evolve(_PLAIN, supports_strict_mode=False),
    "xai": evolve(_PLAIN, supports_reasoning_effort=False),
    "deepseek": evolve(_PLAIN, supports_strict_mode=False),
    "opencode": _PLAIN,
    "opencode_go": _PLAIN,
    "chutes": evolve(_PLAIN, max_tokens_field="max_tokens"),
    "zai": evolve(_PLAIN, supports_reasoning_effort=False, thinking_format="zai"),
    "kimi": evolve(_PLAIN, supports_reasoning_effort=False, max_tokens_field="max_tokens"),
    "qwen": evolve(_PLAIN, supports_reasoning_effort=False, max_tokens_field="max_tokens", thinking_format="qwen"),
    "mistral": evolve(
        _PLAIN,
        max_tokens_field="max_tokens",
        requires_tool_result_name=True,
        requires_thinking_as_text=True,
        requires_mistral_tool_ids=True,
    ),
    "github_copilot": evolve(
        _PLAIN, supports_reasoning_effort=False, max_tokens_field="max_tokens", requires_string_content=True
    ),
}
"""Vendors that differ from OpenAI; any other one is spoken to as OpenAI is."""

LOCAL_PROVIDERS: Final = frozenset({"local", "ollama", "llama_cpp", "lmstudio", "vllm"})


def dialect_of(model: Model, base_url: str = "") -> Dialect:
    """How the server behind `model` wants to be spoken to."""
    url = base_url or model.base_url
    provider = canonical(model.provider)
    if is_loopback(url) or provider in LOCAL_PROVIDERS:
        known = _LOOPBACK
    elif "chutes.ai" in url:
        known = _VENDORS["chutes"]
    else:
        known = _VENDORS.get(provider) or _VENDORS.get(vendor_of(url) or "") or Dialect()
    if model.compat is None:
        return known
    given = {a.name: getattr(model.compat, a.name) for a in fields(type(model.compat))}
    return evolve(known, **{name: value for name, value in given.items() if value is not None})
