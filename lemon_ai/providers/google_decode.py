"""Pure. From the chunks of Google's generateContent to stream events.

A chunk may carry a finish reason although more follows, so the answer ends with the bytes. Parts that tools on
Google's side leave behind (searches, executed code, produced images) are passed over.
"""

from collections.abc import Hashable, Mapping
from typing import Any, Final, Literal

from lemon_ai.classify import stream_error, truncated
from lemon_ai.errors import ContentRefused
from lemon_ai.events import StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.providers.endings import refused
from lemon_ai.providers.google_arguments import ArgumentsBuilder
from lemon_ai.wire_text import compact_json

Json = Mapping[str, Any]

FINISH_REASONS: Final[Mapping[str | int, Literal["stop", "length"]]] = {
    "STOP": "stop",
    1: "stop",
    "MAX_TOKENS": "length",
    2: "length",
}
"""The finish reasons of a usable answer, as words and as the numbers some clients ask for; all others are errors."""

_NOT_FINISHED: Final = frozenset({"", "FINISH_REASON_UNSPECIFIED"})


class GoogleDecoder:
    """One answer of generateContent, streamed or whole."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self._finish_reason: str | int | None = None
        self._finish_message: str | None = None
        self._blocked: str | None = None
        self._calls = 0
        self._arguments: ArgumentsBuilder | None = None
        self._last: Hashable = None

    def feed(self, chunk: Any) -> list[StreamEvent]:
        """What one chunk means; the wrapper of Code Assist is looked into."""
        if not isinstance(chunk, Mapping) or self.fold.finished:
            return []
        if isinstance(chunk.get("response"), Mapping):
            chunk = chunk["response"]
        if chunk.get("error"):
            return self.fold.fail("error", stream_error(self.fold.model.provider, chunk))
        self.fold.response_id(chunk.get("responseId"))
        self._usage(chunk.get("usageMetadata") or {})
        self._blocked = (chunk.get("promptFeedback") or {}).get("blockReason") or self._blocked
        events = self.fold.start()
        candidates = chunk.get("candidates") or ()
        if candidates:
            events += self._candidate(candidates[0])
        return events

    def close(self) -> list[StreamEvent]:
        """The bytes ended: an answer if it was said why it, or the prompt, ended."""
        if self.fold.finished:
            return []
        reason = self._finish_reason
        if reason is None and self._blocked is None:
            return self.fold.fail("error", truncated(self.fold.model.provider))
        ended = self._end_call(cut=reason is None or FINISH_REASONS.get(reason) != "stop")
        if reason is not None and reason in FINISH_REASONS:
            return [*ended, *self.fold.done(FINISH_REASONS[reason])]
        return [*ended, *self.fold.end_all(), *self.fold.fail("error", self._refusal())]

    @property
    def blocked(self) -> bool:
        """Whether a filter stopped the prompt, or the answer."""
        return self._blocked is not None or (
            self._finish_reason is not None and self._finish_reason not in FINISH_REASONS
        )

    def _candidate(self, candidate: Json) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for part in (candidate.get("content") or {}).get("parts") or ():
            events += self._part(part)
        reason = candidate.get("finishReason")
        if reason and reason not in _NOT_FINISHED:
            self._finish_reason = reason
            self._finish_message = candidate.get("finishMessage") or self._finish_message
        return events

    def _part(self, part: Json) -> list[StreamEvent]:
        signature = part.get("thoughtSignature") or ""
        if "functionCall" in part:
            return self._function_call(part["functionCall"] or {}, signature)
        text = part.get("text")
        events: list[StreamEvent] = []
        if text:
            events = self._end_call()
            self._last = "thinking" if part.get("thought") else "text"
            events += self.fold.thinking(text) if part.get("thought") else self.fold.text(text)
        if signature and (text is not None or len(part) == 1) and self._last is not None:
            self.fold.sign(self._last, signature)
        return events

    def _function_call(self, call: Json, signature: str) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        if self._arguments is None and not any(call.values()):
            return events
        if call.get("name") or self._arguments is None:
            events += self._end_call()
            self._calls += 1
            self._arguments = ArgumentsBuilder()
            self._last = None
            events += self.fold.tool_start(
                self._call_key(), call.get("id"), call.get("name"), thought_signature=signature or None
            )
        for piece in call.get("partialArgs") or ():
            self._arguments.add(piece)
        whole = call.get("args")
        if isinstance(whole, Mapping) and whole:
            self._arguments.add({"structValue": whole})
        return events if call.get("willContinue") else [*events, *self._end_call()]

    def _call_key(self) -> Hashable:
        return ("call", self._calls)

    def _end_call(self, *, cut: bool = False) -> list[StreamEvent]:
        builder, self._arguments = self._arguments, None
        if builder is None:
            return []
        raw = compact_json(builder.finish())
        if builder.broken or cut:
            raw = raw[:-1]  # No longer an object: what was lost must not run as if it were whole.
        return [*self.fold.tool_args(self._call_key(), raw), *self.fold.end(self._call_key())]

    def _usage(self, usage: Json) -> None:
        prompt, cached = usage.get("promptTokenCount"), usage.get("cachedContentTokenCount") or 0
        told = (usage.get("candidatesTokenCount"), usage.get("thoughtsTokenCount"))
        if prompt is None and told == (None, None):
            return
        self.fold.usage(
            input=max((prompt or 0) - cached, 0),
            output=sum(count or 0 for count in told),
            cache_read=cached,
            total_tokens=usage.get("totalTokenCount"),
        )

    def _refusal(self) -> ContentRefused:
        why = str(self._finish_reason or self._blocked)
        said = f"The prompt was blocked: {why}" if self._finish_reason is None else f"The answer ended with {why}"
        if self._finish_message:
            said += f": {self._finish_message}"
        return refused(self.fold, said, kind=why)
