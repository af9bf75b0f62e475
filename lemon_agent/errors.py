"""Every exception lemon_agent raises on purpose.

AgentError
├── AlreadyStreaming        a run is going on; steer it or wait
├── NoMessages              nothing to continue from
├── CannotContinue          the last message is the assistant's; there is nothing to answer
├── WaitTimeout             the agent was still busy when the time ran out
├── SubscriberNotAProcess   only a process has a mailbox to deliver to
├── InvalidTool             a tool's declaration contradicts itself
├── InvalidTranscript       a tool call and its result do not pair up; nothing was sent to the model
├── InvalidTransition       the loop tried to leave a state by an edge that is not in the table
├── LoopFailed              a run could not go on; carries the reason its `AgentEnd` reports
└── ToolError               raised by a tool: its reason is what the model is told
"""

from typing import TYPE_CHECKING, Any, Final

from lemon_otp import SpeaksForItself, define, describe

if TYPE_CHECKING:
    from lemon_agent.loop.transcript import Violation

REASON_MAX: Final = 2_000
"""Characters of a reason that is no text."""
WORDS_MAX: Final = 50_000
"""Characters of what an error says."""


def words_of(error: BaseException) -> str:
    """What an error of a tool, a hook or a stream says to the model; its class when it says nothing.

    Its `str` is called, on the loop as what raised it was: saying it well is the business of the tool's author.
    """
    try:
        words = str(error)
    except Exception:
        words = ""
    return words[:WORDS_MAX] or type(error).__name__


class AgentError(SpeaksForItself):
    """Base of every error of this package."""


class AlreadyStreaming(AgentError):
    """A run is going on. Nothing was started or changed."""


class NoMessages(AgentError, ValueError):
    """The transcript is empty, so there is nothing to continue from."""


class CannotContinue(AgentError, ValueError):
    """The transcript ends with an answer and nothing is queued, so there is nothing to continue."""


class WaitTimeout(AgentError):
    """The agent was still busy when the time ran out. The run goes on; this caller is no longer waiting."""


class SubscriberNotAProcess(AgentError):
    """`subscribe` was called by code that has no mailbox, without saying which process should get the events."""


class InvalidTool(AgentError):
    """A tool's declaration contradicts itself, such as a retry rule on a tool that is not idempotent."""


@define(eq=False)
class InvalidTranscript(AgentError):
    """A tool call and its result do not pair up. Nothing was sent to the model.

    Attributes:
        violations: Everything that is wrong, in message order; never empty.
    """

    violations: "tuple[Violation, ...]"

    def __str__(self) -> str:
        return "; ".join(str(violation) for violation in self.violations)


@define(eq=False)
class InvalidTransition(AgentError):
    """The loop tried to leave a state by an edge that is not in its table: a bug in the loop.

    Attributes:
        kind: "unknown_loop_state" or "invalid_loop_state_transition".
        from_state: Where the loop was; None before its first state.
        to_state: Where it wanted to go.
    """

    kind: str
    from_state: str | None
    to_state: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.from_state} -> {self.to_state}"


@define(eq=False)
class LoopFailed(AgentError):
    """A run could not go on.

    Attributes:
        reason: The value `AgentEnd.reason` carries: a stable string, a tuple starting with one, or what a hook raised.
        text: The same for a person.
    """

    reason: Any
    text: str

    def __str__(self) -> str:
        return self.text


@define(eq=False)
class ToolError(AgentError):
    """Raised by a tool that could not do what it was asked.

    The call gets an error result whose text is the reason: a string as it stands, anything else as `describe` shows it.

    Attributes:
        reason: What the model is told.
        details: For logs and screens; never sent to the model.
    """

    reason: Any
    details: Any = None

    def __str__(self) -> str:
        return self.reason if isinstance(self.reason, str) else describe(self.reason, REASON_MAX)
