"""Pure. Ollama's native chat: lines of JSON cut out of bytes, and what they mean."""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from lemon_ai.classify import stream_error, truncated
from lemon_ai.events import StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.providers.sse import LONGEST_EVENT, FramingError
from lemon_ai.wire_text import compact_json

Json = Mapping[str, Any]

DONE_REASONS: Final[Mapping[str, Literal["stop", "length"]]] = {"stop": "stop", "length": "length"}
"""Ollama's word for why an answer ended, to ours; `load` and others are plain stops."""


class NdjsonFramer:
    """Newline-delimited JSON. Lines that are none are tried as one document at the end."""

    def __init__(self) -> None:
        self._carry: list[bytes] = []
        self._carried = 0
        self._stray: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Any]:
        """The documents that `chunk` completed."""
        if b"\n" not in chunk:
            self._carry.append(chunk)
            self._carried += len(chunk)
            if self._carried > LONGEST_EVENT:
                raise FramingError(f"more than {LONGEST_EVENT} bytes without a line end")
            return []
        lines = b"".join([*self._carry, chunk]).split(b"\n")
        self._carry = [lines.pop()]
        self._carried = len(self._carry[0])
        return [document for line in lines for document in self._parsed(line)]

    def close(self) -> list[Any]:
        """The last line, and the whole body if it was one document over several lines."""
        documents = self._parsed(b"".join(self._carry))
        self._carry = []
        if self._stray:
            try:
                documents.append(json.loads(b"\n".join(self._stray)))
            except ValueError as error:
                raise FramingError("lines that are no JSON") from error
        return documents

    def _parsed(self, line: bytes) -> list[Any]:
        line = line.strip()
        if not line:
            return []
        try:
            return [json.loads(line)]
        except ValueError:
            self._stray.append(line)
            return []


class OllamaDecoder:
    """One answer of Ollama's native chat."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self._calls = 0

    def feed(self, frame: Any) -> list[StreamEvent]:
        """What one line means."""
        if not isinstance(frame, Mapping) or self.fold.finished:
            return []
        if frame.get("error"):
            return self.fold.fail("error", stream_error(self.fold.model.provider, frame))
        message = frame.get("message") or {}
        events = [*self.fold.start(), *self.fold.thinking(message.get("thinking") or "")]
        events += self.fold.text(message.get("content") or "")
        for call in message.get("tool_calls") or ():
            events += self._call(call)
        return [*events, *self._end(frame)] if frame.get("done") else events

    def close(self) -> list[StreamEvent]:
        """The bytes ended; without the last line that is a cut answer."""
        return self.fold.fail("error", truncated(self.fold.model.provider))

    def _call(self, call: Json) -> list[StreamEvent]:
        function = call.get("function") or {}
        self._calls += 1
        key = ("call", self._calls)
        arguments = function.get("arguments")
        raw = arguments if isinstance(arguments, str) else compact_json(arguments or {})
        opened = self.fold.tool_start(key, call.get("id"), function.get("name"))
        return [*opened, *self.fold.tool_args(key, raw), *self.fold.end(key)]

    def _end(self, frame: Json) -> list[StreamEvent]:
        self.fold.usage(input=frame.get("prompt_eval_count") or 0, output=frame.get("eval_count") or 0)
        return self.fold.done(DONE_REASONS.get(frame.get("done_reason") or "stop", "stop"))
