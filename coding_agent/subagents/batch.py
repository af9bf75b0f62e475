"""Pure. What one call that runs several subagents waits for, and whom to stop when one of them ends."""

from typing import Any

from attrs import field

from coding_agent.subagents.protocol import Status, SubagentResult, Until
from lemon_otp import define


@define(eq=False)
class Batch:
    """The runs of one call.

    Attributes:
        ids: In the order asked.
        until: What ends it.
        results: Of those that have ended.
        decided: For those that were told to stop: how they count, whatever they still say.
    """

    ids: tuple[str, ...]
    until: Until = "all"
    results: dict[str, SubagentResult] = field(factory=dict)
    decided: dict[str, Status] = field(factory=dict)

    @property
    def pending(self) -> tuple[str, ...]:
        """Those that have not ended."""
        return tuple(run_id for run_id in self.ids if run_id not in self.results)

    @property
    def done(self) -> bool:
        """Have all ended?"""
        return len(self.results) == len(self.ids)

    def ended(self, result: SubagentResult) -> tuple[str, ...]:
        """Take in how one ended; those to stop now, in order. A second word of the same one changes nothing."""
        if result.id in self.results:
            return ()
        self.results[result.id] = counted(result, self.decided.get(result.id))
        if self.until == "first" and self.results[result.id].status == "completed":
            return self.give_up("aborted")
        return ()

    def give_up(self, status: Status, only: str | None = None) -> tuple[str, ...]:
        """Let those still at work count as `status`; those to stop now, in order."""
        stopped = [run_id for run_id in self.pending if run_id not in self.decided and (only is None or run_id == only)]
        self.decided.update(dict.fromkeys(stopped, status))
        return tuple(stopped)

    def in_order(self) -> tuple[SubagentResult, ...]:
        """One result for each, in the order asked."""
        return tuple(self.results[run_id] for run_id in self.ids)


def counted(result: SubagentResult, decided: Status | None) -> SubagentResult:
    """A result as it counts: what it said is kept, how it ended is what was decided."""
    if decided is None:
        return result
    return SubagentResult(result.id, decided, result.result, decided, result.session_id, result.session_file)


def outcome_of(outcome: str, reason: Any, words: str | None) -> tuple[Status, Any]:
    """The status and the error of a subagent whose run ended with `outcome`.

    Args:
        outcome: Of the run: `completed`, `stopped`, `aborted`, `error` or `budget`.
        reason: What the run gave as its reason.
        words: What the last message says went wrong.
    """
    if outcome in ("completed", "stopped"):
        return "completed", None
    if outcome == "aborted":
        return "aborted", "aborted"
    return "error", words or reason or outcome
