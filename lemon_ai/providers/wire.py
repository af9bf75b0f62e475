"""Pure. A body, in whatever pieces it arrives, to stream events: picks the framing, feeds the decoder, judges the end.

A body announced as a stream may be anything: the stream, one JSON document, an error object, an HTML page. The
first byte tells, not the content type.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from attrs import field

from lemon_ai.classify import http_error
from lemon_ai.errors import ProviderError, ProviderUnavailable, StreamTruncated
from lemon_ai.events import StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.providers.sse import Framer, FramingError, ServerSentEvent, SseFramer
from lemon_otp import frozen


@frozen
class WireCall:
    """One HTTP request, encoded.

    Attributes:
        url: Where it goes.
        headers: Names in lower case; credentials included.
        body: The JSON document to post.
        framer: Makes what cuts the answer into frames.
        sniff: A body that begins like a JSON document is one, whatever it was announced as.
        sign: Adds headers that depend on the exact bytes sent.
        idle_timeout_s: The longest silence while the answer streams.
        method: "POST" unless told otherwise.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: dict[str, Any] = field(repr=False)
    framer: Callable[[], Framer] = SseFramer
    sniff: bool = True
    sign: Callable[[str, str, Mapping[str, str], bytes], Mapping[str, str]] | None = None
    idle_timeout_s: float = 300.0
    method: str = "POST"


class Decoder(Protocol):
    """Turns one wire format's documents into stream events, through a fold. It never raises for what a server sends."""

    fold: Fold

    def feed(self, event: Any) -> list[StreamEvent]:
        """The events one JSON document gives: none, one or several. A whole answer in one document is one, too.

        The end marker of Chat Completions comes as the string "[DONE]".
        """
        ...

    def close(self) -> list[StreamEvent]:
        """The body ended: the last events; `truncated` if the answer's logical end was never seen."""
        ...


class WireReader:
    """Reads one body with one decoder. Feed it bytes, then close it; after the terminal event it says nothing.

    Attributes:
        skipped: Events whose data was no JSON; they are passed over.
    """

    def __init__(self, decoder: Decoder, *, framer: Callable[[], Framer] = SseFramer, sniff: bool = True) -> None:
        self._decoder = decoder
        self._framer = framer()
        self._mode = "unknown" if sniff else "frames"
        self._pieces: list[bytes] = []
        self.skipped = 0

    @property
    def finished(self) -> bool:
        """Whether the terminal event was given."""
        return self._decoder.fold.finished

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """The events that `chunk` completed."""
        if self._mode == "unknown":
            self._pieces.append(chunk)
            head = b"".join(self._pieces).removeprefix(b"\xef\xbb\xbf").lstrip()
            if not head or head in (b"\xef", b"\xef\xbb"):
                return []
            self._mode = {b"{": "document", b"[": "document", b"<": "page"}.get(head[:1], "frames")
            if self._mode != "frames":
                return []
            chunk, self._pieces = b"".join(self._pieces), []
        elif self._mode != "frames":
            self._pieces.append(chunk)
            return []
        try:
            return self._decoded(self._framer.feed(chunk))
        except FramingError as problem:
            return self._fail(self._garbage(str(problem)))

    def close(self, error: ProviderError | None = None) -> list[StreamEvent]:
        """The last events, now that the body ended, in order or with `error`."""
        if self.finished:
            return []
        if error is not None:
            self._decoder.fold.lost(error)
        events: list[StreamEvent] = []
        if self._mode == "frames":
            try:
                events = self._decoded(self._framer.close())
            except FramingError as problem:
                events = self._fail(self._garbage(str(problem)))
        elif self._mode != "unknown":
            events = self._whole(b"".join(self._pieces), error)
        return events if self.finished else [*events, *self._decoder.close()]

    def _decoded(self, frames: list[Any]) -> list[StreamEvent]:
        if len(frames) == 1:
            return self._document(frames[0])
        events: list[StreamEvent] = []
        for frame in frames:
            events.extend(self._document(frame))
        return events

    def _document(self, frame: Any) -> list[StreamEvent]:
        if type(frame) is not ServerSentEvent:
            return self._told(frame)
        data = frame.data
        if data.startswith("[DONE]"):
            return self._told("[DONE]")
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            if frame.event != "error":
                self.skipped += 1
                return []
            document = data
        if frame.event == "error" and not (isinstance(document, dict) and ("error" in document or "type" in document)):
            document = {"error": document}
        return self._told(document)

    def _told(self, document: Any) -> list[StreamEvent]:
        """What the decoder makes of it; a document of no shape it can read ends the answer, as garbage."""
        try:
            return self._decoder.feed(document)
        except (AttributeError, LookupError, TypeError, ValueError):
            return self._fail(self._garbage("an event that has not the shape of its kind"))

    def _whole(self, raw: bytes, error: ProviderError | None) -> list[StreamEvent]:
        text = raw.decode("utf-8", "replace")
        if self._mode == "page":
            return self._fail(self._page(text))
        try:
            document = json.loads(text.removeprefix("\ufeff"))
        except (ValueError, RecursionError):
            return self._fail(error or self._garbage("a JSON document that does not parse"))
        events: list[StreamEvent] = []
        for part in document if isinstance(document, list) else [document]:
            events.extend(self._told(part))
        return events

    def _fail(self, error: ProviderError) -> list[StreamEvent]:
        return self._decoder.fold.fail("error", error)

    def _page(self, text: str) -> ProviderError:
        provider = self._decoder.fold.model.provider
        said = http_error(provider, 502, text, {}).provider_message or "an HTML page"
        return ProviderUnavailable(
            provider=provider,
            message=f"{provider} answered with an HTML page ({said}), not with a model's answer. Check base_url.",
            provider_message=said,
        )

    def _garbage(self, what: str) -> ProviderError:
        provider = self._decoder.fold.model.provider
        return StreamTruncated(provider=provider, message=f"{provider} answered with {what}.")


def read_all(decoder: Decoder, chunks: list[bytes], *, framer: Callable[[], Framer] = SseFramer) -> list[StreamEvent]:
    """All events of a body given in pieces: for tests and recordings, no network."""
    reader = WireReader(decoder, framer=framer, sniff=framer is SseFramer)
    events: list[StreamEvent] = []
    for chunk in chunks:
        events.extend(reader.feed(chunk))
        if reader.finished:
            return events
    return [*events, *reader.close()]
