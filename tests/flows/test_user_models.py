"""A host with a person's own models, as real processes over real sockets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from attrs import define, field

from tests.flows.hosts import Machine

ANSWER = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Served at home."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


@define
class HomeServer:
    """A server on loopback that answers every prompt alike, and what it was asked."""

    port: int = 0
    asked: list[tuple[str | None, str]] = field(factory=list)


@pytest.fixture
def server() -> Iterator[HomeServer]:
    home = HomeServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            home.asked.append((self.headers["authorization"], body["model"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(ANSWER)

        def log_message(self, *args: object) -> None:
            return

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    home.port = listening.server_port
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield home
    listening.shutdown()
    thread.join()
    listening.server_close()


def write_models(machine: Machine, document: object) -> None:
    folder = machine.home / ".config" / "lemon"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "models.json").write_text(json.dumps(document))


def test_a_model_of_the_persons_own_answers_now_and_when_the_session_goes_on(machine: Machine, server: HomeServer):
    """By the name in the file, with the key the file names; `--continue` finds it again under the stored name."""
    address = f"http://127.0.0.1:{server.port}/v1"
    entry = {"baseUrl": address, "apiKey": "!printf my-key", "models": [{"id": "big"}]}
    write_models(machine, {"providers": {"home": entry}})

    done = machine.run("-p", "hello", "--model", "home/big")
    assert (done.returncode, done.stdout) == (0, "Served at home.\n"), done.stderr
    again = machine.run("--continue", "-p", "and now?")
    assert (again.returncode, again.stdout) == (0, "Served at home.\n"), again.stderr
    assert server.asked == [("Bearer my-key", "big")] * 2
    assert "my-key" not in "".join(file.read_text() for file in machine.session_files())


def test_a_file_that_cannot_be_meant_is_one_line_and_bad_usage(machine: Machine):
    """Nothing is started and no session is made."""
    write_models(machine, {"providers": {"home": {"baseUrl": 3}}})
    done = machine.run("-p", "hello")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "models.json" in done.stderr
    assert "providers.home.baseUrl" in done.stderr
    assert machine.session_files() == []
