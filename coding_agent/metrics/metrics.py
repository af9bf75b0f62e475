"""Edge. What happens in a host, counted for Prometheus. Nothing is counted, and nothing costs, until `Metrics.start`.

A plain telemetry handler over the events of all packages (docs/reference/telemetry.md), and one look at the tree for
each scrape. Label sets are bounded: ids lose their keys, and beyond `LABELS_MAX` different values of a label the rest
is `other`. No label holds prompt text, arguments or credentials.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import define, field

from coding_agent import event_names
from coding_agent.event_names import EventName
from coding_agent.metrics import series
from coding_agent.metrics.living import Living
from coding_agent.metrics.series import LABELS_MAX
from lemon_otp import Pid, introspect, monotonic_s, self_pid, telemetry

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge

Taker: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], None]
"""Takes the measurements and the metadata of one event."""

HANDLER_ID: Final = "coding_agent.metrics"
METRICS: Final = "metrics"
"""Where a host keeps its `Metrics` in the environment of the application."""
CHILDREN_MAX: Final = 1_000
TOOLS_TIMED_MAX: Final = 10_000
"""Tool calls whose beginning is remembered; the oldest is forgotten first."""


@define(eq=False)
class Metrics:
    """The series of one host.

    Attributes:
        registry: What a scraper reads.
    """

    registry: "CollectorRegistry"
    _seen: dict[str, set[str]] = field(factory=dict)
    _began: dict[tuple[Pid, Any], float] = field(factory=dict)
    _takers: dict[EventName, Taker] = field(factory=dict)

    @classmethod
    def start(cls) -> "Metrics":
        """Count from now on.

        Raises:
            AlreadyRegistered: This runtime counts already.
        """
        from prometheus_client import CollectorRegistry, Counter, ProcessCollector

        registry = CollectorRegistry()
        metrics = cls(registry)
        for event, count in series.COUNTS.items():
            counter = Counter(count.name, count.text, [*count.labels.values()], registry=registry)
            metrics._takers[event] = metrics._counting(counter, count)
        metrics._take_breakers(registry)
        metrics._take_runs_and_tools(registry)
        metrics._take_model_calls(registry)
        metrics._take_lag(registry)
        registry.register(Living())
        ProcessCollector(registry=registry)
        telemetry.attach_many(HANDLER_ID, series.EVENTS, metrics._handle)
        return metrics

    def stop(self) -> None:
        """Count no more."""
        telemetry.detach(HANDLER_ID)

    def exposition(self) -> str:
        """All series in Prometheus' text format. Call it in a process of the host."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry).decode()

    # What each series is made of.

    def _take_breakers(self, registry: "CollectorRegistry") -> None:
        from prometheus_client import Counter, Gauge

        changes = Counter("lemon_breaker_changes", "Changes of breakers.", ["provider", "change"], registry=registry)
        opened = Gauge(
            "lemon_breaker_open", "1 from opening until the breaker has closed.", ["provider"], registry=registry
        )
        for event in event_names.BREAKER_CHANGES:
            self._takers[event] = _breaker_taker(self, changes, opened, event[-1])

    def _take_runs_and_tools(self, registry: "CollectorRegistry") -> None:
        from prometheus_client import Histogram

        runs = Histogram("lemon_run_seconds", "Length of runs.", ["outcome"], buckets=series.SECONDS, registry=registry)
        tools = Histogram(
            "lemon_tool_seconds", "Length of tool calls.", ["tool"], buckets=series.SECONDS, registry=registry
        )

        def run_ended(measured: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
            runs.labels(self._bounded("outcome", metadata.get("outcome"))).observe(float(measured.get("duration", 0)))
            loop = metadata.get("pid")
            for key in [key for key in self._began if key[0] is loop]:  # calls of a loop that was killed
                del self._began[key]

        tool_counted, tool_failed = self._takers[event_names.TOOL_START], self._takers[event_names.TOOL_ERROR]
        tool_seconds: dict[Any, Histogram] = {}

        def tool_began(measured: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
            tool_counted(measured, metadata)
            if len(self._began) >= TOOLS_TIMED_MAX:
                del self._began[next(iter(self._began))]
            self._began[self_pid(), metadata.get("tool_call_id")] = monotonic_s()

        def tool_ended(_: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
            began_s = self._began.pop((self_pid(), metadata.get("tool_call_id")), None)
            if began_s is not None:
                tool = metadata.get("tool_name")
                seconds = tool_seconds.get(tool)
                if seconds is None:
                    seconds = tools.labels(self._bounded("tool", tool))
                    _keep(tool_seconds, tool, seconds)
                seconds.observe(monotonic_s() - began_s)

        def tool_broke(measured: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
            tool_failed(measured, metadata)
            tool_ended(measured, metadata)

        self._takers[event_names.RUN_END] = run_ended
        self._takers[event_names.TOOL_START] = tool_began
        self._takers[event_names.TOOL_END] = tool_ended
        self._takers[event_names.TOOL_ERROR] = tool_broke

    def _take_model_calls(self, registry: "CollectorRegistry") -> None:
        from prometheus_client import Counter, Histogram

        of = ["provider", "model"]
        length = Histogram(
            "lemon_model_call_seconds", "Length of model calls.", of, buckets=series.SECONDS, registry=registry
        )
        first = Histogram(
            "lemon_model_first_seconds",
            "Time until something of the answer came.",
            of,
            buckets=series.SECONDS,
            registry=registry,
        )
        ended = Counter(
            "lemon_model_calls_ended", "Model calls by how they ended.", [*of, "stop_reason"], registry=registry
        )
        failed = Counter(
            "lemon_model_failures", "Model calls that failed, by kind of failure.", [*of, "error"], registry=registry
        )
        tokens = Counter("lemon_tokens", "Tokens, by kind.", [*of, "kind"], registry=registry)
        cost = Counter("lemon_cost_dollars", "What model calls cost by the catalogue.", of, registry=registry)

        def call_ended(measured: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
            labels = [self._bounded(name, metadata[name]) for name in of]
            length.labels(*labels).observe(measured["duration_s"])
            if measured["first_s"] is not None:
                first.labels(*labels).observe(measured["first_s"])
            ended.labels(*labels, self._bounded("stop_reason", metadata["stop_reason"])).inc()
            if metadata["failure"] is not None:
                failed.labels(*labels, self._bounded("error", metadata["failure"])).inc()
            for kind in series.TOKEN_KINDS:
                if (amount := measured[f"{kind}_tokens"]) > 0:
                    tokens.labels(*labels, kind).inc(amount)
            if measured["cost"] > 0:
                cost.labels(*labels).inc(measured["cost"])

        self._takers[event_names.CALL_STOP] = call_ended

    def _take_lag(self, registry: "CollectorRegistry") -> None:
        from prometheus_client import Histogram

        lag = Histogram(
            "lemon_loop_lag_seconds",
            "How late timers of the event loop come.",
            buckets=series.LAG_SECONDS,
            registry=registry,
        )
        self._takers[event_names.LOOP_LAG] = lambda measured, _: lag.observe(measured["lag_s"])

    # The handler.

    def _handle(self, event: EventName, measurements: Mapping[str, Any], metadata: Mapping[str, Any], _: Any) -> None:
        self._takers[event](measurements, metadata)

    def _counting(self, counter: "Counter", count: series.Count) -> Taker:
        """What counts one event into a counter; which of its children belongs to which values is remembered."""
        names = tuple(count.labels)
        if not names:
            return lambda _, __: counter.inc()
        children: dict[Any, Counter] = {}

        def counted(_: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
            values = tuple([value if type(value := metadata.get(name)) is str else _hashable(value) for name in names])
            child = children.get(values)
            if child is None:
                labels = zip(count.labels.values(), values, strict=True)
                child = counter.labels(*[self._bounded(label, value) for label, value in labels])
                _keep(children, values, child)
            child.inc()

        return counted

    def _bounded(self, label: str, value: Any) -> str:
        """A label's value without its key; `other` once there are too many different ones."""
        named = (value.name or "unnamed") if isinstance(value, Pid) else _text(value)
        text = named.partition("[")[0][:100]
        if not text.isascii():  # half of a surrogate pair in one label would make the whole page unreadable
            text = text.encode("utf-8", "replace").decode()
        seen = self._seen.setdefault(label, set())
        if text not in seen and len(seen) >= LABELS_MAX:
            return "other"
        seen.add(text)
        return text


def _hashable(value: Any) -> Any:
    return value if isinstance(value, Pid | int | None) else _text(value)


def _text(value: Any) -> str:
    """A text as it is, anything else in a few words: a child's id may be any object."""
    return value if type(value) is str else introspect.in_words(value, 100)


def _keep(children: dict[Any, Any], values: Any, child: Any) -> None:
    """Remember a child; keys and pids make no end of values, so that not all are remembered."""
    if len(children) >= CHILDREN_MAX:
        children.clear()
    children[values] = child


def _breaker_taker(
    metrics: Metrics, changes: "Counter", opened: "Gauge", change: str
) -> Callable[[Mapping[str, Any], Mapping[str, Any]], None]:
    def taken(_: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        provider = metrics._bounded("provider", metadata.get("provider"))
        changes.labels(provider, change).inc()
        opened.labels(provider).set(0.0 if change == "closed" else 1.0)

    return taken
