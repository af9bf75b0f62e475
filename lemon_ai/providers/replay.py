"""Edge. `replay/FILE`: a recorded conversation, said again.

The file is a session file, a line a message, or a recording of events, a line an event. The nth call of a
conversation gets the file's nth answer, in pieces, with its recorded usage, end and error; nothing is read from the
prompt and nothing is random.
"""

from __future__ import annotations

import json
from asyncio import sleep as give_way
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from lemon_ai.classify import text_error, truncated
from lemon_ai.codec import message_from_wire
from lemon_ai.errors import AiError, BadScript
from lemon_ai.events import StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.script import pieces
from lemon_otp import frozen, sleep_s

_EVENTS_A_TURN: Final = 16


@frozen
class ReplayProvider:
    """Says a recorded conversation again.

    Attributes:
        chunk_delay_ms: Time between two pieces.
    """

    api: ClassVar[str] = "replay"
    chunk_delay_ms: int = 0

    async def stream(self, request: ProviderRequest) -> AsyncIterator[StreamEvent]:
        """See `Provider.stream`."""
        recorded = read_recording(Path(request.model.id))
        said = sum(
            isinstance(message, AssistantMessage) and message.stop_reason not in ("error", "aborted")
            for message in request.context.messages
        )
        if said >= len(recorded):
            raise BadScript(source=request.model.id, problem=f"holds {len(recorded)} answers, and all have been said")
        fold = Fold(request.model)
        for number, events in enumerate(replayed(recorded[said], fold)):
            for event in events:
                yield event
            if self.chunk_delay_ms:
                await sleep_s(self.chunk_delay_ms / 1000)
            elif number % _EVENTS_A_TURN == 0:
                await give_way(0)


def replayed(message: AssistantMessage, fold: Fold) -> Iterable[list[StreamEvent]]:
    """The events of a recorded answer, a piece at a time."""
    yield fold.start()
    fold.response_id(message.response_id)
    for place, block in enumerate(message.content):
        match block:
            case TextContent(text, signature):
                yield fold.text_start(place, signature=signature)
                for piece in pieces(text):
                    yield fold.text(piece, place)
            case ThinkingContent(thinking, signature, redacted):
                yield fold.thinking_start(place, signature=signature, redacted=redacted)
                for piece in pieces(thinking):
                    yield fold.thinking(piece, place)
            case ToolCall():
                yield fold.tool_start(place, block.id, block.name, thought_signature=block.thought_signature)
                raw = block.invalid if block.invalid is not None else json.dumps(dict(block.arguments))
                for piece in pieces(raw):
                    yield fold.tool_args(place, piece)
        yield fold.end(place)
    usage = message.usage
    fold.usage(
        input=usage.input,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        total_tokens=usage.total_tokens,
    )
    yield _ended(message, fold)


def _ended(message: AssistantMessage, fold: Fold) -> list[StreamEvent]:
    said = message.error_message or ""
    match message.stop_reason:
        case "error":
            return fold.fail("error", text_error(fold.model.provider, said) if said else truncated(fold.model.provider))
        case "aborted" | "redirected":
            return fold.fail("aborted", said or "Request was aborted")
    return fold.done(message.stop_reason)


def read_recording(path: Path) -> list[AssistantMessage]:
    """The answers of a recording, in order.

    Raises:
        BadScript: The file cannot be read, or holds no answer.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadScript(source=str(path), problem=f"cannot be read: {error}") from None
    answers = [answer for line in lines if (answer := _answer(line)) is not None]
    if not answers:
        raise BadScript(source=str(path), problem="holds no answer of a model")
    return answers


def _answer(line: str) -> AssistantMessage | None:
    """The answer a line holds: an entry of a session, a bare message, or the event that ended a stream."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict):
        return None
    holder = entry.get("message") if isinstance(entry.get("message"), Mapping) else entry
    is_answer = isinstance(holder, Mapping) and holder.get("role") == "assistant"
    if not is_answer or entry.get("type") not in (None, "message", "done", "error"):
        return None
    return _read(holder)


def _read(holder: Any) -> AssistantMessage | None:
    try:
        message = message_from_wire(holder)
    except (AiError, KeyError, TypeError, ValueError):
        return None
    return message if isinstance(message, AssistantMessage) else None
