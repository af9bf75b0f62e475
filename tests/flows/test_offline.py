"""`--offline`: nothing but this machine is reached, by whoever would reach further."""

import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from tests.flows.hosts import Machine


class Model(http.server.BaseHTTPRequestHandler):
    """An OpenAI-compatible server of this machine that says one thing."""

    def do_GET(self) -> None:
        self.answer("application/json", json.dumps({"data": [{"id": "small"}]}))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        said = {"choices": [{"index": 0, "delta": {"content": "from here"}, "finish_reason": "stop"}]}
        self.answer("text/event-stream", f"data: {json.dumps(said)}\n\ndata: [DONE]\n\n")

    def answer(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def here() -> Iterator[str]:
    """The address of such a server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_a_model_of_this_machine_answers_and_one_elsewhere_is_refused_before_anything_runs(machine: Machine, here: str):
    """The address decides, not the name; the line says what to name instead."""
    done = machine.run("--offline", "--base-url", here, "-p", "hi")
    assert (done.returncode, done.stdout) == (0, "from here\n")
    machine.extra_env["ANTHROPIC_API_KEY"] = "sk-not-used"
    for words in (["--model", "anthropic/claude-sonnet-4-5"], ["--base-url", "http://192.0.2.1:8080/v1"]):
        refused = machine.run("--offline", *words, "-p", "hi")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "on another machine" in refused.stderr
    chosen = machine.run("--offline", "-p", "hi")
    assert chosen.returncode == 0
    assert "offline, and no local server found" in chosen.stderr


def test_tools_for_the_web_refuse_and_the_run_goes_on(machine: Machine):
    """The model is told why; other tools work."""
    (machine.project / "a.txt").write_text("words of a")
    machine.extra_env["LEMON_OFFLINE"] = "1"
    script = "\n".join(
        [
            '@tool web_fetch {"url": "https://example.com"}',
            '@tool web_search {"query": "lemons"}',
            '@tool web_download {"url": "https://example.com/x", "path": "x"}',
            '@tool read {"path": "a.txt"}',
            "@turn",
            "@text Done.",
        ]
    )
    done = machine.run("--model", "scripted/echo", "-p", script)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    results = [message for message in machine.messages() if message["role"] == "toolResult"]
    refused = [one["toolName"] for one in results if "started offline" in one["content"][0]["text"] and one["isError"]]
    assert sorted(refused) == ["web_download", "web_fetch", "web_search"]
    assert not (machine.project / "x").exists()


def test_a_model_that_is_chosen_later_is_refused_when_it_is_asked(machine: Machine):
    """A stored session may name one elsewhere: the run ends in an error that says so, and nothing was sent."""
    machine.extra_env["OPENAI_API_KEY"] = "sk-not-used"
    assert machine.run("--model", "openai/gpt-5.1", "--base-url", "http://127.0.0.1:9/v1", "-p", "hi").returncode == 1
    done = machine.run("--offline", "--continue", "-p", "again")
    assert done.returncode == 1
    assert "offline: nothing was sent to openai" in done.stderr
    traced = machine.run("--offline", "--otel", "http://192.0.2.1:4318", "--model", "scripted/echo", "-p", "hi")
    assert (traced.returncode, traced.stdout) == (2, "")
