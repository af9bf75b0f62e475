"""Edge. What happens in a host, counted for Prometheus. Nothing is counted, and nothing costs, until `Metrics.start`.

A plain telemetry handler over the events of all packages (docs/reference/telemetry.md). Label sets are bounded: ids
lose their keys, and beyond `LABELS_MAX` different values of a label the rest is `other`. No label holds prompt text,
arguments or credentials.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from lemon_otp import introspect, telemetry

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram

HANDLER_ID: Final = "coding_agent.metrics"
METRICS: Final = "metrics"
"""Where a host keeps its `Metrics` in the environment of the application."""
LABELS_MAX: Final = 100

EVENTS: Final = (
    ("lemon_otp", "process", "crash"),
    ("lemon_otp", "process", "zombie"),
    ("lemon_otp", "supervisor", "restart"),
    ("lemon_otp", "supervisor", "give_up"),
    ("lemon_otp", "watchdog", "held"),
    ("lemon_ai", "dispatcher", "dispatch"),
    ("lemon_ai", "dispatcher", "rejected"),
    ("lemon_ai", "retry_helper", "retry"),
    ("lemon_ai", "circuit_breaker", "opened"),
    ("lemon_ai", "circuit_breaker", "reopened"),
    ("lemon_ai", "circuit_breaker", "half_opened"),
    ("lemon_ai", "circuit_breaker", "closed"),
    ("lemon_agent", "loop", "end"),
    ("lemon_agent", "tool_task", "start"),
    ("lemon_agent", "tool_task", "end"),
    ("lemon_agent", "tool_task", "error"),
    ("lemon_agent", "tool_task", "orphaned"),
)

_COUNTERS: Final[Mapping[tuple[str, ...], tuple[str, str, tuple[str, ...]]]] = {
    ("lemon_otp", "process", "crash"): ("lemon_process_crashes", "Processes that ended badly.", ()),
    ("lemon_otp", "process", "zombie"): (
        "lemon_process_zombies",
        "Reports of coroutines that outlive their process.",
        (),
    ),
    ("lemon_otp", "supervisor", "restart"): (
        "lemon_supervisor_restarts",
        "Children started again.",
        ("supervisor", "id"),
    ),
    ("lemon_otp", "supervisor", "give_up"): ("lemon_supervisor_gave_up", "Supervisors that gave up.", ("supervisor",)),
    ("lemon_otp", "watchdog", "held"): ("lemon_loop_held", "Times something held the event loop too long.", ()),
    ("lemon_ai", "dispatcher", "dispatch"): ("lemon_model_calls", "Model calls admitted.", ("provider",)),
    ("lemon_ai", "dispatcher", "rejected"): (
        "lemon_model_calls_rejected",
        "Model calls refused.",
        ("provider", "reason"),
    ),
    ("lemon_ai", "retry_helper", "retry"): ("lemon_model_retries", "Model calls made again.", ("provider", "category")),
    ("lemon_agent", "tool_task", "start"): ("lemon_tool_calls", "Tool calls begun.", ("tool_name",)),
    ("lemon_agent", "tool_task", "error"): (
        "lemon_tool_failures",
        "Calls that crashed, hung or were refused.",
        ("tool_name",),
    ),
    ("lemon_agent", "tool_task", "orphaned"): (
        "lemon_tool_orphans",
        "Calls whose thread could not be stopped.",
        ("tool_name",),
    ),
}


@define
class Metrics:
    """The series of one host.

    Attributes:
        registry: What a scraper reads.
    """

    registry: "CollectorRegistry"
    _counters: dict[tuple[str, ...], "Counter"] = field(factory=dict)
    _seen: dict[str, set[str]] = field(factory=dict)
    _runs: "Histogram | None" = None
    _breakers: "Counter | None" = None

    @classmethod
    def start(cls) -> "Metrics":
        """Count from now on.

        Raises:
            AlreadyRegistered: This runtime counts already.
        """
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        registry = CollectorRegistry()
        metrics = cls(registry)
        for event, (name, text, labels) in _COUNTERS.items():
            metrics._counters[event] = Counter(name, text, [*map(_label_name, labels)], registry=registry)
        metrics._runs = Histogram("lemon_run_seconds", "How long runs take.", ["status"], registry=registry)
        metrics._breakers = Counter(
            "lemon_breaker_changes", "Changes of breakers.", ["provider", "change"], registry=registry
        )
        for state in ("idle", "ready", "busy", "suspended", "restarting"):
            gauge = Gauge(f"lemon_processes_{state}", f"Processes of the tree that are {state}.", registry=registry)
            gauge.set_function(partial(_count, state))
        mailboxes = Gauge(
            "lemon_mailbox_messages", "Messages that wait in the mailboxes of the tree.", registry=registry
        )
        mailboxes.set_function(
            lambda: float(sum(node.mailbox_length or 0 for node in introspect.walk(introspect.tree())))
        )
        telemetry.attach_many(HANDLER_ID, EVENTS, metrics._handle)
        return metrics

    def stop(self) -> None:
        """Count no more."""
        telemetry.detach(HANDLER_ID)

    def exposition(self) -> str:
        """All series in Prometheus' text format. Call it in a process of the host."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry).decode()

    def _handle(
        self, event: tuple[str, ...], measurements: Mapping[str, Any], metadata: Mapping[str, Any], _: Any
    ) -> None:
        if event[:2] == ("lemon_ai", "circuit_breaker") and self._breakers is not None:
            self._breakers.labels(self._bounded("provider", metadata.get("provider")), event[2]).inc()
        elif event == ("lemon_agent", "loop", "end") and self._runs is not None:
            self._runs.labels(str(metadata.get("status"))).observe(float(measurements["duration"]))
        elif (counter := self._counters.get(event)) is not None:
            names = _COUNTERS[event][2]
            values = [self._bounded(name, metadata.get(name)) for name in names]
            (counter.labels(*values) if values else counter).inc()

    def _bounded(self, label: str, value: Any) -> str:
        """A label's value without its key; `other` once there are too many different ones."""
        text = str(value).partition("[")[0]
        seen = self._seen.setdefault(label, set())
        if text not in seen and len(seen) >= LABELS_MAX:
            return "other"
        seen.add(text)
        return text


def _label_name(name: str) -> str:
    return {"id": "child", "tool_name": "tool"}.get(name, name)


def _count(state: str) -> float:
    return float(sum(node.state == state for node in introspect.walk(introspect.tree())))
