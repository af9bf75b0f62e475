"""Pure. From a request to the body and headers of OpenAI's Chat Completions, in the dialect of the server asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, Final

from lemon_ai.environment import canonical
from lemon_ai.errors import BadRequest
from lemon_ai.handoff import NOTHING_LEFT, hand_over
from lemon_ai.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from lemon_ai.models.model import Model
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.openai_compat import Dialect
from lemon_ai.stream_options import StreamOptions, Tool
from lemon_ai.wire_text import clean, clean_json, compact_json, safe_id

Json = dict[str, Any]

ATTACHED: Final = "(see attached image)"
ATTACHED_FROM_TOOL: Final = "Attached image(s) from tool result:"
ACKNOWLEDGED: Final = "I have processed the tool results."
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_text")
_ALPHANUMERIC: Final = re.compile(r"[A-Za-z0-9]{9}")


def encode_body(request: ProviderRequest, dialect: Dialect, base_url: str = "") -> Json:
    """The JSON document to post.

    Raises:
        BadRequest: No message was left to send.
    """
    model, options, context = request.model, request.options, request.context
    history = hand_over(context.messages, model, normalise_id=id_normaliser(model, dialect))
    messages = encode_messages(history, context.system_prompt, model, dialect)
    if not any(message["role"] not in ("system", "developer") for message in messages):
        raise BadRequest(provider=model.provider, message=NOTHING_LEFT)
    body: Json = {"model": model.id, "messages": messages, "stream": True}
    if dialect.supports_usage_in_streaming:
        body["stream_options"] = {"include_usage": True}
    if dialect.supports_store:
        body["store"] = False
    if options.max_tokens:
        body[dialect.max_tokens_field] = options.max_tokens
    if options.temperature is not None:
        body["temperature"] = options.temperature
    body |= _tools(context.tools, history, options, dialect)
    body |= _thinking(model, options, dialect)
    body |= _routing(dialect, base_url or model.base_url)
    if "openrouter.ai" in (base_url or model.base_url) and model.id.startswith("anthropic/"):
        _mark_for_cache(messages)
    return body


def encode_messages(
    history: Sequence[Message], system_prompt: str | None, model: Model, dialect: Dialect
) -> list[Json]:
    """The conversation, the system prompt first; images that tools returned follow the last of their results."""
    out: list[Json] = []
    system = clean(system_prompt)
    if system.strip():
        role = "developer" if model.reasoning and dialect.supports_developer_role else "system"
        out.append({"role": role, "content": system})
    images: list[Json] = []
    for message in history:
        if not isinstance(message, ToolResultMessage):
            _show_images(out, images, dialect)
        match message:
            case UserMessage():
                content = _user_content(message)
                if content:
                    _acknowledge(out, dialect)
                    out.append({"role": "user", "content": content})
            case AssistantMessage():
                encoded = _assistant(message, dialect)
                if encoded is not None:
                    out.append(encoded)
            case ToolResultMessage():
                out.append(_tool_result(message, dialect))
                images += [_image(block) for block in message.content if isinstance(block, ImageContent)]
    _show_images(out, images, dialect)
    return out


def encode_tool(tool: Tool, *, strict: bool) -> Json:
    """A tool's definition; `strict` says that the server knows the keyword."""
    function: Json = {
        "name": clean(tool.name),
        "description": clean(tool.description),
        "parameters": clean_json(dict(tool.parameters)),
    }
    if strict:
        function["strict"] = False
    return {"type": "function", "function": function}


def copilot_headers(request: ProviderRequest) -> dict[str, str]:
    """What GitHub's service wants to know of a request: who began it, and whether it holds a picture."""
    messages = request.context.messages
    by_user = not messages or messages[-1].role == "user"
    headers = {
        "x-initiator": "user" if by_user else "agent",
        "openai-intent": "conversation-edits",
    }
    contents = [message.content for message in messages if isinstance(message, UserMessage | ToolResultMessage)]
    if any(
        isinstance(block, ImageContent) for content in contents if not isinstance(content, str) for block in content
    ):
        headers["copilot-vision-request"] = "true"
    return headers


def id_normaliser(model: Model, dialect: Dialect) -> Callable[[str, AssistantMessage], str]:
    """The rule for tool-call ids that another model made."""
    provider = canonical(model.provider)
    if dialect.requires_mistral_tool_ids:
        return lambda call_id, message: _nine_characters(call_id)
    if provider == "github_copilot" and "claude" in model.id:
        return lambda call_id, message: safe_id(call_id, 64)

    def normalise(call_id: str, message: AssistantMessage) -> str:
        if "|" in call_id:
            return safe_id(call_id.partition("|")[0], 40)
        return clean(call_id)[:40] if provider == "openai" else clean(call_id)

    return normalise


def _nine_characters(call_id: str) -> str:
    if _ALPHANUMERIC.fullmatch(call_id):
        return call_id
    return sha256(clean(call_id).encode()).hexdigest()[:9]


def _tools(tools: Sequence[Tool], history: Iterable[Message], options: StreamOptions, dialect: Dialect) -> Json:
    if not tools:
        used = any(
            isinstance(message, ToolResultMessage)
            or (isinstance(message, AssistantMessage) and any(isinstance(b, ToolCall) for b in message.content))
            for message in history
        )
        return {"tools": []} if used else {}
    body: Json = {"tools": [encode_tool(tool, strict=dialect.supports_strict_mode) for tool in tools]}
    choice = options.tool_choice
    if choice:
        named = {"type": "function", "function": {"name": clean(choice)}}
        body["tool_choice"] = {"auto": "auto", "none": "none", "any": "required"}.get(choice, named)
    return body


def _thinking(model: Model, options: StreamOptions, dialect: Dialect) -> Json:
    wanted = options.reasoning
    if dialect.thinking_format == "zai" and wanted is not None:
        return {"thinking": {"type": "disabled" if wanted is False else "enabled"}}
    if dialect.thinking_format == "qwen" and wanted is not None and model.reasoning:
        return {"enable_thinking": wanted is not False}
    if dialect.thinking_format == "qwen-chat-template" and wanted is not None and model.reasoning:
        return {"chat_template_kwargs": {"enable_thinking": wanted is not False}}
    if not dialect.supports_reasoning_effort:
        return {}
    effort = model.effort(wanted)
    if effort is None:
        return {}
    mapped = dialect.reasoning_effort_map or {}
    return {"reasoning_effort": mapped.get(str(wanted), effort)}


def _routing(dialect: Dialect, base_url: str) -> Json:
    if "openrouter.ai" in base_url and dialect.open_router_routing:
        return {"provider": clean_json(dict(dialect.open_router_routing))}
    if "ai-gateway.vercel.sh" in base_url and dialect.vercel_gateway_routing:
        kept = {key: dialect.vercel_gateway_routing.get(key) for key in ("only", "order")}
        return {"providerOptions": {"gateway": {key: value for key, value in kept.items() if value}}}
    return {}


def _user_content(message: UserMessage) -> str | list[Json]:
    if isinstance(message.content, str):
        return clean(message.content)
    parts: list[Json] = []
    for block in message.content:
        if isinstance(block, ImageContent):
            parts.append(_image(block))
        elif block.text:
            parts.append({"type": "text", "text": clean(block.text)})
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _image(block: ImageContent) -> Json:
    return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}


def _assistant(message: AssistantMessage, dialect: Dialect) -> Json | None:
    texts = [clean(b.text) for b in message.content if isinstance(b, TextContent) and b.text.strip()]
    thinking = [b for b in message.content if isinstance(b, ThinkingContent)]
    calls = [b for b in message.content if isinstance(b, ToolCall)]
    encoded: Json = {"role": "assistant"}
    if dialect.requires_thinking_as_text and (aloud := [clean(b.thinking) for b in thinking if b.thinking.strip()]):
        texts.insert(0, "\n\n".join(aloud))
    elif thinking:
        encoded |= _replayed_thinking(thinking)
    empty = "" if dialect.requires_assistant_after_tool_result else None
    encoded["content"] = _assistant_text(texts, dialect) if texts else empty
    if calls:
        encoded["tool_calls"] = [_call(call) for call in calls]
        details = [detail for call in calls if (detail := _as_object(call.thought_signature)) is not None]
        if details:
            encoded["reasoning_details"] = [*encoded.get("reasoning_details", []), *details]
    return encoded if texts or calls else None


def _assistant_text(texts: list[str], dialect: Dialect) -> str | list[Json]:
    if dialect.requires_string_content or len(texts) == 1:
        return "".join(texts)
    return [{"type": "text", "text": text} for text in texts]


def _replayed_thinking(thinking: Sequence[ThinkingContent]) -> Json:
    """Thinking goes back in the field it came in, which its signature names; a list of details goes back as it was."""
    signature = thinking[0].thinking_signature or ""
    if signature in _REASONING_FIELDS:
        return {signature: "\n".join(clean(block.thinking) for block in thinking)}
    if signature.startswith("["):
        try:
            return {"reasoning_details": clean_json(json.loads(signature))}
        except ValueError:
            return {}
    return {}


def _call(call: ToolCall) -> Json:
    arguments = compact_json(dict(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": clean(call.name), "arguments": arguments}}


def _as_object(signature: str | None) -> Json | None:
    try:
        value = json.loads(signature or "")
    except ValueError:
        return None
    return clean_json(value) if isinstance(value, dict) else None


def _tool_result(message: ToolResultMessage, dialect: Dialect) -> Json:
    text = "\n".join(clean(block.text) for block in message.content if isinstance(block, TextContent))
    if not text and any(isinstance(block, ImageContent) for block in message.content):
        text = ATTACHED
    encoded: Json = {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}
    if dialect.requires_tool_result_name:
        encoded["name"] = clean(message.tool_name)
    return encoded


def _show_images(out: list[Json], images: list[Json], dialect: Dialect) -> None:
    if images:
        _acknowledge(out, dialect)
        out.append({"role": "user", "content": [{"type": "text", "text": ATTACHED_FROM_TOOL}, *images]})
        images.clear()


def _acknowledge(out: list[Json], dialect: Dialect) -> None:
    if dialect.requires_assistant_after_tool_result and out and out[-1]["role"] == "tool":
        out.append({"role": "assistant", "content": ACKNOWLEDGED})


def _mark_for_cache(messages: list[Json]) -> None:
    for message in reversed(messages):
        if message["role"] not in ("user", "assistant") or not message["content"]:
            continue
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for part in reversed(parts):
            if part["type"] == "text":
                part["cache_control"] = {"type": "ephemeral"}
                message["content"] = parts
                return
