"""Edge. A session's conversation is made shorter: begun, judged by its outcome, and what waited for it goes on.

Three things ask for it: a person, the size of the conversation before a prompt or after a run, and a provider that
refused it as too long. In the last case the end of the run is told first, as one that is tried again; when the
compaction makes room another run goes on from where it stood, once; else the session settles with the error.
"""

from functools import partial
from typing import TypeGuard

from coding_agent.errors import CompactionError, NothingToCompact, SessionError
from coding_agent.events import CompactionEnd, CompactionStart
from coding_agent.session import hooks
from coding_agent.session.auto_compaction import Trigger
from coding_agent.session.compaction import CompactionPlan, check_headroom, is_due, plan_compaction
from coding_agent.session.conversation import Conversation
from coding_agent.session.file_operations import from_details
from coding_agent.session.summary_job import CANCELLED, SummaryFailed, SummaryJob
from coding_agent.session.summary_request import joined_summary, summary_requests
from coding_agent.session.token_estimate import context_size, estimate_text
from lemon_agent import AgentEnd
from lemon_ai import AssistantMessage, is_context_overflow, usage_to_wire
from lemon_otp import OtpError, monotonic_s, self_pid, telemetry


def wanted(state: Conversation) -> bool:
    """Is the conversation so long that it is to be compacted without being asked?"""
    settings = state.options.compaction
    if state.compaction.decide("threshold", settings) != "compact":
        return False
    return is_due(_tokens(state), state.model.context_window, settings)


def overflowed(terminal: object) -> TypeGuard[AgentEnd]:
    """Did a run end because the model refused the conversation as too long?"""
    if not isinstance(terminal, AgentEnd) or terminal.outcome != "error" or not terminal.messages:
        return False
    last = terminal.messages[-1]
    return isinstance(last, AssistantMessage) and is_context_overflow(last.error_message or "")


async def begin(
    state: Conversation, trigger: Trigger, instructions: str | None = None, *, told_before: AgentEnd | None = None
) -> CompactionError | None:
    """Start a compaction; the reason when there is nothing to do or nothing that would help. The phase changes.

    Args:
        state: Of the session.
        trigger: What asks for it.
        instructions: What a person wants of the summary.
        told_before: Told in front of the beginning, when there is one.
    """
    settings, window = state.options.compaction, state.model.context_window
    overhead = _overhead(state)
    try:
        if window:
            check_headroom(overhead, window, settings)
        plan = _plan(state, trigger, sum(overhead.values()))
    except CompactionError as error:
        return error
    requests = summary_requests(
        plan,
        **({"window": window} if window else {}),
        reserve_tokens=settings.reserve_tokens,
        max_output=state.model.max_tokens or None,
        instructions=instructions,
    )
    job = SummaryJob(
        "compaction",
        requests,
        lambda answers: joined_summary(plan, answers),
        (trigger, plan),
        state.options.account,
    )
    asks = hooks.wanted(state, "session_before_compact")
    try:
        if not asks:
            await job.start(self_pid(), state.model, state.options.stream_options)
    except OtpError as error:
        return CompactionError(f"no summary can be made now: {error}")
    state.job, state.phase = job, "compaction"
    state.compaction = state.compaction.started(trigger)
    if told_before is not None:
        state.notify(told_before)
    state.notify(CompactionStart(trigger, plan.tokens_before))
    if trigger == "overflow":
        _report_recovery("attempt", state, job, "overflow")
    if asks:
        goes = (*plan.summarised, *plan.turn_prefix)
        told = hooks.BeforeCompact(trigger, goes, plan.tokens_before, plan.previous_summary, instructions)
        hooks.ask(state, told, job)
    return None


async def finish(state: Conversation, job: SummaryJob, outcome: str | SummaryFailed) -> CompactionEnd:
    """Put the summary in place of what it covers, or say why there is none. Tells the subscribers."""
    trigger, plan = job.plan
    state.job = None
    end = await _apply(state, job, outcome)
    fits = not end.error_message and not is_due(_tokens(state), state.model.context_window, state.options.compaction)
    state.compaction = state.compaction.finished(
        removed=0 if end.error_message else plan.removed(), fits=fits, settings=state.options.compaction
    )
    state.notify(end)
    if trigger == "overflow" and end.error_message:
        _report_recovery("failure", state, job, "aborted" if end.aborted else "no_summary")
    elif trigger == "overflow":
        _report_recovery("success", state, job, "overflow")
    return end


def _report_recovery(stage: str, state: Conversation, job: SummaryJob, reason: str) -> None:
    """Say how a recovery goes; none of anybody's words."""
    telemetry.execute(
        ("coding_agent", "session", "overflow_recovery", stage),
        {"count": 1},
        {
            "session_id": state.notifier.session_id,
            "provider": state.model.provider,
            "model": state.model.id,
            "reason": reason,
            "duration_ms": round((monotonic_s() - job.began_s) * 1000),
        },
    )


async def _apply(state: Conversation, job: SummaryJob, outcome: str | SummaryFailed) -> CompactionEnd:
    trigger: Trigger
    plan: CompactionPlan
    trigger, plan = job.plan
    if isinstance(outcome, SummaryFailed):
        why = f"Compaction {outcome.reason}" if outcome.reason == CANCELLED else outcome.reason
        return CompactionEnd(trigger, plan.tokens_before, error_message=why, aborted=outcome.cancelled)
    try:
        write = partial(
            state.store.append_compaction,
            outcome,
            first_kept_entry_id=plan.first_kept_entry_id,
            tokens_before=plan.tokens_before,
            details=None if job.from_hook else plan.files.to_json(),
            from_hook=job.from_hook,
            usage=None if job.usage is None else usage_to_wire(job.usage),
            kept=plan.kept,
            as_of=plan.leaf_id,
        )
        entry_id = state.store_now(write)
    except SessionError as error:
        return CompactionEnd(trigger, plan.tokens_before, error_message=str(error))
    await state.reload()
    return CompactionEnd(
        trigger, plan.tokens_before, outcome, plan.first_kept_entry_id, entry_id, plan.tokens_after(outcome)
    )


def _plan(state: Conversation, trigger: Trigger, overhead: int) -> CompactionPlan:
    items = state.store.context_items()
    if trigger == "overflow" and items and _is_failure(items[-1][1]):
        items = items[:-1]  # what failed is in the file; the summary is of what came before
    earlier = state.store.last_compaction()
    window = state.model.context_window
    kept = state.options.compaction.kept(window, overhead) if window else state.options.compaction.keep_recent_tokens
    if not items:
        raise NothingToCompact("Nothing to compact: nothing was said yet")
    return plan_compaction(
        items,
        keep_recent_tokens=kept,
        tokens_before=_tokens(state),
        leaf_id=state.store.leaf_id,
        earlier_files=from_details(earlier.details if earlier and not earlier.from_hook else None),
        nothing_new=state.store.ends_in_compaction,
        force=trigger != "threshold",
    )


def _is_failure(message: object) -> bool:
    return isinstance(message, AssistantMessage) and message.stop_reason == "error"


def _tokens(state: Conversation) -> int:
    messages = [message for _, message in state.store.context_items()]
    return context_size(messages, overhead=lambda: sum(_overhead(state).values())).tokens


def _overhead(state: Conversation) -> dict[str, int]:
    """Tokens of what goes along with every request."""
    tools = state.options.tools_named(state.active_tools)
    return {
        "system prompt": estimate_text(state.options.system_prompt_for(state.active_tools)),
        "tools": sum(estimate_text(f"{tool.name}{tool.description}{tool.parameters}") for tool in tools),
    }
