"""Edge. What telemetry says of a host, as plain values for the page: steps as bars, restarts and crashes, lag.

Its handlers run wherever something happens, and hand on at once. Nothing here holds text of a conversation.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import define

from coding_agent import event_names
from coding_agent.measuring.steps import Step, Steps
from lemon_otp import Pid, introspect, is_orderly, repl, telemetry, wall_ms

STEPS_HANDLER: Final = "coding_agent.observer.steps"
HISTORY_HANDLER: Final = "coding_agent.observer.history"
LAG_HANDLER: Final = "coding_agent.observer.lag"

HISTORY_EVENTS: Final[Mapping[event_names.EventName, str]] = {
    event_names.CHILD_RESTART: "restart",
    event_names.CHILD_START_ERROR: "start error",
    event_names.SUPERVISOR_GAVE_UP: "gave up",
    event_names.CRASH: "crash",
    event_names.ZOMBIE: "zombie",
    event_names.ORPHAN_THREAD: "orphan thread",
    event_names.LOOP_HELD: "loop held",
    event_names.TOOL_ORPHANED: "orphan tool",
    event_names.BREAKER_OPENED: "breaker opened",
    event_names.BREAKER_REOPENED: "breaker opened",
    event_names.BREAKER_HALF_OPENED: "breaker half open",
    event_names.BREAKER_CLOSED: "breaker closed",
    event_names.CALL_RETRY: "model retry",
}


@define(eq=False)
class Recorder:
    """Follows telemetry from `start` to `stop`.

    Attributes:
        tell: Given `("step", bar)`, `("history", item)` and `("lag", seconds)` as things happen.
    """

    tell: Callable[[str, Any], None]
    _steps: Steps | None = None

    def start(self) -> None:
        """Follow from now on; what an observer that crashed has left attached goes."""
        for handler_id in (HISTORY_HANDLER, LAG_HANDLER, STEPS_HANDLER):
            telemetry.detach(handler_id)
        telemetry.attach_many(HISTORY_HANDLER, HISTORY_EVENTS, self._happened)
        telemetry.attach(LAG_HANDLER, event_names.LOOP_LAG, self._lagged)
        self._steps = Steps(self._stepped, self._stepped)
        self._steps.start(STEPS_HANDLER)

    def stop(self) -> None:
        """Follow no more. Twice does no harm."""
        steps, self._steps = self._steps, None
        if steps is not None:
            telemetry.detach(HISTORY_HANDLER)
            telemetry.detach(LAG_HANDLER)
            steps.stop()

    def _stepped(self, step: Step) -> None:
        """A step has begun, or ended."""
        bar = bar_of(step)
        if bar["run"] is not None:
            self.tell("step", bar)

    def _happened(
        self, event: tuple[str, ...], measurements: Mapping[str, Any], metadata: Mapping[str, Any], _: Any
    ) -> None:
        self.tell("history", {"at": wall_ms(), "kind": HISTORY_EVENTS[event], **_about(measurements, metadata)})

    def _lagged(self, _event: Any, measurements: Mapping[str, Any], _metadata: Any, _config: Any) -> None:
        self.tell("lag", measurements["lag_s"])


def bar_of(step: Step) -> dict[str, Any]:
    """A step as the page draws it; its `run` is None where it is part of none."""
    run = _run_of(step)
    facts = step.facts
    return {
        "n": step.id,
        "run": None if run is None else run.id,
        "parent": None if step.parent is None else step.parent.id,
        "kind": step.kind,
        "name": step.name[:80],
        "session": step.session_id,
        "from": step.began_ms,
        "to": step.ended_ms,
        "failure": step.failure,
        "tokens": facts.get("output_tokens"),
        "cost": facts.get("cost"),
    }


def _run_of(step: Step) -> Step | None:
    """The run that a step is part of; itself, when it is one."""
    at: Step | None = step
    while at is not None and at.kind != "run":
        at = at.parent
    return at


def _about(measurements: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of an event that a person wants to know, each a few words."""
    found: dict[str, Any] = {}
    for name in ("supervisor", "id", "pid", "provider", "tool_name", "category", "holder", "where"):
        if (value := metadata.get(name)) is not None:
            found[name] = _words(value)
    if (reason := metadata.get("reason")) is not None and not is_orderly(reason):
        found["reason"] = type(reason).__name__ if isinstance(reason, BaseException) else _words(reason)
    for name in ("restarts", "held_s", "delay_ms", "failure_count"):
        if name in measurements:
            found[name] = measurements[name]
    return found


def _words(value: Any) -> str:
    if isinstance(value, Pid):
        return f"{repl.tree_id(value)} <{value.id}>"[:120]  # type: ignore[arg-type]  # every pid is one's process
    return value[:120] if type(value) is str else introspect.in_words(value)  # a child's id may be any object
