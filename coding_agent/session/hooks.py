"""Edge. Where others have a say in what a session does, beside its agent's own hooks: before a run begins, before the
conversation is made shorter, before it goes on elsewhere in its tree.

They are asked in a process of their own, so that the session answers meanwhile. What they may take is theirs to bound;
an abort ends the wait in any case.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from coding_agent.session.protocol import Tell
from lemon_otp import Pid, alive, exit_signal, frozen, self_pid, send, spawn_link, unlink

if TYPE_CHECKING:
    from coding_agent.session.conversation import Conversation


@frozen
class BeforeAgentStart:
    """A prompt is about to become a run. Answer `messages` to add, a `system_prompt` for this run."""

    type: ClassVar[str] = "before_agent_start"
    prompt: str
    images: Sequence[Any]
    system_prompt: str


@frozen
class BeforeCompact:
    """The conversation is about to be made shorter. Answer `cancel: True`, or the `summary` to use."""

    type: ClassVar[str] = "session_before_compact"
    reason: str
    messages: Sequence[Any]
    tokens_before: int
    previous_summary: str | None
    instructions: str | None


@frozen
class BeforeTree:
    """The conversation is about to go on elsewhere in its tree. Answer `cancel: True`, a `summary`, or a `label`."""

    type: ClassVar[str] = "session_before_tree"
    target_id: str
    messages: Sequence[Any]
    summarize: bool
    instructions: str | None


class SessionHooks(Protocol):
    """Those who are asked."""

    def wants(self, event: str) -> bool:
        """Does anybody have a say about events of this name?"""
        ...

    async def ask(self, event: Any, session: Pid, tell: Callable[[Any], None]) -> Mapping[str, Any]:
        """What they say: see the event. `tell` reaches the session's subscribers."""
        ...


@frozen
class Asked:
    """Sent to the session: what they said.

    Attributes:
        about: The session's own value, handed back.
        answer: Empty when they said nothing.
    """

    about: Any
    answer: Mapping[str, Any]


def wanted(state: "Conversation", event: str) -> bool:
    """Has anybody a say about this in the session?"""
    return state.options.hooks is not None and state.options.hooks.wants(event)


def ask(state: "Conversation", event: Any, about: Any) -> None:
    """Let them be asked; `Asked` comes once they have answered, or `stop` was called."""
    assert state.options.hooks is not None
    pid = spawn_link(_ask, state.options.hooks, event, self_pid(), about, label=f"hooks[{event.type}]")
    state.asking = (pid, about)


async def _ask(hooks: SessionHooks, event: Any, session: Pid, about: Any) -> None:
    answer: Mapping[str, Any] = {}
    try:
        answer = await hooks.ask(event, session, lambda notice: send(session, Tell(notice)))
    finally:
        send(session, Asked(about, answer))


def stop(state: "Conversation") -> None:
    """Ask no further: the answer is to cancel."""
    if state.asking is None:
        return
    pid, about = state.asking
    unlink(pid)
    if alive(pid):
        exit_signal(pid, "kill")
    send(self_pid(), Asked(about, {"cancel": True}))
