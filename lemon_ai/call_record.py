"""Edge. What one model call says of itself by telemetry: that it begins, and once how it ended.

A handler of the first event may put headers into `headers`: they go out with the call's request. That is how a trace
goes on at the other side. Neither event holds anything of the conversation.

Emits: telemetry ("lemon_ai", "model_call", "start" | "stop")
"""

from __future__ import annotations

from itertools import count
from typing import Final
from urllib.parse import urlsplit

from attrs import field

from lemon_ai.errors import AiError
from lemon_ai.messages import AssistantMessage
from lemon_ai.models.model import Model
from lemon_otp import define, monotonic_s, telemetry, wall_ms

_IDS: Final = count(1)


@define(eq=False)
class CallRecord:
    """One model call, from being asked for to its end.

    Attributes:
        model: Who is asked.
        id: Tells this call from every other of this program.
        headers: What handlers want sent along.
        first_s: When something of the answer had come.
    """

    model: Model
    id: int = field(factory=lambda: next(_IDS))
    headers: dict[str, str] = field(factory=dict)
    began_s: float = field(factory=monotonic_s)
    first_s: float | None = None
    _over: bool = False

    def begin(self) -> None:
        """Say that the call is asked for. In the process that asks."""
        metadata = {
            "call_id": self.id,
            "provider": self.model.provider,
            "model": self.model.id,
            "api": self.model.api,
            "server": urlsplit(self.model.base_url or "").hostname,
            "headers": self.headers,
        }
        telemetry.execute(("lemon_ai", "model_call", "start"), {"system_time": wall_ms()}, metadata)

    def end(self, answer: AssistantMessage | None, failure: BaseException | None = None) -> None:
        """Say how it ended; only the first word counts. Without an answer and a failure it was given up."""
        if self._over:
            return
        self._over = True
        now_s = monotonic_s()
        usage = None if answer is None else answer.usage
        measurements = {
            "duration_s": now_s - self.began_s,
            "first_s": None if self.first_s is None else self.first_s - self.began_s,
            "input_tokens": 0 if usage is None else usage.input,
            "output_tokens": 0 if usage is None else usage.output,
            "cache_read_tokens": 0 if usage is None else usage.cache_read,
            "cache_write_tokens": 0 if usage is None else usage.cache_write,
            "cost": 0.0 if usage is None else usage.cost.total,
        }
        metadata = {
            "call_id": self.id,
            "provider": self.model.provider,
            "model": self.model.id,
            "stop_reason": "aborted" if answer is None and failure is None else getattr(answer, "stop_reason", "error"),
            "response_model": None if answer is None else answer.model,
            "response_id": None if answer is None else answer.response_id,
            "failure": _kind_of(failure),
        }
        telemetry.execute(("lemon_ai", "model_call", "stop"), measurements, metadata)


def _kind_of(failure: BaseException | None) -> str | None:
    """One word of a small set for a failure."""
    if isinstance(failure, AiError):
        return type(failure).__name__
    return None if failure is None else "canceled" if not isinstance(failure, Exception) else "unknown"
