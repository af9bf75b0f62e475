"""Edge. For who wants to see what went over the wire: a private file, redacted, and only when asked for.

LEMON_AI_HTTP_TRACE=1 writes a line for each request and each end of an answer to `http-trace.jsonl`, and a file with
the whole request for each that a provider refused with a status of 4xx. LEMON_AI_DEBUG=1 adds every document of the
answers; LEMON_AI_DEBUG_FILE names another file for those. They lie in LEMON_AI_HTTP_TRACE_DIR, else in `lemon/logs` in
the user's folder for state; folders are made with mode 0700 and files with 0600.

Nothing in here raises, and no message a person sees grows by what was sent.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

from attrs import evolve, field

from lemon_ai.errors import ProviderError
from lemon_ai.events import StreamDone, StreamError, StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.wire import Decoder, WireCall
from lemon_ai.redaction import redact, redact_headers, secrets_of
from lemon_ai.stream_options import StreamOptions
from lemon_otp import define, frozen, make_private, monotonic_s, wall_ms

VARIABLE: Final = "LEMON_AI_HTTP_TRACE"
DEBUG_VARIABLE: Final = "LEMON_AI_DEBUG"
PREVIEW_BYTES: Final = 1_200
_ON: Final = frozenset({"1", "true", "yes", "on"})
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"

_log = logging.getLogger(__name__)
_numbers = count()


class Transport(Protocol):
    """What makes the calls that are traced."""

    def stream(
        self, request: ProviderRequest, call: WireCall, decoder: Decoder
    ) -> AsyncGenerator[StreamEvent, None]: ...


@frozen
class TraceSettings:
    """What is written, and where.

    Attributes:
        trace: A line for each request and each end; a file for each refused request.
        documents: Every document of the answers, too.
        folder: Where it all lies.
        documents_file: Where the documents go instead of into the trace.
    """

    trace: bool
    documents: bool
    folder: Path
    documents_file: Path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> TraceSettings:
        """The settings an environment asks for."""
        state = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME") or Path.home()) / ".local" / "state"
        folder = Path(environ.get(f"{VARIABLE}_DIR") or Path(state) / "lemon" / "logs")
        documents_file = Path(environ.get(f"{DEBUG_VARIABLE}_FILE") or folder / "http-documents.jsonl")
        return cls(_is_on(environ, VARIABLE), _is_on(environ, DEBUG_VARIABLE), folder, documents_file)


def traced(
    transport: Transport,
    request: ProviderRequest,
    call: WireCall,
    decoder: Decoder,
    environ: Mapping[str, str] = os.environ,
) -> AsyncGenerator[StreamEvent, None]:
    """The events of one call, as `transport` gives them; what the environment asks for is written beside it."""
    if not (_is_on(environ, VARIABLE) or _is_on(environ, DEBUG_VARIABLE)):
        return transport.stream(request, call, decoder)
    return HttpTrace(TraceSettings.of(environ), request, call).run(transport, decoder)


@define(eq=False)
class HttpTrace:
    """One call and what is written about it.

    Attributes:
        id: Names the call in every line about it: its provider and a number in base 36.
    """

    settings: TraceSettings
    request: ProviderRequest
    call: WireCall
    id: str = field(init=False)
    _began_s: float = field(factory=monotonic_s, init=False)
    _sent: dict[str, Any] = field(factory=dict, init=False)
    _ended: bool = field(default=False, init=False)
    _secrets: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.id = f"{self.request.model.provider}-{base36(wall_ms() * 1000 + next(_numbers) % 1000)}"
        self._secrets = secrets_of(self.request.options, self.call.headers)

    async def run(self, transport: Transport, decoder: Decoder) -> AsyncGenerator[StreamEvent, None]:
        """The events of the call. A reader that stops before the end has it written down as closed."""
        shown: Decoder = _ShownDecoder(decoder, self, decoder.fold) if self.settings.documents else decoder
        request = evolve(self.request, options=self._listening())
        try:
            async with aclosing(transport.stream(request, self.call, shown)) as events:
                async for event in events:
                    if type(event) is StreamDone:
                        self._end("done", stop_reason=event.reason)
                    elif type(event) is StreamError:
                        self._failed(event.error)
                    yield event
        except ProviderError as error:
            self._failed(error)
            raise
        except BaseException:
            self._end("closed")
            raise

    def document(self, document: Any) -> None:
        """Write one document of the answer."""
        line = {"id": self.id, "at_ms": wall_ms(), "document": self._clean(_text(document))}
        _append(self.settings.documents_file, line)

    def _listening(self) -> StreamOptions:
        """The caller's options, with an ear for what is sent and what comes back."""
        options = self.request.options

        async def on_payload(body: dict[str, Any]) -> dict[str, Any] | None:
            changed = await options.payload_instead(body)
            self._request(changed or body)
            return changed

        def on_response(status: int, headers: Mapping[str, str]) -> None:
            self._write("response", status=status, headers=self._headers(headers))
            if options.on_response is not None:
                options.on_response(status, headers)

        return evolve(options, on_payload=on_payload, on_response=on_response)

    def _request(self, body: dict[str, Any]) -> None:
        self._sent = body
        text = self._clean(_text(body))
        self._write(
            "request",
            method=self.call.method,
            url=self._clean(self.call.url),
            headers=self._headers(self.call.headers),
            body_bytes=len(text.encode("utf-8", "replace")),
            body=preview(text),
        )

    def _failed(self, error: object) -> None:
        if not isinstance(error, ProviderError):
            self._end("failed", error=type(error).__name__)
            return
        detail = self._detail(error)
        self._end("failed", **detail)
        if self.settings.trace and error.status is not None and 400 <= error.status < 500:
            self._inspect(error.status, detail)

    def _inspect(self, status: int, detail: dict[str, Any]) -> None:
        """Keep the whole of a request that was refused."""
        provider = "".join(letter if letter.isalnum() else "_" for letter in self.request.model.provider)
        request = {
            "method": self.call.method,
            "url": self._clean(self.call.url),
            "headers": self._headers(self.call.headers),
            "body": self._clean(_text(self._sent)),
        }
        path = (
            self.settings.folder / "http-errors" / f"{provider}-{status}-{wall_ms()}-{self.id.rpartition('-')[2]}.json"
        )
        _append(path, {"id": self.id, "request": request, "error_status": status, "error_detail": detail})

    def _detail(self, error: ProviderError) -> dict[str, Any]:
        said = {
            "error": type(error).__name__,
            "status": error.status,
            "code": error.code,
            "type": error.type,
            "request_id": error.request_id,
            "message": error.message,
        }
        return {name: self._clean(value) if isinstance(value, str) else value for name, value in said.items()}

    def _end(self, how: str, **facts: Any) -> None:
        if not self._ended:
            self._ended = True
            self._write(how, elapsed_ms=round((monotonic_s() - self._began_s) * 1000), **facts)

    def _write(self, what: str, **facts: Any) -> None:
        if self.settings.trace:
            model = self.request.model
            line = {"id": self.id, "at_ms": wall_ms(), "event": what, "provider": model.provider, "model": model.id}
            _append(self.settings.folder / "http-trace.jsonl", line | facts)

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {name: self._clean(value) for name, value in redact_headers(headers).items()}

    def _clean(self, text: str) -> str:
        return redact(text, self._secrets)


@define(eq=False)
class _ShownDecoder:
    """A decoder whose documents are written down on their way in."""

    decoder: Decoder
    trace: HttpTrace
    fold: Fold

    def feed(self, event: Any) -> list[StreamEvent]:
        self.trace.document(event)
        return self.decoder.feed(event)

    def close(self) -> list[StreamEvent]:
        return self.decoder.close()


def preview(text: str) -> str:
    """The beginning of a text, at most 1,200 bytes of it; one that is longer says so."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= PREVIEW_BYTES:
        return text
    return f"{raw[:PREVIEW_BYTES].decode('utf-8', 'ignore')}… [{len(raw) - PREVIEW_BYTES} more bytes]"


def base36(number: int) -> str:
    """A number from 0 in digits and small letters."""
    digits = _DIGITS[number % 36]
    while number := number // 36:
        digits = _DIGITS[number % 36] + digits
    return digits


def _is_on(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").strip().lower() in _ON


def _text(document: Any) -> str:
    return document if isinstance(document, str) else json.dumps(document, ensure_ascii=False, default=str)


def _append(path: Path, line: dict[str, Any]) -> None:
    """Add a line to a private file. What cannot be written is dropped: no call fails for it."""
    try:
        make_private(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
    except (OSError, ValueError) as error:
        _log.info("Nothing is traced to %s: %s", path, error)
