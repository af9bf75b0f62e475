"""Pure. Messages that wait for a run to take them: which is next, and when.

Three queues, first in first out, that never mix. Steering goes into a running conversation after the current turn;
follow-ups continue it once it would stop; next-turn messages wait for the next prompt and go before it.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from attrs import evolve

from lemon_agent.events import AgentMessage
from lemon_otp import frozen

QueueMode: TypeAlias = Literal["one_at_a_time", "all"]
"""How much of a queue one drain takes."""

_SPELLINGS: Final[dict[str, QueueMode]] = {
    "one_at_a_time": "one_at_a_time",
    "one-at-a-time": "one_at_a_time",
    "all": "all",
}


def queue_mode(name: str) -> QueueMode:
    """The mode of that name; a dash counts as an underscore.

    Raises:
        ValueError: There is no such mode.
    """
    try:
        return _SPELLINGS[name]
    except KeyError:
        raise ValueError(f"no queue mode {name!r}; there are: one_at_a_time, all") from None


@frozen
class Queued:
    """A message that waits, and the system prompt the run should go on with once it is taken."""

    message: AgentMessage
    system_prompt: str | None = None


Taken: TypeAlias = tuple[Queued, ...]


@frozen
class Inbox:
    """The three queues and the modes of two of them."""

    steering: Taken = ()
    follow_up: Taken = ()
    next_turn: Taken = ()
    steering_mode: QueueMode = "one_at_a_time"
    follow_up_mode: QueueMode = "one_at_a_time"

    def steer(self, *queued: Queued) -> "Inbox":
        """With more messages for the current conversation."""
        return evolve(self, steering=(*self.steering, *queued))

    def followed_up(self, *queued: Queued) -> "Inbox":
        """With more messages for when the conversation would stop."""
        return evolve(self, follow_up=(*self.follow_up, *queued))

    def for_next_turn(self, *queued: Queued) -> "Inbox":
        """With more messages to go before the next prompt."""
        return evolve(self, next_turn=(*self.next_turn, *queued))

    def take_steering(self) -> tuple["Inbox", Taken]:
        """Drain steering as its mode says."""
        if not self.steering:
            return self, ()
        taken, left = _split(self.steering, self.steering_mode)
        return evolve(self, steering=left), taken

    def take_follow_up(self) -> tuple["Inbox", Taken]:
        """Drain follow-ups as their mode says."""
        if not self.follow_up:
            return self, ()
        taken, left = _split(self.follow_up, self.follow_up_mode)
        return evolve(self, follow_up=left), taken

    def take_next(self) -> tuple["Inbox", Taken]:
        """What a run that begins without a prompt begins with: steering if there is any, else follow-ups."""
        return self.take_steering() if self.steering else self.take_follow_up()

    def take_next_turn(self) -> tuple["Inbox", Taken]:
        """Everything that waits for the next prompt."""
        return (evolve(self, next_turn=()), self.next_turn) if self.next_turn else (self, ())

    def cleared(self, *, steering: bool = False, follow_up: bool = False, next_turn: bool = False) -> "Inbox":
        """With the named queues empty."""
        return evolve(
            self,
            steering=() if steering else self.steering,
            follow_up=() if follow_up else self.follow_up,
            next_turn=() if next_turn else self.next_turn,
        )

    @property
    def waiting(self) -> bool:
        """Is there something a run could be started with, or go on with?"""
        return bool(self.steering or self.follow_up)


def last_system_prompt(taken: Sequence[Queued]) -> str | None:
    """The system prompt of the last message that brought one."""
    for queued in reversed(taken):
        if queued.system_prompt is not None:
            return queued.system_prompt
    return None


def _split(queue: Taken, mode: QueueMode) -> tuple[Taken, Taken]:
    return (queue, ()) if mode == "all" else (queue[:1], queue[1:])
