"""Edge. Runs as trees of steps, put together from telemetry: a run, its turns, model calls, tools and subagents.

A plain telemetry handler; what is made of the steps is up to whoever starts it (`traces`, the observer's timeline).
What belongs to what is told by processes and ids: a loop's events come from its own process, a tool's process says
whose it is, and a subagent's session is announced by the process that asked for it. Nothing here holds text of a
conversation.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

from attrs import define, field

from coding_agent import event_names
from lemon_otp import Pid, self_pid, telemetry, wall_ms

Kind: TypeAlias = Literal["run", "turn", "model", "tool"]

WELL: Final = ("completed", "stopped")
"""Outcomes of a run that are no failure."""
ANNOUNCED_MAX: Final = 1000


@define(eq=False)
class Step:
    """Something that has a beginning and an end.

    Attributes:
        kind: What it is.
        name: Of the agent, the model or the tool; a turn's number.
        session_id: Whose it is, where that is known.
        parent: The step it is part of.
        began_ms, ended_ms: Unix milliseconds.
        failure: One word or a short phrase, when it did not end well.
        facts: What telemetry said at its beginning and its end.
    """

    id: int
    kind: Kind
    name: str
    session_id: str | None
    parent: "Step | None"
    began_ms: int
    facts: dict[str, Any] = field(factory=dict)
    ended_ms: int | None = None
    failure: str | None = None
    below: "set[Step]" = field(factory=set, repr=False)


class Steps:
    """Follows telemetry from `start` to `stop` and tells of steps as they begin and end."""

    def __init__(
        self,
        begin: Callable[[Step], None],
        end: Callable[[Step], None],
        enter: Callable[[Step], None] | None = None,
    ) -> None:
        """What to call for each; `enter` in a tool's own process, when that begins."""
        self._begin, self._end, self._enter = begin, end, enter
        self._count = 0
        self._runs: dict[Pid, Step] = {}
        self._turns: dict[Step, Step] = {}
        self._models: dict[int, Step] = {}
        self._tools: dict[tuple[Pid, str], Step] = {}
        self._processes: WeakKeyDictionary[Pid, Step] = WeakKeyDictionary()  # whoever may still ask is still held
        self._announced: dict[str, tuple[Step, str]] = {}
        self._takers: dict[tuple[str, ...], Callable[[Mapping[str, Any], Mapping[str, Any]], None]] = {
            event_names.RUN_START: self._run_began,
            event_names.RUN_STATE: self._state_changed,
            event_names.RUN_END: self._run_ended,
            event_names.TOOL_START: self._tool_began,
            event_names.TOOL_ENTERED: self._tool_entered,
            event_names.TOOL_END: self._tool_ended,
            event_names.TOOL_ERROR: self._tool_ended,
            event_names.CALL_START: self._model_began,
            event_names.CALL_STOP: self._model_ended,
            event_names.SUBAGENT_START: self._subagent_announced,
        }
        self._handler_id: str | None = None

    def start(self, handler_id: str) -> None:
        """Follow from now on, as the telemetry handler of this id. Raises `AlreadyRegistered`."""
        telemetry.attach_many(handler_id, self._takers, self._handle)
        self._handler_id = handler_id

    def stop(self) -> None:
        """Follow no more; what is under way ends here."""
        if self._handler_id is not None:
            telemetry.detach(self._handler_id)
        for step in [*self._tools.values(), *self._models.values(), *self._turns.values(), *self._runs.values()]:
            self._over(step, "unfinished")

    def _handle(
        self, event: tuple[str, ...], measurements: Mapping[str, Any], metadata: Mapping[str, Any], _: Any
    ) -> None:
        self._takers[event](measurements, metadata)

    # Beginnings and ends.

    def _new(
        self, kind: Kind, name: str, parent: Step | None, session_id: str | None, facts: Mapping[str, Any]
    ) -> Step:
        self._count += 1
        step = Step(self._count, kind, name, session_id, parent, wall_ms(), dict(facts))
        if parent is not None:
            parent.below.add(step)
        self._begin(step)
        return step

    def _over(self, step: Step, failure: str | None) -> None:
        if step.ended_ms is not None:
            return
        step.ended_ms, step.failure = wall_ms(), failure
        if step.parent is not None:
            step.parent.below.discard(step)
        self._end(step)

    # Runs and turns.

    def _run_began(self, _: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        session_id = metadata.get("session_id")
        parent, role = self._announced.get(str(session_id), (None, "lemon"))
        if parent is not None and parent.ended_ms is not None and parent.parent is not None:
            parent = (
                parent.parent
            )  # it was started to go on by itself: its call is over, the run that made it may not be
        self._runs[self_pid()] = self._new("run", role, parent, session_id, metadata)

    def _state_changed(self, _: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        run = self._runs.get(self_pid())
        if run is None or metadata.get("to") != "await_model":
            return
        number = run.facts["turns"] = run.facts.get("turns", 0) + 1
        self._turn_ended(run, None)
        self._turns[run] = self._new("turn", str(number), run, run.session_id, {})

    def _turn_ended(self, run: Step, failure: str | None) -> None:
        if (turn := self._turns.pop(run, None)) is not None:
            self._over(turn, failure)

    def _run_ended(self, measured: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        loop = metadata["pid"]  # of a loop that was killed somebody else says that it is over
        run = self._runs.pop(loop, None)
        if run is None:
            return
        run.facts.update({**metadata, "duration_s": measured.get("duration")})
        outcome = str(metadata.get("outcome"))
        failure = None if outcome in WELL else outcome
        self._turn_ended(run, failure)
        for step in sorted(run.below, key=lambda one: one.id):
            if step.kind == "model":
                self._models.pop(step.facts["call_id"], None)
                self._over(step, failure or "unfinished")
            elif step.kind == "tool":
                self._tool_gone(loop, step, failure or "unfinished")
        self._over(run, failure)

    # Model calls.

    def _model_began(self, _: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        run = self._runs.get(self_pid())
        session_id = None if run is None else run.session_id
        self._models[metadata["call_id"]] = self._new("model", str(metadata["model"]), run, session_id, metadata)

    def _model_ended(self, measured: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        step = self._models.pop(metadata["call_id"], None)
        if step is None:
            return
        step.facts.update({**measured, **metadata})
        reason = metadata.get("stop_reason")
        failed = reason in ("error", "aborted") or metadata.get("failure") is not None
        self._over(step, str(metadata.get("failure") or reason) if failed else None)

    # Tools and what they start.

    def _tool_began(self, _: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        loop = self_pid()
        run = self._runs.get(loop)
        session_id = None if run is None else run.session_id
        key = (loop, metadata["tool_call_id"])
        self._tools[key] = self._new("tool", str(metadata["tool_name"]), run, session_id, metadata)

    def _tool_entered(self, _: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        step = self._tools.get((metadata["loop"], metadata["tool_call_id"]))
        if step is not None:
            self._processes[self_pid()] = step
            if self._enter is not None:
                self._enter(step)

    def _tool_ended(self, _: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        loop = self_pid()
        step = self._tools.get((loop, metadata["tool_call_id"]))
        if step is None:
            return
        step.facts.update(metadata)
        reason = metadata.get("reason")
        failure = "tool_error" if reason is None and metadata.get("is_error") else reason
        self._tool_gone(loop, step, None if failure is None else _word(failure))

    def _tool_gone(self, loop: Pid, step: Step, failure: str | None) -> None:
        self._tools.pop((loop, step.facts["tool_call_id"]), None)
        self._over(step, failure)

    def _subagent_announced(self, _: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        step = self._processes.get(metadata["asked_by"])
        if step is None:
            return
        if len(self._announced) >= ANNOUNCED_MAX:
            del self._announced[next(iter(self._announced))]
        self._announced[metadata["session_id"]] = (step, str(metadata["role"]))


def _word(reason: Any) -> str:
    """A reason's first word: what kind of thing went wrong, without what was said about it."""
    first = reason[0] if isinstance(reason, tuple) and reason else reason
    return first if isinstance(first, str) and len(first) < 60 else type(first).__name__
