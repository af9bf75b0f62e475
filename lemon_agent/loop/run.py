"""Edge. One run at work: what it holds, how it speaks, and what is let go when it is over."""

from collections import deque
from collections.abc import Collection, Iterable
from contextvars import copy_context
from typing import Any, Final, Literal, Protocol

from attrs import evolve

from lemon_agent.abort_signal import AbortSignal
from lemon_agent.errors import LoopFailed, words_of
from lemon_agent.event_stream import EventStream
from lemon_agent.events import (
    AgentEvent,
    AgentMessage,
    LoopStateTransition,
    MessageEnd,
    MessageStart,
    ToolSchemaSnapshotted,
)
from lemon_agent.loop.config import AgentContext, AgentLoopConfig, Gate, GetMessages, StreamFn
from lemon_agent.loop.conversation import Conversation
from lemon_agent.loop.fitting import call_fitting
from lemon_agent.loop.interruption import Interrupted, seconds, settled
from lemon_agent.loop.state_machine import LoopState, route, step
from lemon_agent.loop.tool_set import ToolSet
from lemon_ai import AssistantMessage, Model, StreamOptions, TextContent
from lemon_otp import (
    Pid,
    annotate,
    at_exit,
    current_runtime,
    exit_signal,
    frozen,
    monotonic_s,
    self_pid,
    sleep_s,
    telemetry,
    wall_ms,
)

Status = Literal["completed", "early_exit"]

LOOP_START: Final = ("lemon_agent", "loop", "start")
LOOP_END: Final = ("lemon_agent", "loop", "end")
STATE_TRANSITION: Final = ("lemon_agent", "loop", "state_transition")
SNAPSHOT_CREATED: Final = ("lemon_agent", "tool_schema_snapshot", "created")

FULL_PAUSE_S: Final = 0.002
"""How long to wait before a full stream is tried again."""
UPDATE_SHARE: Final = 0.25
"""The share of the stream that updates of tools may fill; beyond it only each call's latest is kept."""
GIVE_UP_S: Final = 1.0
"""After an abort, how long a reader that does not read is waited for."""


class Working(Protocol):
    """What a run needs to know of a tool's process."""

    def finish_off(self) -> None:
        """Kill the programs it has started; say so when its own code cannot be stopped."""
        ...


class Reading(Protocol):
    """A model's answer that is being read."""

    latest: Any
    """The newest event of it, whose `partial` is what there is of the message; None when nothing has come."""


class Feed(Protocol):
    """What a run is given from outside while it goes on: from an agent's queues, or by hooks of the configuration."""

    def steering(self) -> GetMessages | None:
        """Takes what should be injected now; None when there is surely nothing."""
        ...

    def follow_up(self) -> GetMessages | None:
        """Takes what a run that would end should go on with; None when there is surely nothing."""
        ...

    @property
    def gate(self) -> Gate | None:
        """Asked before each further event of a model is read."""
        ...

    @property
    def listeners(self) -> Collection[Any]:
        """Who hears what is said; as long as it is empty, what is said for listeners alone need not be said."""
        ...


@frozen(eq=False)
class ConfigFeed:
    """The hooks of a configuration."""

    config: AgentLoopConfig
    listeners: Collection[Any] = ("whoever reads the stream",)

    def steering(self) -> GetMessages | None:
        """As `Feed`."""
        return self.config.get_steering_messages

    def follow_up(self) -> GetMessages | None:
        """As `Feed`."""
        return self.config.get_follow_up_messages

    @property
    def gate(self) -> Gate | None:
        """As `Feed`."""
        return self.config.gate


class Run:
    """What the steps of one run share. Lives in the loop's process; nothing else writes to it."""

    __slots__ = (
        "_began_s",
        "_begun",
        "_context",
        "_ended",
        "_stream_options",
        "backlog",
        "config",
        "conversation",
        "feed",
        "model",
        "new_messages",
        "open_calls",
        "pid",
        "provider_error",
        "reading",
        "shown",
        "signal",
        "state",
        "stream",
        "stream_fn",
        "system_prompt",
        "thinking_level",
        "tool_turns",
        "tools",
        "working",
    )

    def __init__(
        self,
        config: AgentLoopConfig,
        system_prompt: str | None,
        tools: ToolSet,
        conversation: Conversation,
        feed: Feed,
        signal: AbortSignal,
        stream: EventStream,
        stream_fn: StreamFn,
    ) -> None:
        self.config = config
        self.signal = signal
        self.stream = stream
        self.stream_fn = stream_fn
        self.feed = feed
        self.system_prompt = system_prompt
        self.model: Model = config.model
        self.thinking_level = config.thinking_level
        self.tools = tools
        self.conversation = conversation
        self.new_messages: list[AgentMessage] = []
        self.state: LoopState | None = None
        self.tool_turns = 0
        self.provider_error: BaseException | None = None
        """What a provider said went wrong with the latest model call."""
        self.pid: Pid | None = None
        self.working: dict[Pid, Working] = {}
        """What this run's tools are doing, by their processes."""
        self.open_calls: dict[str, str] = {}
        """The names of the tools whose calls have been taken up and have no result yet, by call id."""
        self.backlog: deque[AgentEvent] | None = None
        """What was said and a full stream has not taken yet."""
        self.reading: Reading | None = None
        """The answer of the model that is being read. Those who do not listen can look here how far it is."""
        self.shown: Model | None = None
        """The model that the process tree shows at work."""
        self._began_s = monotonic_s()
        self._stream_options: StreamOptions | None = None
        self._begun = False
        self._ended = False

    # Its life as a process.

    def guard(self, pid: Pid) -> None:
        """See to it that nothing of the run outlives the loop's process."""
        if self.pid is None:
            self.pid = pid
            self._context = copy_context()
            if pid.alive:
                at_exit(pid, self._gone)
            else:
                self._release()

    def began(self, prompt_count: int) -> None:
        """The loop's process has taken up the run: say so."""
        self.guard(self_pid())
        self._begun = True
        self.show_model()
        if telemetry.heard(LOOP_START):
            telemetry.execute(
                LOOP_START,
                {"system_time": wall_ms()},
                {
                    "prompt_count": prompt_count,
                    "message_count": len(self.conversation),
                    "tool_count": len(self.tools.tools),
                    "model": self.model.id,
                    "session_id": self.config.session_id,
                },
            )

    def ended(self, status: Status, outcome: str = "killed") -> None:
        """Say, once, that the run is over."""
        if not self._begun or self._ended:
            return
        self._ended = True
        if telemetry.heard(LOOP_END):
            telemetry.execute(
                LOOP_END,
                {"duration": monotonic_s() - self._began_s, "system_time": wall_ms()},
                {
                    "message_count": len(self.new_messages),
                    "model": self.model.id,
                    "status": status,
                    "outcome": outcome,
                    "pid": self.pid,
                    "session_id": self.config.session_id,
                },
            )

    def _gone(self, _pid: Pid, _reason: Any) -> None:
        """The loop's process has ended, however it did."""
        self._context.run(self._release)

    def _release(self) -> None:
        self.signal.untrack()
        if self.working:
            left = list(self.working.values())
            for pid in tuple(self.working):
                exit_signal(pid, "shutdown")
            grace_s = self.config.kill_grace_ms / 1000
            current_runtime().timers.add(grace_s, self._context.run, _finish_off, left)
        for call_id, name in self.open_calls.items():
            telemetry.execute(
                ("lemon_agent", "tool_task", "error"),
                {"system_time": wall_ms()},
                {"tool_name": name, "tool_call_id": call_id, "reason": "loop_ended"},
            )
        self.ended("early_exit")

    # What it says.

    def emit(self, event: AgentEvent) -> None:
        """Say something. What a full stream does not take is kept for `flush`; a stream that ended takes nothing."""
        if self.backlog is not None:
            self.backlog.append(event)
        elif self.stream.push(event) == "overflow":
            self.backlog = deque((event,))

    @property
    def behind(self) -> bool:
        """Is the reader so far behind that `flush` has to wait?"""
        return self.backlog is not None

    @property
    def has_room_for_updates(self) -> bool:
        """May a tool's update go into the stream? A flood of them must leave room for what counts."""
        return self.backlog is None and self.stream.stats().queue_size < self.config.max_queue * UPDATE_SHARE

    async def flush(self) -> None:
        """Return once the stream has taken everything that was said: a slow reader slows the run, nothing is lost."""
        backlog = self.backlog
        if backlog is None:
            return
        patience = GIVE_UP_S / FULL_PAUSE_S
        while backlog:
            if self.stream.push(backlog[0]) != "overflow":
                backlog.popleft()
                continue
            await sleep_s(FULL_PAUSE_S)
            if self.signal.aborted:
                patience -= 1
                if patience <= 0:
                    backlog.clear()
        self.backlog = None

    def to(self, state: LoopState, **metadata: Any) -> None:
        """Go to a state and say so."""
        before, self.state = self.state, step(self.state, state)
        if self.feed.listeners:
            self.emit(LoopStateTransition(before, state, metadata))
        if telemetry.heard(STATE_TRANSITION):
            telemetry.execute(STATE_TRANSITION, {"system_time": wall_ms()}, {**metadata, "from": before, "to": state})

    def offer(self, tools: ToolSet) -> None:
        """Offer the model these tools from here on, and say which they are."""
        self.tools = tools
        if not (self.feed.listeners or telemetry.heard(SNAPSHOT_CREATED)):
            return
        snapshot = tools.snapshot()
        self.emit(ToolSchemaSnapshotted(snapshot))
        if telemetry.heard(SNAPSHOT_CREATED):
            telemetry.execute(
                SNAPSHOT_CREATED,
                {"system_time": wall_ms()},
                {
                    "snapshot_id": snapshot.id,
                    "fingerprint": snapshot.fingerprint,
                    "tool_count": len(snapshot.tools),
                    "tool_names": snapshot.tool_names,
                },
            )

    def wind_up(self, state: Literal["finalizing", "aborted"]) -> None:
        """Go to a final state by whatever way the table has; stay when there is none."""
        for following in route(self.state, state):
            self.to(following)

    def show_model(self) -> None:
        """Let the process tree show that the model is at work."""
        if self.shown is not self.model:
            self.shown = self.model
            facts = self.config.facts
            annotate(facts if self.model is self.config.model else {**facts, "model": self.model.id})

    def show_tools(self, count: int) -> None:
        """Let the process tree show that so many tools are at work; none when they are done."""
        self.shown = None
        annotate(**({"phase": "tools", "tools": count} if count else {"tools": None}))

    def say(self, message: AgentMessage) -> None:
        """Say a whole message and make it part of the conversation."""
        if self.feed.listeners:
            self.emit(MessageStart(message))
        self.emit(MessageEnd(message))
        self.keep(message)

    def keep(self, message: AgentMessage) -> None:
        """Make a message that was said part of the conversation."""
        self.conversation.append(message)
        self.new_messages.append(message)

    # What it knows.

    @property
    def hooks_between_turns(self) -> bool:
        """Is there a hook that is asked when a turn is over?"""
        return self.config.should_stop_after_turn is not None or self.config.prepare_next_turn is not None

    @property
    def stream_options(self) -> StreamOptions:
        """The options of a model call, but for the key of the moment."""
        level = None if self.thinking_level == "off" else self.thinking_level
        options = self._stream_options
        if options is None or options.reasoning != level:
            config = self.config
            given = config.stream_options
            changes: dict[str, Any] = {} if given.reasoning == level else {"reasoning": level}
            if config.session_id is not None:
                changes["session_id"] = config.session_id
            if config.thinking_budgets:
                changes["thinking_budgets"] = config.thinking_budgets
            options = self._stream_options = evolve(given, **changes) if changes else given
        return options

    def snapshot(self) -> AgentContext:
        """The conversation as it is now, for a hook to look at."""
        return AgentContext(self.system_prompt, tuple(self.conversation.messages), self.tools.tools)

    def own_words(
        self, stop_reason: Literal["error", "aborted"], error_message: str, text: str = ""
    ) -> AssistantMessage:
        """An assistant message that the loop says itself, because no model did."""
        return AssistantMessage(
            content=(TextContent(text),),
            api=self.model.api,
            provider=self.model.provider,
            model=self.model.id,
            stop_reason=stop_reason,
            error_message=error_message,
        )

    async def ask(self, hook: Any, *args: Any) -> Any:
        """What a hook answers that is offered `args`, and takes as many of them as it has places for.

        Raises:
            LoopFailed: It raised, or took too long.
            Interrupted: The run was aborted while it was asked. One that is told of the signal has a moment to answer.
        """
        try:
            answer = call_fitting(hook, *args)
            if answer is None or type(answer) is tuple:  # most have nothing to say, and nothing to wait for
                return answer
            grace_s = self.config.abort_grace_ms / 1000 if self.signal in args else 0.0
            return await settled(answer, self.signal, seconds(self.config.hook_timeout_ms), grace_s=grace_s)
        except Interrupted as interrupted:
            if interrupted.cause == "aborted":
                raise
            name = getattr(hook, "__name__", type(hook).__name__)
            raise LoopFailed(("hook_timeout", name), f"{name} did not answer in time") from None
        except LoopFailed:
            raise
        except BaseException as error:
            if not self_pid().alive:
                raise  # the run's process is being ended: this is no failure of the hook
            raise LoopFailed(getattr(error, "reason", error), words_of(error)) from error


def _finish_off(left: Iterable[Working]) -> None:
    """End by force what tools of a dead run have not ended themselves."""
    for task in left:
        task.finish_off()
