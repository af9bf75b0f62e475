"""What our convention makes of a recording's `expect`: written from the rules, without the providers' own tables.

- `input` leaves cached tokens out; OpenAI's, Google's and Mistral's counts include them.
- `output` holds reasoning once; Google reports it beside, some servers behind Chat Completions too.
- An answer that stopped with tool calls stopped for them; a refusal or a filter is an error; so is an answer whose
  end never came.
- What a refusal says is text.

Three readings of the official clients are no facts about the bytes, and ours stand in their place: a body that holds
several Anthropic messages (they mix up the blocks: `several_messages`), two calls under one tool index (they glue
them together), and thinking that came as details only, which they leave out of whole answers.
"""

import json
from collections.abc import Mapping
from typing import Any

from tests.cassettes.recording import Cassette
from tests.cassettes.several_messages import own_reading

Json = dict[str, Any]

_STOPS: Mapping[str, str] = {
    # Anthropic and Bedrock
    "end_turn": "stop",
    "pause_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_use",
    "refusal": "error",
    "guardrail_intervened": "error",
    "content_filtered": "error",
    # Chat Completions, Mistral, Ollama
    "stop": "stop",
    "eos": "stop",
    "length": "length",
    "model_length": "length",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "error",
    "error": "error",
    # Responses
    "completed": "stop",
    "incomplete": "length",
    "failed": "error",
    "cancelled": "error",
    # Google, in words and in numbers
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "1": "stop",
    "2": "length",
}
_CACHED_INSIDE = ("openai", "azure", "google", "mistral")
_OVERFLOW_CODES = ("context_length_exceeded", "too_many_prompt_tokens")
_OVERFLOW_WORDS = ("prompt is too long", "maximum context length", "exceeds the context window", "token limit")


def wanted(cassette: Cassette) -> Json:
    """The outcome a provider has to report."""
    expect = cassette.expect
    stop = _stop(cassette)
    want: Json = {
        "text": (expect.get("text") or "") + (expect.get("refusal") or ""),
        "thinking": expect.get("thinking") or expect.get("thinking_from_details") or "",
        "tool_calls": [want for call in expect.get("tool_calls") or () for want in _calls(call, expect)],
        "stop_reason": stop,
        "usage": _usage(cassette),
        "error": _error(cassette) if stop == "error" else None,
    }
    if expect.get("redacted_thinking_blocks"):
        want["redacted_thinking_blocks"] = expect["redacted_thinking_blocks"]
    if expect.get("response_id") and stop != "error":
        want["response_id"] = expect["response_id"]
    if "thinking" not in expect and "thinking_from_details" not in expect and '"reasoning_details"' in cassette.text:
        del want["thinking"]
    if cassette.api == "anthropic_messages":
        want |= own_reading(cassette.text)
    return want


def _calls(call: Mapping[str, Any], expect: Mapping[str, Any]) -> list[Json]:
    """A call, or as many as were glued together under one index: each id began one with arguments of its own."""
    want = _call(call)
    if want["arguments"] is not None or "different id" not in str(expect.get("note")):
        return [want]
    pieces, raw, at = [], str(call.get("arguments_raw")), 0
    while at < len(raw):
        value, at = json.JSONDecoder().raw_decode(raw, at)
        pieces.append({"name": want["name"], "arguments": value})
    return [pieces[0] | {"id": want["id"]}, *pieces[1:]]


def _call(call: Mapping[str, Any]) -> Json:
    if call.get("custom"):
        arguments: Any = {"input": call.get("input")}
    else:
        arguments = call.get("arguments")
    want: Json = {"name": call.get("name"), "arguments": arguments}
    if call.get("id"):
        want["id"] = call["id"]
    if call.get("item_id"):
        want["item_id"] = call["item_id"]
    return want


def _stop(cassette: Cassette) -> str:
    expect = cassette.expect
    if expect.get("error") or expect.get("prompt_block_reason"):
        return "error"
    if expect.get("incomplete_reason") == "content_filter":
        return "error"
    word = expect.get("stop_reason")
    if word is None and not _has_other_end(cassette):
        return "error"
    stop = _STOPS.get(str(word), "error" if cassette.api.startswith(("google", "bedrock_converse")) else "stop")
    if stop == "length" or stop == "error":
        return stop
    return "tool_use" if expect.get("tool_calls") else "stop"


def _has_other_end(cassette: Cassette) -> bool:
    """Whether a Chat Completions answer without a finish reason ended all the same: marked, or in one document."""
    if not cassette.api.endswith("completions"):
        return False
    return "data: [DONE]" in cassette.text or cassette.text.lstrip().startswith("{")


def _usage(cassette: Cassette) -> Json:
    counts = cassette.expect.get("usage") or {}
    if not counts:
        return {}
    read, written = counts.get("cache_read") or 0, counts.get("cache_write") or 0
    given_input, output = counts.get("input") or 0, counts.get("output") or 0
    reasoning, total = counts.get("reasoning") or 0, counts.get("total")
    inside = cassette.api.startswith(_CACHED_INSIDE)
    if cassette.api.startswith("google") or (reasoning and total == given_input + output + reasoning):
        output += reasoning
    usage = {
        "input": max(given_input - read - written, 0) if inside else given_input,
        "output": output,
        "cache_read": read,
        "cache_write": written,
    }
    return usage | {"total_tokens": sum(usage.values()) if total is None else total}


def _error(cassette: Cassette) -> Json:
    told = cassette.expect.get("error")
    if not told:
        refused = cassette.expect.get("prompt_block_reason") or cassette.expect.get("stop_reason")
        return {"category": "client" if refused else "transient"}
    said = str(told.get("message") or "")
    known = said and not said.startswith("Error code:")
    want: Json = {
        "category": _category(told, said if known else cassette.text),
        "retry_after_s": _retry_after(cassette, told),
    }
    if not told.get("in_stream"):
        want["status"] = told.get("status")
    if known and said in _sentences(cassette):
        want["message"] = said
    return want


def _sentences(cassette: Cassette) -> tuple[Any, ...]:
    """The plain sentences of an error body: where a client takes its words from elsewhere, ours may differ."""
    try:
        told = json.loads(cassette.body)
    except ValueError:
        return ()
    inner = told.get("error") if isinstance(told, dict) else None
    return (told.get("message"), inner.get("message") if isinstance(inner, dict) else inner) if inner else ()


def _category(told: Mapping[str, Any], said: str) -> str:
    status = told.get("status")
    if told.get("in_stream"):
        status = told["code"] if isinstance(told.get("code"), int) else None if status == 200 else status
    words = f"{told.get('type')} {told.get('code')}".lower()
    said = said.lower()
    if any(code in words for code in _OVERFLOW_CODES) or any(phrase in said for phrase in _OVERFLOW_WORDS):
        return "context_length"
    if status in (401, 403) or "api key not valid" in said or "incorrect api key" in said:
        return "auth"
    if status == 429 or any(code in words for code in ("insufficient_quota", "rate_limit", "throttl")):
        return "rate_limit"
    if "overloaded" in words or "overloaded" in said or status in (408, 502, 503, 504, 529):
        return "transient"
    if status is not None and status >= 500:
        return "server"
    return "client" if status is not None or "invalid" in words else "unknown"


def _retry_after(cassette: Cassette, told: Mapping[str, Any]) -> float | None:
    """The hint; where a server says both N seconds and 0 milliseconds, the seconds: 0 asks for nothing."""
    hint = told.get("retry_after")
    if hint == 0 and told.get("retry_after_note"):
        return float(cassette.headers["retry-after"])
    return None if hint is None else float(hint)
