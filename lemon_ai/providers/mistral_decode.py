"""Pure. From the chunks of Mistral's chat API, or one whole completion, to stream events."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, Literal

from lemon_ai.classify import stream_error, truncated
from lemon_ai.events import StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.providers.endings import refused
from lemon_ai.wire_text import compact_json

Json = Mapping[str, Any]

FINISH_REASONS: Final[Mapping[str, Literal["stop", "length", "tool_use", "error"]]] = {
    "stop": "stop",
    "length": "length",
    "model_length": "length",
    "tool_calls": "tool_use",
    "content_filter": "error",
    "error": "error",
}
"""Mistral's word for why an answer ended, to ours; a word unknown here is a plain stop."""


class MistralDecoder:
    """One answer of Mistral's chat API. `content` may be a string or a list of chunks."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self._finish_reason: str | None = None
        self._done = False
        self._calls = 0
        self._open_call: Hashable = None
        self._ids: dict[str, Hashable] = {}

    def feed(self, chunk: Any) -> list[StreamEvent]:
        """What one chunk, or one whole completion, means."""
        if chunk == "[DONE]":
            self._done = True
            return self.close()
        if not isinstance(chunk, Mapping) or self.fold.finished:
            return []
        if isinstance(chunk.get("data"), Mapping):
            chunk = chunk["data"]
        if "choices" not in chunk and "usage" not in chunk:
            return self.fold.fail("error", stream_error(self.fold.model.provider, chunk))
        self.fold.response_id(chunk.get("id"))
        self._usage(chunk.get("usage") or {})
        events = self.fold.start()
        for choice in chunk.get("choices") or ():
            if choice.get("index") in (None, 0):
                events += self._choice(choice)
        return events

    def close(self) -> list[StreamEvent]:
        """The bytes ended."""
        fold = self.fold
        if fold.finished:
            return []
        if self._finish_reason is None and not self._done:
            return fold.fail("error", truncated(fold.model.provider))
        reason = FINISH_REASONS.get(self._finish_reason or "stop", "stop")
        if reason != "error":
            return fold.done(reason)
        refusal = refused(fold, f"The answer ended with {self._finish_reason}.", kind=self._finish_reason)
        return [*fold.end_all(), *fold.fail("error", refusal)]

    def _choice(self, choice: Json) -> list[StreamEvent]:
        said = choice.get("delta") or choice.get("message") or {}
        content = said.get("content")
        events = self.fold.text(content) if isinstance(content, str) else self._chunks(content or ())
        for call in said.get("tool_calls") or ():
            events += self._call(call)
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        return events

    def _chunks(self, chunks: Iterable[Any]) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for chunk in chunks:
            if isinstance(chunk, str):
                events += self.fold.text(chunk)
                continue
            thinking = chunk.get("thinking")
            if chunk.get("type") == "thinking":
                parts = (part.get("text") or "" for part in thinking or () if isinstance(part, Mapping))
                events += self.fold.thinking(thinking if isinstance(thinking, str) else "".join(parts))
            else:
                events += self.fold.text(chunk.get("text") or "")
        return events

    def _call(self, call: Json) -> list[StreamEvent]:
        function = call.get("function") or {}
        arguments = function.get("arguments")
        raw = arguments if isinstance(arguments, str) else compact_json(arguments) if arguments else ""
        call_id = call.get("id") or ""
        if call_id == "null":
            call_id = ""
        key = self._key(call_id, call.get("index"))
        return [*self.fold.tool_start(key, call_id, function.get("name")), *self.fold.tool_args(key, raw)]

    def _key(self, call_id: str, index: int | None) -> Hashable:
        """The call a piece belongs to: the one with its id, else a new one for a new id, else the open one."""
        if call_id:
            if call_id not in self._ids:
                self._calls += 1
                self._ids[call_id] = ("call", self._calls)
            self._open_call = self._ids[call_id]
        elif self._open_call is None:
            self._open_call = ("index", index)
        return self._open_call

    def _usage(self, usage: Json) -> None:
        if not usage:
            return
        details = usage.get("prompt_tokens_details") or usage.get("prompt_token_details") or {}
        cached = details.get("cached_tokens") or usage.get("num_cached_tokens") or 0
        self.fold.usage(
            input=max((usage.get("prompt_tokens") or 0) - cached, 0),
            output=usage.get("completion_tokens") or 0,
            cache_read=cached,
            total_tokens=usage.get("total_tokens"),
        )
