"""Pure. From a request to the body and headers of Anthropic's Messages API.

Three hosts speak it: Anthropic, Vertex AI and Bedrock. They differ in address, credentials and two body fields;
`encode_body` writes what they share.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

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
from lemon_ai.retry_helper import RetryPolicy
from lemon_ai.stream_options import StreamOptions, Tool
from lemon_ai.wire_text import clean, clean_json, safe_id

Json = dict[str, Any]

RETRY: Final = RetryPolicy(max_retries=2, base_ms=400)
VERSION: Final = "2023-06-01"
BETAS: Final = ("interleaved-thinking-2025-05-14", "fine-grained-tool-streaming-2025-05-14")
EMPTY_RESULT: Final = "(empty result)"
OPENING: Final = "(conversation continues)"
THINKING_BUDGETS: Final[Mapping[str, int]] = {
    "minimal": 1024,
    "low": 4096,
    "medium": 10_000,
    "high": 32_000,
    "xhigh": 64_000,
    "max": 64_000,
}
_ANSWER_ROOM: Final = 4096
_SMALLEST_BUDGET: Final = 1024
_JWT = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+")


def encode_body(request: ProviderRequest) -> Json:
    """The body without `model` and `stream`, which not every host wants.

    Raises:
        BadRequest: No message was left to send.
    """
    model, options = request.model, request.options
    body: Json = {"max_tokens": options.max_tokens or max(model.max_tokens // 3, 1)}
    mark = cache_mark(model, options)
    messages = encode_messages(hand_over(request.context.messages, model, normalise_id=_call_id), mark)
    if not messages:
        raise BadRequest(provider=model.provider, message=NOTHING_LEFT)
    body["messages"] = messages
    system = clean(request.context.system_prompt)
    if system.strip():
        body["system"] = [_marked({"type": "text", "text": system}, mark)]
    if request.context.tools and options.tool_choice != "none":
        body["tools"] = [encode_tool(tool) for tool in request.context.tools]
        if options.tool_choice:
            body["tool_choice"] = encode_tool_choice(options.tool_choice)
    body |= _thinking(model, options, body["max_tokens"])
    if options.temperature is not None and "thinking" not in body:
        body["temperature"] = options.temperature
    user_id = options.metadata.get("user_id")
    if isinstance(user_id, str):
        body["metadata"] = {"user_id": clean(user_id)}
    return body


def auth_headers(api_key: str) -> dict[str, str]:
    """The credential's own header: OAuth tokens are bearers, everything else is an API key."""
    if api_key.startswith("sk-ant-oat") or _JWT.fullmatch(api_key):
        return {"authorization": f"Bearer {api_key}", "anthropic-beta": ",".join(("oauth-2025-04-20", *BETAS))}
    return {"x-api-key": api_key, "anthropic-beta": ",".join(BETAS)}


def encode_tool(tool: Tool) -> Json:
    """A tool as Anthropic wants it; keywords of the schema beyond properties are kept."""
    schema = {"type": "object", "properties": {}} | clean_json(dict(tool.parameters or {}))
    return {"name": clean(tool.name), "description": clean(tool.description), "input_schema": schema}


def encode_tool_choice(choice: str) -> Json:
    """`auto`, `any`, or the name of the one tool to call."""
    if choice in ("auto", "any"):
        return {"type": choice}
    return {"type": "tool", "name": clean(choice)}


def cache_mark(model: Model, options: StreamOptions) -> Json | None:
    """What marks the end of a prefix worth caching; None when nothing is to be marked."""
    if options.cache_retention == "none":
        return None
    if options.cache_retention == "long" and (not model.base_url or "api.anthropic.com" in model.base_url):
        return {"type": "ephemeral", "ttl": "1h"}
    return {"type": "ephemeral"}


def encode_messages(messages: Sequence[Message], mark: Json | None) -> list[Json]:
    """Alternating turns that begin with the user; tool results are merged into one turn, the last one is marked."""
    turns: list[Json] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        content = _content(message)
        if not content:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] = _blocks(turns[-1]["content"]) + _blocks(content)
        else:
            turns.append({"role": role, "content": content})
    if turns and turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": OPENING})
    if mark is not None and turns and turns[-1]["role"] == "user":
        blocks = _blocks(turns[-1]["content"])
        turns[-1]["content"] = [*blocks[:-1], _marked(blocks[-1], mark)]
    return turns


def _call_id(call_id: str, message: AssistantMessage) -> str:
    return safe_id(call_id)


def _content(message: Message) -> str | list[Json]:
    if isinstance(message, AssistantMessage):
        return [encoded for block in message.content if (encoded := _assistant_block(block)) is not None]
    if isinstance(message, ToolResultMessage):
        return [_tool_result(message)]
    return _user_content(message)


def _user_content(message: UserMessage) -> str | list[Json]:
    if isinstance(message.content, str):
        text = clean(message.content)
        return text if text.strip() else []
    return list(_parts(message.content))


def _parts(content: Iterable[TextContent | ImageContent]) -> Iterable[Json]:
    for block in content:
        if isinstance(block, ImageContent):
            yield {"type": "image", "source": {"type": "base64", "media_type": block.mime_type, "data": block.data}}
        elif block.text.strip():
            yield {"type": "text", "text": clean(block.text)}


def _assistant_block(block: TextContent | ThinkingContent | ToolCall) -> Json | None:
    if isinstance(block, ToolCall):
        return {
            "type": "tool_use",
            "id": block.id,
            "name": clean(block.name),
            "input": clean_json(dict(block.arguments)),
        }
    if isinstance(block, TextContent):
        return {"type": "text", "text": clean(block.text)} if block.text.strip() else None
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.thinking_signature} if block.thinking_signature else None
    if block.thinking_signature:
        return {"type": "thinking", "thinking": clean(block.thinking), "signature": block.thinking_signature}
    return {"type": "text", "text": clean(block.thinking)} if block.thinking.strip() else None


def _tool_result(message: ToolResultMessage) -> Json:
    content: str | list[Json]
    if any(isinstance(block, ImageContent) for block in message.content):
        content = list(_parts(message.content))
    else:
        text = "\n".join(clean(block.text) for block in message.content if isinstance(block, TextContent))
        content = text if text.strip() else EMPTY_RESULT
    return {
        "type": "tool_result",
        "tool_use_id": message.tool_call_id,
        "content": content,
        "is_error": message.is_error,
    }


def _blocks(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _marked(block: Json, mark: Json | None) -> Json:
    return block if mark is None else block | {"cache_control": mark}


def _thinking(model: Model, options: StreamOptions, max_tokens: int) -> Json:
    """Fields that ask for thinking; `max_tokens` again when the budget needs more room."""
    level = options.reasoning
    if not model.reasoning or not level:
        return {}
    if model.adaptive_thinking:
        effort = model.effort(level)
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low" if effort == "minimal" else effort}}
    budget = options.thinking_budgets.get(level)
    if not isinstance(budget, int):
        budget = THINKING_BUDGETS.get(level, 10_000)
    ceiling = model.max_tokens or budget + _ANSWER_ROOM
    limit = min(max(max_tokens, budget + _ANSWER_ROOM), ceiling)
    budget = min(budget, max(limit - _SMALLEST_BUDGET, _SMALLEST_BUDGET))
    return {"max_tokens": max(limit, budget + 1), "thinking": {"type": "enabled", "budget_tokens": budget}}
