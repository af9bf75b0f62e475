"""Process. One subagent at work: waits for a seat, starts its session, prompts it, watches it, stops it.

Tree:  coding_agent.supervisor / subagent_task_supervisor / subagent[id], temporary
Emits: `RunStarted`, `RunActs` and, as its last word, `RunEnded`, to its coordinator
Owns:  the subagent's session, which ends when this process does; it ends itself when its coordinator does
"""

from typing import Any, Final

from attrs import field

from coding_agent import client
from coding_agent.errors import CodingAgentError
from coding_agent.events import SessionEvent, Settled
from coding_agent.lane_queue import NAME as LANE_QUEUE
from coding_agent.lane_queue import LaneQueue, Seated
from coding_agent.session import protocol
from coding_agent.session.options import SessionOptions
from coding_agent.session_supervisor import start_session
from coding_agent.subagents.batch import outcome_of
from coding_agent.subagents.child_options import PLAIN_ROLE, child_options, may_start_others
from coding_agent.subagents.definitions import Definition
from coding_agent.subagents.protocol import ChildPlace, CoordinatorOptions, Status, SubagentResult, SubagentSpec
from lemon_agent import MessageEnd, ToolExecutionEnd, ToolExecutionStart
from lemon_ai import AiError, AssistantMessage, get_text
from lemon_otp import (
    CallFailed,
    CallTimeout,
    Down,
    MonitorRef,
    OtpError,
    Pid,
    call,
    define,
    down_of,
    exit_signal,
    frozen,
    monitor,
    receive,
    self_pid,
    send,
    sleep_s,
    stop,
    telemetry,
    wall_ms,
)

LANE: Final = "subagent"
ABORT_S: Final = 1.5
"""What a session is given to end its run, so that what was said is stored."""
STOP_S: Final = 2.0
"""What it is given to end itself, before it is killed."""
RETRY_S: Final = 0.05


@frozen
class Order:
    """What a subagent's process is started with."""

    run_id: str
    coordinator: Pid
    options: CoordinatorOptions
    spec: SubagentSpec
    definition: Definition | None
    index: int
    asked_by: Pid | None = None

    @property
    def role(self) -> str:
        """What it is in the agent registry."""
        return self.definition.name if self.definition else PLAIN_ROLE


@frozen
class RunStarted:
    """To the coordinator: the subagent's session runs."""

    run_id: str
    session: Pid
    session_id: str
    session_file: str


@frozen
class RunActs:
    """To the coordinator: which tool call it is at, None when it is at none."""

    run_id: str
    action: str | None


@frozen
class RunEnded:
    """To the coordinator: the subagent is over and its session gone."""

    result: SubagentResult


@frozen
class StopRun:
    """From the coordinator: end it; a session that runs stores what was said."""


@frozen
class SteerRun:
    """From the coordinator: give its model this text."""

    text: str


class _Stopped(Exception):
    """The coordinator wants it to end, or is gone."""


async def run_subagent(order: Order) -> None:
    """The body of the process."""
    monitor(order.coordinator)
    run = _Run(order)
    try:
        status, error = await run.work()
    except _Stopped:
        status, error = "aborted", "aborted"
        await run.abort()
    except CallFailed as failed:
        status, error = "error", ("crashed", failed.reason)
    except (CodingAgentError, OtpError, AiError) as refused:
        status, error = "error", str(refused) or type(refused).__name__
    await run.end_session()
    LaneQueue.release(self_pid())
    send(order.coordinator, RunEnded(run.result(status, error)))


@define(eq=False)
class _Run:
    order: Order
    session: Pid | None = None
    session_id: str | None = None
    session_file: str | None = None
    said: str = ""
    complaint: str | None = None
    _watch: MonitorRef | None = field(default=None)

    async def work(self) -> tuple[Status, Any]:
        await self._wait_for_seat()
        session = await self._start()
        await client.prompt(session, self.order.spec.prompt)
        while True:
            match await receive():
                case SessionEvent(_, Settled(outcome, reason)):
                    return outcome_of(outcome, reason, self.complaint)
                case SessionEvent() as event:
                    self._hear(event.event)
                case Down(process=process, reason=reason) if process == session:
                    self.session = None
                    return "error", ("crashed", reason)
                case SteerRun(text):
                    await client.steer(session, text)
                case message:
                    self._heed(message)

    async def _wait_for_seat(self) -> None:
        LaneQueue.ask(LANE, self_pid(), self_pid())
        watch = monitor(LANE_QUEUE)
        while True:
            match await receive():
                case Seated():
                    return
                case Down(ref=ref) if ref is watch:  # it starts again with empty books
                    await sleep_s(RETRY_S)
                    LaneQueue.ask(LANE, self_pid(), self_pid())
                    watch = monitor(LANE_QUEUE)
                case message:
                    self._heed(message)

    async def _start(self) -> Pid:
        order, options = self.order, self.order.options
        parent: SessionOptions = await call(options.session, protocol.GetOptions(), timeout_s=None)
        key = (options.session_id, order.role, order.index)
        child = child_options(parent, order.spec, order.definition, owner=self_pid(), key=key)
        depth = options.depth - 1 if may_start_others(order.definition, options.depth) else 0
        place = ChildPlace(order.run_id, child.session_id, child.cwd, order.coordinator, self_pid(), depth)
        child = child.with_session_tools(options.child_tools(place))
        telemetry.execute(
            ("coding_agent", "subagent", "start"),
            {"system_time": wall_ms()},
            {
                "run_id": order.run_id,
                "role": order.role,
                "session_id": child.session_id,
                "parent_session_id": options.session_id,
                "asked_by": order.asked_by,
            },
        )
        session = self.session = await start_session(child)
        self._watch = monitor(session)
        self.session_id, self.session_file = child.session_id, str(child.session_file)
        send(order.coordinator, RunStarted(order.run_id, session, child.session_id, str(child.session_file)))
        await client.subscribe(session, self_pid())
        return session

    def _hear(self, event: Any) -> None:
        match event:
            case MessageEnd(AssistantMessage() as message):
                self.complaint = message.error_message if message.stop_reason == "error" else None
                if message.stop_reason != "error":
                    self.said = get_text(message) or self.said
            case ToolExecutionStart(_, name, args):
                first = next((str(value) for value in args.values()), "") if hasattr(args, "values") else ""
                send(self.order.coordinator, RunActs(self.order.run_id, f"{name} {first}".strip()[:240]))
            case ToolExecutionEnd():
                send(self.order.coordinator, RunActs(self.order.run_id, None))
            case _:
                pass

    def _heed(self, message: Any) -> None:
        match message:
            case StopRun():
                raise _Stopped
            case Down(process=process) if process == self.order.coordinator:
                raise _Stopped
            case _:
                pass

    async def abort(self) -> None:
        """End the session's run, so that what was said is stored; then hear what it said."""
        if self.session is None:
            return
        try:
            await call(self.session, protocol.Abort("aborted"), timeout_s=ABORT_S)
            while True:
                event: SessionEvent = await receive(lambda message: isinstance(message, SessionEvent), timeout_s=0)
                self._hear(event.event)
        except OtpError:  # it is gone, does not answer, or has said everything
            return

    async def end_session(self) -> None:
        """Return when the session's process has ended."""
        session = self.session
        if session is None:
            return
        try:
            await stop(session, "shutdown", timeout_s=STOP_S)
        except CallTimeout:
            exit_signal(session, "kill")
            assert self._watch is not None
            await receive(down_of(self._watch))
        except CallFailed:
            pass  # it ended by itself

    def result(self, status: Status, error: Any) -> SubagentResult:
        """What the coordinator is told."""
        return SubagentResult(self.order.run_id, status, self.said, error, self.session_id, self.session_file)
