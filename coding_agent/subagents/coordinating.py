"""Edge. What a coordinator holds: its runs, the batches they belong to, and who waits for what."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import field

from coding_agent.errors import CodingAgentError
from coding_agent.lane_queue import NAME as LANE_QUEUE
from coding_agent.lane_queue import LaneQueue, Seated
from coding_agent.session import protocol as session_protocol
from coding_agent.session.budget import Account
from coding_agent.session.options import SessionOptions
from coding_agent.subagents.batch import Batch
from coding_agent.subagents.child_options import PLAIN_ROLE
from coding_agent.subagents.definitions import Definition
from coding_agent.subagents.protocol import (
    Answer,
    AskParent,
    CoordinatorOptions,
    Delivery,
    JoinMode,
    Progress,
    RunInBackground,
    RunSubagents,
    RunView,
    SubagentResult,
)
from coding_agent.subagents.run import Order, RunStarted, StopRun, run_subagent
from coding_agent.subagents.run_records import RunRecord
from coding_agent.subagents.run_store import RunStore
from coding_agent.subagents.runs import Overdue, Run, TimeUp, Waiting, new_run_id
from lemon_agent import agent_registry
from lemon_otp import (
    Caller,
    MonitorRef,
    OtpError,
    Pid,
    TaskSupervisor,
    cancel_timer,
    cast,
    define,
    demonitor,
    exit_signal,
    monitor,
    reply,
    self_pid,
    send,
    send_after,
    whereis,
)

TASK_SUPERVISOR: Final = "subagent_task_supervisor"
CLEANUP_S: Final = 5.0
"""What a subagent that was told to stop is given, before it is killed and counted as gone."""
KEPT_MAX: Final = 200
"""Runs that have ended and can still be looked at."""


@define(eq=False)
class Coordinating:
    """The state of a coordinator."""

    options: CoordinatorOptions
    session_watch: MonitorRef
    cwd: Path = Path()
    account: Account | None = None
    store: RunStore | None = None
    runs: dict[str, Run] = field(factory=dict)
    waiting: list[Waiting] = field(factory=list)
    returning: list[Waiting] = field(factory=list)
    lane_watch: MonitorRef | None = None
    started_count: int = 0

    def take_from(self, parent: SessionOptions) -> None:
        """Take from the parent what the runs need."""
        self.cwd, self.account = parent.cwd, parent.account
        self.store = RunStore.open(parent.session_file)

    def active(self) -> tuple[str, ...]:
        """Those that have not ended."""
        return tuple(run.id for run in self.runs.values() if run.result is None)

    # Starting.

    async def start(self, run: Run) -> None:
        """Start the process of a run. Raises what stands in the way; nothing is then left of it."""
        name = run.spec.subagent
        definition = None if name is None else self.options.definitions(self.cwd).named(name)
        if self.account is not None:
            self.account.begin_child()
            run.counted = True
        order = Order(run.id, self_pid(), self.options, run.spec, definition, self._index(definition), run.asked_by)
        try:
            run.pid = await TaskSupervisor.start_child(
                TASK_SUPERVISOR, run_subagent, order, label=f"subagent[{run.id}]"
            )
        except BaseException:
            self._uncount(run)
            raise
        run.watch = monitor(run.pid)
        self.runs[run.id] = run
        if run.spec.timeout_ms is not None:
            run.timer = send_after(self_pid(), TimeUp(run.batch, run.id), max(0, run.spec.timeout_ms) / 1000)
        self._record(run)

    def _index(self, definition: Definition | None) -> int:
        """A number for the agent registry that no agent of this session has had, whoever started it."""
        role = definition.name if definition else PLAIN_ROLE
        taken = [index for named, index, _ in agent_registry.list_by_session(self.options.session_id) if named == role]
        self.started_count = max([self.started_count, *(index + 1 for index in taken)])
        self.started_count += 1
        return self.started_count - 1

    # What runs say.

    def started(self, message: RunStarted) -> None:
        """A run has its session."""
        run = self.runs.get(message.run_id)
        if run is None or run.result is not None:
            exit_signal(message.session, "kill")  # it was given up meanwhile
            return
        run.session, run.session_id, run.session_file = message.session, message.session_id, message.session_file
        if run.status == "queued":
            run.status = "running"
        self._record(run)

    def acts(self, run_id: str, action: str | None) -> None:
        """A run is at a tool call, or at none."""
        if (run := self.runs.get(run_id)) is not None and run.result is None:
            run.action = action
            if run.watcher is not None:
                send(run.watcher, Progress(run_id, action))

    def ended(self, result: SubagentResult) -> None:
        """A run has ended, its session with it."""
        run = self.runs.get(result.id)
        if run is None or run.result is not None:
            return
        others = run.batch.ended(result)
        run.result = run.batch.results[run.id]
        run.status, run.action = run.result.status, None
        self._release(run)
        self._record(run)
        self._tell_parent(run)
        self.stop([self.runs[run_id] for run_id in others])
        self._forget_oldest()
        self.settle()

    def heard_of_end(self, ref: MonitorRef, reason: Any) -> None:
        """A process has ended: that of a run, its session, or a caller."""
        if ref is self.lane_watch:
            self._answer_returned()
            return
        for run in self.runs.values():
            if run.watch is ref and run.result is None:
                self._run_down(run, reason)
                return
        for waiting in self.waiting:
            if waiting.watch is ref:
                self.waiting.remove(waiting)
                waiting.gone()
                self.settle()
                return

    def _run_down(self, run: Run, reason: Any) -> None:
        """The process of a run ended without a word; its session, which ends with it, is waited for."""
        run.crash = run.crash or ("crashed", reason)
        if run.session is not None and run.session.alive:
            run.watch = monitor(run.session)
            send_after(self_pid(), Overdue((run.id,)), CLEANUP_S)
        else:
            self.ended(run.failed(run.crash))

    # Stopping.

    def stop(self, runs: Iterable[Run]) -> None:
        """Tell these to end; whoever has not within `CLEANUP_S` is killed."""
        ids = []
        for run in runs:
            if run.result is None and run.status != "stopping":
                run.status = "stopping"
                ids.append(run.id)
                if run.pid is not None:
                    send(run.pid, StopRun())
        if ids:
            send_after(self_pid(), Overdue(tuple(ids)), CLEANUP_S)

    def kill(self, ids: Sequence[str]) -> None:
        """End by force what is left of these and count them as ended."""
        for run_id in ids:
            run = self.runs.get(run_id)
            if run is not None and run.result is None:
                for pid in (run.pid, run.session):
                    if pid is not None:
                        exit_signal(pid, "kill")
                self.ended(run.failed(run.crash or "killed"))

    def give_up(self, batch: Batch, status: Any = "aborted", only: str | None = None) -> None:
        """Stop what is left of a batch, or one of it, and let it count as `status`."""
        self.stop([self.runs[run_id] for run_id in batch.give_up(status, only)])

    def time_is_up(self, message: TimeUp) -> None:
        """A deadline has passed."""
        if message.question is not None:
            self._question_over(message)
        else:
            self.give_up(message.batch, "timeout", message.run_id)

    def let_go(self) -> None:
        """The coordinator ends: so does every run, at once; each session stores what it has when its run ends."""
        for run in self.runs.values():
            if run.result is None:
                self.ended(run.gone())
                if run.pid is not None:
                    exit_signal(run.pid, "shutdown")

    # Waiting.

    def wait(
        self,
        caller: Caller,
        ready: Callable[[], bool],
        answer: Callable[[], Any],
        gone: Callable[[], None],
        *,
        blocking: bool = True,
    ) -> Waiting:
        """Answer a caller once something holds; while the session's agent waits, its seat is given away."""
        waiting = Waiting(caller, monitor(caller.pid), ready, answer, gone, blocking)
        self.waiting.append(waiting)
        if blocking and self.options.seat is not None and not ready():
            LaneQueue.step_aside(self.options.seat)
        return waiting

    def settle(self) -> None:
        """Answer whoever waits for something that holds now."""
        for waiting in [one for one in self.waiting if one.ready()]:
            self.waiting.remove(waiting)
            if waiting.timer is not None:
                cancel_timer(waiting.timer)
            seat = self.options.seat
            others_block = any(one.blocking for one in self.waiting)
            if waiting.blocking and seat is not None and not others_block and whereis(LANE_QUEUE) is not None:
                self.returning.append(waiting)
                self.lane_watch = self.lane_watch or monitor(LANE_QUEUE)
                LaneQueue.step_back(seat, self_pid())
            else:
                self._reply(waiting)

    def seated(self, message: Any) -> None:
        """The session's agent may work again."""
        if isinstance(message, Seated):
            self._answer_returned()

    def _answer_returned(self) -> None:
        if self.lane_watch is not None:
            demonitor(self.lane_watch, flush=True)
            self.lane_watch = None
        returning, self.returning = self.returning, []
        for waiting in returning:
            self._reply(waiting)

    def _reply(self, waiting: Waiting) -> None:
        demonitor(waiting.watch, flush=True)
        reply(waiting.caller, waiting.answer())

    def join(self, runs: Sequence[Run], mode: JoinMode, caller: Caller) -> None:
        """Answer when these have ended, or one of them has."""
        some = any if mode == "wait_any" else all
        for run in runs:
            run.joined += 1

        def left() -> None:
            for run in runs:
                run.joined -= 1

        def answer() -> tuple[RunView, ...]:
            for run in runs:
                if run.result is None:
                    run.joined -= 1
            return tuple(run.view() for run in runs)

        self.wait(caller, lambda: not runs or some(run.result is not None for run in runs), answer, left)
        self.settle()

    def stop_and_wait(self, runs: Sequence[Run], caller: Caller, answer: Callable[[], Any]) -> None:
        """Stop these and answer when they have ended."""
        for run in runs:
            run.batch.give_up("aborted", run.id)
        self.stop(runs)
        self.wait(caller, lambda: all(run.result is not None for run in runs), answer, lambda: None, blocking=False)
        self.settle()

    # Questions.

    def ask_parent(self, run: Run, question: AskParent, caller: Caller) -> None:
        """Let the parent's model hear a question; in the foreground it could not, because it waits for the answer."""
        if not run.background or run.joined or run.result is not None:
            text = "the parent waits for your result and cannot answer: decide yourself and say what you assumed"
            reply(caller, Answer("nobody_listens", text))
        elif run.question is not None:
            reply(caller, Answer("already_waiting", "one question is open already; wait for its answer"))
        else:
            timer = send_after(self_pid(), TimeUp(run.batch, run.id, caller), question.timeout_ms / 1000)
            run.question = (question.question, caller, timer)
            self._deliver(run, "parent_question", f"Subagent {run.id} asks:\n{question.question}", run.delivery)

    def answer_child(self, run: Run, text: str) -> bool:
        """Give a subagent the answer it waits for; False when it waits for none."""
        if run.question is None:
            return False
        _, caller, timer = run.question
        cancel_timer(timer)
        run.question = None
        reply(caller, Answer("answered", text))
        return True

    def _question_over(self, message: TimeUp) -> None:
        run = self.runs.get(message.run_id or "")
        if run is not None and run.question is not None and run.question[1] is message.question:
            reply(run.question[1], Answer("timed_out", "the parent did not answer in time"))
            run.question = None

    # Telling and keeping.

    def _tell_parent(self, run: Run) -> None:
        assert run.result is not None
        if not run.background or run.joined or not run.tell:
            return
        head = f"Subagent {run.id}{f' ({run.spec.description})' if run.spec.description else ''}"
        if run.result.status == "completed":
            text = f"{head} has completed:\n{run.result.result}"
        else:
            text = f"{head} ended as {run.result.status}: {run.result.error}\n{run.result.result}".rstrip()
        self._deliver(run, "async_followup", text, run.delivery)

    def _deliver(self, run: Run, custom_type: str, text: str, delivery: Delivery) -> None:
        details = {"task_id": run.id, "status": run.status, "delivery": delivery, "session_file": run.session_file}
        cast(self.options.session, session_protocol.Deliver(custom_type, text, details, delivery))

    def _record(self, run: Run) -> None:
        if self.store is None:
            return
        result = run.result
        self.store.put(
            RunRecord(
                id=run.id,
                status="running" if run.status == "stopping" else run.status,
                parent_session=self.options.session_id,
                subagent=run.spec.subagent,
                description=run.spec.description,
                background=run.background,
                session_id=run.session_id,
                session_file=run.session_file,
                result=result.result if result else "",
                error=str(result.error) if result and result.error is not None else None,
            )
        )

    def _release(self, run: Run) -> None:
        if run.watch is not None:
            demonitor(run.watch, flush=True)
            run.watch = None
        if run.timer is not None:
            cancel_timer(run.timer)
        if run.question is not None:
            cancel_timer(run.question[2])
            reply(run.question[1], Answer("nobody_listens", "the subagent has ended"))
            run.question = None
        self._uncount(run)

    def _uncount(self, run: Run) -> None:
        if run.counted and self.account is not None:
            self.account.end_child()
            run.counted = False

    def _forget_oldest(self) -> None:
        over = [run.id for run in self.runs.values() if run.result is not None and not run.joined]
        for run_id in over[: max(0, len(over) - KEPT_MAX)]:
            if run_id not in self._awaited():
                del self.runs[run_id]

    def _awaited(self) -> set[str]:
        return {run.id for run in self.runs.values() if not run.batch.done}


async def run_batch(state: Coordinating, request: RunSubagents, caller: Caller) -> None:
    """Start every subagent of a call; the caller is answered when all of them have ended."""
    batch = Batch(tuple(new_run_id() for _ in request.specs), request.until)
    for run_id, spec in zip(batch.ids, request.specs, strict=True):
        run = Run(run_id, spec, batch, watcher=request.watcher, asked_by=caller.pid)
        try:
            await state.start(run)
        except (CodingAgentError, OtpError) as refused:
            batch.ended(run.failed(str(refused) or type(refused).__name__))
    waiting = state.wait(caller, lambda: batch.done, batch.in_order, partial(state.give_up, batch))
    timeout_ms = state.options.default_timeout_ms if request.timeout_ms is None else request.timeout_ms
    if timeout_ms is not None:
        waiting.timer = send_after(self_pid(), TimeUp(batch), max(0, timeout_ms) / 1000)
    state.settle()


async def run_aside(state: Coordinating, request: RunInBackground, asked_by: Pid | None = None) -> str:
    """Start one subagent that nobody waits for; its id."""
    run_id = new_run_id()
    run = Run(
        run_id,
        request.spec,
        Batch((run_id,)),
        background=True,
        delivery=request.delivery,
        tell=request.tell,
        asked_by=asked_by,
    )
    await state.start(run)
    return run_id
