"""Pure. AWS event-stream frames, cut out of bytes that arrive in any pieces.

botocore's own parser does the reading and checks both checksums; it is imported when the first byte arrives.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from lemon_ai.providers.sse import FramingError


@frozen
class Frame:
    """One message of the stream.

    Attributes:
        message_type: "event", "exception" or "error".
        event_type: Which event or exception it is.
        payload: The JSON of its body; empty when it has none.
    """

    message_type: str
    event_type: str
    payload: Mapping[str, Any] = field(factory=dict)


class FrameFramer:
    """Turns chunks of bytes into frames."""

    def __init__(self) -> None:
        from botocore.eventstream import EventStreamBuffer

        self._buffer = EventStreamBuffer()

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that `chunk` completed.

        Raises:
            FramingError: The bytes are damaged, or something else altogether.
        """
        from botocore.eventstream import ParserError
        from botocore.exceptions import EventStreamError

        self._buffer.add_data(chunk)
        try:
            return [read_frame(message.headers, message.payload) for message in self._buffer]
        except (ParserError, EventStreamError, ValueError, KeyError) as error:
            raise FramingError(f"an event stream that does not parse ({error})") from error

    def close(self) -> list[Frame]:
        """Nothing: a frame cut short says nothing."""
        return []


class ChunkFramer:
    """The model's own events inside the `chunk` frames of InvokeModelWithResponseStream."""

    def __init__(self) -> None:
        self._frames = FrameFramer()

    def feed(self, chunk: bytes) -> list[Any]:
        """The events that `chunk` completed."""
        return [unwrap(frame) for frame in self._frames.feed(chunk)]

    def close(self) -> list[Any]:
        """Nothing, as `FrameFramer.close`."""
        return []


def read_frame(headers: Mapping[str, Any], payload: bytes) -> Frame:
    """A frame from its headers and its body."""
    message_type = str(headers.get(":message-type", "event"))
    kind = headers.get(":event-type") or headers.get(":exception-type") or headers.get(":error-code") or ""
    if message_type == "error":
        return Frame(message_type, str(kind), {"message": headers.get(":error-message") or ""})
    body = json.loads(payload) if payload.strip() else {}
    return Frame(message_type, str(kind), body if isinstance(body, dict) else {"message": str(body)})


def error_of(frame: Frame) -> dict[str, Any] | None:
    """The error object in an exception or error frame; None for any other."""
    if frame.message_type not in ("exception", "error"):
        return None
    said = frame.payload.get("message") or frame.payload.get("Message") or frame.payload.get("originalMessage") or ""
    return {"error": {"type": frame.event_type, "message": said}}


def unwrap(frame: Frame) -> Any:
    """What a frame of a wrapped stream carries: an event of the model, or an error object.

    Raises:
        FramingError: A chunk without an event.
    """
    failure = error_of(frame)
    if failure is not None:
        return failure
    if frame.event_type != "chunk":
        return frame.payload
    try:
        return json.loads(base64.b64decode(frame.payload["bytes"], validate=True))
    except (KeyError, TypeError, ValueError) as error:
        raise FramingError(f"a chunk frame without an event ({error})") from error
