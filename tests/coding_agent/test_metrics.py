"""What happens in a host, counted for Prometheus."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coding_agent.metrics import LABELS_MAX, Metrics
from lemon_agent import AgentTool, text_result
from lemon_ai.testing import Call, Fail
from lemon_otp import AlreadyRegistered, telemetry


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    found = {}
    for family in text_string_to_metric_families(metrics.exposition()):
        for sample in family.samples:
            found[(sample.name, *sorted(sample.labels.values()))] = sample.value
    return found


async def test_a_run_with_a_tool_is_counted(host):
    """Runs, tool calls and model calls have series; the text parses as Prometheus' own parser wants it."""

    async def look(call_id, params, signal, on_update):
        return text_result("seen")

    metrics = Metrics.start()
    tool = AgentTool("look", "Looks.", {"type": "object", "properties": {}}, look)
    session = await host.session([Call("look", {})], "Done.", tools=(tool,))
    await host.run(session, "go")
    counted = samples(metrics)

    assert counted[("lemon_tool_calls_total", "look")] == 1
    assert counted[("lemon_model_calls_total", "scripted")] == 2
    assert counted[("lemon_run_seconds_count", "completed")] == 1
    assert counted[("lemon_processes", "idle")] > 5


async def test_retries_are_counted_by_what_went_wrong(host):
    """One failure before the answer is one retry."""
    metrics = Metrics.start()
    session = await host.session([Fail("overloaded", times=1), "Fine."])
    await host.run(session, "go")

    assert samples(metrics)[("lemon_model_retries_total", "scripted", "transient")] >= 1


async def test_labels_are_bounded(host):
    """Keys are cut off, and beyond the limit a value is `other`."""
    metrics = Metrics.start()
    for number in range(LABELS_MAX + 50):
        telemetry.execute(("lemon_agent", "tool_task", "start"), {}, {"tool_name": f"tool_{number}"})
    telemetry.execute(("lemon_otp", "supervisor", "restart"), {}, {"supervisor": "s", "id": "session[secret-id]"})
    counted = samples(metrics)

    assert counted[("lemon_tool_calls_total", "other")] == 50
    assert counted[("lemon_supervisor_restarts_total", "s", "session")] == 1


async def test_nothing_is_attached_before_and_after(host):
    """Without metrics an event has no handler; a second start in one runtime is refused."""
    assert telemetry.list_handlers() == []
    metrics = Metrics.start()
    with pytest.raises(AlreadyRegistered):
        Metrics.start()

    metrics.stop()

    assert telemetry.list_handlers() == []
