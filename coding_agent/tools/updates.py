"""Edge. Reports what there is so far, not more often than somebody can look at it."""

import asyncio
from collections.abc import Callable
from typing import Final

from lemon_agent import OnUpdate, text_result

UPDATE_S: Final = 0.1


class Updates:
    """For one tool call: told that there is more, it reports a moment later."""

    def __init__(self, on_update: OnUpdate | None, so_far: Callable[[], str]) -> None:
        self._on_update = on_update
        self._so_far = so_far
        self._timer: asyncio.TimerHandle | None = None

    def more(self) -> None:
        """There is something new."""
        if self._on_update is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(UPDATE_S, self._tell)

    def close(self) -> None:
        """No more reports."""
        self._on_update = None
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self) -> None:
        self._timer = None
        if self._on_update is not None:
            self._on_update(text_result(self._so_far()))
