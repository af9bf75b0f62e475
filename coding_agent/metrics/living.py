"""Edge. The series that are read when somebody asks: what lives in the tree at that moment, from one walk over it."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lemon_otp import TreeNode, introspect

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

STATES: Final = ("idle", "ready", "busy", "suspended", "restarting", "stopped")

COUNTED_BELOW: Final = (
    "session_supervisor",
    "loop_task_supervisor",
    "tool_task_supervisor",
    "stream_task_supervisor",
    "subagent_supervisor",
    "subagent_task_supervisor",
    "background_supervisor",
)
"""Supervisors whose number of children says how much is going on."""


class Living:
    """A collector of `prometheus_client`. Read it in a process of the host, whose runtime it looks at."""

    def collect(self) -> Iterator["Metric"]:
        """Gauges of the moment."""
        from prometheus_client.metrics_core import GaugeMetricFamily

        nodes = list(introspect.walk(introspect.tree()))
        states = Counter(node.state for node in nodes)
        processes = GaugeMetricFamily("lemon_processes", "Processes of the tree, by state.", labels=["state"])
        for state in STATES:
            processes.add_metric([state], states.get(state, 0))
        yield processes
        yield GaugeMetricFamily(
            "lemon_supervisors", "Supervisors of the tree.", value=sum(node.kind == "supervisor" for node in nodes)
        )
        yield GaugeMetricFamily(
            "lemon_mailbox_messages",
            "Messages that wait in all mailboxes.",
            value=sum(node.mailbox_length for node in nodes),
        )
        yield GaugeMetricFamily(
            "lemon_mailbox_longest", "Messages in the longest mailbox.", value=max(map(_waiting, nodes), default=0)
        )
        children = GaugeMetricFamily(
            "lemon_children", "Children of supervisors that start on demand.", labels=["supervisor"]
        )
        for node in nodes:
            if node.id in COUNTED_BELOW:
                children.add_metric([node.id], len(node.children))
        yield children
        yield from _streams()

    def describe(self) -> tuple["Metric", ...]:
        """Nothing: the tree is not looked at when the collector is registered."""
        return ()


def _waiting(node: TreeNode) -> int:
    return node.mailbox_length


def _streams() -> Iterator["Metric"]:
    from prometheus_client.metrics_core import GaugeMetricFamily

    infos = introspect.streams()
    stats = [info.stats for info in infos]
    yield GaugeMetricFamily("lemon_streams_open", "Event streams without an end yet.", value=sum(i.open for i in infos))
    yield GaugeMetricFamily(
        "lemon_stream_events_waiting", "Events that wait in all streams.", value=sum(s.queue_size for s in stats)
    )
    yield GaugeMetricFamily(
        "lemon_stream_longest", "Events in the longest queue.", value=max((s.queue_size for s in stats), default=0)
    )
    yield GaugeMetricFamily(
        "lemon_stream_events_dropped",
        "Events that the streams of now have dropped.",
        value=sum(s.dropped for s in stats),
    )
