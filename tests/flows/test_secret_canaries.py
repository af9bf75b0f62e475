"""Secrets as canaries: values that nothing else could have written, and every place where they must not turn up.

The provider's key is in the environment of the host, and so is a password of the user's own; a second password stands
in the project's `.env`. The provider is a real HTTP server on loopback that wants the key and repeats it in each error;
the tools try to get at the environment, some of them crash. Afterwards every byte that is left is searched.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from tests.flows.hosts import PATIENCE_S, Machine
from tests.flows.rpc_clients import RpcClient

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw")
"""Part of every secret: tools read all environments, also that of a host that another worker's test has just begun."""
KEY = f"canarykZq7vPx4mWn2Rt9LbY6Hd{WORKER}"
"""The provider's key. It looks like no known kind of key, so that only who knows it can take it out."""
PASSWORD = f"canarypJw3Tc8QeXs5Ug1FkVa0{WORKER}"
"""A password in the environment of the host."""
ENV_VALUE = f"canaryeBm6Yo2NzIr4Dh7GqLp9{WORKER}"
"""A value in the project's `.env`."""
MODEL = ("--model", "groq/openai/gpt-oss-120b")

Answer = Callable[[BaseHTTPRequestHandler], None]


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def streamed(*chunks: bytes) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        handler.wfile.write(b"".join(chunks) + b"data: [DONE]\n\n")

    return answer


def says(text: str) -> Answer:
    return streamed(chunk({"content": text}), chunk({}, "stop"))


def calls(**tools: dict[str, Any]) -> Answer:
    """One turn of tool calls; a name may carry a number, `bash_2`."""
    asked = [
        {
            "index": index,
            "id": f"call_{name}",
            "type": "function",
            "function": {"name": name.partition("__")[0], "arguments": json.dumps(arguments)},
        }
        for index, (name, arguments) in enumerate(tools.items())
    ]
    return streamed(chunk({"tool_calls": asked}), chunk({}, "tool_calls"))


def refuses(status: int) -> Answer:
    """An error that repeats the key in its body, its headers and its status line."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = json.dumps(
            {
                "error": {
                    "message": f"key {KEY} is no good: {handler.headers['authorization']}",
                    "code": KEY,
                    "type": KEY,
                }
            }
        ).encode()
        handler.send_response(status, f"no {KEY}")
        handler.send_header("content-type", "application/json")
        handler.send_header("x-request-id", KEY)
        handler.send_header("retry-after", "0")
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def breaks_off(handler: BaseHTTPRequestHandler) -> None:
    """An answer that begins well and ends in an error."""
    error = {"error": {"message": f"the account of {KEY} is closed", "code": KEY}}
    streamed(chunk({"content": "I begin "}), b"data: " + json.dumps(error).encode() + b"\n\n")(handler)


@define
class Provider:
    """A server that plays these answers one after the other, and how often it was asked with the right key."""

    port: int = 0
    answers: list[Answer] = field(factory=list)
    bodies: list[str] = field(factory=list)
    strangers: int = 0

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        self.bodies.append(handler.rfile.read(int(handler.headers["content-length"])).decode())
        if handler.headers["authorization"] != f"Bearer {KEY}":
            self.strangers += 1
            refuses(401)(handler)
        else:
            (self.answers.pop(0) if self.answers else says("Done."))(handler)


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.take(self)

        def log_message(self, *args: object) -> None:
            return

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = listening.server_port
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield made
    listening.shutdown()
    thread.join()
    listening.server_close()


@define
class Watched:
    """A machine with secrets on it."""

    machine: Machine
    provider: Provider
    outputs: list[str] = field(factory=list)

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """One prompt, everything it says kept."""
        home = self.machine.home
        env = self.machine.env() | {
            "GROQ_API_KEY": KEY,
            "DATABASE_PASSWORD": PASSWORD,
            "WATCHED_TELEMETRY": str(home / "telemetry.txt"),
            "WATCHED_STATES": str(home / "states.txt"),
            "LEMON_AI_HTTP_TRACE": "1",
            "LEMON_AI_DEBUG": "1",
            "LEMON_AI_HTTP_TRACE_DIR": str(home / "trace"),
            "TMPDIR": str(home / "tmp"),
            **more,
        }
        (home / "tmp").mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "tests.flows.watched_host", *MODEL, "--verbose", *self.address(), *arguments],
            cwd=self.machine.project, env=env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        self.outputs += [done.stdout, done.stderr]
        return done

    def address(self) -> tuple[str, ...]:
        return "--base-url", f"http://127.0.0.1:{self.provider.port}/v1"

    def found(self, secret: str) -> list[str]:
        """Where a secret is: files below the home by name, and the outputs of the runs."""
        places = [
            str(path.relative_to(self.machine.home)) for path in self.files() if secret.encode() in path.read_bytes()
        ]
        return [*places, *(text for text in self.outputs if secret in text)]

    def files(self) -> list[Path]:
        own = self.machine.project / ".env"
        return sorted(path for path in self.machine.home.rglob("*") if path.is_file() and path != own)


@pytest.fixture
def watched(machine: Machine, provider: Provider) -> Watched:
    (machine.project / ".env").write_text(f"API_PASSWORD={ENV_VALUE}\n")
    return Watched(machine, provider)


ATTEMPTS = {
    "bash__3": {"command": "grep -az -e GROQ_API_KEY= -e DATABASE_PASSWORD= /proc/[0-9]*/environ | tr '\\0' '\\n'"},
    "bash": {"command": "env; cat /proc/self/environ; set; declare -p; export -p"},
    "bash__2": {"command": "env -0; python3 -c 'import os; print(os.environ)'; cat /proc/$PPID/environ", "pty": True},
    "process": {"action": "start", "command": "env; exec sleep 30"},
    "grep": {"pattern": "PASSWORD", "glob": "*.py"},
    "find": {"pattern": "*"},
}
"""Tools that look for secrets where there should be none."""


@pytest.mark.requirement("BR-183")
def test_a_key_and_the_passwords_of_an_environment_are_nowhere_after_tools_looked_for_them(watched: Watched):
    """
    Commands print their environments, in the foreground, on a terminal and in the background. Neither the session
    file, nor any log, trace, telemetry event or crash report, nor the output holds the provider's key, a password from
    the host's environment, or a value of the project's `.env` that nobody has read.
    """
    watched.provider.answers += [calls(**ATTEMPTS), says("There is nothing.")]
    done = watched.run("-p", "find secrets", "--json")

    assert done.returncode == 0, done.stderr
    assert watched.provider.strangers == 0
    (session,) = watched.machine.session_files()
    assert "PATH=" in session.read_text()  # the environments were printed
    assert "GROQ_API_KEY=" in session.read_text()  # that of the host too, without its value
    assert "injected" in (watched.machine.home / "host.log").read_text()  # and the crash reports written
    assert (watched.machine.home / "telemetry.txt").stat().st_size > 1000
    for secret in (KEY, PASSWORD, ENV_VALUE):
        assert watched.found(secret) == [], secret


@pytest.mark.parametrize(
    ("answers", "as_json"),
    [
        ((refuses(400),), False),
        ((refuses(401),), True),
        ((refuses(429),) * 12, False),
        ((refuses(500),) * 12, True),
        ((breaks_off,) * 12, False),
        ((breaks_off,) * 12, True),
    ],
    ids=["400", "401", "429", "500", "in the stream", "in the stream, as JSON"],
)
def test_a_provider_that_repeats_the_key_in_its_errors_does_not_get_it_written_down(
    watched: Watched, answers: tuple[Answer, ...], as_json: bool
):
    """Whatever the error and wherever in it the key stands: body, code, type, reason phrase, request id."""
    watched.provider.answers += answers
    done = watched.run("-p", "hello", *(["--json"] if as_json else []))

    assert done.returncode == 1, done.stdout
    assert watched.provider.bodies
    assert watched.found(KEY) == []


def test_what_a_tool_was_allowed_to_read_is_in_the_conversation_and_nowhere_else(watched: Watched):
    """
    The model asks for `.env` and is given it: so it stands in the session file and in what `--json` prints, which are
    the conversation. Telemetry, logs and crash reports, written right after it, do not have it.
    """
    watched.provider.answers += [calls(read={"path": ".env"}), says("It is a password.")]
    done = watched.run("-p", "what is in .env?", "--json")

    assert done.returncode == 0, done.stderr
    assert ENV_VALUE in watched.provider.bodies[-1]
    (session,) = watched.machine.session_files()
    conversation = {str(session.relative_to(watched.machine.home)), "states.txt", done.stdout}
    assert set(watched.found(ENV_VALUE)) <= conversation
    assert watched.found(KEY) == []


def test_a_tool_that_crashes_tells_the_model_and_the_log_what_went_wrong_but_no_secret(watched: Watched):
    """A crash nobody foresaw, with a key among the arguments that the model had given."""
    arguments = {
        "path": f"https://me:{PASSWORD}@host/?api_key={PASSWORD}",
        "headers": f"Authorization: Bearer {PASSWORD}",
    }
    watched.provider.answers += [calls(ls=arguments), says("It failed.")]
    done = watched.run("-p", "list", WATCHED_CRASH="1")

    assert done.returncode == 0, done.stderr
    home = watched.machine.home
    assert "crashed with" in watched.machine.session_files()[0].read_text()
    for name in ("host.log", "telemetry.txt"):
        assert PASSWORD not in (home / name).read_text(), name
    assert PASSWORD not in done.stderr
    assert watched.found(KEY) == []


def test_a_checkpoint_of_a_secret_file_is_for_its_owner_alone(watched: Watched):
    """
    A file that a tool changes is kept so that `rewind` can bring it back, `.env` too: the copy lies beside the session
    in folders of mode 0700, as a file of mode 0600, and the checkpoint's own record holds only its hash.
    """
    edit = {"path": ".env", "old_text": "API_PASSWORD", "new_text": "NEW_NAME"}
    watched.provider.answers += [calls(edit=edit), says("Renamed.")]
    done = watched.run("-p", "rename the variable", "--json")

    assert done.returncode == 0, done.stderr
    assert "NEW_NAME" in (watched.machine.project / ".env").read_text()
    (session,) = watched.machine.session_files()
    (copy,) = session.with_suffix("").rglob("blobs/*/*")
    assert ENV_VALUE in copy.read_text()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o700 for each in list(copy.parents)[:4])
    name = str(copy.relative_to(watched.machine.home))
    allowed = {name, str(session.relative_to(watched.machine.home)), "states.txt", done.stdout}
    assert set(watched.found(ENV_VALUE)) <= allowed


def test_a_host_that_others_talk_to_and_look_into_shows_no_secret(watched: Watched):
    """
    Over RPC, while a command runs: neither a response nor an event, nor what `tree`, `doctor`, `auth`, `models`,
    `config`, `sessions`, `metrics` and `report` print or pack, holds a key or a password.
    """
    machine, home = watched.machine, watched.machine.home
    machine.extra_env = {"GROQ_API_KEY": KEY, "DATABASE_PASSWORD": PASSWORD, "TMPDIR": str(home / "tmp")}
    (home / "tmp").mkdir()
    watched.provider.answers += [calls(**ATTEMPTS), refuses(400), calls(bash={"command": "env; sleep 30"})]
    client = RpcClient(machine, *watched.address(), "--permission-mode", "full", model=MODEL[1])
    try:
        client.run("find secrets")
        client.ask("bash", command="env; cat /proc/$PPID/environ")
        client.ask("prompt", message="again")
        client.event("tool_execution_start")
        for command in ("get_state", "get_settings", "get_messages", "get_available_models", "get_mcp", "get_tools"):
            client.ask(command)
        for arguments in (
            ("tree", "--json"), ("doctor", "--json"), ("auth",), ("models", "list"), ("config", "show"), ("metrics",),
            ("sessions", "list"), ("report", "--output", str(home / "report.zip")), ("mcp", "list"),
        ):  # fmt: skip
            done = machine.run(*arguments)
            watched.outputs += [done.stdout, done.stderr]
    finally:
        client.kill()
    watched.outputs.append(json.dumps(client.seen))
    with zipfile.ZipFile(home / "report.zip") as report:
        watched.outputs += [report.read(name).decode(errors="replace") for name in report.namelist()]

    assert sum(map(len, watched.outputs)) > 20_000
    for secret in (KEY, PASSWORD, ENV_VALUE):
        assert watched.found(secret) == [], secret


def test_an_address_is_shown_without_the_password_and_the_key_in_it(machine: Machine):
    """Lists of models, the protocol's answers, the doctor and complaints name a server as far as that is no secret."""
    address = f"http://me:{PASSWORD}@127.0.0.1:9/v1?key={KEY}"
    models = machine.home / ".config" / "lemon" / "models.json"
    models.parent.mkdir(parents=True)
    one = {"baseUrl": address, "api": "openai-completions", "apiKey": "x", "models": [{"id": "m"}]}
    models.write_text(json.dumps({"providers": {"mine": one}}))
    (models.parent / "settings.json").write_text(json.dumps({"baseUrl": address}))
    machine.extra_env["LEMON_MODEL"] = "mine/m"
    commands = (["models", "list", "--json"], ["doctor", "--json"], ["config", "show"], ["config", "show", "--json"])
    said = [machine.run(*command) for command in commands]
    said.append(machine.run("--base-url", address, "-p", "hello"))
    client = RpcClient(machine, model="mine/m")
    try:
        client.ask("get_state")
        client.ask("get_available_models")
        client.ask("get_settings")
        assert client.finish() == (0, "")
    finally:
        client.kill()

    whole = json.dumps(client.seen) + "".join(done.stdout + done.stderr for done in said)
    assert "127.0.0.1:9/v1" in whole
    assert PASSWORD not in whole
    assert KEY not in whole
