"""Edge. What tests of agents need: a model that says what it is told to, an agent on it, and the rules of events.

All of it works without a provider, a key or a network:

    async with agent_tree():
        agent = await ScriptedAgent.start(["Hello!"])
        events = await agent.run("hi")
    assert_well_formed(events)
"""

import json
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

from attrs import field

from lemon_agent.agent import Agent
from lemon_agent.agent_state import AgentOptions, AgentState
from lemon_agent.application import SUPERVISOR, start
from lemon_agent.events import (
    AgentEnd,
    AgentEvent,
    AgentEventBatch,
    AgentEventMessage,
    AgentStart,
    Canceled,
    ErrorEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Terminal,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from lemon_agent.loop.transcript import violations
from lemon_ai import (
    AssistantMessage,
    Context,
    Fold,
    Model,
    StreamEvent,
    StreamOptions,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
)
from lemon_otp import Pid, Runtime, define, exit_signal, frozen, monitor, receive, sleep_s

MODEL: Final = Model(id="told", api="told", provider="told")
"""A model that belongs to no provider; for a `ScriptedModel` to stand in for."""


@frozen
class Pause:
    """A step of a turn: wait so long, on the runtime's clock. None waits until the call is given up."""

    seconds: float | None = None


@frozen
class Fails:
    """A step of a turn: the call ends here with this error."""

    error: Exception | str


@frozen
class Breaks:
    """A step of a turn: the stream ends here without saying so, or raises."""

    error: BaseException | None = None


@frozen
class Stops:
    """A step of a turn: what is the reason to stop, where it is not plain from the rest."""

    reason: str


Step: TypeAlias = str | ToolCall | ThinkingContent | Pause | Fails | Breaks | Stops
Turn: TypeAlias = Step | Sequence[Step] | Exception | Callable[[Context], Any]
"""One answer: a text, a call, several steps, an exception in place of a stream, or a function of the context."""


def tool_call(name: str, call_id: str | None = None, /, **arguments: Any) -> ToolCall:
    """A call of a tool; its id is its name unless given."""
    return ToolCall(id=call_id or name, name=name, arguments=arguments)


@define(eq=False)
class ScriptedModel:
    """A `stream_fn` that plays turns one after the other, and says "Done." when there are none left.

    Attributes:
        turns: What is still to be played.
        piece: Characters in one delta.
        asked: The context of each call so far.
        options: The options of each call so far.
        signals: The abort signal of each call so far.
    """

    turns: list[Turn] = field(factory=list)
    piece: int = 8
    asked: list[Context] = field(factory=list, init=False)
    options: list[StreamOptions] = field(factory=list, init=False)
    signals: list[Any] = field(factory=list, init=False)
    given_up: int = field(default=0, init=False)
    """Calls whose reader left before their end."""

    def __call__(
        self, model: Model, context: Context, options: StreamOptions, *, signal: Any = None
    ) -> AsyncIterator[StreamEvent]:
        self.asked.append(context)
        self.options.append(options)
        self.signals.append(signal)
        turn = self.turns.pop(0) if self.turns else "Done."
        if callable(turn):
            turn = turn(context)
        if isinstance(turn, Exception):
            raise turn
        steps = turn if isinstance(turn, Sequence) and not isinstance(turn, str) else (turn,)
        return self._play(model, steps)

    async def _play(self, model: Model, steps: Sequence[Any]) -> AsyncIterator[StreamEvent]:
        fold = Fold(model)
        try:
            for event in fold.start():
                yield event
            for number, step in enumerate(steps):
                if isinstance(step, Pause):
                    await sleep_s(3_600.0 if step.seconds is None else step.seconds)
                elif isinstance(step, Breaks):
                    if step.error is not None:
                        raise step.error
                    return
                else:
                    for event in self._events(fold, number, step):
                        yield event
            reason = next((step.reason for step in steps if isinstance(step, Stops)), "stop")
            for event in fold.done(reason):  # type: ignore[arg-type]
                yield event
        except (GeneratorExit, CancelledError):
            self.given_up += not fold.finished
            raise

    def _events(self, fold: Fold, number: int, step: Any) -> Iterable[StreamEvent]:
        match step:
            case str():
                for piece in self._pieces(step):
                    yield from fold.text(piece, number)
                yield from fold.end(number)
            case ThinkingContent(thinking):
                for piece in self._pieces(thinking):
                    yield from fold.thinking(piece, number)
                yield from fold.end(number)
            case ToolCall():
                yield from fold.tool_start(number, step.id, step.name)
                raw = json.dumps(dict(step.arguments)) if step.invalid is None else step.invalid
                for piece in self._pieces(raw):
                    yield from fold.tool_args(number, piece)
                yield from fold.end(number)
            case Fails(error):
                yield from fold.fail("error", error if isinstance(error, str) else str(error))

    def _pieces(self, text: str) -> Iterable[str]:
        return (text[at : at + self.piece] for at in range(0, len(text), self.piece))


@define(eq=False)
class ScriptedAgent:
    """An agent on a `ScriptedModel`, with the calling process as its subscriber."""

    pid: Pid
    model: ScriptedModel

    @classmethod
    async def start(cls, turns: Iterable[Turn] = (), **options: Any) -> "ScriptedAgent":
        """Start an agent linked to the caller.

        Args:
            turns: What the model says, turn by turn.
            options: Fields of `AgentOptions`. Unless said otherwise a run that would end waits for no follow-up.
        """
        model = ScriptedModel(list(turns))
        settings = {"model": MODEL, "stream_fn": model, "follow_up_window_ms": 0, **options}
        pid = await Agent.start_link(AgentOptions(**settings))
        assert pid is not None
        await Agent.subscribe(pid)
        return cls(pid, model)

    async def run(self, prompt: Any, timeout_s: float | None = 30.0) -> list[AgentEvent]:
        """Prompt, and return every event of the run."""
        await Agent.prompt(self.pid, prompt)
        return await self.events(timeout_s)

    async def events(self, timeout_s: float | None = 30.0) -> list[AgentEvent]:
        """The events up to and with the next terminal one."""
        return await record(timeout_s)

    async def state(self) -> AgentState:
        """The agent at this moment."""
        return await Agent.get_state(self.pid)


async def next_event(timeout_s: float | None = 30.0) -> AgentEvent:
    """The next event in the caller's mailbox."""
    message: AgentEventMessage = await receive(lambda m: isinstance(m, AgentEventMessage), timeout_s=timeout_s)
    return message.event


async def until(
    kind: type[AgentEvent] | Callable[[AgentEvent], bool], timeout_s: float | None = 30.0
) -> list[AgentEvent]:
    """The events in the caller's mailbox up to and with the first of a class, or the first that a function accepts."""
    found: list[AgentEvent] = []
    while True:
        found.append(await next_event(timeout_s))
        if isinstance(found[-1], kind) if isinstance(kind, type) else kind(found[-1]):
            return found


async def record(timeout_s: float | None = 30.0) -> list[AgentEvent]:
    """The events in the caller's mailbox up to and with the terminal one, batches opened."""
    found: list[AgentEvent] = []
    while not found or not is_terminal(found[-1]):
        message = await receive(lambda m: isinstance(m, AgentEventMessage | AgentEventBatch), timeout_s=timeout_s)
        found.extend(message.events if isinstance(message, AgentEventBatch) else (message.event,))
    return found


def is_terminal(event: AgentEvent) -> bool:
    """Is it the last event of its run?"""
    return isinstance(event, AgentEnd | ErrorEvent | Canceled)


def types(
    events: Iterable[AgentEvent], *, ignore: Iterable[str] = ("tool_schema_snapshot", "loop_state_transition")
) -> list[str]:
    """The tags of events, updates of one message as one, without those that say nothing of the conversation."""
    tags: list[str] = []
    left_out = frozenset(ignore)
    for event in events:
        if event.type not in left_out and not (event.type == "message_update" and tags[-1:] == ["message_update"]):
            tags.append(event.type)
    return tags


def of_type(events: Iterable[AgentEvent], kind: type[Any]) -> list[Any]:
    """The events of one class."""
    return [event for event in events if isinstance(event, kind)]


def results(events: Iterable[AgentEvent]) -> list[ToolResultMessage]:
    """The tool results that were said, in order."""
    return [e.message for e in events if isinstance(e, MessageEnd) and isinstance(e.message, ToolResultMessage)]


def answers(events: Iterable[AgentEvent]) -> list[AssistantMessage]:
    """The assistant's messages that were said, in order."""
    return [e.message for e in events if isinstance(e, MessageEnd) and isinstance(e.message, AssistantMessage)]


def terminal(events: Sequence[AgentEvent]) -> Terminal:
    """The event that ended the run."""
    last = events[-1]
    assert isinstance(last, AgentEnd | ErrorEvent | Canceled), f"the last event is {last!r}"
    return last


def assert_well_formed(events: Sequence[AgentEvent]) -> None:
    """Fail unless the events of one run keep every rule a reader may rely on.

    A start first, one terminal last; turns, messages and tool calls that begin and end once, inside each other as
    they should; one result for each call, in the order asked, and `TurnEnd` and `AgentEnd` that say the same again.
    """
    assert events, "no events at all"
    assert isinstance(events[0], AgentStart), f"the first event is {events[0]!r}"
    assert [e for e in events if is_terminal(e)] == [events[-1]], "there is one terminal event, and it is the last"
    assert len(of_type(events, AgentStart)) == 1, "a run starts once"
    _Rules().check(events)


class _Rules:
    """Walks the events of a run."""

    def __init__(self) -> None:
        self._in_turn = False
        self._message: Any = None
        self._calls: dict[str, str] = {}
        self._ended_calls: list[str] = []
        self._said: list[Any] = []
        self._of_turn: list[Any] = []

    def check(self, events: Sequence[AgentEvent]) -> None:
        for event in events:
            self._one(event)
        assert self._message is None, f"message never ended: {self._message!r}"
        assert not self._calls, f"calls never ended: {self._calls}"
        assert not self._in_turn, "the last turn never ended"
        last = events[-1]
        if isinstance(last, AgentEnd):
            assert list(last.messages) == self._said, "agent_end carries what was said, in order"

    def _one(self, event: AgentEvent) -> None:
        match event:
            case TurnStart():
                assert not self._in_turn, "a turn began inside a turn"
                self._in_turn, self._of_turn = True, []
            case TurnEnd():
                self._turn_ended(event)
            case MessageStart(message):
                assert self._message is None, f"{message!r} began inside {self._message!r}"
                self._message = message
            case MessageUpdate():
                assert isinstance(self._message, AssistantMessage), "an update outside an assistant message"
            case MessageEnd(message):
                assert self._message is not None, f"{message!r} ended and had not begun"
                assert self._message.role == message.role
                self._message = None
                self._said.append(message)
                self._of_turn.append(message)
            case ToolExecutionStart(call_id, name):
                assert call_id not in self._calls, f"{call_id} began twice"
                self._calls[call_id] = name
            case ToolExecutionUpdate(call_id):
                assert call_id in self._calls, f"update of {call_id}, which does not run"
            case ToolExecutionEnd(call_id):
                assert call_id in self._calls, f"{call_id} ended and had not begun"
                del self._calls[call_id]
                self._ended_calls.append(call_id)
            case _:
                pass

    def _turn_ended(self, event: TurnEnd) -> None:
        assert self._in_turn, "a turn ended that had not begun"
        self._in_turn = False
        assistants = [m for m in self._of_turn if isinstance(m, AssistantMessage)]
        assert event.message in assistants, "turn_end carries the turn's assistant message"
        said = tuple(m for m in self._of_turn if isinstance(m, ToolResultMessage))
        assert event.tool_results == said, "turn_end carries the turn's results in the order they were said"
        asked = [block.id for block in event.message.content if isinstance(block, ToolCall)]
        answered = [result.tool_call_id for result in said]
        if answered:
            assert answered == asked, f"results {answered} do not follow the calls {asked}"


def assert_transcript(messages: Sequence[Any]) -> None:
    """Fail unless every tool call of a conversation has its one result."""
    found = violations(messages)
    assert not found, "; ".join(map(str, found))


@asynccontextmanager
async def agent_tree(clock: Any = None) -> AsyncIterator[Pid]:
    """A runtime with this package's tree in it, and the calling task as a process; the top supervisor's pid."""
    async with Runtime(clock):
        yield await start()


async def stop_tree() -> None:
    """End the tree that the caller has started, and wait until it has ended."""
    from lemon_otp import unlink, whereis

    top = whereis(SUPERVISOR)
    if top is not None:
        unlink(top)
        ref = monitor(top)
        exit_signal(top, "shutdown")
        await receive(lambda m: getattr(m, "ref", None) is ref)
