"""Pure. From a request to the body and the path of Bedrock's Converse API."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

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
from lemon_ai.stream_options import StreamOptions, Tool
from lemon_ai.wire_text import clean, clean_json, safe_id

Json = dict[str, Any]

DEFAULT_REGION: Final = "us-east-1"
OPENING: Final = "(conversation continues)"
EMPTY_RESULT: Final = "(empty result)"
INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
IMAGE_FORMATS: Final[Mapping[str, str]] = {
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/png": "png",
    "image/gif": "gif",
    "image/webp": "webp",
}
THINKING_BUDGETS: Final[Mapping[str, int]] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 16_384,
    "max": 16_384,
}
CACHE_POINT: Final[Json] = {"cachePoint": {"type": "default"}}
_ANSWER_ROOM: Final = 1024


def model_path(model_id: str, operation: str) -> str:
    """The path of an operation; the id is one segment, so even its colons and slashes are escaped."""
    return f"/model/{quote(model_id, safe='')}/{operation}"


def encode_body(request: ProviderRequest, settings: Mapping[str, Any]) -> Json:
    """The body of one call; `settings` are the provider's own options.

    Raises:
        BadRequest: No message was left to send, or an image is of a kind Bedrock does not take.
    """
    model, options = request.model, request.options
    caches = caches_prompts(model, options)
    messages = encode_messages(hand_over(request.context.messages, model, normalise_id=_call_id), model, caches=caches)
    if not messages:
        raise BadRequest(provider=model.provider, message=NOTHING_LEFT)
    body: Json = {"messages": messages}
    system = clean(request.context.system_prompt)
    if system.strip():
        body["system"] = [{"text": system}, CACHE_POINT] if caches else [{"text": system}]
    thinking = _thinking(model, options)
    inference: Json = {}
    if options.max_tokens or thinking.get("maxTokens"):
        inference["maxTokens"] = max(options.max_tokens or 0, thinking.get("maxTokens", 0))
    if options.temperature is not None and not thinking:
        inference["temperature"] = options.temperature
    if inference:
        body["inferenceConfig"] = inference
    tools = encode_tools(request.context.tools, options.tool_choice, messages)
    if tools:
        body["toolConfig"] = tools
    extra = dict(thinking.get("fields", {})) | dict(settings.get("additional_model_request_fields") or {})
    if extra:
        body["additionalModelRequestFields"] = extra
    return body


def encode_tools(tools: Sequence[Tool], choice: str | None, messages: Sequence[Json]) -> Json:
    """The tool configuration. A history with calls needs one even when no tool is offered any more."""
    offered = [] if choice == "none" else [encode_tool(tool) for tool in tools]
    if not offered:
        names = {block["toolUse"]["name"] for turn in messages for block in turn["content"] if "toolUse" in block}
        known = {tool.name: tool for tool in tools}
        return {"tools": [encode_tool(known.get(name, Tool(name))) for name in sorted(names)]} if names else {}
    config: Json = {"tools": offered}
    if choice in ("auto", "any"):
        config["toolChoice"] = {choice: {}}
    elif choice:
        config["toolChoice"] = {"tool": {"name": clean(choice)}}
    return config


def encode_tool(tool: Tool) -> Json:
    schema = {"type": "object", "properties": {}} | clean_json(dict(tool.parameters))
    spec: Json = {"name": clean(tool.name), "inputSchema": {"json": schema}}
    if tool.description.strip():
        spec["description"] = clean(tool.description)
    return {"toolSpec": spec}


def caches_prompts(model: Model, options: StreamOptions) -> bool:
    """Whether to mark what may be cached: the models that charge for cache writes are those that can."""
    return options.cache_retention != "none" and model.cost.cache_write > 0


def _call_id(call_id: str, message: AssistantMessage) -> str:
    return safe_id(call_id)


def encode_messages(messages: Sequence[Message], model: Model, *, caches: bool) -> list[Json]:
    """Alternating turns that begin with the user; tool results are merged into one turn."""
    turns: list[Json] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        content = list(_content(message, model))
        if not content:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(content)
        else:
            turns.append({"role": role, "content": content})
    if turns and turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"text": OPENING}]})
    if caches and turns and turns[-1]["role"] == "user":
        turns[-1]["content"].append(CACHE_POINT)
    return turns


def _content(message: Message, model: Model) -> Iterable[Json]:
    match message:
        case AssistantMessage():
            return (encoded for block in message.content if (encoded := _assistant_block(block)) is not None)
        case ToolResultMessage():
            return [_tool_result(message, model)]
        case UserMessage(content=str(text)):
            return [{"text": clean(text)}] if text.strip() else []
        case _:
            return _parts(message.content, model)


def _parts(content: Iterable[Any], model: Model) -> Iterator[Json]:
    for block in content:
        if isinstance(block, ImageContent):
            yield _image(block, model)
        elif isinstance(block, TextContent) and block.text.strip():
            yield {"text": clean(block.text)}


def _image(block: ImageContent, model: Model) -> Json:
    kind = IMAGE_FORMATS.get(block.mime_type.lower())
    if kind is None:
        raise BadRequest(provider=model.provider, message=f"Bedrock takes no images of type {block.mime_type}.")
    return {"image": {"format": kind, "source": {"bytes": block.data}}}


def _assistant_block(block: TextContent | ThinkingContent | ToolCall) -> Json | None:
    match block:
        case ToolCall():
            arguments = clean_json(dict(block.arguments))
            return {"toolUse": {"toolUseId": block.id, "name": clean(block.name), "input": arguments}}
        case TextContent():
            return {"text": clean(block.text)} if block.text.strip() else None
        case ThinkingContent(redacted=True):
            signature = block.thinking_signature
            return {"reasoningContent": {"redactedContent": signature}} if signature else None
        case ThinkingContent(thinking_signature=str(signature)) if signature:
            text = {"text": clean(block.thinking), "signature": signature}
            return {"reasoningContent": {"reasoningText": text}}
        case _:
            return {"text": clean(block.thinking)} if block.thinking.strip() else None


def _tool_result(message: ToolResultMessage, model: Model) -> Json:
    return {
        "toolResult": {
            "toolUseId": message.tool_call_id,
            "content": list(_parts(message.content, model)) or [{"text": EMPTY_RESULT}],
            "status": "error" if message.is_error else "success",
        }
    }


def _thinking(model: Model, options: StreamOptions) -> Json:
    """What to ask for thinking with: `fields` of the request and the `maxTokens` it needs; empty when off."""
    level = options.reasoning
    if not model.reasoning or not level:
        return {}
    if model.adaptive_thinking:
        effort = model.effort(level)
        fields = {
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "low" if effort == "minimal" else effort},
        }
        return {"fields": fields}
    if model.reasoning_efforts is not None:
        return {"fields": {"reasoning_effort": model.effort(level)}}
    budget = options.thinking_budgets.get(level)
    if not isinstance(budget, int):
        budget = THINKING_BUDGETS.get(level, 8192)
    ceiling = options.max_tokens or model.max_tokens or budget + _ANSWER_ROOM
    limit = min(max(ceiling, budget + _ANSWER_ROOM), model.max_tokens or budget + _ANSWER_ROOM)
    budget = min(budget, max(limit - _ANSWER_ROOM, _ANSWER_ROOM))
    fields = {"thinking": {"type": "enabled", "budget_tokens": budget}, "anthropic_beta": [INTERLEAVED]}
    return {"fields": fields, "maxTokens": max(limit, budget + 1)}
