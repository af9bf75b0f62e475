"""Edge. What an agent's process holds, and how its runs begin, speak and end. Used by `agent` only."""

from collections.abc import Awaitable, Mapping
from typing import Any, Final, Literal

from attrs import evolve, field

from lemon_agent import agent_protocol as ask
from lemon_agent.abort_signal import AbortSignal
from lemon_agent.agent_state import EFFECTS, AgentOptions, AgentState, Progress, closing_events, opening_events
from lemon_agent.event_stream import EventStream
from lemon_agent.events import (
    TERMINAL_CLASSES,
    AgentEnd,
    AgentEvent,
    AgentMessage,
    AgentStart,
    Canceled,
    ErrorEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Terminal,
    ToolExecutionUpdate,
)
from lemon_agent.flow_gate import FlowGate
from lemon_agent.inbox import Inbox, Queued, Taken, last_system_prompt
from lemon_agent.loop.loop import LOOP_TASK_SUPERVISOR, start_run
from lemon_agent.loop.run import Run
from lemon_agent.outbox import Outbox
from lemon_agent.queue_feed import QueueFeed
from lemon_otp import (
    Caller,
    MonitorRef,
    NoReply,
    TaskSupervisor,
    TimerRef,
    annotate,
    cancel_timer,
    define,
    exit_signal,
    frozen,
    monitor,
    reply,
    self_pid,
    send_after,
    spawn,
)

SLACK_S: Final = 2.0
"""What an aborted run may take beyond its two graces before its loop is killed."""

_NOT_AT_ONCE: Final = TERMINAL_CLASSES | {ToolExecutionUpdate}
"""What an agent at rest is woken for: an end that has to be seen to, and updates, a flood of which is thinned out where
it waits."""

QueueName = Literal["steering", "follow_up"]


@frozen(eq=False)
class PollOver:
    """Message of an agent to itself: no follow-up came in time."""

    run: int


@frozen(eq=False)
class AbortOverdue:
    """Message of an agent to itself: an aborted run should have ended by now."""

    run: int


@define(eq=False)
class ActiveRun:
    """The run that is going on."""

    number: int
    run: Run
    watch: MonitorRef | None
    """None once the loop's process has ended."""
    taken: tuple[tuple[QueueName, Queued], ...] = ()
    """What the loop has been given from the queues and not said yet."""
    unsaid: tuple[AgentMessage, ...] = ()
    """Prompts that the loop has not said yet."""
    carried: tuple[AgentMessage, ...] = ()
    """What was said by an earlier loop of which this one is the continuation."""
    terminal: Terminal | None = None
    poll: Caller | None = None
    poll_timer: TimerRef | None = None

    @property
    def stream(self) -> EventStream:
        """Where its events come from."""
        return self.run.stream

    @property
    def signal(self) -> AbortSignal:
        """What aborts it."""
        return self.run.signal

    def said(self, message: AgentMessage) -> None:
        """The loop has said a message: if it was given it, it need not be handed back."""
        if self.taken:
            self.taken = tuple(given for given in self.taken if given[1].message is not message)
        if self.unsaid and self.unsaid[0] is message:  # they are said in order
            self.unsaid = self.unsaid[1:]


@define(eq=False)
class Work:
    """The state of an agent."""

    options: AgentOptions
    progress: Progress
    inbox: Inbox
    gate: FlowGate = field(factory=FlowGate)
    outboxes: dict[MonitorRef, Outbox] = field(factory=dict)
    run: ActiveRun | None = None
    run_count: int = 0
    waiters: dict[ask.WaitForIdle, Caller] = field(factory=dict)
    resets: tuple[Caller, ...] = ()
    when_idle: tuple[ask.RunWhenIdle, ...] = ()
    go_on: "NoReply[Work]" = field(init=False)
    """What a handler that has nothing to answer returns."""

    def __attrs_post_init__(self) -> None:
        self.go_on = NoReply(self)

    # What it is asked.

    def describe(self) -> AgentState:
        """The agent at this moment."""
        options, progress = self.options, self.progress
        self.look_at_answer()
        return AgentState(
            options.system_prompt,
            options.model,
            options.thinking_level,
            options.tools,
            tuple(progress.conversation.messages),
            self.run is not None,
            progress.streaming_message,
            progress.pending,
            progress.error_message,
        )

    def configure(self, changes: Mapping[str, Any]) -> Exception | None:
        """Let these options hold from now on; why they cannot, when they cannot."""
        try:
            options = evolve(self.options, **changes)
        except (TypeError, ValueError) as error:
            return error
        self.options = options
        self.inbox = evolve(self.inbox, steering_mode=options.steering_mode, follow_up_mode=options.follow_up_mode)
        return None

    def forget_conversation(self) -> None:
        """Begin anew, with the same model, tools and subscribers."""
        self.progress = Progress(type(self.progress.conversation)())
        self.inbox = self.inbox.cleared(steering=True, follow_up=True, next_turn=True)

    # Its queues.

    def take_steering(self, number: int) -> Taken:
        """What a run should inject now; nothing for a run that is over or aborted."""
        run = self.run
        if run is None or run.number != number or run.signal.aborted:
            return ()
        self.inbox, taken = self.inbox.take_steering()
        run.taken += tuple(("steering", queued) for queued in taken)
        return taken

    def take_follow_up(self, number: int, caller: Caller) -> Taken | None:
        """What a run that would end goes on with; None when the answer is given later."""
        run = self.run
        if run is None or run.number != number or run.signal.aborted:
            return ()
        if self.inbox.waiting or self.options.follow_up_window_ms <= 0:
            return self._next(run)
        run.poll = caller
        run.poll_timer = send_after(self_pid(), PollOver(number), self.options.follow_up_window_ms / 1000)
        return None

    def answer_poll(self) -> None:
        """A message has come: if a run waits for one, it goes on with it."""
        run = self.run
        if run is not None and run.poll is not None and not run.signal.aborted:
            self.end_poll(run, self._next(run))

    def end_poll(self, run: ActiveRun, taken: Taken) -> None:
        """Answer a run that waits for a follow-up."""
        caller, run.poll = run.poll, None
        if run.poll_timer is not None:
            cancel_timer(run.poll_timer)
            run.poll_timer = None
        if caller is not None:
            reply(caller, taken)

    def _next(self, run: ActiveRun) -> Taken:
        name: QueueName = "steering" if self.inbox.steering else "follow_up"
        self.inbox, taken = self.inbox.take_next()
        run.taken += tuple((name, queued) for queued in taken)
        return taken

    def hand_back(self, run: ActiveRun) -> None:
        """Put what a run was given and did not say back where it was."""
        if not run.taken:
            return
        steering = tuple(queued for name, queued in run.taken if name == "steering")
        follow_up = tuple(queued for name, queued in run.taken if name == "follow_up")
        run.taken = ()
        self.inbox = evolve(
            self.inbox,
            steering=(*steering, *self.inbox.steering),
            follow_up=(*follow_up, *self.inbox.follow_up),
        )

    # Its subscribers.

    def tell(self, event: AgentEvent) -> None:
        """Send an event to every subscriber."""
        for outbox in self.outboxes.values():
            outbox.offer(event)
            if outbox.credit is not None:
                self.gate.look_at(outbox)

    def take_at_once(self, event: AgentEvent) -> bool:
        """Take in an event of the run in the turn of the loop's process; whether nothing more is to be done for it.

        Few events ask for more than `pass_on`, and many come a second: nobody has to wake an agent at rest for them.
        """
        kind, run = event.__class__, self.run
        if run is None:
            return False
        if kind is MessageUpdate:  # nearly every one, so without the way through `pass_on`
            self.progress.streaming = event  # type: ignore[assignment]
            self.tell(event)
        elif kind not in _NOT_AT_ONCE:
            self.pass_on(run, event)
        elif kind is AgentEnd and run.watch is not None:
            run.terminal = event  # type: ignore[assignment]  # the end of the loop's process, now near, wakes the agent
        else:
            return False
        return True

    def look_at_answer(self) -> None:
        """See how far the model's answer is, which is not said while nobody listens."""
        reading = None if self.run is None else self.run.run.reading
        if reading is not None and reading.latest is not None:
            self.progress.streaming = MessageStart(reading.latest.partial)

    def pass_on(self, run: ActiveRun, event: AgentEvent) -> None:
        """Change the state by an event that is not the last, then tell it."""
        kind = event.__class__
        if kind is AgentStart and run.carried:
            return
        effect = EFFECTS.get(kind)
        if effect is not None:
            effect(self.progress, event)
        if kind is MessageEnd and (run.taken or run.unsaid):
            run.said(event.message)  # type: ignore[union-attr]
        if self.outboxes:
            self.tell(event)

    def add(self, ref: MonitorRef, outbox: Outbox) -> None:
        """A subscriber more."""
        self.outboxes[ref] = outbox
        self.gate.look_at(outbox)

    def drop(self, ref: MonitorRef) -> None:
        """A subscriber is gone, or wants no more; what waited for it is freed."""
        outbox = self.outboxes.pop(ref, None)
        if outbox is not None:
            outbox.close()
            self.gate.forget(outbox)

    def grant(self, ref: MonitorRef, more: int) -> None:
        """A subscriber can take so many more events."""
        outbox = self.outboxes.get(ref)
        if outbox is not None:
            outbox.grant(more)
            self.gate.look_at(outbox)

    # Its runs.

    def abort(self, reason: Any) -> None:
        """Ask for the end of the run, and see to it that it comes."""
        run = self.run
        if run is None or run.signal.aborted:
            return
        run.signal.abort(reason)
        bound_s = (self.options.abort_grace_ms + self.options.kill_grace_ms) / 1000 + SLACK_S
        send_after(self_pid(), AbortOverdue(run.number), bound_s)

    def redirect(self, queued: Taken) -> None:
        """Give up the model request in flight for these messages."""
        run = self.run
        if run is not None and not run.signal.aborted:
            self.inbox = self.inbox.steer(*queued)
            run.signal.request_redirect()
        else:
            self.inbox = self.inbox.followed_up(*queued)
        self.answer_poll()

    async def begin_with_queue(self, carried: tuple[AgentMessage, ...] = ()) -> None:
        """Start a run that begins with what is queued."""
        name: QueueName = "steering" if self.inbox.steering else "follow_up"
        self.inbox, taken = self.inbox.take_next()
        prompt = last_system_prompt(taken)
        prompts = tuple(queued.message for queued in taken)
        await begin(self, prompts, system_prompt=prompt, carried=carried, drained=True)
        assert self.run is not None
        self.run.unsaid = ()
        self.run.taken += tuple((name, queued) for queued in taken)

    def run_what_waits(self) -> None:
        """Start what should run when no run is going on."""
        if self.run is None and self.when_idle:
            waiting, self.when_idle = self.when_idle, ()
            for item in waiting:
                _start_aside(item)


def _start_aside(item: ask.RunWhenIdle) -> None:
    """Start a function as a task of its own, without waiting for its supervisor."""

    async def aside() -> None:
        await TaskSupervisor.start_child(LOOP_TASK_SUPERVISOR, item.fn, *item.args, label="when_idle")

    spawn(aside)


async def begin(
    work: Work,
    prompts: tuple[AgentMessage, ...],
    *,
    system_prompt: str | None = None,
    carried: tuple[AgentMessage, ...] = (),
    drained: bool = False,
) -> None:
    """Start a run. `drained`: its prompts come from a queue, and no more is taken for its first turn."""
    options, me = work.options, self_pid()
    work.run_count += 1
    work.progress.begin(started=bool(carried))
    prompt = options.system_prompt if system_prompt is None else system_prompt
    feed = QueueFeed(work, me, work.run_count, drained=drained)
    # The run is given the conversation that knows what is in it; the agent, which only listens, goes on with a copy.
    conversation = work.progress.conversation
    work.progress.conversation = conversation.copy()
    run = await start_run(prompts, prompt, options.tool_set, conversation, options.of_a_run, feed, owner=me)
    watch = None if run.pid is None else monitor(run.pid)
    work.run = ActiveRun(work.run_count, run, watch, unsaid=prompts, carried=carried)
    annotate(options.running_facts)
    run.stream.deliver_to(me, work.take_at_once)


def take(work: Work, stream: object) -> bool:
    """Take in what waits in a run's stream; whether the last event of the run that is going on was among it."""
    run = work.run
    if run is None or stream is not run.run.stream:
        return False
    for event in run.run.stream.take_all():
        if event.__class__ in TERMINAL_CLASSES:
            run.terminal = event  # type: ignore[assignment]
        else:
            work.pass_on(run, event)
    return run.terminal is not None


def heard(work: Work, reason: Any) -> None:
    """The loop's process has ended; unless it said how the run ended, that is a crash."""
    run = work.run
    assert run is not None
    run.watch = None
    take(work, run.stream)
    if run.terminal is None:
        run.stream.error(("loop_crashed", reason))
        take(work, run.stream)


def finish_if_over(work: Work) -> Awaitable[None] | None:
    """End the run once its last event was taken in and its loop's process has ended.

    Returns the start of another loop that goes on with the run, to be awaited, where something is queued for it.
    """
    run = work.run
    if run is None or run.terminal is None:
        return None
    if run.watch is not None:
        if not isinstance(run.terminal, AgentEnd) and run.run.pid is not None:
            exit_signal(run.run.pid, "kill")
        return None
    work.hand_back(run)
    work.end_poll(run, ())
    terminal = run.terminal
    if isinstance(terminal, AgentEnd):
        said = (*run.carried, *terminal.messages) if run.carried else terminal.messages
        if terminal.outcome == "completed" and work.inbox.waiting and not run.signal.aborted and not work.resets:
            return work.begin_with_queue(carried=said)
        if run.carried:
            terminal = evolve(terminal, messages=said)
    else:
        work.look_at_answer()
        for event in opening_events(work.progress, run.unsaid):
            work.pass_on(run, event)
        for event in closing_events(work.progress, aborted=run.signal.aborted):
            work.pass_on(run, event)
        terminal = _crash(terminal)
    _end(work, run, terminal)
    return None


def _crash(terminal: ErrorEvent | Canceled) -> ErrorEvent | Canceled:
    """A crash of the loop has one name, whoever noticed it first."""
    match terminal:
        case ErrorEvent(("task_crashed", reason), partial):
            return ErrorEvent(("loop_crashed", reason), partial)
        case _:
            return terminal


def _end(work: Work, run: ActiveRun, terminal: Terminal) -> None:
    work.run = None
    if run.run.conversation.messages == work.progress.conversation.messages:
        work.progress.conversation = run.run.conversation  # the same messages, with what is known of them
    if effect := EFFECTS.get(terminal.__class__):
        effect(work.progress, terminal)
    work.progress.settle()
    annotate(work.options.idle_facts)
    if work.resets:
        work.forget_conversation()
    work.tell(terminal)
    resets, work.resets = work.resets, ()
    waiters = tuple(work.waiters.values())
    work.waiters.clear()
    for caller in (*resets, *waiters):
        reply(caller, None)
    work.run_what_waits()


def timed_out(work: Work, message: Any) -> None:
    """No follow-up came in time: the run may end."""
    run = work.run
    if isinstance(message, PollOver) and run is not None and run.number == message.run:
        work.end_poll(run, ())


def overdue(work: Work, message: Any) -> None:
    """An aborted run should have ended by now: end its loop by force."""
    run = work.run
    if isinstance(message, AbortOverdue) and run is not None and run.number == message.run and run.run.pid is not None:
        exit_signal(run.run.pid, "kill")
