"""Edge. The calls of one assistant message: run as tasks, all at once, answered in the order asked.

Tree:  lemon_agent.supervisor / tool_task_supervisor / one task a running call, temporary
Emits: `ToolExecution*` events as things happen; the result messages in call order, each as soon as those before it are
       said; telemetry ("lemon_agent", "tool_task", "start" | "end" | "error" | "retry" | "orphaned") and
       ("lemon_agent", "tool_result", "emit")

Preparing (finding the tool, checking its arguments, asking `before_tool_call`) is done one call after the other, only
running overlaps. Every call gets exactly one result, whatever happens to its task.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from attrs import field

from lemon_agent.errors import words_of
from lemon_agent.events import ToolExecutionEnd, ToolExecutionStart
from lemon_agent.loop import tool_outcome as outcomes
from lemon_agent.loop.config import AfterToolCall, BeforeToolCall, Block
from lemon_agent.loop.fitting import call_fitting
from lemon_agent.loop.interruption import Interrupted, seconds, settled
from lemon_agent.loop.run import Run
from lemon_agent.loop.tool_outcome import ToolOutcome
from lemon_agent.loop.tool_set import normal_name
from lemon_agent.loop.tool_task import Done, Over, ToolTask, work
from lemon_agent.process_groups import kill_groups
from lemon_agent.tool_arguments import checker_for
from lemon_ai import AssistantMessage, ToolCall, ToolResultMessage
from lemon_otp import (
    Down,
    MonitorRef,
    Pid,
    TaskSupervisor,
    TimerRef,
    cancel_timer,
    define,
    demonitor,
    exit_signal,
    frozen,
    monitor,
    receive,
    self_pid,
    send,
    send_after,
    telemetry,
    wall_ms,
)

LATE_HOOK_S: Final = 1.0
"""How long `after_tool_call` may take for a call that finished although the run was aborted."""


@frozen(eq=False)
class BatchResult:
    """What a batch says to the loop beside its result messages."""

    terminate: bool
    added_tool_names: tuple[str, ...]


@define(eq=False)
class _Call:
    """One call on its way to its result."""

    asked: ToolCall
    task: ToolTask | None = None
    pid: Pid | None = None
    watch: MonitorRef | None = None
    attempt: int = 0
    timer: TimerRef | None = None
    doom: ToolOutcome | None = None
    """Its outcome when it is being stopped, whatever it may still say."""
    outcome: ToolOutcome | None = None
    said: bool = field(default=False)


@frozen(eq=False)
class _Timer:
    """Time is up for a call, or, without one, for all that run."""

    batch: "_Batch"
    what: str
    call: _Call | None = None
    attempt: int = 0


@frozen(eq=False)
class _Abort:
    """The run was aborted."""

    batch: "_Batch"


async def run_tool_calls(
    run: Run, message: AssistantMessage, calls: Sequence[ToolCall], results: list[ToolResultMessage]
) -> BatchResult:
    """Run the calls of a message and say their results, which are also put into `results`, in call order.

    Returns once every call has its result: soon after an abort, too, however the tools take it.
    """
    batch = _Batch(run, message, calls, results)
    me = self_pid()
    undo = run.signal.on_abort(lambda _: send(me, _Abort(batch)))
    run.show_tools(len(calls))
    try:
        await batch.work()
    finally:
        undo()
        run.show_tools(0)
    return batch.result()


async def not_executed(run: Run, calls: Sequence[ToolCall], results: list[ToolResultMessage]) -> BatchResult:
    """Say for each call of a message cut by the output limit that it did not run."""
    batch = _Batch(run, None, calls, results)
    for call in batch.calls:
        batch.announce(call)
        batch.settle(call, outcomes.cut_short())
    await run.flush()
    return BatchResult(terminate=False, added_tool_names=())


class _Batch:
    """The calls of one message at work."""

    def __init__(
        self,
        run: Run,
        message: AssistantMessage | None,
        calls: Sequence[ToolCall],
        results: list[ToolResultMessage],
    ) -> None:
        self.run = run
        self.message = message
        self.calls = [_Call(call) for call in calls]
        self.results = results
        self._waiting = deque(self.calls)
        self._running: dict[MonitorRef, _Call] = {}
        self._resting: set[_Call] = set()
        """Calls between two attempts."""
        self._to_say = deque(self.calls)
        self._aborting = False
        self._limit = self._concurrency()

    def _concurrency(self) -> int:
        config = self.run.config
        tools = [self.run.tools.find(call.asked.name) for call in self.calls]
        if config.tool_execution == "sequential" or any(tool is not None and tool.sequential for tool in tools):
            return 1
        limit = config.max_tool_concurrency
        return len(self.calls) if limit is None else max(1, limit)

    def result(self) -> BatchResult:
        """What the loop wants to know."""
        kept = [call.outcome.result for call in self.calls if call.outcome is not None]
        names = tuple(name for result in kept for name in result.added_tool_names or ())
        return BatchResult(bool(kept) and all(result.terminate for result in kept), names)

    async def work(self) -> None:
        """Bring every call to its result."""
        while self._to_say:
            while self._waiting and len(self._running) + len(self._resting) < self._limit:
                await self._take_up(self._waiting.popleft())
            if self._running or self._resting:
                await self._hear(await receive(self._is_ours))
            if self.run.behind:
                await self.run.flush()

    # From call to task.

    async def _take_up(self, call: _Call) -> None:
        self.announce(call)
        if self._aborting or self.run.signal.aborted:
            self.settle(call, outcomes.aborted())
            return
        outcome = await self._prepare(call)
        if outcome is None:  # unless the run was aborted while the hook was asked
            outcome = outcomes.aborted() if self.run.signal.aborted else await self._start(call)
        if outcome is not None:
            self.settle(call, outcome)

    def announce(self, call: _Call) -> None:
        """Say that a call is next."""
        asked = call.asked
        self.run.emit(ToolExecutionStart(asked.id, asked.name, asked.arguments))
        self.run.open_calls[asked.id] = asked.name
        self._count("start", call)

    async def _prepare(self, call: _Call) -> ToolOutcome | None:
        """Make the call ready to run; its outcome when it must not."""
        asked, run = call.asked, self.run
        tool = run.tools.find(asked.name)
        if tool is None:
            return outcomes.unknown_tool(asked.name)
        if tool.name != asked.name and normal_name(tool.name) == normal_name(asked.name):
            names = {"original_name": asked.name, "matched_tool_name": tool.name}
            telemetry.execute(("lemon_agent", "tool_call", "name_normalized"), {"system_time": wall_ms()}, names)
        if asked.invalid is not None:
            return outcomes.invalid_arguments(("the arguments are not one complete JSON object",))
        try:
            given = asked.arguments if tool.prepare_arguments is None else tool.prepare_arguments(asked.arguments)
        except Exception as error:
            return outcomes.invalid_arguments((words_of(error),))
        checked = checker_for(tool.parameters).check(given)
        if checked.errors:
            return outcomes.invalid_arguments(checked.errors)
        call.task = ToolTask(asked, tool, checked.arguments, run)
        return await self._before(call, call.task)

    async def _before(self, call: _Call, task: ToolTask) -> ToolOutcome | None:
        hook, run = self.run.config.before_tool_call, self.run
        if hook is None:
            return None
        assert self.message is not None
        told = BeforeToolCall(self.message, call.asked, task.args, run.snapshot())
        try:
            answer = await run.ask(hook, told, run.signal)
        except Interrupted:
            return outcomes.aborted()
        except Exception as error:
            return outcomes.hook_raised(error.__cause__ or error)
        if isinstance(answer, Block):
            return outcomes.blocked(answer.reason, answer.terminate)
        if outcomes.is_block(answer):
            return outcomes.blocked(answer.get("reason"), answer.get("terminate"))
        return None

    async def _start(self, call: _Call) -> ToolOutcome | None:
        """Start the next attempt of a call as a task; its outcome when that fails."""
        assert call.task is not None
        call.attempt += 1
        task = call.task = call.task.again(call.attempt)
        try:
            pid = await TaskSupervisor.start_child(
                self.run.config.tool_task_supervisor, work, task, label=f"tool_task[{task.tool.name}]"
            )
        except Exception as error:
            return outcomes.not_started(error)
        call.pid, call.watch = pid, monitor(pid)
        self.run.working[pid] = task
        self._running[call.watch] = call
        limit_ms = task.tool.timeout_ms if task.tool.timeout_ms is not None else self.run.config.tool_timeout_ms
        if limit_ms is not None:
            call.timer = send_after(self_pid(), _Timer(self, "timeout", call, call.attempt), limit_ms / 1000)
        return None

    # What is heard while tasks run.

    def _is_ours(self, message: Any) -> bool:
        match message:
            case Down(ref):
                return ref in self._running
            case Done() | Over() | _Timer() | _Abort():
                return True
            case _:
                return False

    async def _hear(self, message: Any) -> None:
        match message:
            case Done(task, outcome):
                call = self._call_of(task)
                if call is not None and call.doom is None:
                    self._forget_task(call)
                    await self._answered(call, outcome)
            case Down(ref, _, reason):
                await self._died(self._running[ref], reason)
            case Over(task):
                call = self._call_of(task)
                if call is not None and call.doom is not None:
                    await self._stopped(call)
            case _Abort(batch) if batch is self:
                await self._abort()
            case _Timer(batch, what, timed) if batch is self:
                await self._time_is_up(what, timed, message.attempt)
            case _:
                pass  # of a task or a batch that is no more

    def _call_of(self, task: ToolTask) -> _Call | None:
        return next((call for call in self._running.values() if call.task is task), None)

    async def _answered(self, call: _Call, outcome: ToolOutcome) -> None:
        """A task has said what became of its call."""
        if self._aborting and outcome.is_error:
            self.settle(call, outcomes.aborted(outcome))
        elif self._may_retry(call, outcome):
            self._rest(call, outcome)
        else:
            self.settle(call, await self._after(call, outcome))

    async def _died(self, call: _Call, reason: Any) -> None:
        assert call.task is not None
        if call.doom is None:
            self._forget_task(call)
            kill_groups(call.task.groups)
            await self._answered(call, outcomes.crashed(reason))
        elif call.task.is_over:
            await self._stopped(call)

    async def _time_is_up(self, what: str, call: _Call | None, attempt: int) -> None:
        if call is None:
            for running in tuple(self._running.values()):
                if running.doom is None:
                    self._stop(running, outcomes.aborted())
        elif what == "retry":
            if call in self._resting:
                self._resting.discard(call)
                outcome = await self._start(call)
                if outcome is not None:
                    self.settle(call, outcome)
        elif call.attempt != attempt or call.watch not in self._running:
            return
        elif what == "timeout" and call.doom is None:
            assert call.task is not None
            limit_ms = call.task.tool.timeout_ms
            self._stop(call, outcomes.timed_out(self.run.config.tool_timeout_ms or 0 if limit_ms is None else limit_ms))
        elif what == "kill":
            await self._stopped(call)

    # Stopping by force.

    async def _abort(self) -> None:
        """Start nothing more, and give what runs a moment to stop by itself."""
        if self._aborting:
            return
        self._aborting = True
        for call in tuple(self._resting):
            self._resting.discard(call)
            self.settle(call, outcomes.aborted())
        grace_s = self.run.config.abort_grace_ms / 1000
        send_after(self_pid(), _Timer(self, "grace"), grace_s)

    def _stop(self, call: _Call, doom: ToolOutcome) -> None:
        """Ask a task to stop; from here on its outcome is settled, whatever it says."""
        assert call.pid is not None and call.task is not None  # noqa: PT018
        call.doom = doom
        call.task.stopping = True
        send_after(self_pid(), _Timer(self, "kill", call, call.attempt), self.run.config.kill_grace_ms / 1000)
        exit_signal(call.pid, "shutdown")

    async def _stopped(self, call: _Call) -> None:
        """A task that was asked to stop has, or has had its time."""
        assert call.pid is not None and call.task is not None and call.doom is not None  # noqa: PT018
        exit_signal(call.pid, "kill")
        self._forget_task(call)
        call.task.finish_off()
        doom = call.doom
        self.settle(call, doom if doom.error_type == "aborted" else await self._after(call, doom))

    def _forget_task(self, call: _Call) -> None:
        if call.timer is not None:
            cancel_timer(call.timer)
            call.timer = None
        if call.watch is not None:
            demonitor(call.watch, flush=True)
            self._running.pop(call.watch, None)
        if call.pid is not None:
            self.run.working.pop(call.pid, None)

    # From outcome to result.

    def _may_retry(self, call: _Call, outcome: ToolOutcome) -> bool:
        rule = call.task.tool.retry if call.task is not None else None
        if rule is None or self._aborting or self.run.signal.aborted:
            return False
        return outcome.is_error and outcome.error_type in rule.retry_on and call.attempt < rule.max_attempts

    def _rest(self, call: _Call, outcome: ToolOutcome) -> None:
        """Make the call again after a pause."""
        assert call.task is not None and call.task.tool.retry is not None  # noqa: PT018
        following = call.attempt + 1
        self._count("retry", call, attempt=following, reason=outcome.error_type)
        call.task.close()
        self._resting.add(call)
        delay_s = call.task.tool.retry.delay_s(following)
        send_after(self_pid(), _Timer(self, "retry", call, call.attempt), delay_s)

    async def _after(self, call: _Call, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome as `after_tool_call` leaves it."""
        hook, run = self.run.config.after_tool_call, self.run
        if hook is None or call.task is None:
            return outcome
        assert self.message is not None
        told = AfterToolCall(self.message, call.asked, call.task.args, outcome.result, outcome.is_error, run.snapshot())
        try:
            if self._aborting:
                answer = await settled(call_fitting(hook, told, run.signal), None, LATE_HOOK_S)
            else:
                limit_s, grace_s = seconds(run.config.hook_timeout_ms), run.config.abort_grace_ms / 1000
                answer = await settled(call_fitting(hook, told, run.signal), run.signal, limit_s, grace_s=grace_s)
            return outcomes.overridden(outcome, answer)
        except Interrupted as interrupted:
            if interrupted.cause == "aborted":
                return outcomes.aborted()
            return outcomes.hook_raised(TimeoutError("after_tool_call, a hook, did not answer in time"))
        except BaseException as error:
            if not self_pid().alive:
                raise  # the run's process is being ended: this is no failure of the hook
            return outcomes.hook_raised(error)

    def settle(self, call: _Call, outcome: ToolOutcome) -> None:
        """Give a call its one result, and say every result whose turn it is."""
        asked = call.asked
        if call.task is not None:
            call.task.close()
        call.outcome = outcome
        self.run.open_calls.pop(asked.id, None)
        self.run.emit(ToolExecutionEnd(asked.id, asked.name, outcome.result, outcome.is_error))
        if outcome.failed_task is None:
            self._count("end", call, is_error=outcome.is_error, attempt=call.attempt)
        else:
            self._count("error", call, reason=outcome.failed_task, attempt=call.attempt)
        while self._to_say and (ready := self._to_say[0].outcome) is not None:
            self._say(self._to_say.popleft().asked, ready)

    def _say(self, asked: ToolCall, outcome: ToolOutcome) -> None:
        message = outcomes.result_message(asked, outcome)
        self.results.append(message)
        self.run.say(message)
        telemetry.execute(
            ("lemon_agent", "tool_result", "emit"),
            {"system_time": wall_ms()},
            {
                "tool_name": asked.name,
                "tool_call_id": asked.id,
                "is_error": message.is_error,
                "trust": message.trust,
            },
        )

    def _count(self, what: str, call: _Call, **more: Any) -> None:
        telemetry.execute(
            ("lemon_agent", "tool_task", what),
            {"system_time": wall_ms()},
            {"tool_name": call.asked.name, "tool_call_id": call.asked.id, **more},
        )
