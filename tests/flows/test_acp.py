"""The Agent Client Protocol, end to end: the library's own client, real files, real terminals, a real child process."""

import asyncio
import json
import sys
from pathlib import Path

import acp
import pytest
from acp import image_block, resource_link_block, schema, text_block

from tests.coding_agent.mcp.support import LIGHT
from tests.coding_agent.tools.support import started
from tests.flows.acp_clients import ALL, NOTHING, Acp, connected
from tests.flows.hosts import Machine

pytestmark = pytest.mark.xdist_group("acp")


def kinds(client: Acp) -> list[str]:
    return [update["sessionUpdate"] for update in client.checker.updates()]


def status_of(client: Acp, call_id: str) -> list[str]:
    return [
        update["status"]
        for update in client.checker.updates()
        if update.get("toolCallId") == call_id and "status" in update
    ]


async def test_a_whole_turn_with_permissions_files_and_a_terminal(machine: Machine):
    """
    The model reads an unsaved buffer, edits it, writes another file and runs a command: the person is asked, the editor
    reads and writes, the command runs in the editor's terminal, every call is announced and ends once.
    """
    notes = machine.project / "notes.txt"
    notes.write_text("saved\n")
    turn = "\n".join(
        [
            '@tool read {"path": "notes.txt"}',
            "@turn",
            '@tool edit {"path": "notes.txt", "old_text": "unsaved", "new_text": "edited"}',
            "@turn",
            '@tool write {"path": "sub/new.txt", "content": "fresh\\n"}',
            "@turn",
            '@tool bash {"command": "cat sub/new.txt; exit 3"}',
            "@turn",
            "@text all done",
        ]
    )
    async with connected(machine) as client:
        editor = client.editor
        await client.open(machine.project)
        editor.buffers[str(notes)] = "unsaved\n"

        assert await client.prompt(turn) == "end_turn"

        assert editor.text() == "all done"
        assert editor.reads.count(str(notes)) == 2
        assert notes.read_text() == "edited\n"
        assert (machine.project / "sub" / "new.txt").read_text() == "fresh\n"
        assert editor.steps == ["create", "output", "release"]
        assert [call.title for call, _options in editor.asked] == [
            "edit: notes.txt",
            "write: sub/new.txt",
            "bash: cat sub/new.txt; exit 3",
        ]
        assert [option.kind for option in editor.asked[0][1]] == ["allow_once", "allow_always", "reject_once"]
        calls = client.checker.updates("tool_call")
        assert [call["kind"] for call in calls] == ["read", "edit", "edit", "execute"]
        for call in calls:
            assert status_of(client, call["toolCallId"])[0] == "pending"
            assert status_of(client, call["toolCallId"])[-2:] == ["in_progress", "completed"]
        ends = [update for update in client.checker.updates("tool_call_update") if update.get("status") == "completed"]
        assert "unsaved" in ends[0]["content"][0]["content"]["text"]
        assert ends[1]["content"] == [{"type": "diff", "path": str(notes), "oldText": "unsaved", "newText": "edited"}]
        assert ends[2]["content"][0]["newText"] == "fresh\n"
        assert ends[3]["content"] == [{"type": "terminal", "terminalId": "t0"}]
    results = [m for m in machine.messages() if m["role"] == "toolResult"]
    assert "1: unsaved" in results[0]["content"][0]["text"]
    assert "fresh\n\nCommand exited with code 3" in results[3]["content"][0]["text"]


async def test_a_client_that_can_do_nothing_is_asked_nothing_but_permission(machine: Machine):
    """Files and commands are done here; what was changed is shown as a change, the command's output as text."""
    turn = (
        '@tool write {"path": "a.txt", "content": "one\\n"}\n@turn\n@tool bash {"command": "echo two; cat a.txt"}\n'
        "@turn\n@text done"
    )
    async with connected(machine) as client:
        await client.open(machine.project, NOTHING)

        assert await client.prompt(turn) == "end_turn"

        assert (machine.project / "a.txt").read_text() == "one\n"
        methods = {message["method"] for message in client.checker.messages if "method" in message}
        assert methods == {"session/update", "session/request_permission"}
        shown = json.dumps(client.checker.updates("tool_call_update"))
        assert "two\\none" in shown


async def test_no_is_no_and_always_holds_for_the_next_time(machine: Machine):
    """A refused call does not run and the model is told; what was always allowed is not asked again."""
    no = '@tool write {"path": "no.txt", "content": "x"}\n@turn\n@text ok'
    async with connected(machine) as client:
        await client.open(machine.project, NOTHING)
        client.editor.answers = ["reject_once"]

        await client.prompt(no)
        assert not (machine.project / "no.txt").exists()
        assert "failed" in json.dumps(client.checker.updates("tool_call_update")[-1])

        client.editor.answers = ["allow_always"]
        await client.prompt('@tool bash {"command": "touch yes"}\n@turn\n@text ok')
        await client.prompt('@tool bash {"command": "touch yes2"}\n@turn\n@text ok')
        assert (machine.project / "yes2").exists()
        assert len(client.editor.asked) == 2


@pytest.mark.requirement("BR-160", "BR-157", "BR-158")
async def test_cancel_in_the_middle_of_a_command_then_a_prompt_at_once(machine: Machine):
    """
    The prompt answers `cancelled` after its updates, the terminal's program is gone and released, and the next prompt,
    sent at once, runs with one answer of its own.
    """
    async with connected(machine, "--permission-mode", "full") as client:
        editor = client.editor
        await client.open(machine.project)
        slow = started(client.prompt('@tool bash {"command": "echo begun; sleep 100"}\n@turn\n@text no'))
        await editor.until(lambda: "create" in editor.steps)

        await client.connection.cancel(session_id=client.session_id)
        after = await client.prompt("again")

        assert await slow == "cancelled"
        assert after == "end_turn"
        assert editor.text() == "again"
        assert editor.steps == ["create", "kill", "output", "release"]
        (call,) = client.checker.updates("tool_call")
        ends = [status for status in status_of(client, call["toolCallId"]) if status in ("completed", "failed")]
        assert len(ends) == 1
        stops = [m["result"]["stopReason"] for m in client.checker.messages if "stopReason" in m.get("result", {})]
        assert stops == ["cancelled", "end_turn"]
        first = next(i for i, m in enumerate(client.checker.messages) if "stopReason" in m.get("result", {}))
        later = client.checker.messages[first + 1 :]
        assert call["toolCallId"] not in json.dumps(later)


@pytest.mark.requirement("BR-159")
async def test_an_open_permission_question_is_cancelled_with_the_prompt(machine: Machine):
    """The client answers it `cancelled`; the call does not run, and the prompt ends."""
    async with connected(machine) as client:
        editor = client.editor
        await client.open(machine.project, NOTHING)
        editor.answers = [None]
        asked = started(client.prompt('@tool bash {"command": "touch no"}\n@turn\n@text no'))
        await asyncio.wait_for(editor.waiting.wait(), 20)

        await client.connection.cancel(session_id=client.session_id)
        editor.cancelled.set()

        assert await asked == "cancelled"
        assert not (machine.project / "no").exists()
        assert await client.prompt("on") == "end_turn"


async def test_a_second_process_loads_the_session_with_its_whole_history(machine: Machine):
    """The history comes as updates before the answer, then the conversation goes on; `resume` replays nothing."""
    turn = '@think hm\n@tool bash {"command": "echo out"}\n@turn\n@text first answer'
    async with connected(machine, "--permission-mode", "full") as client:
        await client.open(machine.project)
        await client.prompt(turn)
        session_id = client.session_id
    async with connected(machine) as client:
        await client.connection.initialize(protocol_version=1, client_capabilities=ALL)
        listed = await client.connection.list_sessions(cwd=str(machine.project))
        assert [one.session_id for one in listed.sessions] == [session_id]
        client.session_id = session_id

        await client.connection.load_session(cwd=str(machine.project), session_id=session_id, mcp_servers=[])

        shown = kinds(client)
        assert shown[:2] == ["user_message_chunk", "agent_thought_chunk"]
        assert {"tool_call", "tool_call_update", "agent_message_chunk"} <= set(shown)
        assert client.editor.text() == "first answer"
        ends = client.checker.updates("tool_call_update")
        assert "out" in json.dumps(ends[-1]["content"])
        answer = next(i for i, m in enumerate(client.checker.messages) if "modes" in (m.get("result") or {}))
        assert all("method" in m or "id" in m for m in client.checker.messages[:answer])
        assert "agent_message_chunk" not in json.dumps(client.checker.messages[answer:])

        assert await client.prompt("second") == "end_turn"
        assert client.editor.text() == "first answersecond"
    async with connected(machine) as client:
        await client.connection.initialize(protocol_version=1)
        await client.connection.resume_session(cwd=str(machine.project), session_id=session_id, mcp_servers=[])
        assert client.editor.text() == ""
        client.session_id = session_id
        assert await client.prompt("third") == "end_turn"
    said = [m["content"] for m in machine.messages() if m["role"] == "user"]
    assert len(said) == 3


async def test_modes_and_options_are_the_sessions_own(machine: Machine):
    """Set, they hold for the next call and the client hears of it; another session keeps its own."""
    async with connected(machine) as client:
        session = await client.open(machine.project, NOTHING)
        assert session.modes.current_mode_id == "ask"
        assert [option.id for option in session.config_options] == ["mode", "model", "thinking"]
        other = await client.connection.new_session(cwd=str(machine.project), mcp_servers=[])

        await client.connection.set_session_mode(session_id=client.session_id, mode_id="full")
        await client.prompt('@tool bash {"command": "touch full"}\n@turn\n@text ok')
        assert client.editor.asked == []
        await client.connection.set_config_option(session_id=client.session_id, config_id="mode", value="plan")
        await client.prompt('@tool bash {"command": "touch plan"}\n@turn\n@text ok')
        assert not (machine.project / "plan").exists()
        assert {"current_mode_update", "config_option_update"} <= set(kinds(client))

        client.session_id = other.session_id
        client.editor.answers = ["reject_once"]
        await client.prompt('@tool bash {"command": "touch other"}\n@turn\n@text ok')
        assert len(client.editor.asked) == 1
        with pytest.raises(acp.RequestError) as refused:
            await client.connection.set_session_mode(session_id=client.session_id, mode_id="none")
        assert refused.value.code == -32602
        for level in ("no-such-level", "high"):  # this model does not think
            with pytest.raises(acp.RequestError) as refused:
                await client.connection.set_config_option(
                    session_id=client.session_id, config_id="thinking", value=level
                )
            assert refused.value.code == -32602


async def test_a_refusal_ends_a_prompt_and_a_missing_key_is_asked_for(machine: Machine):
    """The model declines: `refusal`, and no error. A key is missing, or refused: the code for it, which names a way."""
    async with connected(machine) as client:
        await client.open(machine.project, NOTHING)
        assert await client.prompt("@error refused not that") == "refusal"
        assert await client.prompt("something else") == "end_turn"
        with pytest.raises(acp.RequestError) as refused:
            await client.prompt("@error auth no such key")
        assert refused.value.code == -32000
        await client.connection.set_config_option(
            session_id=client.session_id, config_id="model", value="anthropic/claude-sonnet-4-5"
        )
        with pytest.raises(acp.RequestError, match="login anthropic") as refused:
            await client.prompt("hello")
        assert refused.value.code == -32000


async def test_sessions_run_side_by_side_and_each_takes_one_prompt_at_a_time(machine: Machine):
    """One works while another answers; a second prompt to a busy one is refused."""
    async with connected(machine, "--permission-mode", "full") as client:
        await client.open(machine.project, NOTHING)
        busy = client.session_id
        wait = "while [ ! -e go ]; do sleep 0.02; done"
        slow = started(client.prompt(f'@tool bash {{"command": "{wait}"}}\n@turn\n@text slow done'))
        await client.editor.until(lambda: client.checker.updates("tool_call"))
        other = await client.connection.new_session(cwd=str(machine.project), mcp_servers=[])

        with pytest.raises(acp.RequestError) as refused:
            await client.prompt("too early")
        client.session_id = other.session_id
        assert await client.prompt("quick") == "end_turn"
        (machine.project / "go").touch()

        assert refused.value.code == -32600
        assert await slow == "end_turn"
        assert busy != other.session_id


async def test_words_given_while_it_works_reach_the_model(machine: Machine):
    """`_lemon/steer` is heard before the next call of the model, and shown as the user's words."""
    async with connected(machine, "--permission-mode", "full") as client:
        await client.open(machine.project, NOTHING)
        wait = "while [ ! -e go ]; do sleep 0.02; done"
        slow = started(client.prompt(f'@tool bash {{"command": "{wait}"}}\n@turn\n@text done'))
        await client.editor.until(lambda: client.checker.updates("tool_call"))
        words = {"sessionId": client.session_id, "prompt": [{"type": "text", "text": "look left"}]}

        await client.connection.ext_method("lemon/steer", words)
        (machine.project / "go").touch()

        assert await slow == "end_turn"
        assert client.checker.updates("user_message_chunk")[0]["content"]["text"] == "look left"
    assert "look left" in json.dumps([m["content"] for m in machine.messages() if m["role"] == "user"])


async def test_a_plan_a_picture_a_link_and_what_it_used(machine: Machine):
    """The list of things to do is a plan; links and pictures of a prompt reach the model; usage is told."""
    todos = [
        {"id": "1", "content": "look", "status": "completed", "priority": "high"},
        {"id": "2", "content": "wait", "status": "blocked", "priority": "low"},
    ]
    script = f"@tool todo {json.dumps({'action': 'write', 'todos': todos})}\n@turn\n@text planned"
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    async with connected(machine) as client:
        await client.open(machine.project)
        blocks = [
            text_block(script),
            resource_link_block("notes", "file:///tmp/a%20b.txt"),
            image_block(pixel, "image/png"),
        ]
        answer = await client.connection.prompt(session_id=client.session_id, prompt=blocks)

        assert answer.stop_reason == "end_turn"
        assert client.checker.updates("plan")[0]["entries"] == [
            {"content": "look", "priority": "high", "status": "completed"},
            {"content": "wait", "priority": "low", "status": "pending"},
        ]
        assert client.checker.updates("usage_update")[-1]["size"] > 0
    content = next(m["content"] for m in machine.messages() if m["role"] == "user")
    assert any(block["type"] == "image" for block in content)
    assert "@/tmp/a b.txt" in json.dumps(content)


async def test_servers_of_a_session_are_started_for_it_and_end_with_it(machine: Machine):
    """An MCP server that the editor names: its tool is called, asked for permission; closed, its process is gone."""
    pid_file = machine.project / "pid"
    code = f"import os; open({str(pid_file)!r}, 'w').write(str(os.getpid())); exec(open({str(LIGHT)!r}).read())"
    server = schema.McpServerStdio(name="light", command=sys.executable, args=["-I", "-S", "-c", code], env=[])
    async with connected(machine) as client:
        await client.open(machine.project, mcp_servers=[server])
        await client.prompt("/mcp__light__none")  # what names a server waits for it

        assert await client.prompt('@tool mcp__light__echo {"a": 1}\n@turn\n@text ok') == "end_turn"

        assert [call.title for call, _options in client.editor.asked] == ["mcp__light__echo"]
        assert '{\\"a\\": 1}' in json.dumps(client.checker.updates("tool_call_update")[-1])
        await client.connection.close_session(session_id=client.session_id)
        assert not Path("/proc", pid_file.read_text()).exists()
        with pytest.raises(acp.RequestError) as refused:
            await client.prompt("anybody?")
        assert refused.value.code == -32002


@pytest.mark.requirement("BR-155")
async def test_a_megabyte_goes_through_both_ways(machine: Machine):
    """Lines far beyond 64 KiB are taken: a prompt, a buffer that is read, a file that is written."""
    big = "line\\n" * 200_000
    async with connected(machine, "--permission-mode", "edit") as client:
        await client.open(machine.project)
        client.editor.buffers[str(machine.project / "in.txt")] = big.replace("\\n", "\n")

        write = f'@tool write {{"path": "out.txt", "content": "{big}"}}'
        text = f'{write}\n@turn\n@tool read {{"path": "in.txt"}}\n@turn\n@text ok'
        assert await client.prompt(text) == "end_turn"

        assert (machine.project / "out.txt").stat().st_size == 1_000_000
        assert "lines 1-2000 of 20000" in json.dumps(client.checker.updates("tool_call_update")[-1])


class Raw:
    """A client in plain lines, for what the library's would never send."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def send(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        for line in lines:
            self.process.stdin.write(line)
        await self.process.stdin.drain()

    async def ask(self, number: int, method: str, **params: object) -> dict:
        await self.send(
            json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
        )
        return await self.until(lambda message: message.get("id") == number and "method" not in message)

    async def until(self, fits) -> dict:
        assert self.process.stdout is not None
        async with asyncio.timeout(30):
            while True:
                message = json.loads(await self.process.stdout.readline())
                if fits(message):
                    return message


@pytest.fixture
async def raw(machine: Machine):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "coding_agent", "acp", "--model", "scripted/echo", "--permission-mode", "full",
        env=machine.env(), cwd=machine.project, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )  # fmt: skip
    yield Raw(process)
    if process.returncode is None:
        process.kill()
    await process.wait()


@pytest.mark.requirement("BR-155")
async def test_bad_input_is_answered_with_the_protocols_codes(raw: Raw, machine: Machine):
    """Half a line, no JSON, no such method, parameters that do not fit, no such session, a line that is too long."""

    def code(message: dict) -> int:
        return message["error"]["code"]

    await raw.send(b"{nonsense\n", b"\xff\xfe\n", b"\n", b"[]\n", b'{"jsonrpc": "2.0", "id": 7}\n')
    for expected in (-32700, -32700, -32600, -32600):
        assert code(await raw.until(lambda message: "error" in message)) == expected
    assert code(await raw.ask(1, "no/such/method")) == -32601
    assert code(await raw.ask(2, "_no/such/method")) == -32601
    assert code(await raw.ask(3, "session/prompt", sessionId=5)) == -32602
    assert code(await raw.ask(4, "session/prompt", sessionId="none", prompt=[])) == -32002
    assert code(await raw.ask(5, "session/new", cwd="relative", mcpServers=[])) == -32602
    for folder in ("/no/such/folder", "/no\0folder"):
        assert code(await raw.ask(6, "session/new", cwd=folder, mcpServers=[])) == -32602
    assert code(await raw.ask(7, "session/load", cwd=str(machine.project), sessionId="none", mcpServers=[])) == -32002
    await raw.send(b"x" * (64 * 1024 * 1024 + 10), b"\n")
    assert code(await raw.until(lambda message: "error" in message)) == -32700
    assert (await raw.ask(8, "initialize", protocolVersion=99))["result"]["protocolVersion"] == 1


async def test_any_request_can_be_taken_back(raw: Raw, machine: Machine):
    """One that opens a session, a prompt that waits behind a cancelled one: each has its answer, the agent lives."""

    def request(number: str, method: str, **params: object) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"

    def note(method: str, **params: object) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n"

    new = {"cwd": str(machine.project), "mcpServers": []}
    session = (await raw.ask(1, "session/new", **new))["result"]["sessionId"]
    await raw.send(request("n", "session/new", **new), note("$/cancel_request", requestId="n"))
    assert (await raw.until(lambda message: message.get("id") == "n"))["error"]["code"] == -32800

    sleeping, words = ([{"type": "text", "text": text}] for text in ('@tool bash {"command": "sleep 100"}', "words"))
    await raw.send(request("p", "session/prompt", sessionId=session, prompt=sleeping))
    await raw.until(lambda message: "in_progress" in json.dumps(message))
    await raw.send(
        note("session/cancel", sessionId=session),
        request("q", "session/prompt", sessionId=session, prompt=words),
        note("$/cancel_request", requestId="q"),
    )
    ended = [await raw.until(lambda message: message.get("id") in ("p", "q")) for _ in range(2)]
    assert {message["id"]: message.get("result") for message in ended}["p"] == {"stopReason": "cancelled"}
    again = await raw.ask(2, "session/prompt", sessionId=session, prompt=words)
    assert again["result"] == {"stopReason": "end_turn"}


async def test_one_request_can_be_taken_back(raw: Raw, machine: Machine):
    """`$/cancel_request` of a prompt ends its run and answers -32800; the session goes on."""
    session = (await raw.ask(1, "session/new", cwd=str(machine.project), mcpServers=[]))["result"]["sessionId"]
    text = '@tool bash {"command": "sleep 100"}\n@turn\n@text no'
    asked = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    await raw.send(
        json.dumps({"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": asked}).encode() + b"\n"
    )
    await raw.until(lambda message: "in_progress" in json.dumps(message))

    await raw.send(b'{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "p"}}\n')
    answer = await raw.until(lambda message: message.get("id") == "p")

    assert answer["error"]["code"] == -32800
    again = [{"type": "text", "text": "again"}]
    assert (await raw.ask(2, "session/prompt", sessionId=session, prompt=again))["result"] == {"stopReason": "end_turn"}


async def test_a_client_that_goes_in_the_middle_leaves_a_stored_session_and_no_process(raw: Raw, machine: Machine):
    """Standard input closed during a command: the run is aborted and stored, and the program ends by itself."""
    session = (await raw.ask(1, "session/new", cwd=str(machine.project), mcpServers=[]))["result"]["sessionId"]
    text = '@tool bash {"command": "echo $$ > pid; sleep 100"}\n@turn\n@text no'
    asked = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    await raw.send(
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": asked}).encode() + b"\n"
    )
    await raw.until(lambda message: "in_progress" in json.dumps(message))
    while not (machine.project / "pid").exists() or not (machine.project / "pid").read_text().strip():
        await asyncio.sleep(0.02)

    assert raw.process.stdin is not None
    raw.process.stdin.close()
    assert await asyncio.wait_for(raw.process.wait(), 30) == 0

    assert not Path("/proc", (machine.project / "pid").read_text().strip()).exists()
    assert [message["role"] for message in machine.messages()][:3] == ["user", "assistant", "toolResult"]


async def test_nothing_but_the_protocol_is_on_standard_output(raw: Raw, machine: Machine):
    """Every line is a message, also when something of ours prints."""
    (machine.project / "AGENTS.md").write_text("x")
    await raw.ask(1, "initialize", protocolVersion=1)
    session = (await raw.ask(2, "session/new", cwd=str(machine.project), mcpServers=[]))["result"]["sessionId"]
    prompt = [{"type": "text", "text": "hello"}]
    await raw.ask(3, "session/prompt", sessionId=session, prompt=prompt)
    assert raw.process.stdin is not None
    assert raw.process.stdout is not None
    raw.process.stdin.close()

    rest = await asyncio.wait_for(raw.process.stdout.read(), 30)

    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
