"""Pure. From the chunks of Chat Completions, or one whole answer, to stream events.

Servers that speak this format differ most in tool calls: the index may be missing, the id late, repeated or blank,
the name sent once, again, or in pieces. `_CallSlots` decides which call a fragment belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any, Final, Literal

from lemon_ai.classify import stream_error, truncated
from lemon_ai.errors import ContentRefused
from lemon_ai.events import StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.partial_json import parse_arguments
from lemon_ai.wire_text import compact_json

Json = Mapping[str, Any]
Stop = Literal["stop", "length", "tool_use"]

_THINKING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_text")
_STOPS: Final[Mapping[str, Stop]] = {
    "stop": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
}


class OpenAICompletionsDecoder:
    """One answer of Chat Completions."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self._calls = _CallSlots(fold)
        self._finish_reason: str | None = None
        self._marked_done = False
        self._details: dict[Hashable, dict[str, Any]] = {}
        self._details_only = True
        self._unknown: Json | None = None

    def feed(self, event: Any) -> list[StreamEvent]:
        """What one chunk means."""
        if event == "[DONE]":
            self._marked_done = True
            return self.close()
        if not isinstance(event, dict):
            return []
        events: list[StreamEvent] = []
        choices = event.get("choices")
        if isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict) and not choice.get("index"):
                    events = [*events, *self._choice(choice, event)] if events else self._choice(choice, event)
        elif "usage" not in event:
            self._unknown = event
        usage = event.get("usage") or (event.get("x_groq") or {}).get("usage")
        if isinstance(usage, dict):
            self._usage(usage)
        told = self._error_in(event, choices)
        if told is not None:
            return [*events, *self.fold.fail("error", stream_error(self.fold.model.provider, told))]
        return events

    def close(self) -> list[StreamEvent]:
        """The bytes ended, or `[DONE]` came. A finish reason or the marker makes the answer complete."""
        if self.fold.finished:
            return []
        provider = self.fold.model.provider
        if self._finish_reason == "content_filter":
            refused = ContentRefused(provider=provider, message="The provider's content filter withheld the answer.")
            return self.fold.fail("error", refused)
        if self._finish_reason == "error":
            return self.fold.fail("error", stream_error(provider, {}, fallback="The provider reported an error."))
        if self._finish_reason is None and not self._marked_done:
            unknown = self._unknown if self._unknown and not self.fold.started else None
            error = truncated(provider) if unknown is None else stream_error(provider, unknown)
            return self.fold.fail("error", error)
        self._keep_details()
        return self.fold.done(_STOPS.get(self._finish_reason or "stop", "stop"))

    def _choice(self, choice: Json, event: Json) -> list[StreamEvent]:
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            whole = choice.get("message")
            delta = whole if isinstance(whole, dict) else {}
            if whole is not None and self._finish_reason is None:
                self._finish_reason = "stop"
        reason = choice.get("finish_reason")
        if reason and isinstance(reason, str):
            self._finish_reason = reason
        usage = choice.get("usage")
        if isinstance(usage, dict):
            self._usage(usage)
        if self.fold.started:
            return self._delta(delta)
        self.fold.response_id(_string(event.get("id")))
        return [*self.fold.start(), *self._delta(delta)]

    def _delta(self, delta: Json) -> list[StreamEvent]:
        told = [name for name, value in delta.items() if value and name != "role"]
        if not told:
            return []
        if told == ["content"] and type(delta["content"]) is str:  # nearly every chunk is this one
            return self.fold.text(delta["content"])
        events = self._thinking(delta)
        content = delta.get("content")
        if type(content) is str:
            if content:
                events += self.fold.text(content)
        elif isinstance(content, list):
            events += self._parts(content)
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            events += self.fold.text(refusal)
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            for call in calls:
                if isinstance(call, dict):
                    events += self._calls.take(call)
        legacy = delta.get("function_call")
        if isinstance(legacy, dict) and (legacy.get("name") or legacy.get("arguments")):
            events += self._calls.take({"index": 0, "function": legacy})
        return events

    def _thinking(self, delta: Json) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for field in _THINKING_FIELDS:
            text = delta.get(field)
            if isinstance(text, str) and text:
                self._details_only = False
                events = self.fold.thinking(text, signature=field)
                break
        details = delta.get("reasoning_details")
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, Mapping):
                events += self._detail(detail)
        return events

    def _detail(self, detail: Json) -> list[StreamEvent]:
        kind = detail.get("type")
        if kind == "reasoning.encrypted" and detail.get("id") and detail.get("data"):
            key = self.fold.tool_key(str(detail["id"]))
            if key is not None:
                self.fold.sign(key, compact_json(dict(detail)))
                return []
        self._collect(detail)
        text = detail.get("text") or detail.get("summary")
        if not self._details_only or not isinstance(text, str):
            return []
        return self.fold.thinking(text)

    def _collect(self, detail: Json) -> None:
        """Pieces of one detail, told apart by index and type, become one again."""
        whole = self._details.setdefault((detail.get("index"), detail.get("type")), {})
        for name, value in detail.items():
            grows = name in ("text", "summary", "signature", "data") and isinstance(value, str)
            whole[name] = whole.get(name, "") + value if grows and isinstance(whole.get(name, ""), str) else value

    def _keep_details(self) -> None:
        """Thinking that came as details only goes back as details: they are its signature."""
        if self._details and self._details_only and self.fold.streamed("thinking"):
            self.fold.sign("thinking", compact_json(list(self._details.values())))

    def _parts(self, parts: list[Any]) -> list[StreamEvent]:
        """A list of typed parts in the place of a string."""
        events: list[StreamEvent] = []
        for part in parts:
            if not isinstance(part, Mapping):
                continue
            text, thinking = part.get("text"), part.get("thinking")
            if isinstance(text, str):
                events += self.fold.text(text)
            elif isinstance(thinking, list):
                said = "".join(str(piece.get("text", "")) for piece in thinking if isinstance(piece, Mapping))
                events += self.fold.thinking(said)
            elif isinstance(thinking, str):
                events += self.fold.thinking(thinking)
        return events

    def _usage(self, usage: Json) -> None:
        prompt, output = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
        if prompt is None and output is None:
            return
        details = usage.get("prompt_tokens_details")
        details = details if isinstance(details, Mapping) else {}
        hits = details.get("cached_tokens", usage.get("prompt_cache_hit_tokens", usage.get("cached_tokens")))
        cached = _count(hits) or 0
        written = _count(details.get("cache_write_tokens")) or 0
        total = _count(usage.get("total_tokens"))
        thought = usage.get("completion_tokens_details")
        reasoning = _count(thought.get("reasoning_tokens")) if isinstance(thought, Mapping) else None
        prompt, output = prompt or 0, output or 0
        if reasoning and total == prompt + output + reasoning:
            output += reasoning  # this vendor counts thinking beside the answer, not in it
        self.fold.usage(
            input=max(prompt - cached - written, 0),
            output=output,
            cache_read=cached,
            cache_write=written,
            total_tokens=total if total is not None else prompt + output,
        )

    def _error_in(self, event: Json, choices: Any) -> Json | None:
        """What tells of an error: the event, or the one choice that ended with it."""
        if event.get("error") or event.get("object") == "error":
            return event
        if self._finish_reason == "error" and isinstance(choices, list):
            return next((choice for choice in choices if isinstance(choice, dict) and choice.get("error")), None)
        status = event.get("base_resp")
        failed = isinstance(status, Mapping) and bool(status.get("status_code")) and not self.fold.started
        return event if failed else None


class _CallSlots:
    """Which tool call a fragment belongs to, whatever the server leaves out."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._by_index: dict[int, int] = {}
        self._ids: dict[int, str] = {}
        self._count = 0

    def take(self, call: Json) -> list[StreamEvent]:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name = _string(call.get("id")), _string(function.get("name"))
        slot = self._slot(_index(call.get("index")), call_id, name)
        key = ("tool", slot)
        if self._fold.is_open(key):
            events: list[StreamEvent] = []
            if call_id and not self._ids.get(slot):
                self._fold.tool_facts(key, call_id=call_id)
            if name:
                self._fold.tool_facts(key, name=_merged(self._fold.tool_name(key), name))
        else:
            events = self._fold.tool_start(key, call_id, name)
        if call_id:
            self._ids.setdefault(slot, call_id)
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            if arguments:
                events += self._fold.tool_args(key, arguments)
        elif arguments is not None:
            events += self._fold.tool_args(key, json.dumps(arguments))
        return events

    def _slot(self, index: int | None, call_id: str, name: str) -> int:
        if index is None:
            return self._slot_without_index(call_id, name)
        slot = self._by_index.get(index)
        if slot is None or self._is_another_call(slot, call_id, name):
            slot = self._by_index[index] = self._new_slot()
        return slot

    def _slot_without_index(self, call_id: str, name: str) -> int:
        for slot, known in self._ids.items():
            if call_id and known == call_id:
                return slot
        last = self._count - 1
        if last < 0 or (call_id and last in self._ids) or (name and not call_id and self._is_whole(last)):
            return self._new_slot()
        return last

    def _is_another_call(self, slot: int, call_id: str, name: str) -> bool:
        """A new id under a used index is a new call only when the call there is whole; some servers vary the id."""
        known = self._ids.get(slot)
        return bool(call_id and name and known and known != call_id) and self._is_whole(slot)

    def _is_whole(self, slot: int) -> bool:
        raw = self._fold.streamed(("tool", slot))
        return bool(raw.strip()) and parse_arguments(raw)[1] is None

    def _new_slot(self) -> int:
        self._count += 1
        return self._count - 1


def _merged(known: str, told: str) -> str:
    """A name that was repeated, extended or streamed in pieces."""
    if not known or told.startswith(known):
        return told
    return known if known.endswith(told) else known + told


def _index(value: Any) -> int | None:
    if isinstance(value, str) and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _string(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None or isinstance(value, (dict, list)) else str(value)
