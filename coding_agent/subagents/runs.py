"""Value. A run of a subagent as its coordinator knows it, who waits for it, and what the coordinator tells itself."""

import secrets
from collections.abc import Callable
from typing import Any

from coding_agent.subagents.batch import Batch
from coding_agent.subagents.protocol import Delivery, RunView, SubagentResult, SubagentSpec
from lemon_otp import Caller, MonitorRef, Pid, TimerRef, define, frozen


@frozen(eq=False)
class TimeUp:
    """Message of a coordinator to itself: a batch, one of its runs, or a question has had its time."""

    batch: Batch
    run_id: str | None = None
    question: Caller | None = None


@frozen
class Overdue:
    """Message of a coordinator to itself: these should have stopped by now."""

    ids: tuple[str, ...]


@define(eq=False)
class Run:
    """One subagent."""

    id: str
    spec: SubagentSpec
    batch: Batch
    background: bool = False
    delivery: Delivery = "follow_up"
    tell: bool = True
    status: str = "queued"
    pid: Pid | None = None
    watch: MonitorRef | None = None
    timer: TimerRef | None = None
    session: Pid | None = None
    session_id: str | None = None
    session_file: str | None = None
    action: str | None = None
    question: tuple[str, Caller, TimerRef] | None = None
    joined: int = 0
    watcher: Pid | None = None
    asked_by: Pid | None = None
    counted: bool = False
    crash: Any = None
    result: SubagentResult | None = None

    def view(self) -> RunView:
        """How it stands."""
        return RunView(
            self.id,
            self.status,
            self.spec.subagent,
            self.spec.description,
            self.background,
            self.session_id,
            self.session_file,
            self.action,
            self.question[0] if self.question else None,
            self.result,
        )

    def gone(self) -> SubagentResult:
        """A result for one that is stopped with its coordinator."""
        return SubagentResult(self.id, "aborted", "", "aborted", self.session_id, self.session_file)

    def failed(self, error: Any) -> SubagentResult:
        """A result for one that cannot speak for itself."""
        return SubagentResult(self.id, "error", "", error, self.session_id, self.session_file)


@define(eq=False)
class Waiting:
    """A caller that is answered as soon as something holds.

    Attributes:
        blocking: The session's own agent waits, so its seat can be given away.
        gone: What to do when the caller ends first.
    """

    caller: Caller
    watch: MonitorRef
    ready: Callable[[], bool]
    answer: Callable[[], Any]
    gone: Callable[[], None]
    blocking: bool = True
    timer: TimerRef | None = None


def new_run_id() -> str:
    """Sixteen hexadecimal digits."""
    return secrets.token_hex(8)
