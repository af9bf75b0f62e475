"""Pure. From a request to the body of Ollama's native chat API."""

from collections.abc import Iterator, Mapping, Sequence
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
from lemon_ai.stream_options import StreamOptions, Tool
from lemon_ai.wire_text import clean, clean_json, safe_id

Json = dict[str, Any]

EMPTY_RESULT: Final = "(empty result)"


def chat_url(base: str) -> str:
    """The address of the native chat under `base`, which may be that of the OpenAI-compatible one."""
    return f"{base.rstrip('/').removesuffix('/v1')}/api/chat"


def encode_body(request: ProviderRequest, settings: Mapping[str, Any]) -> Json:
    """The body of one streaming call; `settings` may bring `options` (such as num_ctx) and `keep_alive`.

    Raises:
        BadRequest: No message was left to send.
    """
    model, options = request.model, request.options
    messages = encode_messages(hand_over(request.context.messages, model, normalise_id=_call_id))
    if not messages:
        raise BadRequest(provider=model.provider, message=NOTHING_LEFT)
    system = clean(request.context.system_prompt)
    if system.strip():
        messages.insert(0, {"role": "system", "content": system})
    body: Json = {"model": model.id, "messages": messages, "stream": True}
    if request.context.tools and options.tool_choice != "none":
        body["tools"] = [encode_tool(tool) for tool in request.context.tools]
    body |= _thinking(model, options)
    runtime: Json = dict(settings.get("options") or {})
    if options.temperature is not None:
        runtime["temperature"] = options.temperature
    if options.max_tokens:
        runtime["num_predict"] = options.max_tokens
    if runtime:
        body["options"] = runtime
    if settings.get("keep_alive") is not None:
        body["keep_alive"] = settings["keep_alive"]
    return body


def _thinking(model: Model, options: StreamOptions) -> Json:
    """Whether, or how hard, to think. A model that lists efforts takes their words, others yes or no."""
    if not model.reasoning:
        return {}
    if not options.reasoning:
        return {"think": False}
    effort = model.effort(options.reasoning) if model.reasoning_efforts is not None else None
    return {"think": effort or True}


def encode_tool(tool: Tool) -> Json:
    function = {
        "name": clean(tool.name),
        "description": clean(tool.description),
        "parameters": clean_json(dict(tool.parameters)),
    }
    return {"type": "function", "function": function}


def _call_id(call_id: str, message: AssistantMessage) -> str:
    return safe_id(call_id)


def encode_messages(messages: Sequence[Message]) -> list[Json]:
    """One wire message for each of ours, but none for an answer that said nothing."""
    return [encoded for message in messages for encoded in _encoded(message)]


def _encoded(message: Message) -> Iterator[Json]:
    text, images = _text_and_images(message)
    match message:
        case UserMessage():
            if text or images:
                yield {"role": "user", "content": text} | ({"images": images} if images else {})
        case ToolResultMessage():
            content = text or ("(see attached image)" if images else EMPTY_RESULT)
            result = {"role": "tool", "content": f"[tool error] {content}" if message.is_error else content}
            result |= {"tool_name": clean(message.tool_name), "tool_call_id": message.tool_call_id}
            yield result | ({"images": images} if images else {})
        case AssistantMessage():
            yield from _assistant(message, text)


def _text_and_images(message: Message) -> tuple[str, list[str]]:
    if isinstance(message.content, str):
        return clean(message.content), []
    texts = [clean(block.text) for block in message.content if isinstance(block, TextContent) and block.text]
    images = [block.data for block in message.content if isinstance(block, ImageContent)]
    return "\n".join(texts), images


def _assistant(message: AssistantMessage, text: str) -> Iterator[Json]:
    answer: Json = {"role": "assistant", "content": text}
    thinking = "\n\n".join(
        clean(block.thinking)
        for block in message.content
        if isinstance(block, ThinkingContent) and block.thinking.strip()
    )
    if thinking:
        answer["thinking"] = thinking
    calls = [_call(block) for block in message.content if isinstance(block, ToolCall)]
    if calls:
        answer["tool_calls"] = calls
    if text.strip() or len(answer) > 2:
        yield answer


def _call(call: ToolCall) -> Json:
    return {"id": call.id, "function": {"name": clean(call.name), "arguments": clean_json(dict(call.arguments))}}
