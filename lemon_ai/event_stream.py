"""Value. lemon_otp's stream with the terminal events of a model call."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from attrs import evolve

from lemon_ai.errors import AiError, ProviderError
from lemon_ai.events import StreamCanceled, StreamDone, StreamError, StreamEvent
from lemon_ai.messages import AssistantMessage
from lemon_ai.models.model import Model
from lemon_otp import Canceled, Completed, EventStream, Failed, Pid, Terminals, reason_words

MAX_QUEUE = 10_000

ModelStream: TypeAlias = EventStream[StreamEvent, AssistantMessage]
"""The events of one model call; `result` is the whole message."""


def open_model_stream(model: Model, *, timeout_ms: int | None, owner: Pid | None = None) -> ModelStream:
    """An empty stream that belongs to `owner`, or to the caller."""
    return EventStream.start(
        owner=owner or "caller", max_queue=MAX_QUEUE, timeout_ms=timeout_ms, terminals=terminals_of(model)
    )


def terminals_of(model: Model) -> Terminals:
    """How a call of this model may end."""

    def failed(reason: Any, partial: Any) -> StreamError:
        message = partial if isinstance(partial, AssistantMessage) else empty_message(model)
        error = reason if isinstance(reason, AiError) else crashed(model, reason)
        told = evolve(message, stop_reason="error", error_message=str(error))
        if isinstance(error, ProviderError):
            error.partial = told
        return StreamError("error", told, error)

    return Terminals(completed=_done, failed=failed, canceled=StreamCanceled, classify=_kind, outcome_of=_outcome)


def empty_message(model: Model) -> AssistantMessage:
    """An answer of this model in which nothing was said."""
    return AssistantMessage(api=model.api, provider=model.provider, model=model.id)


def crashed(model: Model, reason: Any) -> ProviderError:
    """The error of a stream whose worker ended without a terminal event."""
    if isinstance(reason, tuple) and len(reason) == 2 and reason[0] in ("task_crashed", "runner_crashed"):
        reason = reason[1]
    return ProviderError(provider=model.provider, message=f"Streaming task crashed: {reason_words(reason)}")


def _done(message: AssistantMessage) -> StreamDone:
    reason: Literal["stop", "length", "tool_use"] = "stop"
    if message.stop_reason == "length" or message.stop_reason == "tool_use":
        reason = message.stop_reason
    return StreamDone(reason, message)


def _kind(event: Any) -> Literal["completed", "failed", "canceled"] | None:
    if isinstance(event, StreamDone):
        return "completed"
    if isinstance(event, StreamError):
        return "failed"
    return "canceled" if isinstance(event, StreamCanceled) else None


def _outcome(event: Any, kind: str) -> Completed | Failed | Canceled:
    match event:
        case StreamDone():
            return Completed(event.message)
        case StreamError():
            return Failed(event.error if event.error is not None else event.reason, event.message)
    return Canceled(event.reason)
