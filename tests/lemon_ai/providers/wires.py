"""Bodies written by hand and read by a real decoder, through the reader every provider uses."""

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lemon_ai.events import StreamDone, StreamError, StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.messages import AssistantMessage, ToolResultMessage, UserMessage
from lemon_ai.models.model import Model
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.sse import SseFramer
from lemon_ai.providers.wire import WireReader
from lemon_ai.stream_options import Context, StreamOptions, Tool

Message = UserMessage | AssistantMessage | ToolResultMessage


def model(api: str = "anthropic_messages", provider: str = "anthropic", **changes: Any) -> Model:
    """A model that can do everything, unless told otherwise."""
    known: dict[str, Any] = {
        "id": "a-model",
        "reasoning": True,
        "input": ("text", "image"),
        "context_window": 200_000,
        "max_tokens": 64_000,
    }
    return Model(api=api, provider=provider, **(known | changes))


def asked(
    target: Model,
    *messages: Message,
    system: str | None = None,
    tools: Sequence[Tool] = (),
    **options: Any,
) -> ProviderRequest:
    """A request to `target`; without messages somebody says hello."""
    context = Context(system, messages or (UserMessage("hello"),), tuple(tools))
    return ProviderRequest(target, context, StreamOptions(**options))


def answer(target: Model, *content: Any, **changes: Any) -> AssistantMessage:
    """An answer of `target`."""
    stamp = {"api": target.api, "provider": target.provider, "model": target.id, "timestamp": 1}
    return AssistantMessage(content=content, **(stamp | changes))


def sse(*events: Any, named: bool = True) -> bytes:
    """Server-sent events of JSON documents; a string is sent as it is."""
    out = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        name = f"event: {event['type']}\n" if named and isinstance(event, dict) and "type" in event else ""
        out.append(f"{name}data: {data}\n\n")
    return "".join(out).encode()


def read(
    decoder: Callable[[Fold], Any],
    body: bytes,
    *,
    target: Model | None = None,
    framer: Callable[[], Any] = SseFramer,
    sniff: bool = True,
    pieces: int | None = None,
    taken_ids: Iterable[str] = (),
) -> list[StreamEvent]:
    """All events of a body, read whole or in pieces of so many bytes."""
    reader = WireReader(decoder(Fold(target or model(), taken_ids=taken_ids, timestamp=1)), framer=framer, sniff=sniff)
    events: list[StreamEvent] = []
    size = pieces or max(len(body), 1)
    for at in range(0, len(body), size):
        events += reader.feed(body[at : at + size])
    return events if reader.finished else [*events, *reader.close()]


def ended(events: Sequence[StreamEvent]) -> StreamDone | StreamError:
    """The one terminal event, which must be the last."""
    terminal = [event for event in events if isinstance(event, StreamDone | StreamError)]
    assert len(terminal) == 1
    assert events[-1] is terminal[0]
    return terminal[0]


def kinds(events: Iterable[StreamEvent]) -> list[str]:
    """The types of events, in order."""
    return [event.type for event in events]


def aws_frame(kind: str, payload: dict[str, Any] | bytes, message_type: str = "event") -> bytes:
    """One frame as AWS writes it, both checksums right."""
    name = {"event": ":event-type", "exception": ":exception-type", "error": ":error-code"}[message_type]
    headers = b"".join(
        struct.pack("!B", len(key)) + key.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()
        for key, value in ((":message-type", message_type), (name, kind))
    )
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(body), len(headers))
    whole = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + body
    return whole + struct.pack("!I", zlib.crc32(whole))
