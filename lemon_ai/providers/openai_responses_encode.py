"""Pure. From a request to the body of OpenAI's Responses API, and of the services that copied it."""

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from lemon_ai.errors import BadRequest
from lemon_ai.handoff import NOTHING_LEFT, hand_over, same_model
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
from lemon_ai.wire_text import clean, clean_json, compact_json, safe_id, short_hash

Json = dict[str, Any]

SEE_IMAGE: Final = "(see attached image)"
ATTACHED_IMAGES: Final = "Attached image(s) from tool result:"
CALL_ID_LIMIT: Final = 64
_OUTPUT_CEILING: Final = 10_485_760
_OUTPUT_FLOOR: Final = 8_192
_OUTPUT_USUAL: Final = 65_536
_VERSION_SEGMENT = re.compile(r"/v\d+[a-z]*$")

log = logging.getLogger(__name__)


def responses_url(base: str) -> str:
    """The address of `/responses` under `base`, with the version that `base` may leave out."""
    base = base.rstrip("/")
    return f"{base}/responses" if _VERSION_SEGMENT.search(base) else f"{base}/v1/responses"


def encode_body(request: ProviderRequest, settings: Mapping[str, Any]) -> Json:
    """The body of one streaming call; `settings` are the provider's own options.

    Raises:
        BadRequest: No message was left to send.
    """
    model, options = request.model, request.options
    items = encode_history(request)
    system = clean(request.context.system_prompt)
    if system.strip():
        items.insert(0, {"role": "developer" if model.reasoning else "system", "content": system})
    body: Json = {"model": model.id, "input": items, "stream": True, "store": False}
    body |= caching(model, options)
    if options.max_tokens:
        body["max_output_tokens"] = options.max_tokens
    if options.temperature is not None:
        body["temperature"] = options.temperature
    tier = settings.get("service_tier") or options.thinking_budgets.get("service_tier")
    if tier:
        body["service_tier"] = tier
    verbosity = settings.get("text_verbosity") or options.thinking_budgets.get("text_verbosity")
    if verbosity:
        body["text"] = {"verbosity": verbosity}
    if request.context.tools:
        body["tools"] = [encode_tool(tool) | {"strict": False} for tool in request.context.tools]
        body["tool_choice"] = encode_tool_choice(options.tool_choice)
        body["parallel_tool_calls"] = True
    return body | reasoning(model, options)


def encode_history(request: ProviderRequest) -> list[Json]:
    """The conversation as input items.

    Raises:
        BadRequest: No message was left to send.
    """
    model = request.model
    history = hand_over(request.context.messages, model, normalise_id=normalise_call_id, id_limit=CALL_ID_LIMIT)
    items = encode_messages(history, model)
    if not items:
        raise BadRequest(provider=model.provider, message=NOTHING_LEFT)
    return items


def caching(model: Model, options: StreamOptions) -> Json:
    """Fields that let the provider reuse the prompt of the same session."""
    if options.cache_retention == "none" or not options.session_id:
        return {}
    fields: Json = {"prompt_cache_key": clean(options.session_id)[:64]}
    if options.cache_retention == "long" and (not model.base_url or "api.openai.com" in model.base_url):
        fields["prompt_cache_retention"] = "24h"
    return fields


def reasoning(model: Model, options: StreamOptions, *, default: str | None = None) -> Json:
    """Fields that ask for reasoning, or for none where the catalogue knows a word for that."""
    level = options.reasoning or (default if options.reasoning is None else None)
    effort = model.effort(level)
    if effort is None:
        off = (model.reasoning_efforts or {}).get("none")
        return {"reasoning": {"effort": off}} if off and model.reasoning else {}
    summary = options.thinking_budgets.get("summary") or "auto"
    return {"reasoning": {"effort": effort, "summary": summary}, "include": ["reasoning.encrypted_content"]}


def encode_tool(tool: Tool) -> Json:
    return {
        "type": "function",
        "name": clean(tool.name),
        "description": clean(tool.description),
        "parameters": clean_json(dict(tool.parameters)),
    }


def encode_tool_choice(choice: str | None) -> str | Json:
    """`auto`, `none`, `required`, or the one function to call."""
    match choice:
        case None | "auto":
            return "auto"
        case "none":
            return "none"
        case "any":
            return "required"
        case name:
            return {"type": "function", "name": clean(name)}


def normalise_call_id(call_id: str, message: AssistantMessage) -> str:
    """A foreign id within this wire's limits; what stands before `|` is the call, what follows its item."""
    call, bar, item = call_id.partition("|")
    call = safe_id(call, CALL_ID_LIMIT).rstrip("_") or f"call_{short_hash(call_id)}"
    if not bar:
        return call
    item = safe_id(item, CALL_ID_LIMIT).rstrip("_") if item else ""
    if not item.startswith("fc_"):
        item = f"fc_{item}"[:CALL_ID_LIMIT] if item else f"fc_{short_hash(call_id)}"
    return f"{call}|{item}"


def encode_messages(messages: Sequence[Message], model: Model) -> list[Json]:
    """Input items; the images of consecutive tool results follow them in one user item."""
    items: list[Json] = []
    images: list[ImageContent] = []
    for message in messages:
        if not isinstance(message, ToolResultMessage) and images:
            items.append(_image_item(images))
            images = []
        match message:
            case UserMessage():
                items.extend(_user_item(message))
            case AssistantMessage():
                items.extend(_assistant_items(message, model, len(items)))
            case ToolResultMessage():
                items.append(_result_item(message, model))
                images.extend(block for block in message.content if isinstance(block, ImageContent))
    if images:
        items.append(_image_item(images))
    return items


def _user_item(message: UserMessage) -> Iterator[Json]:
    if isinstance(message.content, str):
        parts: list[Json] = [{"type": "input_text", "text": clean(message.content)}] if message.content else []
    else:
        parts = list(_input_parts(message.content))
    if parts:
        yield {"role": "user", "content": parts}


def _input_parts(content: Iterable[TextContent | ImageContent]) -> Iterator[Json]:
    for block in content:
        if isinstance(block, ImageContent):
            yield _image_part(block)
        elif block.text:
            yield {"type": "input_text", "text": clean(block.text)}


def _image_part(image: ImageContent) -> Json:
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{image.mime_type};base64,{image.data}"}


def _image_item(images: Iterable[ImageContent]) -> Json:
    intro = {"type": "input_text", "text": ATTACHED_IMAGES}
    return {"role": "user", "content": [intro, *map(_image_part, images)]}


def _assistant_items(message: AssistantMessage, model: Model, position: int) -> list[Json]:
    """Items of one answer; reasoning with nothing after it is left out, the service refuses it alone.

    A call names its item only if the reasoning before it goes back as well: the service checks that they are a pair.
    """
    reasoning = [item for block in message.content if isinstance(block, ThinkingContent) for item in _reasoning(block)]
    thoughts = sum(isinstance(block, ThinkingContent) for block in message.content)
    ours = same_model(message, model) and len(reasoning) == thoughts
    items: list[Json] = []
    for block in message.content:
        match block:
            case ThinkingContent():
                items.extend(_reasoning(block))
            case TextContent() if block.text.strip():
                items.append(_text_item(block, position + len(items)))
            case ToolCall():
                items.append(_call_item(block, with_item_id=ours))
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _reasoning(block: ThinkingContent) -> Iterator[Json]:
    """The item as the service wrote it: the signature is that item, as JSON. An empty one cannot be looked up again."""
    try:
        item = json.loads(block.thinking_signature or "")
    except ValueError:
        return
    whole = isinstance(item, dict) and item.get("type") == "reasoning"
    if whole and (item.get("encrypted_content") or item.get("content")):
        yield clean_json(item)


def _text_item(block: TextContent, position: int) -> Json:
    item_id, phase = read_text_signature(block.text_signature)
    if item_id is None:
        item_id = f"msg_{position}"
    elif len(item_id) > CALL_ID_LIMIT:
        item_id = f"msg_{short_hash(item_id)}"
    item: Json = {
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "id": item_id,
        "content": [{"type": "output_text", "text": clean(block.text), "annotations": []}],
    }
    return item | {"phase": phase} if phase else item


def write_text_signature(item_id: str | None, phase: str | None) -> str | None:
    """What a text block keeps of its item: the bare id, or both facts as JSON when there is a phase."""
    if item_id and phase:
        return compact_json({"v": 1, "id": item_id, "phase": phase})
    return item_id or None


def read_text_signature(signature: str | None) -> tuple[str | None, str | None]:
    """The item id and the phase of a text block, from either form of its signature."""
    if not signature:
        return None, None
    if signature.startswith("{"):
        try:
            stored = json.loads(signature)
        except ValueError:
            return signature, None
        return stored.get("id") or None, stored.get("phase")
    return signature, None


def _call_item(call: ToolCall, *, with_item_id: bool) -> Json:
    call_id, _, item_id = call.id.partition("|")
    item: Json = {
        "type": "function_call",
        "call_id": call_id,
        "name": clean(call.name),
        "arguments": compact_json(dict(call.arguments)),
    }
    return item | {"id": item_id} if item_id and with_item_id else item


def _result_item(message: ToolResultMessage, model: Model) -> Json:
    text = "\n".join(clean(block.text) for block in message.content if isinstance(block, TextContent))
    if not text and any(isinstance(block, ImageContent) for block in message.content):
        text = SEE_IMAGE
    call_id = message.tool_call_id.partition("|")[0]
    return {"type": "function_call_output", "call_id": call_id, "output": clamp_output(text, model)}


def clamp_output(text: str, model: Model) -> str:
    """`text` cut on a character boundary to what one tool result may weigh: a tenth of the window."""
    share = int(model.context_window * 4 * 0.10)
    limit = min(_OUTPUT_CEILING, max(_OUTPUT_FLOOR, min(share, _OUTPUT_USUAL)) if share else _OUTPUT_USUAL)
    if len(text) * 4 <= limit:
        return text
    raw = text.encode()
    if len(raw) <= limit:
        return text
    log.warning("a tool result of %d bytes was cut to %d for %s", len(raw), limit, model.id)
    return raw[:limit].decode("utf-8", "ignore")
