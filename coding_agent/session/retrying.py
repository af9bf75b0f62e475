"""Edge. Model calls whose second tries are seen: told before each wait, cut short when asked, left out when not wanted.

`lemon_ai` decides which failures are tried again and when; here a session hears of it. The wait is on the runtime's
clock, and one that is cut short ends the call with the words "Retry cancelled".
"""

import inspect
from collections.abc import Callable
from typing import Any

from attrs import evolve, field

from coding_agent.events import AutoRetryEnd, AutoRetryStart
from lemon_ai import AiError, Context, Model, StreamOptions
from lemon_otp import define, monotonic_s, sleep_s

Tell = Callable[[AutoRetryStart], None]

CUT_SHORT = "Retry cancelled"
LOOK_EVERY_S = 0.05
"""How often a wait looks whether it was cut short."""


class RetryCutShort(AiError):
    """Somebody asked not to wait for the next try."""


@define(eq=False)
class Retries:
    """The tries of the model call that is going on.

    Attributes:
        enabled: Try again at all.
        attempt: Tries after the first since an answer was last complete.
        cut: Counts the requests to wait no longer.
    """

    enabled: bool = True
    attempt: int = 0
    cut: int = 0
    waiting: int = field(default=0, init=False)

    def cut_short(self) -> None:
        """End the wait that is going on, if one is."""
        if self.waiting:
            self.cut += 1

    def over(self, *, success: bool, error: str | None = None) -> AutoRetryEnd | None:
        """An answer is complete, or the run is: what is to be told, if there were tries."""
        attempt, self.attempt = self.attempt, 0
        return None if attempt == 0 else AutoRetryEnd(success, attempt, None if success else error)

    async def wait(self, delay_s: float) -> None:
        """Wait for the next try.

        Raises:
            RetryCutShort: Somebody asked not to.
        """
        cut, until_s = self.cut, monotonic_s() + delay_s
        self.waiting += 1
        try:
            while (left_s := until_s - monotonic_s()) > 0:
                await sleep_s(min(left_s, LOOK_EVERY_S))
                if self.cut != cut:
                    raise RetryCutShort(CUT_SHORT)
        finally:
            self.waiting -= 1


def with_retries_told(retries: Retries, stream_fn: Any, tell: Tell) -> Any:
    """A `stream_fn` whose calls tell of their tries; whoever gave options of his own for that keeps them."""

    def told(attempt: int, most: int, delay_s: float, error: AiError) -> None:
        retries.attempt += 1
        tell(AutoRetryStart(retries.attempt, most, round(delay_s * 1000), str(error)))

    async def retried(model: Model, context: Context, options: StreamOptions) -> Any:
        if not retries.enabled:
            options = evolve(options, max_retries=0)
        elif options.max_retries == 0:  # it was begun without, and somebody has switched it on since
            options = evolve(options, max_retries=None)
        if retries.enabled and options.on_retry is None and options.retry_sleep is None:
            options = evolve(options, on_retry=told, retry_sleep=retries.wait)
        source = stream_fn(model, context, options)
        return await source if inspect.isawaitable(source) else source

    return retried
