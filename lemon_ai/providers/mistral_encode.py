"""Pure. From a request to the body of Mistral's own chat API: chunks of thinking, nine-character call ids."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from lemon_ai.errors import BadRequest
from lemon_ai.handoff import IMAGE_OMITTED, NOTHING_LEFT, hand_over
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
from lemon_ai.provider import ProviderRequest
from lemon_ai.stream_options import Tool
from lemon_ai.wire_text import clean, clean_json, compact_json, short_hash

Json = dict[str, Any]

ID_LENGTH: Final = 9
EMPTY_RESULT: Final = "(empty result)"
_CALL_ID = re.compile(r"[A-Za-z0-9]{9}")


def encode_body(request: ProviderRequest) -> Json:
    """The body of one streaming call.

    Raises:
        BadRequest: No message was left to send.
    """
    model, options = request.model, request.options
    history = hand_over(
        request.context.messages,
        model,
        normalise_id=normalise_call_id,
        omitted_image_text=IMAGE_OMITTED,
        id_limit=ID_LENGTH,
    )
    messages = encode_messages(history)
    if not messages:
        raise BadRequest(provider=model.provider, message=NOTHING_LEFT)
    system = clean(request.context.system_prompt)
    if system.strip():
        messages.insert(0, {"role": "system", "content": system})
    body: Json = {"model": model.id, "messages": messages, "stream": True}
    if options.max_tokens:
        body["max_tokens"] = options.max_tokens
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if request.context.tools:
        body["tools"] = [encode_tool(tool) for tool in request.context.tools]
        if options.tool_choice:
            body["tool_choice"] = encode_tool_choice(options.tool_choice)
    if model.reasoning and options.reasoning:
        # Models that list efforts take one; the older ones know a single way to reason.
        effort = model.effort(options.reasoning) if model.reasoning_efforts is not None else None
        body |= {"reasoning_effort": effort} if effort else {"prompt_mode": "reasoning"}
    return body


def normalise_call_id(call_id: str, message: AssistantMessage) -> str:
    """Exactly nine letters and digits; a foreign id gets nine of its hash."""
    return call_id if _CALL_ID.fullmatch(call_id) else short_hash(call_id, ID_LENGTH)


def encode_tool(tool: Tool) -> Json:
    function = {
        "name": clean(tool.name),
        "description": clean(tool.description),
        "parameters": clean_json(dict(tool.parameters)),
    }
    return {"type": "function", "function": function}


def encode_tool_choice(choice: str) -> str | Json:
    """`auto`, `any`, `none`, or the one function to call."""
    if choice in ("auto", "any", "none"):
        return choice
    return {"type": "function", "function": {"name": clean(choice)}}


def encode_messages(messages: Sequence[Message]) -> list[Json]:
    """One wire message for each of ours; two answers in a row are one."""
    encoded: list[Json] = []
    for message in messages:
        match message:
            case UserMessage():
                content = _user_content(message)
                if content:
                    encoded.append({"role": "user", "content": content})
            case ToolResultMessage():
                encoded.append(_tool_message(message))
            case AssistantMessage():
                _add_answer(encoded, _assistant_message(message))
    return encoded


def _add_answer(encoded: list[Json], answer: Json) -> None:
    if len(answer) == 1:
        return
    if encoded and encoded[-1]["role"] == "assistant":
        before = encoded[-1]
        if "content" in before or "content" in answer:
            before["content"] = [*before.get("content", ()), *answer.get("content", ())]
        if "tool_calls" in answer:
            before["tool_calls"] = [*before.get("tool_calls", ()), *answer["tool_calls"]]
    else:
        encoded.append(answer)


def _user_content(message: UserMessage) -> str | list[Json]:
    if isinstance(message.content, str):
        return clean(message.content)
    return list(_chunks(message.content))


def _chunks(content: Iterable[TextContent | ImageContent]) -> Iterator[Json]:
    for block in content:
        if isinstance(block, ImageContent):
            yield {"type": "image_url", "image_url": f"data:{block.mime_type};base64,{block.data}"}
        elif block.text:
            yield {"type": "text", "text": clean(block.text)}


def _tool_message(message: ToolResultMessage) -> Json:
    content: str | list[Json]
    if any(isinstance(block, ImageContent) for block in message.content):
        content = list(_chunks(message.content))
    else:
        content = "\n".join(clean(block.text) for block in message.content if isinstance(block, TextContent))
        if message.is_error and content:
            content = f"[tool error] {content}"
    return {
        "role": "tool",
        "tool_call_id": message.tool_call_id,
        "name": clean(message.tool_name),
        "content": content or EMPTY_RESULT,
    }


def _assistant_message(message: AssistantMessage) -> Json:
    """An answer; without content and calls only its role."""
    content: list[Json] = []
    calls: list[Json] = []
    for block in message.content:
        match block:
            case ThinkingContent() if block.thinking.strip():
                content.append({"type": "thinking", "thinking": [{"type": "text", "text": clean(block.thinking)}]})
            case TextContent() if block.text.strip():
                content.append({"type": "text", "text": clean(block.text)})
            case ToolCall():
                arguments = compact_json(dict(block.arguments))
                function = {"name": clean(block.name), "arguments": arguments}
                calls.append({"id": block.id, "type": "function", "function": function})
    encoded: Json = {"role": "assistant"}
    if content:
        encoded["content"] = content
    if calls:
        encoded["tool_calls"] = calls
    return encoded
