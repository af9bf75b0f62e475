"""Edge. A session goes to another place in its tree, with a summary of what it leaves if that is wanted."""

from functools import partial

from attrs import evolve, frozen

from coding_agent.errors import CompactionError, EntryNotFound, SessionError
from coding_agent.events import BranchSummarized, TreeMoved
from coding_agent.session import hooks
from coding_agent.session.conversation import Conversation
from coding_agent.session.file_operations import NO_FILES, FileOperations, track
from coding_agent.session.protocol import Navigated, NavigateTree
from coding_agent.session.summary_job import SummaryFailed, SummaryJob
from coding_agent.session.summary_request import branch_summary_request, with_files
from coding_agent.storage.navigation import Navigation, plan_navigation
from lemon_ai import usage_to_wire
from lemon_otp import OtpError, self_pid

WORTH_A_SUMMARY = 2
"""Messages a branch must have for a summary to say more than they do."""


@frozen
class Move:
    """Where a session goes once the summary is there."""

    request: NavigateTree
    navigation: Navigation
    files: FileOperations = NO_FILES

    def labelled(self, label: str) -> "Move":
        """The same, with this bookmark set there."""
        return evolve(self, request=evolve(self.request, label=label))


async def begin(state: Conversation, request: NavigateTree) -> Navigated | None:
    """Go there at once, or start the summary that goes before it and answer None. The phase changes then.

    Raises:
        EntryNotFound: There is no such entry.
    """
    try:
        navigation = plan_navigation(state.store.log, request.target_id)
    except KeyError as error:
        raise EntryNotFound(state.store.path, request.target_id) from error
    if navigation is None:
        return Navigated(state.store.leaf_id, None)
    messages = _left_messages(state, navigation)
    move = Move(request, navigation)
    asks = hooks.wanted(state, "session_before_tree")
    job = _summary_job(state, move, messages)
    if job is None and not asks:
        return await _go(state, move, None)
    job = job or SummaryJob("branch_summary", (), lambda _: "", move, state.options.account)
    try:
        if not asks:
            await job.start(self_pid(), state.model, state.options.stream_options)
    except OtpError:
        return await _go(state, move, None)
    state.job, state.phase = job, "branch_summary"
    if asks:
        told = hooks.BeforeTree(request.target_id, tuple(messages), request.summarize, request.instructions)
        hooks.ask(state, told, job)
    return None


def _summary_job(state: Conversation, move: Move, messages: list[object]) -> SummaryJob | None:
    """What asks a model about the branch that is left; None when that is not wanted, or would say nothing new."""
    request = move.request
    if not request.summarize or len(messages) < WORTH_A_SUMMARY:
        return None
    try:
        question = branch_summary_request(
            messages,
            window=state.model.context_window or None,
            reserve_tokens=state.options.compaction.branch_reserve_tokens,
            instructions=request.instructions,
        )
    except CompactionError:
        return None
    files = track(messages)
    return SummaryJob(
        "branch_summary",
        (question,),
        lambda answers: with_files(answers[0].strip(), files),
        evolve(move, files=files),
        state.options.account,
    )


async def finish(state: Conversation, job: SummaryJob, outcome: str | SummaryFailed) -> Navigated:
    """Go, with the summary; stay, when it was cancelled or could not be made."""
    state.job = None
    if isinstance(outcome, SummaryFailed):
        return Navigated(state.store.leaf_id, None, cancelled=True, error_message=outcome.reason)
    try:
        return await _go(state, job.plan, outcome or None, job)
    except SessionError as error:
        return Navigated(state.store.leaf_id, None, cancelled=True, error_message=str(error))


async def _go(state: Conversation, move: Move, summary: str | None, job: SummaryJob | None = None) -> Navigated:
    old_leaf, navigation, request = state.store.leaf_id, move.navigation, move.request
    summary_id = None
    if summary is None:
        state.store_now(partial(state.store.set_leaf, navigation.new_leaf))
    else:
        left = partial(
            state.store.append_branch_summary,
            summary,
            old_leaf,
            details=None if move.files == NO_FILES or (job and job.from_hook) else move.files.to_json(),
            from_hook=job is not None and job.from_hook,
            usage=None if job is None or job.usage is None else usage_to_wire(job.usage),
            target=navigation.new_leaf,
        )
        summary_id = state.store_now(left)
        state.notify(BranchSummarized(old_leaf or "root", summary, summary_id or ""))
    if request.label:
        state.store_now(partial(state.store.append_label, summary_id or request.target_id, request.label))
    state.end_turn()
    await state.reload()
    state.notify(TreeMoved(state.store.leaf_id, old_leaf))
    return Navigated(state.store.leaf_id, navigation.editor_text, summary_id)


def _left_messages(state: Conversation, navigation: Navigation) -> list[object]:
    left = set(navigation.abandoned)
    return [message for entry_id, message in state.store.context_items() if entry_id in left]
