"""Edge. Something that is to be done once, soon, and not again before it is asked for again."""

import asyncio
from collections.abc import Callable
from typing import Any

from attrs import define, field

from lemon_otp import monotonic_s


@define(eq=False)
class Alarm:
    """Does `work` at the earliest time it was asked for."""

    work: Callable[[], Any]
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _due_s: float = field(default=0.0, init=False)

    @property
    def is_set(self) -> bool:
        """Whether it will do its work."""
        return self._timer is not None

    def by(self, due_s: float) -> None:
        """Do it at this time of the runtime's clock, unless it is done before anyway."""
        if self._timer is not None:
            if due_s >= self._due_s:
                return
            self._timer.cancel()
        self._due_s = due_s
        self._timer = asyncio.get_running_loop().call_later(max(0.0, due_s - monotonic_s()), self._rings)

    def after(self, delay_s: float) -> None:
        """Do it so long from now, and not before."""
        self.off()
        self.by(monotonic_s() + delay_s)

    def off(self) -> None:
        """Do it no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rings(self) -> None:
        self._timer = None
        self.work()
