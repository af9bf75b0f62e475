"""What happens in a host, counted for Prometheus."""

import json
import re
import shutil
import socket
import subprocess
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from coding_agent import client
from coding_agent.errors import BadUsage
from coding_agent.measuring.loop_lag import measure_loop_lag
from coding_agent.metrics import LABELS_MAX, Metrics
from coding_agent.metrics.metrics_endpoint import serve_metrics
from lemon_agent import AgentTool, ToolExecutionStart, text_result
from lemon_ai.testing import Call, Fail
from lemon_otp import (
    AlreadyRegistered,
    Supervisor,
    exit_signal,
    introspect,
    self_pid,
    sleep_s,
    stop_all,
    telemetry,
    whereis,
)
from lemon_otp.testing import settle

DASHBOARD = Path(__file__).resolve().parents[2] / "docs" / "grafana" / "lemon.json"
SUPERVISORS = {"loop_task_supervisor", "tool_task_supervisor"}


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


async def test_whatever_a_model_calls_a_tool_the_series_can_be_read(host):
    """Half a surrogate pair, quotes and line breaks in one name: every series is still told, in UTF-8."""
    metrics = Metrics.start()
    session = await host.session([Call("half \ud800 pair", {}), Call('a"b\n\\', {})], "Done.")
    await host.run(session, "go")
    metrics.exposition().encode()
    counted = samples(metrics)
    assert counted[("lemon_tool_calls_total", "half ? pair")] == 1
    assert counted[("lemon_tool_calls_total", 'a"b\n\\')] == 1


async def test_how_runs_and_calls_end_is_bounded_as_well(host):
    """A stranger's words for an outcome do not make series without end."""
    metrics = Metrics.start()
    for number in range(LABELS_MAX + 50):
        told = {"outcome": f"o{number}", "pid": self_pid()}
        telemetry.execute(("lemon_agent", "loop", "end"), {"duration": 1.0}, told)
    assert samples(metrics)[("lemon_run_seconds_count", "other")] == 50


class Nameless:
    """Whatever is asked of it raises."""

    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


async def test_a_child_whose_id_is_an_object_is_counted_as_any_other(host):
    """It is not asked what it is called: a handler that raised would never be called again."""
    metrics = Metrics.start()
    for child in (Nameless(), ("a", 2), 10**6_000, None):
        telemetry.execute(("lemon_otp", "supervisor", "restart"), {}, {"supervisor": "s", "id": child})
    counted = samples(metrics)
    assert counted[("lemon_supervisor_restarts_total", "Nameless()", "s")] == 1
    assert counted[("lemon_supervisor_restarts_total", "('a', 2)", "s")] == 1
    assert counted[("lemon_telemetry_handler_failures_total",)] == 0


async def test_nothing_is_kept_of_a_run_that_was_killed(host):
    """Its tools never say that they ended; the host forgets them with the run."""

    async def forever(*_):
        await sleep_s(3600)

    metrics = Metrics.start()
    session = await host.session([Call("stuck", {})], tools=(AgentTool("stuck", "", {"type": "object"}, forever),))
    await client.prompt(session, "go")
    await host.until(ToolExecutionStart)
    (loop,) = {pid for pid, _ in metrics._began}
    exit_signal(loop, "kill")
    await host.until_settled()
    assert metrics._began == {}


async def test_nothing_is_attached_before_and_after(host):
    """Without metrics an event has no handler; a second start in one runtime is refused."""
    assert telemetry.list_handlers() == []
    metrics = Metrics.start()
    with pytest.raises(AlreadyRegistered):
        Metrics.start()

    metrics.stop()

    assert telemetry.list_handlers() == []


async def test_tokens_cost_and_times_of_model_calls_have_series(host):
    """By provider and model: tokens of each kind, dollars, seconds, and how calls ended."""
    metrics = Metrics.start()
    session = await host.session("One answer.", [Fail("auth")])
    await host.run(session, "go")
    await host.run(session, "again")
    counted = samples(metrics)

    assert counted[("lemon_tokens_total", "output", "scripted", "test")] > 0
    assert counted[("lemon_model_call_seconds_count", "scripted", "test")] == 2
    assert counted[("lemon_model_calls_ended_total", "scripted", "stop", "test")] == 1
    assert counted[("lemon_model_failures_total", "AuthFailed", "scripted", "test")] == 1


async def test_a_restart_is_counted_by_supervisor_and_child(host):
    """A child that crashes is one crash, and one restart of its id under its supervisor."""
    metrics = Metrics.start()
    pid = whereis("todo_store")
    exit_signal(pid, "kill")
    await settle()
    counted = samples(metrics)

    assert counted[("lemon_supervisor_restarts_total", "coding_agent.supervisor", "todo_store")] == 1


async def test_the_tree_is_looked_at_once_for_a_scrape(host, monkeypatch):
    """States, mailboxes and children come from one walk over the tree."""
    looks = []
    real = introspect.tree
    monkeypatch.setattr(introspect, "tree", lambda *args, **more: looks.append(1) or real(*args, **more))
    metrics = Metrics.start()
    metrics.exposition()
    assert len(looks) == 1


async def test_the_lag_of_the_loop_is_measured_while_somebody_counts(host):
    """`loop_lag` stands in the tree once, however often it is asked for, and every sample is in the histogram."""
    metrics = Metrics.start()
    await measure_loop_lag()
    await measure_loop_lag()
    heard = []
    telemetry.attach("test", ("coding_agent", "loop_lag", "sampled"), lambda *event: heard.append(event[1]["lag_s"]))
    while len(heard) < 2:
        await sleep_s(0.05)
    assert samples(metrics)[("lemon_loop_lag_seconds_count",)] >= 2
    assert all(lag_s >= 0 for lag_s in heard)


def families(text: str) -> set[str]:
    found = set()
    for family in text_string_to_metric_families(text):
        found |= {family.name, *(sample.name for sample in family.samples)}
        if family.type == "counter":
            found.add(f"{family.name}_total")
        if family.type == "histogram":
            found |= {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
    return found


async def test_promtool_finds_nothing_to_complain_about(host):
    """The exposition of a host at work passes `promtool check metrics`, its lint included."""
    metrics = Metrics.start()
    session = await host.session([Call("nothing", {})], [Fail("overloaded", times=1), "Fine."])
    await host.run(session, "go")
    promtool = shutil.which("promtool")
    assert promtool, "the Debian package prometheus is needed"
    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=metrics.exposition(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


async def test_every_query_of_the_dashboard_names_series_that_exist(host):
    """What the Grafana dashboard asks for is what a host exposes; labels included."""
    names = families(Metrics.start().exposition())
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    variables = [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]

    assert len(queries) > 20
    asked = {name for query in (*queries, *variables) for name in re.findall(r"\b(?:lemon|process)_\w+", query)}
    assert asked - names - SUPERVISORS == set()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


async def test_the_endpoint_serves_what_prometheus_reads_and_ends_with_the_host(host):
    """`GET /metrics` has the text format's type; foreign names are refused; nothing listens afterwards."""
    metrics = Metrics.start()
    url = await serve_metrics(metrics, "127.0.0.1:0")
    async with httpx.AsyncClient() as web:
        answer = await web.get(url)
        foreign = await web.get(url, headers={"host": "evil.test"})
        elsewhere = await web.get(url.replace("/metrics", "/"))
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "lemon_processes" in answer.text
    assert (foreign.status_code, elsewhere.status_code) == (403, 404)
    await stop_all()
    with pytest.raises(httpx.ConnectError):
        async with httpx.AsyncClient() as web:
            await web.get(url)


async def test_an_endpoint_that_crashes_comes_back_at_the_same_address(host):
    """Its port, though it was any free one, stays what the scraper was told."""
    url = await serve_metrics(Metrics.start(), ":0")
    exit_signal(whereis("metrics_endpoint"), "kill")
    await settle()
    async with httpx.AsyncClient() as web:
        assert (await web.get(url)).status_code == 200


async def test_an_address_that_cannot_be_used_is_refused_in_one_line(host):
    """Taken, foreign or no address at all: the text says what is wrong, and nothing is left in the tree."""
    metrics = Metrics.start()
    url = await serve_metrics(metrics, ":0")
    taken = url.removeprefix("http://").partition("/")[0]
    await Supervisor.terminate_child("coding_agent.supervisor", "metrics_endpoint")
    await Supervisor.delete_child("coding_agent.supervisor", "metrics_endpoint")
    other = socket.create_server(("127.0.0.1", int(taken.rpartition(":")[2])))
    with other, pytest.raises(BadUsage, match="another program listens there"):
        await serve_metrics(metrics, taken)
    for bad in ("nonsense host:1", "127.0.0.1:99999", "no-such-host.invalid:1"):
        with pytest.raises(BadUsage):
            await serve_metrics(metrics, bad)
    assert whereis("metrics_endpoint") is None
