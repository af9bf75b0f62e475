"""Edge. What a run is given from its agent's queues: by a call to the agent, unless that would be for nothing.

Used by the loop's process, which looks into the agent's work to be spared that call; it changes nothing there.
"""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

from lemon_agent import agent_protocol as ask
from lemon_agent.inbox import Taken
from lemon_agent.loop.config import Gate, GetMessages
from lemon_otp import Pid, call, mailbox_length

if TYPE_CHECKING:
    from lemon_agent.agent_runs import Work


class QueueFeed:
    """The `Feed` of one run.

    Args:
        work: The agent's.
        agent: Whose run it is.
        number: Which of its runs.
        drained: The run's prompts come from a queue, and no more is taken for its first turn.
    """

    __slots__ = ("_agent", "_drained", "_number", "_work", "gate", "listeners")

    def __init__(self, work: "Work", agent: Pid, number: int, *, drained: bool) -> None:
        self.gate: Gate = work.gate
        self.listeners: Mapping[Any, Any] = work.outboxes
        self._work = work
        self._agent = agent
        self._number = number
        self._drained = drained

    def steering(self) -> GetMessages | None:
        """Takes what to inject after the current turn."""
        if self._drained:
            self._drained = False
            return None
        return None if self._nothing_waits() else self._take_steering

    def follow_up(self) -> GetMessages | None:
        """Takes what to go on with; the agent may wait for a message that is on its way."""
        if self._work.options.follow_up_window_ms <= 0 and self._nothing_waits():
            return None
        return self._take_follow_up

    def _take_steering(self) -> Awaitable[Taken]:
        return call(self._agent, ask.TakeSteering(self._number), timeout_s=self._work.options.queue_call_timeout_s)

    def _take_follow_up(self) -> Awaitable[Taken]:
        return call(self._agent, ask.TakeFollowUp(self._number), timeout_s=self._work.options.queue_call_timeout_s)

    def _nothing_waits(self) -> bool:
        """Is there nothing for the run to take, neither in the queues nor on its way to them?

        Nobody changes the queues between this look and the answer. What has been sent to the agent, but for word of the
        run's own events, counts as on its way.
        """
        run, inbox = self._work.run, self._work.inbox
        if run is None or inbox.steering or inbox.follow_up:
            return False
        return mailbox_length(self._agent) == run.run.stream.listener_told
