"""Process. One conversation: takes prompts, runs one loop at a time, aborts it, tells its subscribers.

Tree:  wherever it is started; a session's own is linked to its session, a subagent is under subagent_supervisor
Emits: every `AgentEvent` of its runs, to its subscribers
Owns:  the conversation and the queues, lost with it; a run ends with it
Asked and told: see `agent_protocol`; started with `AgentOptions`
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias, assert_never

from lemon_agent import agent_protocol as ask
from lemon_agent.agent_runs import Work, begin, finish_if_over, heard, overdue, take, timed_out
from lemon_agent.agent_state import (
    AgentOptions,
    AgentState,
    Progress,
    Queues,
    as_messages,
    as_queued,
    checked_messages,
)
from lemon_agent.errors import (
    AgentError,
    AlreadyStreaming,
    CannotContinue,
    NoMessages,
    SubscriberNotAProcess,
    WaitTimeout,
)
from lemon_agent.events import AgentMessage
from lemon_agent.inbox import Inbox, QueueMode, Taken
from lemon_agent.loop.conversation import Conversation
from lemon_agent.outbox import DIRECT, Delivery, Flush, Outbox
from lemon_agent.tools import AgentTool
from lemon_ai import Model
from lemon_otp import (
    Address,
    Caller,
    CallTimeout,
    Down,
    GenServer,
    MonitorRef,
    NoReply,
    NotAProcess,
    Pid,
    Reply,
    StreamReady,
    call,
    cast,
    demonitor,
    frozen,
    monitor,
    self_pid,
)


@frozen
class Subscription:
    """One subscriber's place with an agent. Calling it ends it; doing so twice is harmless."""

    agent: Address
    ref: MonitorRef

    def __call__(self) -> None:
        cast(self.agent, ask.Unsubscribe(self.ref))

    def grant(self, events: int) -> None:
        """Allow so many more events, for a subscription with credit."""
        cast(self.agent, ask.Grant(self.ref, events))


Answer: TypeAlias = Reply[Work] | NoReply[Work]


class Agent(GenServer[AgentOptions, ask.AgentCall, ask.AgentCast, Work]):
    """A conversation with a model that has tools."""

    # Client side: runs in the caller.

    @staticmethod
    async def prompt(agent: Address, prompt: Any, images: Sequence[Any] = ()) -> None:
        """Start a run and return; it goes on by itself, its events go to the subscribers.

        Args:
            agent: A running agent.
            prompt: A text, a message, or several messages.
            images: Go with a prompt that is a text.

        Raises:
            AlreadyStreaming: A run is going on: steer it, follow it up, or wait.
            CallFailed: There is no such agent.
        """
        _raise(await call(agent, ask.Prompt(as_messages(prompt, images)), timeout_s=None))

    @staticmethod
    async def continue_(agent: Address) -> None:
        """Start a run that goes on from where the conversation stands.

        Where that is an answer, it begins with what is queued: steering first, else follow-ups.

        Raises:
            AlreadyStreaming: A run is going on.
            NoMessages: Nothing has been said yet.
            CannotContinue: The last message is an answer and nothing is queued.
        """
        _raise(await call(agent, ask.Continue(), timeout_s=None))

    @staticmethod
    def abort(agent: Address, reason: Any = "aborted") -> None:
        """Ask for the end of the run. Returns at once; does nothing when there is no run. The queues stay."""
        cast(agent, ask.Abort(reason))

    @staticmethod
    def steer(agent: Address, message: Any, system_prompt: str | None = None) -> None:
        """Put a text or a message into the conversation after the current turn; when idle, into the next run.

        Several messages may be given as a list, here and to the three below; they queue up one behind the other.
        """
        cast(agent, ask.Steer(as_queued(message, system_prompt)))

    @staticmethod
    def follow_up(agent: Address, message: Any, system_prompt: str | None = None) -> None:
        """Let the run go on with a text or a message once it would stop; when idle, let the next run."""
        cast(agent, ask.FollowUp(as_queued(message, system_prompt)))

    @staticmethod
    def next_turn(agent: Address, message: Any) -> None:
        """Put a text or a message before the next prompt."""
        cast(agent, ask.ForNextTurn(as_queued(message)))

    @staticmethod
    def redirect(agent: Address, message: Any, system_prompt: str | None = None) -> None:
        """Give up the model request in flight and ask again with this message. Tools are not stopped."""
        cast(agent, ask.Redirect(as_queued(message, system_prompt)))

    @staticmethod
    async def wait_for_idle(agent: Address, timeout_s: float | None = None) -> None:
        """Return when no run is going on: every event of the last one is then in its subscribers' mailboxes.

        Raises:
            WaitTimeout: The agent was busy for `timeout_s` seconds.
            CallFailed: The agent is gone.
        """
        waiting = ask.WaitForIdle()
        try:
            await call(agent, waiting, timeout_s=timeout_s)
        except CallTimeout as error:
            cast(agent, ask.StopWaiting(waiting))
            raise WaitTimeout(f"{agent!r} was still busy after {timeout_s} s") from error

    @staticmethod
    def run_when_idle(agent: Address, fn: Callable[..., Any], *args: Any) -> None:
        """Call `fn(*args)` in a process of its own once no run is going on. May be called by a subscriber."""
        cast(agent, ask.RunWhenIdle(fn, args))

    @staticmethod
    async def reset(agent: Address, timeout_s: float | None = 5.0) -> None:
        """Forget the conversation, the queues and the last error; a run is aborted first.

        Raises:
            CallTimeout: The run has not ended in time; the conversation is forgotten as soon as it has.
        """
        await call(agent, ask.Reset(), timeout_s=timeout_s)

    @staticmethod
    async def subscribe(agent: Address, pid: Pid | None = None, delivery: Delivery = DIRECT) -> Subscription:
        """Send every event from now on to a process, each as an `AgentEventMessage`.

        Args:
            agent: A running agent.
            pid: Who gets them; the caller by default. When it ends, so does the subscription.
            delivery: Batches, credit and watermark, for those who want them.

        Returns:
            What ends the subscription when called.

        Raises:
            SubscriberNotAProcess: No `pid` was given and the caller has no mailbox.
        """
        if pid is None:
            try:
                pid = self_pid()
            except NotAProcess as error:
                raise SubscriberNotAProcess("say which process should get the events") from error
        return Subscription(agent, await call(agent, ask.Subscribe(pid, delivery)))

    @staticmethod
    async def get_state(agent: Address) -> AgentState:
        """The agent at this moment."""
        return await call(agent, ask.GetState())

    @staticmethod
    async def queued(agent: Address) -> Queues:
        """What waits in the queues."""
        return await call(agent, ask.GetQueues())

    @staticmethod
    async def clear_steering_queue(agent: Address) -> Queues:
        """Empty the steering queue; what was in it."""
        return await call(agent, ask.ClearQueues(follow_up=False))

    @staticmethod
    async def clear_follow_up_queue(agent: Address) -> Queues:
        """Empty the follow-up queue; what was in it."""
        return await call(agent, ask.ClearQueues(steering=False))

    @staticmethod
    async def clear_all_queues(agent: Address, *, next_turn: bool = False) -> Queues:
        """Empty the steering and follow-up queues, the next-turn queue only when asked; what was in them."""
        return await call(agent, ask.ClearQueues(next_turn=next_turn))

    @staticmethod
    async def set_system_prompt(agent: Address, system_prompt: str) -> None:
        """Let this be the system prompt from the next run on."""
        await _configure(agent, system_prompt=system_prompt)

    @staticmethod
    async def set_model(agent: Address, model: Model) -> None:
        """Let this model answer from the next run on. Raises TypeError for what is no model."""
        await _configure(agent, model=model)

    @staticmethod
    async def set_thinking_level(agent: Address, level: str) -> None:
        """Let the model think this hard from the next run on."""
        await _configure(agent, thinking_level=level)

    @staticmethod
    async def set_tools(agent: Address, tools: Iterable[AgentTool]) -> None:
        """Offer these tools from the next run on. Raises TypeError for what is no tool."""
        await _configure(agent, tools=tuple(tools))

    @staticmethod
    async def set_session_id(agent: Address, session_id: str | None) -> None:
        """Let the conversation have this name from the next run on."""
        await _configure(agent, session_id=session_id)

    @staticmethod
    async def get_session_id(agent: Address) -> str | None:
        """The name of the conversation."""
        session_id: str | None = await call(agent, ask.GetOption("session_id"))
        return session_id

    @staticmethod
    async def set_steering_mode(agent: Address, mode: str) -> None:
        """Let one drain of the steering queue take this much, from the next one on."""
        await _configure(agent, steering_mode=mode)

    @staticmethod
    async def get_steering_mode(agent: Address) -> QueueMode:
        """How much one drain of the steering queue takes."""
        mode: QueueMode = await call(agent, ask.GetOption("steering_mode"))
        return mode

    @staticmethod
    async def set_follow_up_mode(agent: Address, mode: str) -> None:
        """Let one drain of the follow-up queue take this much, from the next one on."""
        await _configure(agent, follow_up_mode=mode)

    @staticmethod
    async def get_follow_up_mode(agent: Address) -> QueueMode:
        """How much one drain of the follow-up queue takes."""
        mode: QueueMode = await call(agent, ask.GetOption("follow_up_mode"))
        return mode

    @staticmethod
    async def replace_messages(agent: Address, messages: Iterable[AgentMessage]) -> None:
        """Let this be the conversation; TypeError for what is no message. A run that is going on keeps its own."""
        await call(agent, ask.ReplaceMessages(checked_messages(messages)))

    @staticmethod
    async def append_message(agent: Address, message: AgentMessage) -> None:
        """Add a message to the conversation, without a run and without an event. Raises as `replace_messages`."""
        await call(agent, ask.AppendMessage(*checked_messages((message,))))

    # Server side: runs in the process, one message at a time.

    def init(self, options: AgentOptions) -> Work:
        inbox = Inbox(steering_mode=options.steering_mode, follow_up_mode=options.follow_up_mode)
        return Work(options, Progress(Conversation(options.messages)), inbox)

    def handle_call(self, message: ask.AgentCall, caller: Caller, work: Work) -> Answer | Awaitable[Answer]:
        match message:
            case ask.Prompt(messages):
                return _prompt(work, messages)
            case ask.Continue():
                return _continue(work)
            case ask.TakeSteering(run):
                return Reply(work.take_steering(run), work)
            case ask.TakeFollowUp(run):
                return _follow_up(work, run, caller)
            case ask.WaitForIdle():
                return _wait(work, message, caller)
            case ask.Reset():
                return _reset(work, caller)
            case ask.Subscribe(pid, delivery):
                ref = monitor(pid)
                work.add(ref, Outbox(pid, delivery))
                return Reply(ref, work)
            case ask.GetState():
                return Reply(work.describe(), work)
            case ask.GetQueues():
                return Reply(Queues.of(work.inbox), work)
            case ask.ClearQueues():
                return Reply(_clear(work, message), work)
            case ask.Configure(changes):
                return Reply(work.configure(changes), work)
            case ask.GetOption(name):
                return Reply(getattr(work.options, name), work)
            case ask.ReplaceMessages(messages):
                work.progress.conversation = Conversation(messages)
                return Reply(None, work)
            case ask.AppendMessage():
                work.progress.conversation.append(message.message)
                return Reply(None, work)
            case _:
                assert_never(message)

    def handle_cast(self, message: ask.AgentCast, work: Work) -> NoReply[Work]:
        match message:
            case ask.Abort(reason):
                work.abort(reason)
            case ask.Steer(queued):
                work.inbox = work.inbox.steer(*queued)
                work.answer_poll()
            case ask.FollowUp(queued):
                work.inbox = work.inbox.followed_up(*queued)
                work.answer_poll()
            case ask.ForNextTurn(queued):
                work.inbox = work.inbox.for_next_turn(*queued)
            case ask.Redirect(queued):
                work.redirect(queued)
            case ask.RunWhenIdle():
                work.when_idle += (message,)
                work.run_what_waits()
            case ask.Unsubscribe(ref):
                demonitor(ref, flush=True)
                work.drop(ref)
            case ask.Grant(ref, more):
                work.grant(ref, more)
            case ask.StopWaiting(asked):
                work.waiters.pop(asked, None)
            case _:
                assert_never(message)
        return work.go_on

    def handle_info(self, message: Any, work: Work) -> NoReply[Work] | Awaitable[NoReply[Work]]:
        match message:
            case StreamReady(stream):
                return _finished(work) if take(work, stream) else work.go_on
            case Down(ref, _, reason):
                if work.run is not None and ref is work.run.watch:
                    heard(work, reason)
                    return _finished(work)
                work.drop(ref)
            case Flush(outbox):
                outbox.flush()
                work.gate.look_at(outbox)
            case _:
                timed_out(work, message)
                overdue(work, message)
        return work.go_on


def _raise(error: Exception | None) -> None:
    if error is not None:
        raise error


async def _configure(agent: Address, **changes: Any) -> None:
    _raise(await call(agent, ask.Configure(changes)))


async def _prompt(work: Work, messages: tuple[AgentMessage, ...]) -> Answer:
    if work.run is not None:
        return Reply(AlreadyStreaming("a run is going on: steer it, follow it up, or wait until it is over"), work)
    if work.inbox.next_turn:
        work.inbox, waiting = work.inbox.take_next_turn()
        messages = (*(queued.message for queued in waiting), *messages)
    await begin(work, messages)
    return Reply(None, work)


async def _continue(work: Work) -> Answer:
    error = _why_not_continued(work)
    if error is None and work.progress.conversation.messages[-1].role == "assistant":
        await work.begin_with_queue()
    elif error is None:
        await begin(work, ())
    return Reply(error, work)


def _why_not_continued(work: Work) -> AgentError | None:
    if work.run is not None:
        return AlreadyStreaming("a run is going on")
    messages = work.progress.conversation.messages
    if not messages:
        return NoMessages("there is no message to continue from")
    if messages[-1].role == "assistant" and not work.inbox.waiting:
        return CannotContinue("the last message is an answer; say something first")
    return None


def _finished(work: Work) -> NoReply[Work] | Awaitable[NoReply[Work]]:
    """End the run if it is over. Only where another loop goes on with it is there something to wait for."""
    following = finish_if_over(work)
    return work.go_on if following is None else _going_on(work, following)


async def _going_on(work: Work, following: Awaitable[None]) -> NoReply[Work]:
    await following
    return work.go_on


def _follow_up(work: Work, run: int, caller: Caller) -> Reply[Work] | NoReply[Work]:
    taken: Taken | None = work.take_follow_up(run, caller)
    return NoReply(work) if taken is None else Reply(taken, work)


def _wait(work: Work, asked: ask.WaitForIdle, caller: Caller) -> Reply[Work] | NoReply[Work]:
    if work.run is None:
        return Reply(None, work)
    work.waiters[asked] = caller
    return NoReply(work)


def _reset(work: Work, caller: Caller) -> Reply[Work] | NoReply[Work]:
    if work.run is None:
        work.forget_conversation()
        return Reply(None, work)
    work.resets += (caller,)
    work.abort("reset")
    return NoReply(work)


def _clear(work: Work, which: ask.ClearQueues) -> Queues:
    before = work.inbox
    work.inbox = before.cleared(steering=which.steering, follow_up=which.follow_up, next_turn=which.next_turn)
    taken = Inbox(
        before.steering if which.steering else (),
        before.follow_up if which.follow_up else (),
        before.next_turn if which.next_turn else (),
    )
    return Queues.of(taken)
