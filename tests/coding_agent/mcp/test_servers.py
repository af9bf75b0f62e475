"""Real servers as supervised children: their tools, their failures, their end."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from coding_agent import client
from coding_agent.errors import McpServerUnavailable
from coding_agent.mcp.config_files import Configured
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.mcp_server import McpServer
from coding_agent.mcp.mcp_toolbox import close_toolbox
from coding_agent.mcp.schemas import description, parameters
from coding_agent.mcp.session_servers import mcp_status, reconnect_servers, with_mcp
from coding_agent.mcp.stdio_transport import LINE_BYTES_MAX
from coding_agent.permissions.gate import PermissionGate
from coding_agent.permissions.policy import Policy
from coding_agent.session_supervisor import start_session, stop_session
from lemon_agent import AbortSignal, MessageEnd, ToolError
from lemon_ai import ImageContent, ToolResultMessage, get_text
from lemon_ai.testing import Call, ScriptedModel
from lemon_otp import alive, exit_signal, monitor, receive, self_pid, spawn, telemetry, tree, whereis
from tests.coding_agent.mcp.support import (
    DEMO,
    LIGHT,
    Toolbox,
    entry,
    free_port,
    light,
    listens,
    running,
    script,
    text_of,
)
from tests.coding_agent.tools.support import alive as process_alive
from tests.coding_agent.tools.support import until as until_outside

pytestmark = pytest.mark.xdist_group("mcp")


@pytest.fixture
def folder(host, tmp_path) -> Path:
    return tmp_path


def marked(folder: Path) -> dict:
    return {"env": {"FOLDER": str(folder)}}


async def until(condition) -> None:
    """Wait for something that another program does."""
    await until_outside(condition, "what the test waits for", timeout_s=20.0)


# Over stdio.


async def test_a_server_is_a_child_of_the_tree_and_its_tools_are_ours(folder):
    """The library's own server, as a program: listed, described, called."""
    box = await Toolbox.open(entry(), folder=folder)

    add = box.tools["mcp__demo__add"]
    assert add.description == "Add two numbers."
    assert add.parameters["required"] == ["a", "b"]
    result = await box.call("mcp__demo__add", a=2, b=3)
    assert text_of(result) == "5"
    assert result.trust == "untrusted"
    status = await box.status("demo")
    assert (status.state, status.error) == ("ready", None)
    assert [resource.uri for resource in status.offer.resources] == ["demo://readme"]
    assert [prompt.name for prompt in status.offer.prompts] == ["greet"]
    supervisor = next(node for node in flat(tree()) if node.id == "mcp_supervisor")
    assert [child.id for child in supervisor.children] == [box.name, "mcp_server[demo]"]
    assert [child.id for child in supervisor.children[1].children] == ["connection"]


def flat(nodes):
    for node in nodes:
        yield node
        yield from flat(node.children)


async def test_a_picture_is_one_for_the_model(folder):
    """As an image block of its own kind."""
    box = await Toolbox.open(entry(), folder=folder)

    (image,) = (await box.call("mcp__demo__picture")).content

    assert isinstance(image, ImageContent)
    assert image.mime_type == "image/png"


async def test_a_server_gets_a_minimal_environment_and_what_its_entry_says(folder, monkeypatch):
    """None of our keys, nor anything else of ours that it does not need."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("SOMETHING_ELSE", "x")
    box = await Toolbox.open(entry(**marked(folder)), folder=folder)

    names = (await box.text("mcp__demo__environment")).split()

    assert {"PATH", "FOLDER"} <= set(names)
    assert not {"ANTHROPIC_API_KEY", "SOMETHING_ELSE"} & set(names)


@pytest.mark.requirement("BR-184")
async def test_a_flood_is_cut_and_what_is_hidden_is_shown(folder):
    """Ten megabytes become fifty kilobytes; invisible characters become escapes, terminal codes go."""
    box = await Toolbox.open(entry(), folder=folder)

    result = await box.call("mcp__demo__flood", size=10_000_000)

    text = text_of(result)
    assert len(text) < 60_000
    assert result.details["truncated"]
    assert "\x1b" not in text
    assert "\u200b" not in text
    assert text.startswith("\\u{200b}start") or "left out" in text


async def test_a_tools_own_error_is_an_error_result_in_untrusted_words(folder):
    """The model reads what the tool said."""
    box = await Toolbox.open(entry(), folder=folder)

    result = await box.call("mcp__demo__fails")

    assert result.error_info.type == "mcp_tool_error"
    assert "no such thing" in text_of(result)
    assert result.trust == "untrusted"


async def test_progress_is_reported_and_an_abort_reaches_the_server(folder):
    """The server's own task is cancelled, by the notification of the protocol."""
    box = await Toolbox.open(entry(), folder=folder)
    note, abort, seen = folder / "note", AbortSignal(), []

    def report(update) -> None:
        seen.append(text_of(update))
        abort.abort("enough")

    with pytest.raises(ToolError, match="aborted"):
        await box.call("mcp__demo__slow", abort, report, note=str(note))

    assert seen == ["1/2 half"]
    await until(note.exists)
    assert (await box.status("demo")).state == "ready"
    assert await box.text("mcp__demo__add", a=1, b=1) == "2"


async def test_a_call_that_takes_too_long_ends(folder):
    """The bound is the entry's own; a server that still answers is kept."""
    box = await Toolbox.open(entry(timeout=0.5), folder=folder)

    with pytest.raises(ToolError, match=r"did not answer within 0\.5 seconds"):
        await box.call("mcp__demo__slow", note=str(folder / "note"))

    assert text_of(await box.call("mcp__demo__environment"))
    assert (await box.status("demo")).state == "ready"


async def test_a_server_that_hangs_is_found_out_and_started_again(folder, monkeypatch):
    """After a call that got no answer it is asked for its tools; silence then means that it is lost."""
    monkeypatch.setattr("coding_agent.mcp.mcp_server.delay_s", lambda failures: 0.0)
    monkeypatch.setattr("coding_agent.mcp.connection.LIST_S", 0.5)
    box = await Toolbox.open(light(timeout=0.3, **marked(folder)), folder=folder)
    first = (await box.status("light")).os_pid
    os.kill(first, signal.SIGSTOP)

    with pytest.raises(ToolError, match="did not answer"):
        await box.call("mcp__light__echo", a=1)

    await until(lambda: not process_alive(first))
    assert await McpServer.client(box.name.replace("mcp_toolbox[", "mcp_server[").replace("]", "/light]"), timeout_s=20)
    assert len(running(folder)) == 1


async def test_calls_run_side_by_side(folder):
    """Each gets its own answer."""
    box = await Toolbox.open(light(), folder=folder)

    said = await asyncio.gather(*(box.text("mcp__light__echo", a=number) for number in range(20)))

    assert said == [f'{{"a": {number}}}' for number in range(20)]


# What goes wrong.


async def test_one_bad_server_leaves_the_others_alone(folder):
    """It is there with its reason; what cannot be started, what ends at once, and what nobody serves."""
    box = await Toolbox.open(
        light(),
        script("ends", "import sys; sys.exit('no way')"),
        ServerEntry("missing", "stdio", command="/no/such/program"),
        ServerEntry("web", "http", url="http://127.0.0.1:9/mcp"),
        folder=folder,
    )

    assert await box.text("mcp__light__echo") == "{}"
    assert "no way" in (await box.status("ends")).error
    assert "could not be started" in (await box.status("missing")).error
    assert (await box.status("web")).state in ("waiting", "failed")


async def test_a_server_that_never_answers_is_given_up_in_time(folder):
    """The session begins without it; the bound is the connection's."""
    box = await Toolbox.open(script("mute", "import time; time.sleep(1000)"), folder=folder, connect_s=0.3)

    assert box.tools == {}
    assert "did not answer within 0.3 seconds" in (await box.status("mute")).error


async def test_a_session_does_not_wait_for_a_late_server(folder):
    """After `wait_s` there are the tools of those who were in time."""
    box = await Toolbox.open(script("mute", "import time; time.sleep(1000)"), folder=folder, wait_s=0.1)

    assert box.tools == {}
    assert (await box.status("mute")).state == "connecting"


@pytest.mark.requirement("BR-161")
async def test_five_reconnects_leave_at_most_one_process(folder, monkeypatch):
    """A server that refuses its handshake and does not go by itself: each attempt ends the one before first."""
    monkeypatch.setattr("coding_agent.mcp.mcp_server.delay_s", lambda failures: 0.0 if failures < 6 else None)
    started, most = folder / "started", []
    code = f"""
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({str(started)!r}, "a").write(str(os.getpid()) + "\\n")
asked = json.loads(sys.stdin.readline())
error = {{"code": -32603, "message": "not today"}}
print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "error": error}}))
time.sleep(1000)
"""
    telemetry.attach(
        "count", ("coding_agent", "mcp_server", "changed"), lambda *_event: most.append(len(running(folder))), None
    )

    box = await Toolbox.open(script("bad", code, **marked(folder)), folder=folder)
    await until_async(box, "bad", "failed")

    assert "not today" in (await box.status("bad")).error
    assert len(started.read_text().split()) == 6
    assert max(most) <= 1
    assert running(folder) == []


async def until_async(box: Toolbox, server: str, state: str) -> None:
    for _round in range(600):
        if (await box.status(server)).state == state:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{server} never became {state}")


async def test_a_server_that_crashes_comes_back(folder, monkeypatch):
    """The call that crashed it fails; the next finds a new program under the same tool."""
    monkeypatch.setattr("coding_agent.mcp.mcp_server.delay_s", lambda failures: 0.0)
    box = await Toolbox.open(entry(), folder=folder)
    first = (await box.status("demo")).os_pid

    crashed = await box.call("mcp__demo__crash")

    assert crashed.error_info is not None
    assert "Connection closed" in text_of(crashed)
    assert await box.text("mcp__demo__add", a=2, b=2) == "4"
    assert (await box.status("demo")).os_pid not in (None, first)
    assert not process_alive(first)


async def test_a_killed_server_process_is_started_again_with_one_program(folder):
    """Killed without a word, its program goes with it and a new one comes."""
    box = await Toolbox.open(light("demo", **marked(folder)), folder=folder)
    name = box.name.replace("mcp_toolbox[", "mcp_server[").replace("]", "/demo]")
    before = whereis(name)
    first = (await box.status("demo")).os_pid

    exit_signal(before, "kill")

    await until(lambda: not process_alive(first) and whereis(name) not in (None, before))
    await McpServer.client(name, timeout_s=20)
    assert await box.text("mcp__demo__echo", a=2) == '{"a": 2}'
    assert len(running(folder)) == 1


@pytest.mark.parametrize("kind", ["line", "lines", "garbage"])
async def test_a_server_that_talks_nonsense_is_ended_or_ignored(folder, kind):
    """A line without an end is cut off; lines that say nothing do no harm."""
    code = {
        "line": f"print('x' * {LINE_BYTES_MAX + 100}, end='', flush=True); import time; time.sleep(100)",
        "lines": "print('banner\\n' * 1000, flush=True); raise SystemExit(1)",
        "garbage": "import os; os.write(1, bytes(range(256)) * 100); raise SystemExit(1)",
    }[kind]

    box = await Toolbox.open(script("odd", code), folder=folder, connect_s=20)

    error = (await box.status("odd")).error
    assert ("a line of more than" if kind == "line" else "ended with code 1") in error


async def test_a_call_to_a_server_that_is_gone_says_so(folder, monkeypatch):
    """It waits for nothing when the server was given up."""
    monkeypatch.setattr("coding_agent.mcp.mcp_server.delay_s", lambda failures: None)
    box = await Toolbox.open(entry(), folder=folder)
    await box.call("mcp__demo__crash")
    await until_async(box, "demo", "failed")

    with pytest.raises(ToolError, match="the server demo is not connected: it ended with code 3"):
        await box.call("mcp__demo__add", a=1, b=1)


async def test_a_server_that_was_given_up_can_be_tried_again(host, folder, monkeypatch):
    """By whoever asks; what kept it from answering may be mended by then."""
    monkeypatch.setattr("coding_agent.mcp.mcp_server.delay_s", lambda failures: None)
    there = folder / "there"
    code = f"import os; os.path.exists({str(there)!r}) or exit(1); exec(open({str(LIGHT)!r}).read())"
    options = await with_mcp(await host.options(ScriptedModel()), Configured((script("light", code),)), wait_s=30)
    session = await start_session(options)
    assert (await mcp_status(session))["servers"][0]["state"] == "failed"

    there.touch()
    reconnect_servers(options)

    await until_offered(session, "mcp__light__echo")


async def test_nothing_secret_is_told(folder):
    """Not by errors, telemetry or the tree, though the server prints what it was given."""
    events: list[object] = []
    telemetry.attach("all", ("coding_agent", "mcp_server", "changed"), lambda *event: events.append(event), None)
    code = "import os, sys; sys.exit('my key is ' + os.environ['KEY'])"

    box = await Toolbox.open(script("leaks", code, env={"KEY": "canary-123456"}), folder=folder)

    error = (await box.status("leaks")).error
    assert "my key is ***" in error
    assert "canary" not in repr(events) + repr(tree()) + repr(await box.status("leaks"))


# The end.


@pytest.mark.requirement("BR-162", "BR-118")
async def test_ten_sessions_leave_no_process_nor_that_of_a_wrapper(host, folder):
    """Each has the server, which started something out of its process group; closed, nothing is left of any."""
    for _round in range(10):
        options = await host.options(ScriptedModel())
        options = await with_mcp(options, Configured((light("light", "child", **marked(folder)),)), wait_s=30)
        session = await start_session(options)
        assert len(running(folder)) == 2
        await stop_session(session)
        await until(lambda: running(folder) == [])


async def test_a_toolbox_closes_with_all_it_started(folder):
    """Returned means gone."""
    box = await Toolbox.open(light("light", "child", **marked(folder)), folder=folder)
    assert len(running(folder)) == 2

    await close_toolbox(box.name)

    assert running(folder) == []
    assert whereis(box.name) is None


async def test_servers_without_a_session_end_with_whoever_started_them(folder):
    """A host that fails before its session began leaves nothing."""
    opened: list[str] = []

    async def short_lived() -> None:
        opened.append((await Toolbox.open(light(**marked(folder)), folder=folder)).name)

    monitor(spawn(short_lived))
    await receive(timeout_s=30)

    await until(lambda: whereis(opened[0]) is None and running(folder) == [])


# In a session.


def results(events) -> list[ToolResultMessage]:
    messages = [event.event.message for event in events if isinstance(event.event, MessageEnd)]
    return [message for message in messages if isinstance(message, ToolResultMessage)]


async def test_the_model_of_a_session_calls_a_servers_tool(host, folder):
    """End to end: offered, called, answered as untrusted, stored."""
    model = ScriptedModel([Call("mcp__demo__add", {"a": 20, "b": 22})], "It is 42.")
    options = await with_mcp(await host.options(model), Configured((entry(),)), wait_s=30)
    session = await start_session(options)
    await client.subscribe(session, self_pid())

    events = await host.run(session, "add")

    (result,) = results(events)
    assert (get_text(result), result.trust, result.is_error) == ("42", "untrusted", False)
    assert "mcp__demo__add" in [tool.name for tool in model.requests[0].context.tools]
    status = await mcp_status(session)
    assert [(each["name"], each["state"]) for each in status["servers"]] == [("demo", "ready")]
    assert "add" in status["servers"][0]["tools"]


@pytest.mark.parametrize("server", [entry("demo", "modern"), light("demo")], ids=["listening", "handshake"])
async def test_a_tool_that_a_server_gets_later_reaches_the_session(host, folder, server):
    """The list is asked for again when the server says that it changed; the model is offered what is new."""
    grow = Call("mcp__demo__grow") if str(DEMO) in server.args else Call("mcp__demo__echo", {"grow": True})
    model = ScriptedModel([grow], "Grown.", [Call("mcp__demo__late")], "Late.")
    session = await start_session(await with_mcp(await host.options(model), Configured((server,)), wait_s=30))
    await client.subscribe(session, self_pid())
    await host.run(session, "grow")
    await until_offered(session, "mcp__demo__late")

    (result,) = results(await host.run(session, "again"))

    assert not result.is_error
    assert get_text(result) in ("late", "{}")


async def test_a_late_server_reaches_a_session_that_has_begun(host, folder):
    """Its tools are offered as soon as they are known."""
    options = await with_mcp(await host.options(ScriptedModel()), Configured((light(),)), wait_s=0)
    assert not any(tool.name.startswith("mcp__") for tool in options.tools)

    session = await start_session(options)

    await until_offered(session, "mcp__light__echo")


async def until_offered(session, tool: str) -> None:
    for _round in range(1500):
        if tool in (await client.get_state(session)).active_tools:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{tool} was never offered")


async def test_a_toolbox_that_is_killed_comes_back_for_its_session(host, folder):
    """New servers, the same session: it keeps its tools, gets new ones, and its end is still theirs."""
    model = ScriptedModel([Call("mcp__light__echo", {"grow": True})], "Grown.")
    options = await with_mcp(await host.options(model), Configured((light(**marked(folder)),)), wait_s=30)
    session = await start_session(options)
    await client.subscribe(session, self_pid())
    name = next(iter(pid_names()))
    before = whereis(name)

    exit_signal(before, "kill")

    await until(lambda: whereis(name) not in (None, before))
    assert alive(session)
    assert "mcp__light__echo" in (await client.get_state(session)).active_tools
    (result,) = results(await host.run(session, "grow"))
    assert not result.is_error
    await until_offered(session, "mcp__light__late")
    await stop_session(session)
    await until(lambda: whereis(name) is None and running(folder) == [])


def pid_names() -> list[str]:
    return [node.id for node in flat(tree()) if str(node.id).startswith("mcp_toolbox[")]


# Over HTTP.


@pytest.mark.parametrize(("how", "path", "kind"), [("http", "/mcp", "http"), ("sse", "/sse", "sse")])
async def test_a_server_over_http_on_loopback(host, folder, how, path, kind):
    """A whole turn of a session with the library's server over streamable HTTP, and over SSE."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(DEMO), how, str(port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await until(lambda: listens(port))
        server = ServerEntry("web", kind, url=f"http://127.0.0.1:{port}{path}")
        model = ScriptedModel([Call("mcp__web__add", {"a": 1, "b": 2})], "3")
        session = await start_session(await with_mcp(await host.options(model), Configured((server,)), wait_s=30))
        await client.subscribe(session, self_pid())

        (result,) = results(await host.run(session, "add"))

        assert (get_text(result), result.trust) == ("3", "untrusted")
        await stop_session(session)
    finally:
        process.kill()
        await process.wait()


async def test_a_web_server_that_went_away_is_found_out_by_a_call(folder, monkeypatch):
    """The call fails, and the server is no longer called ready."""
    monkeypatch.setattr("coding_agent.mcp.mcp_server.delay_s", lambda failures: None)
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(DEMO), "http", str(port), stderr=asyncio.subprocess.DEVNULL
    )
    await until(lambda: listens(port))
    server = ServerEntry("web", "http", url=f"http://127.0.0.1:{port}/mcp")
    box = await Toolbox.open(server, folder=folder)
    process.kill()
    await process.wait()

    with suppress(ToolError):  # when it was noticed before the call
        result = await box.call("mcp__web__add", a=1, b=1)
        assert result.error_info is not None

    await until_async(box, "web", "failed")
    with pytest.raises(ToolError, match="not connected"):
        await box.call("mcp__web__add", a=1, b=1)


def test_the_error_names_server_and_reason():
    """What a host shows."""
    assert str(McpServerUnavailable("a", "gone")) == "the server a is not connected: gone"


async def test_a_killed_connection_is_made_again(folder, monkeypatch):
    """Its server process notices, and the program with it is a new one."""
    monkeypatch.setattr("coding_agent.mcp.mcp_server.delay_s", lambda failures: 0.0)
    box = await Toolbox.open(light(**marked(folder)), folder=folder)
    server = next(node for node in flat(tree()) if node.id == "mcp_server[light]")
    first = (await box.status("light")).os_pid

    exit_signal(server.children[0].pid, "kill")

    await until(lambda: not process_alive(first))
    assert await box.text("mcp__light__echo", a=1) == '{"a": 1}'
    assert len(running(folder)) == 1


async def test_a_persons_own_file_lets_a_tool_run_unasked(host, folder):
    """`alwaysAllow` is a rule of the session's gate; the server's other tools are asked about."""
    gate = PermissionGate(Policy("ask"))
    model = ScriptedModel([Call("mcp__light__echo", {"a": 1})], "Done.", [Call("mcp__other__echo")], "Refused.")
    servers = (light("light", alwaysAllow=["echo"]), light("other"))
    options = await with_mcp(await host.options(model, companions=(gate.join,)), Configured(servers), wait_s=30)
    session = await start_session(options)
    await client.subscribe(session, self_pid())

    (allowed,) = results(await host.run(session, "one"))
    (refused,) = results(await host.run(session, "two"))

    assert get_text(allowed) == '{"a": 1}'
    assert refused.is_error
    assert "nobody is there to allow it" in get_text(refused)


async def test_a_hostile_description_is_bounded_and_refers_to_nothing_outside():
    """What a model and a checker of arguments are given."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "http://169.254.169.254/x"},
            "b": {"$ref": "#/$defs/b"},
            "$ref": {"type": "string"},
        },
        "$defs": {"b": {"type": "string"}},
    }

    assert parameters(schema)["properties"] == {"a": {}, "b": {"$ref": "#/$defs/b"}, "$ref": {"type": "string"}}
    assert parameters({"type": "object", "x": "y" * 100_000}) == {"type": "object", "properties": {}}
    assert parameters(["no"]) == {"type": "object", "properties": {}}
    deep: dict = {}
    for _level in range(1000):
        deep = {"properties": {"x": deep}}
    assert parameters(deep) == {"type": "object", "properties": {}}
    assert len(description("x" * 100_000)) <= 4_000
    assert "\\u{e0041}" in description("tag \U000e0041")
