"""Process. Subagents of one session: started side by side, watched, timed out, collected, stopped.

Tree:  coding_agent.supervisor / coordinator_supervisor / coordinator[session id], temporary, started with the first one
Emits: news for its session (`async_followup`, `parent_question`)
Owns:  the subagents' processes and the record of runs beside the session's file; it ends when its session does, and
       however it ends no subagent stays behind: each watches it, and each session watches its subagent's process
Asked: see `subagents.protocol`; started with `CoordinatorOptions`

Nothing here waits for a subagent: what a caller waits for is a batch or a join among the waiting ones, looked at each
time something has ended. The rules of a batch are in `subagents.batch`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Final, TypeVar

from coding_agent.errors import CodingAgentError, UnknownRun
from coding_agent.session import protocol
from coding_agent.session.options import SessionOptions
from coding_agent.subagents import coordinating as work
from coding_agent.subagents import protocol as ask
from coding_agent.subagents.coordinating import Coordinating
from coding_agent.subagents.run import RunActs, RunEnded, RunStarted, SteerRun
from coding_agent.subagents.runs import Overdue, Run, TimeUp
from lemon_otp import (
    Address,
    Caller,
    CallFailed,
    ChildSpec,
    Down,
    GenServer,
    NoReply,
    Pid,
    Reply,
    Request,
    Stop,
    call,
    monitor,
    send,
)

SUPERVISOR: Final = "coordinator_supervisor"

R = TypeVar("R")
Answer = Reply[Coordinating] | NoReply[Coordinating]


class Coordinator(GenServer[ask.CoordinatorOptions, Any, Any, Coordinating]):
    """Runs the subagents of one session."""

    trap_exit: ClassVar[bool] = True

    # Client side: runs in the caller.

    @staticmethod
    def spec(options: ask.CoordinatorOptions) -> ChildSpec:
        """How it is started under its supervisor; its id is its registered name."""
        name = f"coordinator[{options.session_id}]"
        return Coordinator.child_spec(options, id=name, name=name, restart="temporary", shutdown=work.CLEANUP_S)

    @staticmethod
    async def run_subagents(
        coordinator: Address,
        specs: Sequence[ask.SubagentSpec],
        timeout_ms: int | None = None,
        until: ask.Until = "all",
        watcher: Pid | None = None,
    ) -> tuple[ask.SubagentResult, ...]:
        """Run these side by side and return a result for each, in this order; those it started have then ended.

        Args:
            coordinator: Whose they are.
            specs: What to run.
            timeout_ms: A deadline for all of them; whoever is at work then counts as `timeout`. None is the
                coordinator's own.
            until: `first` stops the others once one has completed; they count as `aborted`.
            watcher: A process that gets `Progress` as the subagents call tools.

        Raises:
            CallFailed: The coordinator ended meanwhile, and its subagents with it.

        A caller that ends, or is cancelled and then ends, takes its subagents along.
        """
        return await _ask(coordinator, ask.RunSubagents(tuple(specs), timeout_ms, until, watcher))

    @staticmethod
    async def run_subagent(
        coordinator: Address, spec: ask.SubagentSpec, timeout_ms: int | None = None, watcher: Pid | None = None
    ) -> ask.SubagentResult:
        """`run_subagents` for one."""
        (result,) = await Coordinator.run_subagents(coordinator, (spec,), timeout_ms, watcher=watcher)
        return result

    @staticmethod
    async def run_in_background(
        coordinator: Address, spec: ask.SubagentSpec, delivery: ask.Delivery = "follow_up", *, tell: bool = True
    ) -> str:
        """Start one and return its id; when it ends the session gets an `async_followup` message, unless it joined.

        With `tell=False` it gets none, and has to look.

        Raises:
            UnknownSubagent: There is no definition of that name.
            BudgetExceeded: As many are at work as may be.
        """
        return await _ask(coordinator, ask.RunInBackground(spec, delivery, tell))

    @staticmethod
    async def join(
        coordinator: Address, ids: Sequence[str], mode: ask.JoinMode = "wait_all"
    ) -> tuple[ask.RunView, ...]:
        """Wait until these have ended, or one of them; how each stands then. Raises `UnknownRun`."""
        return await _ask(coordinator, ask.Join(tuple(ids), mode))

    @staticmethod
    async def view(coordinator: Address, ids: Sequence[str] | None = None) -> tuple[ask.RunView, ...]:
        """How these runs stand, or all of them. Raises `UnknownRun`."""
        return await _ask(coordinator, ask.ViewRuns(None if ids is None else tuple(ids)))

    @staticmethod
    async def list_active(coordinator: Address) -> tuple[str, ...]:
        """The ids of the subagents that are at work, those that are being stopped included."""
        return await _ask(coordinator, ask.ListActive())

    @staticmethod
    async def abort_all(coordinator: Address) -> None:
        """Stop every subagent and wait until none is at work. A coordinator that is gone has none."""
        try:
            await _ask(coordinator, ask.AbortAll())
        except CallFailed:
            return

    @staticmethod
    async def stop_one(coordinator: Address, run_id: str) -> ask.RunView:
        """Stop one subagent and wait until it has ended. Raises `UnknownRun`."""
        return await _ask(coordinator, ask.StopOne(run_id))

    @staticmethod
    async def steer_one(coordinator: Address, run_id: str, text: str) -> None:
        """Give one subagent's model this text before its next call. Raises `UnknownRun`."""
        await _ask(coordinator, ask.SteerOne(run_id, text))

    @staticmethod
    async def answer(coordinator: Address, run_id: str, text: str) -> None:
        """Answer the open question of one subagent. Raises `UnknownRun` when it has none."""
        await _ask(coordinator, ask.AnswerChild(run_id, text))

    # Server side: runs in the process, one message at a time.

    async def init(self, options: ask.CoordinatorOptions) -> Coordinating:
        state = Coordinating(options, monitor(options.session))
        parent: SessionOptions = await call(options.session, protocol.GetOptions(), timeout_s=None)
        state.take_from(parent)
        return state

    async def handle_call(self, message: Any, caller: Caller, state: Coordinating) -> Answer:
        try:
            return await _answer(message, caller, state)
        except CodingAgentError as refusal:
            return Reply(refusal, state)

    async def handle_info(self, message: Any, state: Coordinating) -> NoReply[Coordinating] | Stop[Coordinating]:
        match message:
            case RunStarted():
                state.started(message)
            case RunActs(run_id, action):
                state.acts(run_id, action)
            case RunEnded(result):
                state.ended(result)
            case TimeUp():
                state.time_is_up(message)
            case Overdue(ids):
                state.kill(ids)
            case Down(ref=ref) if ref is state.session_watch:
                return Stop("shutdown", state)
            case Down(ref=ref, reason=reason):
                state.heard_of_end(ref, reason)
            case _:
                state.seated(message)
        return NoReply(state)

    def terminate(self, reason: Any, state: Coordinating) -> None:
        state.let_go()


async def _ask(coordinator: Address, request: Request[R]) -> R:
    answer = await call(coordinator, request, timeout_s=None)
    if isinstance(answer, CodingAgentError):
        raise answer
    return answer


async def _answer(message: Any, caller: Caller, state: Coordinating) -> Answer:
    match message:
        case ask.RunSubagents():
            await work.run_batch(state, message, caller)
            return NoReply(state)
        case ask.RunInBackground():
            return Reply(await work.run_aside(state, message, caller.pid), state)
        case ask.Join(ids, mode):
            state.join([_known(state, run_id) for run_id in ids], mode, caller)
            return NoReply(state)
        case ask.ViewRuns(None):
            return Reply(tuple(run.view() for run in state.runs.values()), state)
        case ask.ViewRuns(ids) if ids is not None:
            return Reply(tuple(_known(state, run_id).view() for run_id in ids), state)
        case ask.GetSession():
            return Reply(state.options.session, state)
        case ask.ListActive():
            return Reply(state.active(), state)
        case ask.AbortAll():
            state.stop_and_wait([state.runs[run_id] for run_id in state.active()], caller, lambda: None)
            return NoReply(state)
        case ask.StopOne(run_id):
            run = _known(state, run_id)
            state.stop_and_wait([run], caller, run.view)
            return NoReply(state)
        case ask.SteerOne(run_id, text):
            send(_at_work(state, run_id), SteerRun(text))
        case ask.AskParent():
            state.ask_parent(_known(state, message.run_id), message, caller)
            return NoReply(state)
        case ask.AnswerChild(run_id, text):
            if not state.answer_child(_known(state, run_id), text):
                raise UnknownRun(f"{run_id} (it asks nothing)")
    return Reply(None, state)


def _known(state: Coordinating, run_id: str) -> Run:
    run = state.runs.get(run_id)
    if run is None:
        raise UnknownRun(run_id)
    return run


def _at_work(state: Coordinating, run_id: str) -> Pid:
    run = _known(state, run_id)
    if run.result is not None or run.pid is None:
        raise UnknownRun(f"{run_id} (it has ended)")
    return run.pid
