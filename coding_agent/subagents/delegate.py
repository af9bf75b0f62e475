"""Edge. What a session's `task` tool is handed: the way to the session's coordinator, which is started when needed.

`with_subagents` gives a session the tool. A subagent's own session gets `ask_parent`, and the `task` tool only where
its definition names it and there is room for another floor.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from attrs import evolve, field

from coding_agent.session.options import SessionOptions, SessionTool
from coding_agent.subagents import protocol as ask
from coding_agent.subagents.definitions import Definitions, load_definitions
from coding_agent.tools.ask_parent import ask_parent_tool
from coding_agent.tools.task import task_tool
from lemon_agent import AgentTool
from lemon_otp import (
    CallFailed,
    DynamicSupervisor,
    Pid,
    StartFailed,
    call,
    define,
    demonitor,
    down_of,
    frozen,
    monitor,
    receive,
)


@frozen(kw_only=True)
class SubagentSettings:
    """How a session's subagents are run.

    Attributes:
        definitions: Reads the definitions that hold in a working folder; asked for each run.
        timeout_ms: The deadline of subagents that are waited for, when nobody names one; None for none.
        depth: Floors of subagents; with 1 a subagent starts no others.
    """

    definitions: Callable[[Path], Definitions] = load_definitions
    timeout_ms: int | None = ask.DEFAULT_TIMEOUT_MS
    depth: int = 1


def with_subagents(options: SessionOptions, settings: SubagentSettings | None = None) -> SessionOptions:
    """The options of a session that can start subagents: it has the `task` tool."""
    maker = partial(_task_for, options.cwd, options.session_id, settings or SubagentSettings(), None)
    return options.with_session_tools([maker])


def subagents_of(session: Pid, session_id: str, settings: SubagentSettings | None = None) -> "SessionSubagents":
    """The way to the subagents of a session that runs, for a program that starts some itself."""
    return _subagents(session_id, settings or SubagentSettings(), None, session)


def _task_for(cwd: Path, session_id: str, settings: SubagentSettings, seat: Pid | None, session: Pid) -> AgentTool:
    delegate = _subagents(session_id, settings, seat, session)
    return task_tool(
        str(cwd),
        delegate=delegate,
        kinds=settings.definitions(cwd).by_name.values(),
        known=lambda role: settings.definitions(cwd).named(role),
    )


def _subagents(session_id: str, settings: SubagentSettings, seat: Pid | None, session: Pid) -> "SessionSubagents":
    def below(place: ask.ChildPlace) -> tuple[SessionTool, ...]:
        asking = partial(_ask_parent_for, place)
        if place.depth < 1:
            return (asking,)
        inner = evolve(settings, depth=place.depth)
        return asking, partial(_task_for, place.cwd, place.session_id, inner, place.seat)

    return SessionSubagents(
        ask.CoordinatorOptions(
            session=session,
            session_id=session_id,
            definitions=settings.definitions,
            child_tools=below,
            default_timeout_ms=settings.timeout_ms,
            seat=seat,
            depth=settings.depth,
        )
    )


def _ask_parent_for(place: ask.ChildPlace, session: Pid) -> AgentTool:
    async def put(question: str, timeout_ms: int) -> ask.Answer:
        return await call(place.coordinator, ask.AskParent(place.run_id, question, timeout_ms), timeout_s=None)

    return ask_parent_tool(ask=put)


@define(eq=False)
class SessionSubagents:
    """The subagents of one session. Every method raises what `Coordinator`'s method of that name does."""

    options: ask.CoordinatorOptions
    _coordinator: Pid | None = field(default=None)

    async def run(
        self, spec: ask.SubagentSpec, timeout_ms: int | None = None, watcher: Pid | None = None
    ) -> ask.SubagentResult:
        """Run one and wait for it."""
        from coding_agent.coordinator import Coordinator

        return await Coordinator.run_subagent(await self.coordinator(), spec, timeout_ms, watcher)

    async def run_all(
        self, specs: Sequence[ask.SubagentSpec], timeout_ms: int | None = None, until: ask.Until = "all"
    ) -> tuple[ask.SubagentResult, ...]:
        """Run several side by side and wait for all, or for the first that completes."""
        from coding_agent.coordinator import Coordinator

        return await Coordinator.run_subagents(await self.coordinator(), specs, timeout_ms, until)

    async def run_in_background(
        self, spec: ask.SubagentSpec, delivery: ask.Delivery = "follow_up", *, tell: bool = True
    ) -> str:
        """Start one; its id."""
        from coding_agent.coordinator import Coordinator

        return await Coordinator.run_in_background(await self.coordinator(), spec, delivery, tell=tell)

    async def view(self, ids: Sequence[str] | None) -> tuple[ask.RunView, ...]:
        """How runs stand."""
        from coding_agent.coordinator import Coordinator

        return await Coordinator.view(await self.coordinator(), ids)

    async def join(self, ids: Sequence[str], mode: ask.JoinMode) -> tuple[ask.RunView, ...]:
        """Wait for these."""
        from coding_agent.coordinator import Coordinator

        return await Coordinator.join(await self.coordinator(), ids, mode)

    async def stop(self, run_id: str) -> ask.RunView:
        """Stop one."""
        from coding_agent.coordinator import Coordinator

        return await Coordinator.stop_one(await self.coordinator(), run_id)

    async def steer(self, run_id: str, text: str) -> None:
        """Tell one something."""
        from coding_agent.coordinator import Coordinator

        await Coordinator.steer_one(await self.coordinator(), run_id, text)

    async def answer(self, run_id: str, text: str) -> None:
        """Answer what one asks."""
        from coding_agent.coordinator import Coordinator

        await Coordinator.answer(await self.coordinator(), run_id, text)

    async def coordinator(self) -> Pid:
        """The session's coordinator, started when there is none."""
        while self._coordinator is None or not self._coordinator.alive:
            self._coordinator = await self._started()
        return self._coordinator

    async def _started(self) -> Pid | None:
        """A new coordinator, or one that another call has started; None when there was one that is on its way out."""
        from coding_agent.coordinator import SUPERVISOR, Coordinator

        try:
            return await DynamicSupervisor.start_child(SUPERVISOR, Coordinator.spec(self.options))
        except StartFailed as failed:
            match failed.reason:
                case ("already_started", Pid() as other):
                    return await self._ours(other)
                case _:
                    raise

    async def _ours(self, other: Pid) -> Pid | None:
        """`other`, unless it is still that of an earlier process of the session and about to end."""
        watch = monitor(other)
        try:
            if await call(other, ask.GetSession(), timeout_s=None) is self.options.session:
                return other
            await receive(down_of(watch))
        except CallFailed:
            return None
        finally:
            demonitor(watch, flush=True)
        return None
