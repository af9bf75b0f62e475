"""Pure. From the events of OpenAI's Responses API, or one whole response, to stream events.

Items are told apart by their place in the output: some services give the same item another id in every event. The
finished item is what counts, whatever was streamed before it. Items of tools that run on the provider's side are
passed over.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, Literal

from lemon_ai.classify import stream_error, truncated
from lemon_ai.events import StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.providers.endings import refused
from lemon_ai.providers.openai_responses_encode import write_text_signature
from lemon_ai.wire_text import compact_json, short_hash

Json = Mapping[str, Any]

STATUSES: Final[Mapping[str, Literal["stop", "length", "error"]]] = {
    "completed": "stop",
    "in_progress": "stop",
    "queued": "stop",
    "incomplete": "length",
    "failed": "error",
    "cancelled": "error",
}
"""The status of a response, to ours; one unknown here is a plain stop."""

TIER_MULTIPLIERS: Final[Mapping[str, float]] = {"flex": 0.5, "priority": 2.0}
"""What a service tier does to the price."""

_TERMINAL: Final = ("response.completed", "response.incomplete", "response.done", "response.cancelled")


class ResponsesDecoder:
    """One answer of the Responses API."""

    def __init__(self, fold: Fold, *, tier: str | None = None) -> None:
        self.fold = fold
        self._tier = tier
        self._done_items: set[Hashable] = set()
        self._last: Hashable = None

    def feed(self, event: Any) -> list[StreamEvent]:
        """What one event, or one whole response, means."""
        if not isinstance(event, Mapping) or self.fold.finished:
            return []
        kind = event.get("type") or ""
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                return self.fold.text(event.get("delta") or "", self._key(event, "message"))
            case "response.function_call_arguments.delta":
                return self._arguments(event.get("delta") or "", self._key(event, "call"))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self.fold.thinking(event.get("delta") or "", self._key(event, "reasoning"))
            case "response.reasoning_summary_part.added":
                return self._next_part(event)
            case "response.output_item.added":
                return self._item_added(event.get("item") or {}, event)
            case "response.output_item.done":
                return self._item_done(event.get("item") or {}, self._place(event))
            case "response.created" | "response.in_progress" | "response.queued":
                self.fold.response_id((event.get("response") or {}).get("id"))
                return self.fold.start()
            case "response.failed":
                return self._failed(event.get("response") or event)
            case "error":
                return self._failed(event)
        if kind in _TERMINAL:
            return self._end(event.get("response") or {})
        if not kind:
            return [*self.fold.start(), *self._end(event)] if "output" in event else self._failed(event)
        return []

    def close(self) -> list[StreamEvent]:
        """The bytes ended; without a terminal event that is a cut answer."""
        return self.fold.fail("error", truncated(self.fold.model.provider))

    def _failed(self, payload: Any) -> list[StreamEvent]:
        provider = self.fold.model.provider
        if isinstance(payload, Mapping):
            self.fold.response_id(payload.get("id"))
            why = (payload.get("incomplete_details") or {}).get("reason")
            if payload.get("type") == "error" and not isinstance(payload.get("error"), Mapping):
                code = payload.get("code")
                payload = {"error": {"type": code, "code": code, "message": payload.get("message")}}
            elif not payload.get("error") and why:
                payload = {"error": {"code": why, "message": f"The response failed: {why}"}}
        return self.fold.fail("error", stream_error(provider, payload))

    def _place(self, event: Json) -> Hashable:
        place = event.get("output_index")
        if place is None:
            place = event.get("item_id") or (event.get("item") or {}).get("id")
        return self._last if place is None else place

    def _key(self, event: Json, kind: str) -> Hashable:
        return (kind, self._place(event))

    def _arguments(self, fragment: str, key: Hashable) -> list[StreamEvent]:
        """More arguments, unless the call they belong to was never announced."""
        return self.fold.tool_args(key, fragment) if self.fold.is_open(key) else []

    def _next_part(self, event: Json) -> list[StreamEvent]:
        key = self._key(event, "reasoning")
        return self.fold.thinking("\n\n", key) if self.fold.is_open(key) else []

    def _item_added(self, item: Json, event: Json) -> list[StreamEvent]:
        place = event.get("output_index", item.get("id"))
        self._last = place
        if item.get("type") != "function_call":
            return []
        return self.fold.tool_start(("call", place), _call_id(item, place), item.get("name"))

    def _item_done(self, item: Json, place: Hashable) -> list[StreamEvent]:
        if place in self._done_items:
            return []
        self._done_items.update({place, item.get("id") or place})
        match item.get("type"):
            case "message":
                return self._message_done(item, ("message", place))
            case "reasoning":
                return self._reasoning_done(item, ("reasoning", place))
            case "function_call":
                return self._call_done(item, place, item.get("arguments"))
            case "custom_tool_call":
                return self._call_done(item, place, compact_json({"input": item.get("input") or ""}))
        return []

    def _message_done(self, item: Json, key: Hashable) -> list[StreamEvent]:
        text = _joined("", item.get("content"))
        signature = write_text_signature(item.get("id"), item.get("phase"))
        events = [] if self.fold.is_open(key) or not text else [*self.fold.text_start(key), *self.fold.text(text, key)]
        return [*events, *self.fold.end(key, content=text or None, signature=signature)]

    def _reasoning_done(self, item: Json, key: Hashable) -> list[StreamEvent]:
        thinking = _joined("\n\n", item.get("summary")) or _joined("\n\n", item.get("content"))
        events: list[StreamEvent] = []
        if not self.fold.is_open(key):
            if not thinking and not item.get("encrypted_content"):
                return []
            events = [*self.fold.thinking_start(key), *self.fold.thinking(thinking, key)]
        return [*events, *self.fold.end(key, content=thinking or None, signature=compact_json(item))]

    def _call_done(self, item: Json, place: Hashable, arguments: Any) -> list[StreamEvent]:
        key = ("call", place)
        call_id = _call_id(item, place)
        raw = arguments if isinstance(arguments, str) and arguments else None
        opened = self.fold.tool_start(key, call_id, item.get("name"))
        if raw and not self.fold.streamed(key):
            opened += self.fold.tool_args(key, raw)
        return [*opened, *self.fold.end(key, arguments=raw, call_id=call_id)]

    def _end(self, response: Json) -> list[StreamEvent]:
        fold = self.fold
        fold.response_id(response.get("id"))
        events: list[StreamEvent] = []
        for index, item in enumerate(response.get("output") or ()):
            if not self._done_items.intersection((index, item.get("id"))):
                events += self._item_done(item, index)
        self._usage(response.get("usage") or {}, response.get("service_tier") or self._tier)
        reason = STATUSES.get(response.get("status") or "completed", "stop")
        why = (response.get("incomplete_details") or {}).get("reason")
        if reason == "length" and why == "content_filter":
            refusal = refused(fold, "The answer was stopped by a content filter.", kind=why)
            return [*events, *fold.end_all(), *fold.fail("error", refusal)]
        if reason == "error":
            return [*events, *self._failed(response)]
        return [*events, *fold.done(reason)]

    def _usage(self, usage: Json, tier: str | None) -> None:
        if not usage:
            return
        details = usage.get("input_tokens_details") or {}
        cached, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
        self.fold.usage(
            input=max((usage.get("input_tokens") or 0) - cached - written, 0),
            output=usage.get("output_tokens") or 0,
            cache_read=cached,
            cache_write=written,
            total_tokens=usage.get("total_tokens"),
            multiplier=TIER_MULTIPLIERS.get(tier or "", 1.0),
        )


def _call_id(item: Json, place: Hashable) -> str:
    """Call and item in one id; a call without an id of its own is named after its item, or its place."""
    item_id = item.get("id") or ""
    call_id = item.get("call_id") or (f"call_{short_hash(f'{item_id}{place}')}" if item_id else "")
    return f"{call_id}|{item_id}" if call_id and item_id else call_id


def _joined(separator: str, parts: Iterable[Any] | None) -> str:
    """The words of an item's parts: text, a refusal, a summary."""
    said = (part.get("text") or part.get("refusal") or "" for part in parts or () if isinstance(part, Mapping))
    return separator.join(said)
