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
from lemon_otp import Pid, ReceiveTimeout, define, receive, self_pid, send

Tell = Callable[[AutoRetryStart], None]

CUT_SHORT = "Retry cancelled"


class RetryCutShort(AiError):
    """Somebody asked not to wait for the next try."""


class _Enough:
    """To a process that waits for the next try: wait no longer."""


@define(eq=False)
class Retries:
    """The tries of the model call that is going on.

    Attributes:
        enabled: Try again at all.
        attempt: Tries after the first since an answer was last complete.
    """

    enabled: bool = True
    attempt: int = 0
    _waiting: list[Pid] = field(factory=list)

    def cut_short(self) -> None:
        """End the wait that is going on, if one is."""
        for pid in self._waiting:
            send(pid, _Enough())

    def over(self, *, success: bool, error: str | None = None) -> AutoRetryEnd | None:
        """An answer is complete, or the run is: what is to be told, if there were tries."""
        attempt, self.attempt = self.attempt, 0
        return None if attempt == 0 else AutoRetryEnd(success, attempt, None if success else error)

    async def wait(self, delay_s: float) -> None:
        """Wait for the next try, in the process of the call.

        Raises:
            RetryCutShort: Somebody asked not to.
        """
        me = self_pid()
        self._waiting.append(me)
        try:
            await receive(lambda message: isinstance(message, _Enough), timeout_s=delay_s)
        except ReceiveTimeout:
            return
        finally:
            self._waiting.remove(me)
        raise RetryCutShort(CUT_SHORT)


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
