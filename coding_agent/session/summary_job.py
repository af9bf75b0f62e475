"""Edge. A model writes a summary beside the session, which stays responsive meanwhile.

Compaction and branch summaries are the same job: one or more questions to a model, one after the other. The job runs
under `job_scheduler`, bounded with all others of this program; its model calls belong to the session process, so they
end with it. What comes of it is sent to the session as `SummaryWritten`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from attrs import define, evolve, field, frozen

from coding_agent.errors import BudgetExceeded
from coding_agent.session.summary_request import SummaryRequest
from coding_agent.storage.stamps import new_session_id
from lemon_ai import AiError, Context, Cost, Model, ModelStream, StreamOptions, Usage, UserMessage, get_text, stream
from lemon_otp import JobScheduler, OtpError, Pid, StreamFailed, monotonic_s, self_pid, send, wall_ms

if TYPE_CHECKING:
    from coding_agent.session.budget import Account
    from coding_agent.session.conversation import Conversation

JOB_SCHEDULER: Final = "job_scheduler"
CANCELLED: Final = "cancelled"

Purpose: TypeAlias = Literal["compaction", "branch_summary"]


@frozen
class SummaryFailed:
    """Why there is no summary, in words for a person; `cancelled` when somebody asked for its end."""

    reason: str
    cancelled: bool = False


@define(eq=False)
class SummaryJob:
    """A summary in the making.

    Attributes:
        purpose: What it is for.
        requests: What the model is asked.
        join: Makes one text of the answers.
        plan: What the session does with it; opaque here.
        account: What its model calls are charged to.
        began_s: When it was wanted, on the runtime's clock.
        from_hook: The summary is an extension's.
        usage: What its model calls have used up; None before the first.
    """

    purpose: Purpose
    requests: tuple[SummaryRequest, ...]
    join: Callable[[Sequence[str]], str]
    plan: Any
    account: "Account | None" = None
    cancelled: bool = False
    began_s: float = field(factory=monotonic_s)
    from_hook: bool = False
    usage: Usage | None = None
    _running: ModelStream | None = field(default=None, repr=False)

    async def start(self, session: Pid, model: Model, options: StreamOptions) -> None:
        """Let the job run as soon as there is room.

        Raises:
            TooManyJobs: As many jobs wait as may wait; it will not run.
        """
        await JobScheduler.submit(JOB_SCHEDULER, self._work, session, model, options, label=self.purpose)

    def cancel(self) -> None:
        """Ask no more and close the connection. `SummaryWritten` still comes, and says so."""
        self.cancelled = True
        if self._running is not None:
            self._running.cancel("aborted")

    async def _work(self, session: Pid, model: Model, options: StreamOptions) -> None:
        send(session, SummaryWritten(self, await self._outcome(session, model, options)))

    async def _outcome(self, session: Pid, model: Model, options: StreamOptions) -> str | SummaryFailed:
        answers: list[str] = []
        try:
            for request in self.requests:
                if self.cancelled:
                    return SummaryFailed(CANCELLED, cancelled=True)
                answers.append(await self._ask(session, model, options, request))
        except (AiError, OtpError, BudgetExceeded) as error:
            return SummaryFailed(CANCELLED if self.cancelled else str(error), cancelled=self.cancelled)
        if not all(answer.strip() for answer in answers):
            return SummaryFailed("the model gave no summary")
        return self.join(answers)

    async def _ask(self, session: Pid, model: Model, options: StreamOptions, request: SummaryRequest) -> str:
        context = Context(request.system_prompt, (UserMessage(request.prompt, wall_ms()),))
        asked = evolve(
            options,
            max_tokens=request.max_tokens,
            reasoning=None,
            session_id=new_session_id(),
            cache_retention="none",
        )
        charge = None if self.account is None else self.account.begin(model)
        usage = None
        try:
            self._running = await stream(model, context, asked, owner=session)
            async for _ in self._running.events():
                pass
            answer = await self._running.result()
            usage = answer.usage
            self.usage = usage if self.usage is None else _together(self.usage, usage)
            return get_text(answer)
        except StreamFailed as failed:
            if isinstance(failed.reason, AiError):
                raise failed.reason from failed
            raise
        finally:
            self._running = None
            if charge is not None:
                charge.settle(usage)


def _together(one: Usage, other: Usage) -> Usage:
    """What two calls have used up."""

    def total(first: Any, second: Any, names: Sequence[str]) -> dict[str, Any]:
        return {name: getattr(first, name) + getattr(second, name) for name in names}

    tokens = ("input", "output", "cache_read", "cache_write")
    cost = Cost(**total(one.cost, other.cost, (*tokens, "total")))
    return Usage(**total(one, other, (*tokens, "total_tokens")), cost=cost)


async def summary_after_hooks(state: "Conversation", answer: Mapping[str, Any]) -> "str | SummaryFailed | None":
    """What comes of a job once hooks have spoken: nothing, their own summary, or None: the model is asked for one."""
    job = state.job
    assert job is not None
    if job.cancelled or answer.get("cancel"):
        return SummaryFailed(CANCELLED if job.cancelled else "an extension is against it", cancelled=True)
    if answer.get("summary") is not None:
        job.from_hook = True
        return str(answer["summary"])
    if answer.get("label") is not None:
        job.plan = job.plan.labelled(answer["label"])
    if not job.requests:
        return ""
    try:
        await job.start(self_pid(), state.model, state.options.stream_options)
    except OtpError as error:
        return SummaryFailed(f"no summary can be made now: {error}")
    return None


@frozen
class SummaryWritten:
    """Sent to the session: a job is over."""

    job: SummaryJob
    outcome: str | SummaryFailed
