"""Pure. From a request to the body of Google's generateContent, the same on AI Studio, Vertex and Code Assist."""

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
from lemon_ai.wire_text import clean, clean_json, safe_id

Json = dict[str, Any]

OPENING: Final = "(conversation continues)"
RESULT_IMAGE: Final = "Tool result image:"
SEE_IMAGE: Final = "(see attached image)"
SKIP_SIGNATURE: Final = "skip_thought_signature_validator"
MODES: Final[Mapping[str, str]] = {"auto": "AUTO", "none": "NONE", "any": "ANY"}
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_LEVEL_WORDS: Final = frozenset({"MINIMAL", "LOW", "MEDIUM", "HIGH"})


def encode_body(request: ProviderRequest) -> Json:
    """The body of one call.

    Raises:
        BadRequest: No message was left to send.
    """
    model, options = request.model, request.options
    contents = encode_contents(hand_over(request.context.messages, model, normalise_id=_call_id), model)
    if not contents:
        raise BadRequest(provider=model.provider, message=NOTHING_LEFT)
    body: Json = {"contents": contents}
    system = clean(request.context.system_prompt)
    if system.strip():
        body["systemInstruction"] = {"parts": [{"text": system}]}
    if request.context.tools:
        body["tools"] = [{"functionDeclarations": [encode_tool(tool) for tool in request.context.tools]}]
        if options.tool_choice:
            body["toolConfig"] = {"functionCallingConfig": encode_tool_choice(options.tool_choice)}
    config = generation_config(model, options)
    return body | {"generationConfig": config} if config else body


def generation_config(model: Model, options: StreamOptions) -> Json:
    """Temperature, length and thinking; empty when nothing was asked."""
    config: Json = {}
    if options.temperature is not None:
        config["temperature"] = options.temperature
    if options.max_tokens:
        config["maxOutputTokens"] = options.max_tokens
    thinking = _thinking(model, options)
    if thinking:
        config["thinkingConfig"] = thinking
    return config


def _thinking(model: Model, options: StreamOptions) -> Json:
    """How much to think. A model whose efforts are words takes a level, one whose efforts are numbers a budget."""
    if not model.reasoning or not options.reasoning:
        return {}
    wanted: Any = options.thinking_budgets.get(options.reasoning)
    if wanted is None:
        wanted = options.thinking_budgets.get("level") or options.thinking_budgets.get("budget_tokens")
    if wanted is None:
        # Without words or numbers of its own a model decides how long to think: -1 asks for that.
        wanted = model.effort(options.reasoning) if model.reasoning_efforts is not None else -1
    if isinstance(wanted, str) and wanted.upper() in _LEVEL_WORDS:
        return {"includeThoughts": True, "thinkingLevel": wanted.upper()}
    try:
        return {"includeThoughts": True, "thinkingBudget": int(wanted)}
    except (TypeError, ValueError):
        return {"includeThoughts": True, "thinkingBudget": -1}


def encode_tool(tool: Tool) -> Json:
    """A function declaration; the schema goes as JSON Schema, without what this service refuses."""
    return {
        "name": clean(tool.name),
        "description": clean(tool.description),
        "parameters": strip_schema(clean_json(dict(tool.parameters))),
    }


def strip_schema(schema: Any) -> Any:
    """`schema` without `additionalProperties` at any depth; a property of that name stays."""
    if isinstance(schema, list):
        return [strip_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept: Json = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, dict):
            kept[key] = {name: strip_schema(item) for name, item in value.items()}
        elif key not in ("additionalProperties", "$schema"):
            kept[key] = strip_schema(value)
    return kept


def encode_tool_choice(choice: str) -> Json:
    """The calling mode; the name of a tool means that tool and no other."""
    if choice in MODES:
        return {"mode": MODES[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [clean(choice)]}


def _call_id(call_id: str, message: AssistantMessage) -> str:
    return safe_id(call_id)


def encode_contents(messages: Sequence[Message], model: Model) -> list[Json]:
    """Alternating turns that begin with the user; results of one turn's calls share one turn."""
    turns: list[Json] = []
    images: list[Json] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            _add(turns, "user", [_result_part(message, model)])
            if not _nests_images(model):
                images.extend(_images(message))
            continue
        if images:
            _add(turns, "user", [{"text": RESULT_IMAGE}, *images])
            images = []
        if isinstance(message, AssistantMessage):
            _add(turns, "model", list(_model_parts(message, model)))
        else:
            _add(turns, "user", list(_user_parts(message)))
    if images:
        _add(turns, "user", [{"text": RESULT_IMAGE}, *images])
    if turns and turns[0]["role"] == "model":
        turns.insert(0, {"role": "user", "parts": [{"text": OPENING}]})
    return turns


def _add(turns: list[Json], role: str, parts: list[Json]) -> None:
    if not parts:
        return
    if turns and turns[-1]["role"] == role:
        turns[-1]["parts"].extend(parts)
    else:
        turns.append({"role": role, "parts": parts})


def _user_parts(message: UserMessage) -> Iterator[Json]:
    if isinstance(message.content, str):
        if message.content.strip():
            yield {"text": clean(message.content)}
        return
    for block in message.content:
        if isinstance(block, ImageContent):
            yield _image(block)
        elif block.text.strip():
            yield {"text": clean(block.text)}


def _image(block: ImageContent) -> Json:
    return {"inlineData": {"mimeType": block.mime_type, "data": block.data}}


def _images(message: ToolResultMessage) -> Iterable[Json]:
    return [_image(block) for block in message.content if isinstance(block, ImageContent)]


def _model_parts(message: AssistantMessage, model: Model) -> Iterator[Json]:
    ours = same_model(message, model)
    for block in message.content:
        match block:
            case ToolCall():
                yield _call_part(block, ours, model)
            case ThinkingContent() if block.thinking.strip() and ours:
                yield {"thought": True, "text": clean(block.thinking)} | _signature(block.thinking_signature)
            case ThinkingContent() if block.thinking.strip():
                yield {"text": clean(block.thinking)}
            case TextContent() if block.text.strip() or (ours and _signature(block.text_signature)):
                yield {"text": clean(block.text)} | (_signature(block.text_signature) if ours else {})


def _call_part(call: ToolCall, ours: bool, model: Model) -> Json:
    signature = _signature(call.thought_signature) if ours else {}
    if not signature and _signs_calls(model):
        signature = {"thoughtSignature": SKIP_SIGNATURE}
    arguments: Json = {"name": clean(call.name), "args": clean_json(dict(call.arguments))}
    if _needs_ids(model):
        arguments["id"] = call.id
    return {"functionCall": arguments} | signature


def _signature(signature: str | None) -> Json:
    """The field for a signature, when it is one this service can have made."""
    if signature and len(signature) % 4 == 0 and _BASE64.fullmatch(signature):
        return {"thoughtSignature": signature}
    return {}


def _result_part(message: ToolResultMessage, model: Model) -> Json:
    text = "\n".join(clean(block.text) for block in message.content if isinstance(block, TextContent))
    images = _images(message)
    if not text and images:
        text = SEE_IMAGE
    response: Json = {
        "name": clean(message.tool_name),
        "response": {"error" if message.is_error else "output": text},
    }
    if images and _nests_images(model):
        response["parts"] = list(images)
    if _needs_ids(model):
        response["id"] = message.tool_call_id
    return {"functionResponse": response}


def _signs_calls(model: Model) -> bool:
    """Whether the model checks the signatures of its calls; such models take thinking levels, not budgets."""
    efforts = model.reasoning_efforts or {}
    return bool(efforts) and all(word.upper() in _LEVEL_WORDS for word in efforts.values())


_nests_images = _signs_calls


def _needs_ids(model: Model) -> bool:
    """Whether calls and results are matched by id: Code Assist also serves models of other makers, which ask for it."""
    return model.api == "google_gemini_cli"
