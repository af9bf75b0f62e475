"""Pure. A catalogue file, checked: one JSON object, a key for each name that the registry answers to.

Every word that picks a code path (api, provider, kind of input) comes from an allowlist here; what is not on it is
an error that names the file and the place, never a new identifier.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from attrs import fields

from lemon_ai.errors import BadCatalog
from lemon_ai.models.model import Compat, InputKind, Model, ModelCost

APIS: Final = frozenset(
    {
        "anthropic_messages",
        "anthropic_vertex",
        "azure_openai_completions",
        "azure_openai_responses",
        "bedrock_converse",
        "bedrock_converse_stream",
        "bedrock_invoke_anthropic_stream",
        "google_gemini_cli",
        "google_generative_ai",
        "google_vertex",
        "mistral_conversations",
        "ollama_chat",
        "openai_codex_responses",
        "openai_completions",
        "openai_responses",
        "replay",
        "scripted",
    }
)
"""Wire formats a model may name."""

PROVIDERS: Final = (
    "anthropic",
    "openai",
    "openai_codex",
    "amazon_bedrock",
    "google",
    "google_vertex",
    "google_gemini_cli",
    "azure_openai_responses",
    "mistral",
    "groq",
    "xai",
    "deepseek",
    "cerebras",
    "fireworks",
    "together",
    "kimi",
    "zai",
    "minimax",
    "github_copilot",
    "openrouter",
    "ollama",
    "llama_cpp",
    "lmstudio",
    "vllm",
    "local",
    "scripted",
    "replay",
)
"""The providers of this package, in the order in which a bare model id is looked for."""

_OTHER_PROVIDERS: Final = frozenset(
    {
        "google_antigravity",
        "huggingface",
        "kimi_coding",
        "minimax_cn",
        "opencode",
        "opencode_go",
        "qwen",
        "vercel_ai_gateway",
    }
)
KNOWN_PROVIDERS: Final = frozenset(PROVIDERS) | _OTHER_PROVIDERS
INPUTS: Final = frozenset({"text", "image"})
_COST_KEYS: Final = ("input", "output", "cache_read", "cache_write")
_REQUIRED: Final = (
    "id",
    "name",
    "base_url",
    "api",
    "provider",
    "reasoning",
    "input",
    "cost",
    "context_window",
    "max_tokens",
)
_OPTIONAL: Final = ("headers", "compat", "adaptive_thinking", "reasoning_efforts")
_COMPAT_ENUMS: Final[Mapping[str, tuple[str, ...]]] = {
    "max_tokens_field": ("max_tokens", "max_completion_tokens"),
    "thinking_format": ("openai", "zai", "qwen", "qwen-chat-template"),
}
_COMPAT_OBJECTS: Final = ("open_router_routing", "vercel_gateway_routing", "reasoning_effort_map")
LEVELS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def read_catalog(text: str, file: str) -> dict[str, Model]:
    """The models of a catalogue.

    Raises:
        BadCatalog: It breaks the schema; says where.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BadCatalog(file=file, path="", problem=f"is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadCatalog(file=file, path="", problem="must be one JSON object")
    return {key: read_model(entry, file, key) for key, entry in document.items()}


def read_model(entry: Any, file: str, path: str) -> Model:
    """One entry.

    Raises:
        BadCatalog: It breaks the schema; says where.
    """
    check = _Check(file, path)
    check.that(isinstance(entry, dict), "", "must be an object")
    for name in _REQUIRED:
        check.that(name in entry, name, "is missing")
    for name in entry:
        check.that(name in _REQUIRED or name in _OPTIONAL, name, "is no field of a model")
    for name in ("id", "name", "base_url"):
        check.that(isinstance(entry[name], str), name, "must be a string")
    check.that(bool(entry["id"]), "id", "must not be empty")
    check.one_of(entry["api"], APIS, "api")
    check.one_of(entry["provider"], KNOWN_PROVIDERS, "provider")
    for name in ("context_window", "max_tokens"):
        check.that(_is_count(entry[name]), name, "must be a whole number, 0 or more")
    check.that(isinstance(entry["reasoning"], bool), "reasoning", "must be true or false")
    adaptive = entry.get("adaptive_thinking", False)
    check.that(isinstance(adaptive, bool), "adaptive_thinking", "must be true or false")
    return Model(
        id=entry["id"],
        name=entry["name"],
        api=entry["api"],
        provider=entry["provider"],
        base_url=entry["base_url"],
        reasoning=entry["reasoning"],
        input=_inputs(entry["input"], check),
        cost=_cost(entry["cost"], check),
        context_window=entry["context_window"],
        max_tokens=entry["max_tokens"],
        headers=_strings(entry.get("headers") or {}, check, "headers"),
        compat=read_compat(entry.get("compat"), file, f"{path}.compat"),
        adaptive_thinking=adaptive,
        reasoning_efforts=_efforts(entry.get("reasoning_efforts"), check),
    )


def read_compat(value: Any, file: str, path: str) -> Compat | None:
    """The overrides of a server that speaks Chat Completions; null is none.

    Raises:
        BadCatalog: A field is unknown, or is of the wrong kind.
    """
    if value is None:
        return None
    check = _Check(file, path)
    check.that(isinstance(value, dict), "", "must be an object or null")
    known = {attribute.name for attribute in fields(Compat)}
    for name, item in value.items():
        check.that(name in known, name, "is no known override")
        if item is None:
            continue
        if name in _COMPAT_ENUMS:
            check.one_of(item, _COMPAT_ENUMS[name], name)
        elif name in _COMPAT_OBJECTS:
            check.that(isinstance(item, dict), name, "must be an object or null")
        else:
            check.that(isinstance(item, bool), name, "must be true or false")
    return Compat(**value)


class _Check:
    """Says where in which file something is wrong."""

    def __init__(self, file: str, path: str) -> None:
        self.file = file
        self.path = path

    def that(self, holds: bool, name: str, problem: str) -> None:
        if not holds:
            raise BadCatalog(file=self.file, path=f"{self.path}.{name}" if name else self.path, problem=problem)

    def one_of(self, value: Any, allowed: Any, name: str) -> None:
        holds = isinstance(value, str) and value in allowed
        self.that(holds, name, f"is {value!r}, which is none of {', '.join(sorted(allowed))}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _inputs(value: Any, check: _Check) -> tuple[InputKind, ...]:
    check.that(isinstance(value, list), "input", "must be a list")
    for kind in value:
        check.one_of(kind, INPUTS, "input")
    return cast("tuple[InputKind, ...]", tuple(value))


def _cost(value: Any, check: _Check) -> ModelCost:
    check.that(isinstance(value, dict) and set(value) == set(_COST_KEYS), "cost", f"must have {', '.join(_COST_KEYS)}")
    for name, price in value.items():
        usable = isinstance(price, (int, float)) and not isinstance(price, bool) and price >= 0
        check.that(usable, f"cost.{name}", "must be a number, 0 or more")
    return ModelCost(**{name: float(price) for name, price in value.items()})


def _strings(value: Any, check: _Check, name: str) -> dict[str, str]:
    check.that(isinstance(value, dict), name, "must be an object")
    for key, item in value.items():
        check.that(isinstance(item, str), f"{name}.{key}", "must be a string")
    return dict(value)


def _efforts(value: Any, check: _Check) -> dict[str, str] | None:
    if value is None:
        return None
    check.that(isinstance(value, (list, dict)), "reasoning_efforts", "must be a list or an object")
    efforts = dict(value) if isinstance(value, dict) else {level: level for level in value}
    for level, word in efforts.items():
        check.one_of(level, LEVELS, "reasoning_efforts")
        check.that(isinstance(word, str) and bool(word), f"reasoning_efforts.{level}", "must be a string")
    return efforts
