"""Edge. Which server answers at an address: asked for what only one kind of server has.

Anything may listen on a port. So an answer counts only if it has the shape that kind of server gives it; a page, a
redirect, an error or an answer of more than a few megabytes is none.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from lemon_otp import define, frozen

if TYPE_CHECKING:
    import httpx

CONNECT_S: Final = 0.3
ANSWER_S: Final = 1.0
_LARGEST: Final = 4 * 1024 * 1024
_SHOWN_MODELS: Final = 24
"""How many models Ollama is asked about one by one."""

OLLAMA_CONTEXT: Final = 4096
"""What Ollama gives a conversation where nobody says otherwise and memory is short."""


@frozen
class ServedModel:
    """A model as its server describes it.

    Attributes:
        context: Tokens a conversation really gets; 0 when the server does not say.
        context_max: Tokens the model could have; 0 when unknown.
        assumed: `context` is the server's default, not something it said.
        loaded, vision, tools, thinking: None when it does not say.
    """

    id: str
    context: int = 0
    context_max: int = 0
    assumed: bool = False
    loaded: bool | None = None
    vision: bool | None = None
    tools: bool | None = None
    thinking: bool | None = None


@frozen
class Found:
    """What an address turned out to be."""

    kind: str
    models: tuple[ServedModel, ...] = ()
    version: str = ""
    state: str = "ready"


def accepts(origin: str) -> bool:
    """Does anything take connections there? Where nothing does, nothing more need be loaded or asked."""
    parts = urlsplit(origin)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=CONNECT_S):
            return True
    except (OSError, ValueError):
        return False


def identify(origin: str, environ: Mapping[str, str], *, answer_s: float = ANSWER_S) -> Found | None:
    """The server at an address; None where nobody answers like one of ours. Never raises for what a server does.

    Args:
        origin: Scheme, host and port.
        environ: `OLLAMA_CONTEXT_LENGTH` is looked at.
        answer_s: How long each answer may take.
    """
    import httpx

    try:
        with httpx.Client(base_url=origin, trust_env=False, timeout=httpx.Timeout(answer_s, connect=CONNECT_S)) as http:
            asked = _Asked(http)
            if asked.text("/") is None and asked.unreachable:
                return None
            return _ollama(asked, environ) or _lm_studio(asked) or _llama_cpp(asked) or _vllm(asked) or _other(asked)
    except (httpx.InvalidURL, ValueError):
        return None


@define
class _Asked:
    """A connection to one address; every answer that is no use is None."""

    http: httpx.Client
    unreachable: bool = False
    status: int = 0

    def text(self, path: str, body: Mapping[str, Any] | None = None) -> str | None:
        """The body of a successful answer; `status` says what the answer was."""
        import httpx

        self.status = 0
        try:
            method = "GET" if body is None else "POST"
            with self.http.stream(
                method, path, json=body, headers={"accept": "application/json, text/plain"}
            ) as answer:
                self.status = answer.status_code
                received = bytearray()
                for piece in answer.iter_bytes():
                    received += piece
                    if len(received) > _LARGEST:
                        return None
                return received.decode("utf-8", "replace") if answer.status_code == 200 else None
        except httpx.ConnectError:
            self.unreachable = True
        except httpx.HTTPError:
            self.unreachable = self.unreachable or not self.status
        return None

    def object(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        text = self.text(path, body)
        try:
            value = json.loads(text) if text is not None else None
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def listed(self, path: str, member: str) -> list[dict[str, Any]] | None:
        """The objects of a list in an answer."""
        items = (self.object(path) or {}).get(member)
        return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else None


def _ollama(asked: _Asked, environ: Mapping[str, str]) -> Found | None:
    if (asked.text("/") or "").strip() != "Ollama is running":
        return None
    version = (asked.object("/api/version") or {}).get("version")
    loaded = {
        str(one.get("name")): _number(one.get("context_length")) for one in asked.listed("/api/ps", "models") or ()
    }
    models = []
    for number, tag in enumerate(asked.listed("/api/tags", "models") or ()):
        name = str(tag.get("name") or tag.get("model") or "")
        shown = asked.object("/api/show", {"model": name}) if name and number < _SHOWN_MODELS else None
        if name and not _only_embeds(name, (shown or {}).get("capabilities")):
            models.append(_ollama_model(name, shown or {}, loaded, environ))
    return Found("ollama", tuple(models), str(version or ""))


def _ollama_model(
    name: str, shown: Mapping[str, Any], loaded: Mapping[str, int], environ: Mapping[str, str]
) -> ServedModel:
    facts = shown.get("model_info")
    known = facts if isinstance(facts, dict) else {}
    longest = max((_number(value) for key, value in known.items() if key.endswith(".context_length")), default=0)
    told = re.search(r"^num_ctx\s+(\d+)", str(shown.get("parameters") or ""), re.MULTILINE)
    said = loaded.get(name) or (int(told[1]) if told else 0) or _number(environ.get("OLLAMA_CONTEXT_LENGTH"))
    context = said or OLLAMA_CONTEXT
    can = shown.get("capabilities")
    able = can if isinstance(can, list) else None
    return ServedModel(
        id=name,
        context=min(context, longest) if longest else context,
        context_max=longest,
        assumed=not said,
        loaded=name in loaded,
        vision=None if able is None else "vision" in able,
        tools=None if able is None else "tools" in able,
        thinking=None if able is None else "thinking" in able,
    )


def _lm_studio(asked: _Asked) -> Found | None:
    listed = asked.listed("/api/v0/models", "data")
    if listed is None or not all("id" in one and ("type" in one or "state" in one) for one in listed):
        return None
    models = []
    for one in listed:
        if one.get("type") == "embeddings" or _only_embeds(str(one["id"]), None):
            continue
        longest, able = _number(one.get("max_context_length")), one.get("capabilities")
        models.append(
            ServedModel(
                id=str(one["id"]),
                context=_number(one.get("loaded_context_length")) or longest,
                context_max=longest,
                assumed=not one.get("loaded_context_length"),
                loaded=one.get("state") == "loaded",
                vision=one.get("type") == "vlm" or None,
                tools="tool_use" in able if isinstance(able, list) else None,
            )
        )
    return Found("lmstudio", tuple(models))


def _llama_cpp(asked: _Asked) -> Found | None:
    facts = asked.object("/props?autoload=false")
    if facts is None or not isinstance(facts.get("default_generation_settings"), dict):
        return _loading_llama_cpp(asked)
    listed = asked.listed("/v1/models", "data") or []
    models = []
    for one in listed:
        own = facts
        if len(listed) > 1:  # it routes to several, each with facts of its own
            own = asked.object(f"/props?autoload=false&model={_quoted(str(one.get('id')))}") or {}
        settings, senses, can = (own.get(key) or {} for key in _PROPS)
        about = one.get("meta") or {}
        models.append(
            ServedModel(
                id=str(one.get("id") or ""),
                context=_number(settings.get("n_ctx")),
                context_max=_number(about.get("n_ctx_train")) if isinstance(about, dict) else 0,
                loaded=True if len(listed) == 1 else None,
                vision=bool(senses.get("vision")) if senses else None,
                tools=bool(can.get("supports_tools")) if "supports_tools" in can else None,
            )
        )
    named = tuple(model for model in models if model.id)
    return Found("llama_cpp", named, str(facts.get("build_info") or ""))


_PROPS: Final = ("default_generation_settings", "modalities", "chat_template_caps")


def _loading_llama_cpp(asked: _Asked) -> Found | None:
    """Its health check says 503 while it reads the model."""
    if asked.status == 503 and asked.text("/health") is None and asked.status == 503:
        return Found("llama_cpp", state="loading its model")
    return None


def _vllm(asked: _Asked) -> Found | None:
    version = (asked.object("/version") or {}).get("version")
    listed = asked.listed("/v1/models", "data") if isinstance(version, str) else None
    if not listed or not any(one.get("owned_by") == "vllm" for one in listed):
        return None
    return Found("vllm", _plain_models(listed), str(version))


def _other(asked: _Asked) -> Found | None:
    listed = asked.listed("/v1/models", "data")
    models = _plain_models(listed or ())
    return Found("local", models) if models else None


def _plain_models(listed: Sequence[Mapping[str, Any]]) -> tuple[ServedModel, ...]:
    return tuple(
        ServedModel(id=str(one["id"]), context=(size := _number(one.get("max_model_len"))), context_max=size)
        for one in listed
        if one.get("id") and not _only_embeds(str(one["id"]), None)
    )


def _only_embeds(name: str, capabilities: Any) -> bool:
    if isinstance(capabilities, list) and capabilities:
        return "embedding" in capabilities and "completion" not in capabilities
    return re.search(r"embed|rerank", name, re.IGNORECASE) is not None


def _number(value: Any) -> int:
    try:
        found = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return found if 0 < found < 1 << 40 else 0


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
