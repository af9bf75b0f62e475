"""A real host that is measured and watched: `--metrics`, `--observe`, `--otel`, one program from start to end."""

import importlib
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from attrs import define, field
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.flows.hosts import PATIENCE_S

MODEL = ("--model", "scripted/echo")
RUN = (
    '@tool bash {"command": "echo hello"}\n@turn\n'
    '@tool task {"prompt": "@text the child says so", "description": "ask"}\n@turn\n@text Done.'
)


@define
class Sink:
    """A collector: what it was sent, and by whom."""

    url: str = ""
    spans: list = field(factory=list)
    headers: list = field(factory=list)
    service: set = field(factory=set)


@pytest.fixture
def sink() -> Iterator[Sink]:
    got = Sink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            got.headers.append(dict(self.headers))
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                got.service |= {
                    pair.value.string_value for pair in resource.resource.attributes if pair.key == "service.name"
                }
                got.spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    got.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield got
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_program_that_ends_has_sent_all_its_spans(machine, sink):
    """One prompt with a tool and a subagent: the collector has the whole tree when the program has ended."""
    machine.extra_env["OTEL_EXPORTER_OTLP_HEADERS"] = "x-team=citrus"
    machine.extra_env["OTEL_SERVICE_NAME"] = "orchard"
    done = machine.run("-p", RUN, *MODEL, "--otel", sink.url)

    assert (done.returncode, done.stdout.strip()) == (0, "Done.")
    by_id = {span.span_id: span for span in sink.spans}
    road = set()
    for span in sink.spans:
        names = [span.name]
        while span.parent_span_id:
            span = by_id[span.parent_span_id]
            names.append(span.name)
        road.add(" < ".join(names))
    assert road == {
        "invoke_agent lemon",
        "chat echo < invoke_agent lemon",
        "execute_tool bash < invoke_agent lemon",
        "execute_tool task < invoke_agent lemon",
        "invoke_agent subagent < execute_tool task < invoke_agent lemon",
        "chat echo < invoke_agent subagent < execute_tool task < invoke_agent lemon",
    }
    assert sink.service == {"orchard"}
    assert {headers.get("x-team") for headers in sink.headers} == {"citrus"}


def said(host, *begins: str) -> dict[str, str]:
    """The addresses that a host prints as it starts."""
    found: dict[str, str] = {}
    for line in host.process.stderr:
        name, _, url = line.strip().partition(": ")
        if name in begins:
            found[name] = url
        if len(found) == len(begins):
            return found
    raise AssertionError(f"the host ended without them: {host.finish()}")


def test_a_host_shows_its_series_and_its_page_until_it_ends(machine):
    """Both are where it says; children of the tree like any other; an interrupt closes them, with a page open."""
    host = machine.start("--json", "-p", '@tool bash {"command": "sleep 600"}', *MODEL, "--metrics", "0", "--observe")
    urls = said(host, "metrics", "observer")
    host.wait_for("tool_execution_start")
    page, _, token = urls["observer"].partition("#token=")
    with httpx.Client(timeout=PATIENCE_S) as web:
        series = web.get(urls["metrics"]).text
        assert 'lemon_children{supervisor="tool_task_supervisor"} 1.0' in series
        assert web.get(page).status_code == 200
        assert web.get(f"{page}api/events").status_code == 401
        with web.stream("GET", f"{page}api/events", headers={"authorization": f"Bearer {token}"}) as feed:
            assert next(feed.iter_lines()) == "event: hello"
            tree = machine.run("tree").stdout
            for child in ("observer", "metrics_endpoint", "loop_lag"):
                (line,) = [line for line in tree.splitlines() if line.split()[1:2] == [child]]
                assert importlib.import_module(line.split()[2])
            host.send(signal.SIGINT)
            code, _, complaints = host.finish()
    assert code == 130
    assert "Traceback" not in complaints
    for url in (urls["metrics"], page):
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)
    log = machine.home / "host.log"
    assert not log.exists() or token not in log.read_text()


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--metrics", "127.0.0.1:99999"), "--metrics '127.0.0.1:99999' is no address"),
        (("--observe=nowhere at all",), "--observe 'nowhere at all' is no address"),
        (("--otel", "localhost:4318"), "--otel 'localhost:4318' is no address"),
    ],
)
def test_an_address_that_cannot_be_used_is_one_line_and_bad_usage(machine, flags, text):
    """Exit code 2, what is wrong and an example, no traceback; nothing was run."""
    done = machine.run("-p", "@text never", *MODEL, *flags)
    assert done.returncode == 2
    assert done.stdout == ""
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_flag_without_an_address_does_not_take_the_prompt(machine):
    """`--metrics PROMPT` counts and runs the prompt: a text is no address."""
    done = machine.run("-p", "--metrics", "look around", *MODEL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_a_collector_that_is_away_delays_the_end_by_no_more_than_its_bound(machine):
    """The run is as ever; the program ends although nobody takes the spans."""
    began_s = time.monotonic()
    done = machine.run("-p", "@text fine", *MODEL, "--otel", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout.strip()) == (0, "fine")
    assert time.monotonic() - began_s < PATIENCE_S
    assert done.stderr.count("traces: 2 spans were not taken at http://127.0.0.1:9; does a collector run there?") == 1
    assert "Traceback" not in done.stderr
    assert "export" not in done.stderr
