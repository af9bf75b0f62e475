"""Pure. From the events of Anthropic's Messages API, or one whole message, to stream events.

Blocks that a server-side tool leaves in the answer (`server_tool_use` and its results) are passed over: they ran
on the provider's side and nobody here can answer them.
"""

from collections.abc import Hashable, Mapping
from typing import Any, Final, Literal

from lemon_ai.classify import stream_error, truncated
from lemon_ai.events import StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.providers.endings import refused
from lemon_ai.wire_text import compact_json

Json = Mapping[str, Any]

STOP_REASONS: Final[Mapping[str, Literal["stop", "length", "tool_use", "error"]]] = {
    "end_turn": "stop",
    "pause_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_use",
    "refusal": "error",
    "sensitive": "error",
}
"""Anthropic's word for why an answer ended, to ours; a word unknown here is a plain stop."""

_USAGE: Final = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
}


class AnthropicDecoder:
    """One answer of the Messages API."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self._stop_reason: str | None = None
        self._stop_details: Json = {}
        self._message_count = 0
        self._open: Hashable = None
        self._tool_input: dict[Hashable, str] = {}

    def feed(self, event: Any) -> list[StreamEvent]:
        """What one event of the wire means; nothing for pings and what is not known here."""
        if not isinstance(event, Mapping) or self.fold.finished:
            return []
        match event.get("type"):
            case "content_block_delta":
                return self._delta(event.get("delta") or {}, self._key(event))
            case "content_block_start":
                return self._block_start(event.get("content_block") or {}, self._key(event))
            case "content_block_stop":
                return self._block_stop(self._key(event))
            case "message_start":
                return self._message_start(event.get("message") or {})
            case "message_delta":
                return self._message_delta(event.get("delta") or {}, event.get("usage") or {})
            case "message_stop":
                return self._end()
            case "message":
                return self._whole(event)
            case kind if event.get("error") is not None or kind == "error":
                return self._failed(event)
            case None if "content" in event:
                return self._whole(event)
        return []

    def close(self) -> list[StreamEvent]:
        """The bytes ended. Complete if a stop reason was seen, whatever else is missing."""
        if self.fold.finished:
            return []
        if self._stop_reason is not None:
            return self._end()
        return self.fold.fail("error", truncated(self.fold.model.provider))

    def _whole(self, message: Json) -> list[StreamEvent]:
        """A message that came in one piece."""
        events = self._message_start(message)
        for index, block in enumerate(message.get("content") or ()):
            events += self._block_start(block, (self._message_count, index))
            events += self._block_stop((self._message_count, index))
        self._message_delta(message, {})
        return [*events, *self._end()]

    def _failed(self, payload: Any) -> list[StreamEvent]:
        return self.fold.fail("error", stream_error(self.fold.model.provider, payload))

    def _key(self, event: Json) -> Hashable:
        """A block's name in the fold: indexes start again when a server starts its message again."""
        index = event.get("index")
        return self._open if index is None else (self._message_count, index)

    def _message_start(self, message: Json) -> list[StreamEvent]:
        events = [] if self._message_count == 0 else self.fold.end_all()
        self._message_count += 1
        self.fold.response_id(message.get("id"))
        self._usage(message.get("usage") or {})
        return [*events, *self.fold.start()]

    def _block_start(self, block: Json, key: Hashable) -> list[StreamEvent]:
        fold = self.fold
        if key is None:
            key = (self._message_count, "unnumbered", id(block))
        self._open = key
        match block.get("type"):
            case "text":
                return [*fold.text_start(key), *fold.text(block.get("text") or "", key)]
            case "thinking":
                opened = fold.thinking_start(key, signature=block.get("signature") or None)
                return [*opened, *fold.thinking(block.get("thinking") or "", key)]
            case "redacted_thinking":
                return fold.thinking_start(key, signature=block.get("data") or None, redacted=True)
            case "tool_use":
                given = block.get("input")
                self._tool_input[key] = compact_json(given) if given else ""
                return fold.tool_start(key, block.get("id"), block.get("name"))
        return []

    def _delta(self, delta: Json, key: Hashable) -> list[StreamEvent]:
        match delta.get("type"):
            case "text_delta":
                return self.fold.text(delta.get("text") or "", key)
            case "thinking_delta":
                return self.fold.thinking(delta.get("thinking") or "", key)
            case "input_json_delta" if key in self._tool_input:
                return self.fold.tool_args(key, delta.get("partial_json") or "")
            case "signature_delta":
                self.fold.sign(key, delta.get("signature") or "", append=True)
        return []

    def _block_stop(self, key: Hashable) -> list[StreamEvent]:
        given = self._tool_input.get(key)
        if given and not self.fold.streamed(key):
            return [*self.fold.tool_args(key, given), *self.fold.end(key)]
        return self.fold.end(key)

    def _message_delta(self, delta: Json, usage: Json) -> list[StreamEvent]:
        self._stop_reason = delta.get("stop_reason") or self._stop_reason
        self._stop_details = delta.get("stop_details") or self._stop_details
        self._usage(usage)
        return []

    def _usage(self, usage: Json) -> None:
        told = {ours: usage[name] for name, ours in _USAGE.items() if isinstance(usage.get(name), int)}
        if told:
            self.fold.usage(**told)

    def _end(self) -> list[StreamEvent]:
        reason = STOP_REASONS.get(self._stop_reason or "end_turn", "stop")
        if reason != "error":
            return self.fold.done(reason)
        said = self._stop_details.get("explanation") or "The model declined to answer."
        refusal = refused(self.fold, said, kind=self._stop_reason, code=self._stop_details.get("category"))
        return [*self.fold.end_all(), *self.fold.fail("error", refusal)]
