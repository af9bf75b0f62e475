"""Edge. One attempt of one tool call, seen from inside its process."""

import asyncio
import inspect
from threading import get_ident
from typing import Any

from lemon_agent.events import ToolExecutionUpdate
from lemon_agent.loop import tool_outcome as outcomes
from lemon_agent.loop.run import Run
from lemon_agent.loop.tool_outcome import ToolOutcome
from lemon_agent.process_groups import collect_into, kill_groups
from lemon_agent.tools import AgentTool, AgentToolResult
from lemon_ai import ToolCall, redact
from lemon_otp import Task, annotate, current_runtime, frozen, self_pid, send, telemetry, wall_ms


class ToolTask:
    """What the loop and the call's process share. `update` may be called on any thread, the rest on the loop's."""

    __slots__ = (
        "_closed",
        "_held",
        "_posted",
        "_run",
        "_runtime",
        "args",
        "attempt",
        "begun",
        "call",
        "finished",
        "groups",
        "loop",
        "stopping",
        "tool",
    )

    def __init__(self, call: ToolCall, tool: AgentTool, args: dict[str, Any], run: Run, attempt: int = 1) -> None:
        self.call = call
        self.tool = tool
        self.args = args
        self.attempt = attempt
        self.loop = self_pid()
        self.begun = False
        self.finished = False
        self.stopping = False
        """The loop wants to hear when the tool's own code has ended."""
        self.groups: set[int] = set()
        self._run = run
        self._runtime = current_runtime()
        self._closed = False
        self._held: AgentToolResult | None = None
        self._posted = False

    def again(self, attempt: int) -> "ToolTask":
        """The same call for its next attempt."""
        return self if attempt == 1 else ToolTask(self.call, self.tool, self.args, self._run, attempt)

    @property
    def is_over(self) -> bool:
        """Has the tool's own code ended, or not begun? A process can be dead and its code not."""
        return self.finished or not self.begun

    def ended(self) -> None:
        """The tool's own code has ended. From any thread."""
        self.finished = True
        if self.stopping:
            send(self.loop, Over(self))

    def finish_off(self) -> None:
        """Kill the programs the tool has started; say so when its own code goes on all the same."""
        kill_groups(self.groups)
        if not self.is_over:
            telemetry.execute(
                ("lemon_agent", "tool_task", "orphaned"),
                {"system_time": wall_ms()},
                {"tool_name": self.call.name, "tool_call_id": self.call.id, "runs_on": self.tool.runs_on},
            )

    # What the tool says on its way.

    def update(self, partial: Any) -> None:
        """`on_update` of the tool."""
        if self._closed:
            return
        self._held = outcomes.as_partial(partial)
        if get_ident() == self._runtime.thread_id:
            self._publish()
        elif not self._posted:
            self._posted = True
            self._runtime.post(self._publish)

    def close(self) -> None:
        """The call has its result: say the latest update if it was held back, then nothing more."""
        if not self._closed:
            self._emit_held()
            self._closed = True

    def _publish(self) -> None:
        self._posted = False
        if not self._closed and self._run.has_room_for_updates:
            self._emit_held()

    def _emit_held(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._run.emit(ToolExecutionUpdate(self.call.id, self.call.name, self.args, held))


@frozen(eq=False)
class Done:
    """Message to the loop: an attempt has come to its outcome."""

    task: ToolTask
    outcome: ToolOutcome


@frozen(eq=False)
class Over:
    """Message to the loop: the code of a task that is being stopped has ended."""

    task: ToolTask


async def work(task: ToolTask) -> None:
    """The body of a tool call's process."""
    task.begun = True
    tool, signal = task.tool, task._run.signal
    place = tool.runs_on
    try:
        argument = outcomes.main_argument(tool, task.args)
        annotate(phase="tool", tool=tool.name, argument=None if argument is None else redact(argument))
        about = {"tool_name": task.call.name, "tool_call_id": task.call.id, "loop": task.loop}
        telemetry.execute(("lemon_agent", "tool_task", "entered"), {"system_time": wall_ms()}, about)
        collect_into(task.groups)
        if place == "loop":
            outcome = await _on_loop(tool.execute, task.call.id, task.args, signal, task.update)
        elif place == "thread":
            running = Task.async_(_in_thread, task, signal, on="thread")
            outcome = await running.await_(timeout_s=None)
        else:
            running = Task.async_(_in_process, tool.execute, task.call.id, task.args, on="process")
            outcome = await running.await_(timeout_s=None)
        send(task.loop, Done(task, outcome))
    finally:
        if place != "thread":
            task.ended()


async def _on_loop(execute: Any, *args: Any) -> ToolOutcome:
    try:
        value = execute(*args)
        return outcomes.interpret(await value if inspect.isawaitable(value) else value)
    except BaseException as error:
        if not self_pid().alive:
            raise  # the process is being ended: this is no failure of the tool
        return outcomes.caught(error)


def _in_thread(task: ToolTask, signal: Any) -> ToolOutcome:
    try:
        return _called(task.tool.execute, task.call.id, task.args, signal, task.update)
    finally:
        task.ended()


def _in_process(execute: Any, tool_call_id: str, args: dict[str, Any]) -> ToolOutcome:
    return _called(execute, tool_call_id, args, None, None)


def _called(execute: Any, *args: Any) -> ToolOutcome:
    """Call a tool where there is no loop."""
    try:
        value = execute(*args)
        return outcomes.interpret(asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value)
    except BaseException as error:
        return outcomes.caught(error)


async def _awaited(value: Any) -> Any:
    return await value
