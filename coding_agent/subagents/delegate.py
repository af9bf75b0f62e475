"""Edge. What a session's `task` tool is handed: the way to the session's coordinator, which is started when needed.

`with_subagents` gives a session the tool. A subagent's own session gets `ask_parent`, and the `task` tool only where
its definition names it and there is room for another floor.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from attrs import field

from coding_agent.session.options import SessionOptions, SessionTool
from coding_agent.subagents import protocol as ask
from coding_agent.subagents.definitions import Definitions, load_definitions
from coding_agent.tools.ask_parent import ask_parent_tool
from coding_agent.tools.task import task_tool
from lemon_agent import AgentTool
from lemon_otp import DynamicSupervisor, Pid, StartFailed, call, define

DEFAULT_DEPTH: Final = 1
"""Floors of subagents below a person's session: they start no others."""


def with_subagents(
    options: SessionOptions,
    *,
    definitions: Callable[[Path], Definitions] = load_definitions,
    timeout_ms: int | None = ask.DEFAULT_TIMEOUT_MS,
    depth: int = DEFAULT_DEPTH,
) -> SessionOptions:
    """The options of a session that can start subagents.

    Args:
        options: The session.
        definitions: Reads the definitions that hold in a working folder.
        timeout_ms: The deadline of a subagent that the session waits for; None for none.
        depth: Floors of subagents; with 1 a subagent starts no others.
    """
    maker = partial(_task_for, str(options.cwd), options.session_id, definitions, timeout_ms, depth, None)
    return options.with_session_tools([maker])


def _task_for(
    cwd: str,
    session_id: str,
    definitions: Callable[[Path], Definitions],
    timeout_ms: int | None,
    depth: int,
    seat: Pid | None,
    session: Pid,
) -> AgentTool:
    def below(place: ask.ChildPlace) -> tuple[SessionTool, ...]:
        asking = partial(_ask_parent_for, place)
        if place.depth < 1:
            return (asking,)
        task = partial(_task_for, cwd, place.session_id, definitions, timeout_ms, place.depth, place.seat)
        return asking, task

    delegate = SessionSubagents(
        ask.CoordinatorOptions(
            session=session,
            session_id=session_id,
            definitions=definitions,
            child_tools=below,
            default_timeout_ms=timeout_ms,
            seat=seat,
            depth=depth,
        )
    )
    return task_tool(cwd, delegate=delegate, kinds=definitions(Path(cwd)).by_name.values())


def _ask_parent_for(place: ask.ChildPlace, session: Pid) -> AgentTool:
    async def put(question: str, timeout_ms: int) -> ask.Answer:
        return await call(place.coordinator, ask.AskParent(place.run_id, question, timeout_ms), timeout_s=None)

    return ask_parent_tool(ask=put)


@define(eq=False)
class SessionSubagents:
    """The subagents of one session. Every method raises what `Coordinator`'s method of that name does."""

    options: ask.CoordinatorOptions
    _coordinator: Pid | None = field(default=None)

    async def run(self, spec: ask.SubagentSpec, timeout_ms: int | None) -> ask.SubagentResult:
        """Run one and wait for it."""
        from coding_agent.coordinator import Coordinator

        return await Coordinator.run_subagent(await self.coordinator(), spec, timeout_ms)

    async def run_in_background(self, spec: ask.SubagentSpec, delivery: ask.Delivery) -> str:
        """Start one; its id."""
        from coding_agent.coordinator import Coordinator

        return await Coordinator.run_in_background(await self.coordinator(), spec, delivery)

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
        from coding_agent.coordinator import SUPERVISOR, Coordinator

        if self._coordinator is None or not self._coordinator.alive:
            try:
                started = await DynamicSupervisor.start_child(SUPERVISOR, Coordinator.spec(self.options))
            except StartFailed as failed:
                match failed.reason:
                    case ("already_started", Pid() as other):  # another call was first
                        started = other
                    case _:
                        raise
            self._coordinator = started
        return self._coordinator
