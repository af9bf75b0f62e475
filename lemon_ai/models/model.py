"""Value. A model: who serves it, what it can do, what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from attrs import field

from lemon_ai.messages import Cost, Usage
from lemon_otp import frozen

InputKind: TypeAlias = Literal["text", "image"]
EFFORTS = ("minimal", "low", "medium", "high")
"""The levels of a reasoning model that lists none of its own."""


@frozen
class ModelCost:
    """US dollars for a million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0


@frozen(kw_only=True)
class Compat:
    """Where a server that speaks Chat Completions differs from OpenAI's; None follows what is known of the vendor."""

    supports_store: bool | None = None
    supports_developer_role: bool | None = None
    supports_reasoning_effort: bool | None = None
    supports_usage_in_streaming: bool | None = None
    supports_strict_mode: bool | None = None
    requires_tool_result_name: bool | None = None
    requires_assistant_after_tool_result: bool | None = None
    requires_thinking_as_text: bool | None = None
    requires_mistral_tool_ids: bool | None = None
    requires_string_content: bool | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    thinking_format: Literal["openai", "zai", "qwen", "qwen-chat-template"] | None = None
    reasoning_effort_map: Mapping[str, str] | None = None
    open_router_routing: Mapping[str, Any] | None = None
    vercel_gateway_routing: Mapping[str, Any] | None = None


@frozen(kw_only=True)
class Model:
    """One model of one provider.

    Attributes:
        id: What the request calls it.
        name: What a person calls it.
        api: The wire format; picks the provider module.
        provider: Who serves it; picks credential, breaker and limits.
        base_url: Where requests go; empty takes the provider's own address.
        reasoning: It can think before it answers.
        input: What it can be shown.
        cost: What it charges.
        context_window, max_tokens: Tokens it can hold, and can write; 0 when unknown.
        headers: Sent with every request.
        compat: Overrides for a server that speaks Chat Completions.
        adaptive_thinking: It decides itself how long to think.
        reasoning_efforts: Allowed levels, each with the wire's word for it, "none" for no thinking at all; None is
            `EFFORTS` as they are.
    """

    id: str
    name: str = field()
    api: str
    provider: str
    base_url: str = ""
    reasoning: bool = False
    input: tuple[InputKind, ...] = ("text",)
    cost: ModelCost = ModelCost()
    context_window: int = 0
    max_tokens: int = 0
    headers: Mapping[str, str] = field(factory=dict)
    compat: Compat | None = None
    adaptive_thinking: bool = False
    reasoning_efforts: Mapping[str, str] | None = None

    @name.default
    def _name_is_id(self) -> str:
        return self.id

    @property
    def sees_images(self) -> bool:
        """Whether a picture may be shown to it."""
        return "image" in self.input

    def effort(self, level: str | Literal[False] | None) -> str | None:
        """The wire's word for a reasoning level; the nearest allowed one below, or above if there is none."""
        if not level or not self.reasoning:
            return None
        allowed = {name: name for name in EFFORTS} if self.reasoning_efforts is None else self.reasoning_efforts
        order = (*EFFORTS, "xhigh", "max")
        place = order.index(level) if level in order else order.index("medium")
        for name in (*reversed(order[: place + 1]), *order[place + 1 :]):
            if name in allowed:
                return allowed[name]
        return None


def calculate_cost(model: Model, usage: Usage, *, multiplier: float = 1.0) -> Cost:
    """What `usage` costs on `model`, in US dollars; `multiplier` is a service tier's."""
    price = model.cost
    scale = multiplier / 1_000_000
    parts = (
        usage.input * price.input * scale,
        usage.output * price.output * scale,
        usage.cache_read * price.cache_read * scale,
        usage.cache_write * price.cache_write * scale,
    )
    return Cost(*parts, total=sum(parts))
