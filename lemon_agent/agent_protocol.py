"""Value. What an agent's process is asked and told."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from attrs import field

from lemon_agent.agent_state import AgentState, Queues
from lemon_agent.errors import AgentError
from lemon_agent.events import AgentMessage
from lemon_agent.inbox import Taken
from lemon_agent.outbox import Delivery
from lemon_otp import MonitorRef, Pid, Request, frozen


@frozen
class Prompt(Request[AgentError | None]):
    """Start a run that begins with these messages."""

    messages: tuple[AgentMessage, ...]


@frozen
class Continue(Request[AgentError | None]):
    """Start a run that goes on from where the conversation stands."""


@frozen(eq=False)
class WaitForIdle(Request[None]):
    """Answer when no run is going on."""


@frozen
class Reset(Request[None]):
    """Forget the conversation and the queues, after the run if there is one."""


@frozen
class GetState(Request[AgentState]):
    """Say how things stand."""


@frozen
class GetQueues(Request[Queues]):
    """Say what waits."""


@frozen
class ClearQueues(Request[Queues]):
    """Empty queues and hand back what was in them."""

    steering: bool = True
    follow_up: bool = True
    next_turn: bool = False


@frozen
class Configure(Request[Exception | None]):
    """Let these options hold from the next run on, queue modes from the next drain on; why not, when one is bad."""

    changes: Mapping[str, Any]


@frozen
class GetOption(Request[Any]):
    """Say what an option is."""

    name: str


@frozen
class ReplaceMessages(Request[None]):
    """Let this be the conversation."""

    messages: tuple[AgentMessage, ...]


@frozen
class AppendMessage(Request[None]):
    """Add a message to the conversation, without a run and without an event."""

    message: AgentMessage


@frozen
class Subscribe(Request[MonitorRef]):
    """Send a process every event from now on."""

    pid: Pid
    delivery: Delivery


@frozen
class TakeSteering(Request[Taken]):
    """A run asks what should be injected after the current turn."""

    run: int


@frozen
class TakeFollowUp(Request[Taken]):
    """A run that would end asks whether there is anything to go on with."""

    run: int


AgentCall: TypeAlias = (
    Prompt
    | Continue
    | WaitForIdle
    | Reset
    | GetState
    | GetQueues
    | ClearQueues
    | Configure
    | GetOption
    | ReplaceMessages
    | AppendMessage
    | Subscribe
    | TakeSteering
    | TakeFollowUp
)


@frozen
class Abort:
    """End the run, if there is one."""

    reason: Any


@frozen
class Steer:
    """Put messages into the running conversation, or into the next one."""

    queued: Taken


@frozen
class FollowUp:
    """Go on with these messages once the conversation would stop."""

    queued: Taken


@frozen
class ForNextTurn:
    """Put these messages before the next prompt."""

    queued: Taken


@frozen
class Redirect:
    """Give up the model request in flight and go on with these messages; without one, follow up."""

    queued: Taken


@frozen
class RunWhenIdle:
    """Call a function in a process of its own once no run is going on."""

    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()


@frozen
class Unsubscribe:
    """Send a subscriber no more events."""

    ref: MonitorRef


@frozen
class Grant:
    """Allow a subscriber so many more events."""

    ref: MonitorRef
    more: int


@frozen(eq=False)
class StopWaiting:
    """Whoever waited for the agent to be idle waits no longer."""

    asked: WaitForIdle = field()


AgentCast: TypeAlias = (
    Abort | Steer | FollowUp | ForNextTurn | Redirect | RunWhenIdle | Unsubscribe | Grant | StopWaiting
)
