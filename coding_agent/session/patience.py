"""Edge. Model calls that wait for their turn: this host's own bucket for a provider is no reason to end a run.

Subagents side by side ask often at one moment, and the bucket says how long to wait. That wait is short and ours to
bear; what a provider asks for is another matter, see `fallback`.
"""

import inspect
from typing import Any, Final

from lemon_ai import Context, Model, RateLimitReached, StreamOptions
from lemon_otp import sleep_s

PATIENCE_S: Final = 30.0
"""What one call may wait in all, before the refusal is told."""
LEAST_S: Final = 0.01


def with_patience(stream_fn: Any) -> Any:
    """A `stream_fn` that asks again as soon as the bucket allows. Raises `RateLimitReached` when that is too late."""

    async def patient(model: Model, context: Context, options: StreamOptions) -> Any:
        left_s = PATIENCE_S
        while True:
            try:
                source = stream_fn(model, context, options)
                return await source if inspect.isawaitable(source) else source
            except RateLimitReached as refused:
                wait_s = max(LEAST_S, refused.retry_after_ms / 1000)
                left_s -= wait_s
                if left_s < 0:
                    raise
                await sleep_s(wait_s)

    return patient
