"""Edge. One prompt of a client from its beginning to the reason it stopped; there is one at a time in a session."""

import asyncio
from typing import Any, Final

from attrs import define, field

from coding_agent.errors import TurnFailed
from lemon_ai import ContentRefused
from lemon_otp import Pid

STOP_REASONS: Final = {"length": "max_tokens"}
"""Reasons of a model's last answer that are not `end_turn`."""


@define(eq=False)
class Turn:
    """A prompt that is being worked on.

    Attributes:
        done: The reason it stopped, or `TurnFailed`.
        started: Its run has begun, so that the next end is its own.
        cancelled: The client took it back.
        last_stop: Why the model stopped last.
        said: What the last answer said went wrong.
        error: What its run ended with, where that is known.
        echoed: The prompt itself has come by.
        asker: The process of the request it came with.
    """

    done: "asyncio.Future[str]" = field(factory=lambda: asyncio.get_running_loop().create_future())
    started: bool = False
    cancelled: bool = False
    last_stop: str = "stop"
    said: str | None = None
    error: BaseException | None = None
    echoed: bool = False
    asker: Pid | None = None

    def settle(self, outcome: str, reason: Any = None) -> None:
        """The run is over."""
        if self.done.done() or not (self.started or self.cancelled):
            return
        if self.cancelled or outcome == "aborted":
            self.done.set_result("cancelled")
        elif outcome == "budget":
            self.done.set_result("max_turn_requests")
        elif isinstance(self.error, ContentRefused):
            self.done.set_result("refusal")
        elif outcome == "error":
            self.fail(self.said or str(reason or "the run ended in an error"))
        else:
            self.done.set_result(STOP_REASONS.get(self.last_stop, "end_turn"))

    def fail(self, why: str) -> None:
        """The run broke."""
        if not self.done.done():
            if self.cancelled:
                self.done.set_result("cancelled")
            else:
                failed = TurnFailed(why)
                failed.__cause__ = self.error
                self.done.set_exception(failed)
