"""Pure. From the frames of ConverseStream, or the one document of Converse, to stream events."""

from collections.abc import Hashable, Mapping
from typing import Any, Final, Literal

from lemon_ai.classify import stream_error, truncated
from lemon_ai.events import StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.providers.bedrock_frames import Frame, error_of
from lemon_ai.providers.endings import refused
from lemon_ai.wire_text import compact_json

Json = Mapping[str, Any]

STOP_REASONS: Final[Mapping[str, Literal["stop", "length", "tool_use"]]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_use",
}
"""Bedrock's word for why an answer ended, to ours; every other word is an error."""


class BedrockDecoder:
    """One answer of Converse. The usage comes after the stop reason, so the answer ends with the metadata."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self._stop_reason: str | None = None
        self._tools: set[Hashable] = set()
        self._open: Hashable = None

    def feed(self, frame: Any) -> list[StreamEvent]:
        """What one frame, or one whole answer, means."""
        if not isinstance(frame, Frame):
            return self._whole(frame)
        failure = error_of(frame)
        if failure is not None:
            return self._failed(failure)
        payload = frame.payload
        match frame.event_type:
            case "contentBlockDelta":
                return self._delta(payload.get("delta") or {}, self._key(payload))
            case "contentBlockStart":
                return self._block_start(payload.get("start") or {}, self._key(payload))
            case "contentBlockStop":
                return self.fold.end(self._key(payload))
            case "messageStart":
                return self.fold.start()
            case "messageStop":
                self._stop_reason = str(payload.get("stopReason") or "end_turn")
            case "metadata":
                self._usage(payload.get("usage") or {})
                return self._end() if self._stop_reason is not None else []
        return []

    def close(self) -> list[StreamEvent]:
        """The bytes ended. Complete if a stop reason was seen, with the usage or without."""
        if self.fold.finished:
            return []
        if self._stop_reason is not None:
            return self._end()
        return self.fold.fail("error", truncated(self.fold.model.provider))

    def _whole(self, payload: Any) -> list[StreamEvent]:
        """An answer in one document."""
        message = (payload.get("output") or {}).get("message") if isinstance(payload, Mapping) else None
        if not isinstance(message, Mapping):
            return self._failed(payload)
        events = self.fold.start()
        for index, block in enumerate(message.get("content") or ()):
            events += self._whole_block(block, index)
        self._usage(payload.get("usage") or {})
        self._stop_reason = str(payload.get("stopReason") or "end_turn")
        return [*events, *self._end()]

    def _failed(self, payload: Any) -> list[StreamEvent]:
        return self.fold.fail("error", stream_error(self.fold.model.provider, payload))

    def _key(self, payload: Json) -> Hashable:
        index = payload.get("contentBlockIndex")
        return self._open if index is None else index

    def _block_start(self, start: Json, key: Hashable) -> list[StreamEvent]:
        self._open = key
        tool = start.get("toolUse")
        if not isinstance(tool, Mapping):
            return []
        self._tools.add(key)
        return self.fold.tool_start(key, tool.get("toolUseId"), tool.get("name"))

    def _delta(self, delta: Json, key: Hashable) -> list[StreamEvent]:
        if "text" in delta:
            return self.fold.text(delta["text"] or "", key)
        tool = delta.get("toolUse")
        if isinstance(tool, Mapping):
            return self.fold.tool_args(key, tool.get("input") or "") if key in self._tools else []
        reasoning = delta.get("reasoningContent")
        return self._reasoning(reasoning, key) if isinstance(reasoning, Mapping) else []

    def _reasoning(self, reasoning: Json, key: Hashable) -> list[StreamEvent]:
        redacted = reasoning.get("redactedContent")
        if redacted:
            return self.fold.thinking_start(key, signature=redacted, redacted=True)
        text, signature = reasoning.get("text") or "", reasoning.get("signature") or ""
        events = self.fold.thinking(text, key)
        if signature and not self.fold.is_open(key):
            return [*events, *self.fold.thinking_start(key, signature=signature)]
        self.fold.sign(key, signature, append=True)
        return events

    def _whole_block(self, block: Json, index: int) -> list[StreamEvent]:
        fold = self.fold
        if "text" in block:
            return [*fold.text_start(index), *fold.text(block["text"] or "", index), *fold.end(index)]
        tool = block.get("toolUse")
        if isinstance(tool, Mapping):
            opened = fold.tool_start(index, tool.get("toolUseId"), tool.get("name"))
            return [*opened, *fold.tool_args(index, compact_json(tool.get("input") or {})), *fold.end(index)]
        reasoning = block.get("reasoningContent")
        if isinstance(reasoning, Mapping):
            inner = reasoning.get("reasoningText")
            events = self._reasoning(inner if isinstance(inner, Mapping) else reasoning, index)
            return [*events, *fold.end(index)]
        citations = block.get("citationsContent")
        parts = (citations.get("content") or ()) if isinstance(citations, Mapping) else ()
        text = "".join(part.get("text") or "" for part in parts)
        return [*fold.text(text, index), *fold.end(index)]

    def _usage(self, usage: Json) -> None:
        if not usage:
            return
        told = {
            ours: usage.get(name)
            for ours, name in (
                ("input", "inputTokens"),
                ("output", "outputTokens"),
                ("cache_read", "cacheReadInputTokens"),
                ("cache_write", "cacheWriteInputTokens"),
                ("total_tokens", "totalTokens"),
            )
        }
        self.fold.usage(**told)

    def _end(self) -> list[StreamEvent]:
        reason = self._stop_reason or ""
        if reason in STOP_REASONS:
            return self.fold.done(STOP_REASONS[reason])
        refusal = refused(self.fold, f"The answer ended with {reason}.", kind=reason)
        return [*self.fold.end_all(), *self.fold.fail("error", refusal)]
