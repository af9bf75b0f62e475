"""A pi-style client talks to a program with an extension: commands, questions, input, bash, refusals, failures."""

from collections.abc import Iterator

import pytest

from tests.flows.hosts import Machine
from tests.flows.rpc_clients import RpcClient, text_of

EXTENSION = """
def extension(lemon):
    @lemon.register_command("greet", description="Greets.")
    async def greet(args, session):
        name = await session.ui.input("Who?")
        session.ui.set_status("greeted", name)
        await session.set_session_name(f"for {name}")
        return f"hello {args} {name}"

    @lemon.register_command("broken")
    async def broken(args, session):
        raise RuntimeError("it broke")

    @lemon.on("input")
    async def typed(event, session):
        if event.text == "swallow":
            return {"handled": True}
        if event.text.startswith("?"):
            return {"text": "/ask " + event.text[1:]}

    @lemon.on("user_bash")
    async def bash(event, session):
        if event.command == "magic":
            return {"output": "abracadabra", "exit_code": 7}

    @lemon.on("session_before_switch")
    async def stay(event, session):
        return {"cancel": event.reason == "new"}

    @lemon.on("session_switch")
    async def gone(event, session):
        session.ui.set_title(f"{event.reason} {event.session_id}")

    @lemon.on("agent_start")
    async def fails(event, session):
        raise ValueError("no good")
"""


@pytest.fixture
def client(machine: Machine) -> Iterator[RpcClient]:
    """A client of a host with that extension, a skill and a template."""
    folder = machine.home / ".config" / "lemon"
    for name, text in (
        ("extensions/mine.py", EXTENSION),
        ("prompts/ask.md", "---\ndescription: Asks.\n---\nPlease say: $ARGUMENTS"),
        ("skills/quick.md", "---\ndescription: Quick.\n---\nBe quick."),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    client = RpcClient(machine, "--permission-mode", "full")
    yield client
    client.kill()


def test_an_extension_takes_part_in_a_session_of_a_client(client: RpcClient):
    """
    Its command is listed beside skills and templates, asks the person and is answered; typed words are taken over or
    changed; a command of the user's is answered; leaving is refused; a failure is an `extension_error`.
    """
    listed = {each["name"]: each["source"] for each in client.ask("get_commands")["commands"]}
    assert {"greet": "extension", "ask": "prompt", "skill:quick": "skill"}.items() <= listed.items()

    client.ask("prompt", message="/greet there")  # accepted; a client may wait for that before it answers anything
    asked = client.until(lambda message: message.get("method") == "input")
    client.answer(asked, value="Ann")
    told = client.until(lambda message: message.get("method") == "notify")
    assert told["message"] == "hello there Ann"
    assert client.ask("get_state")["sessionName"] == "for Ann"

    client.post("prompt", message="/broken")
    failed = client.event("extension_error")
    assert (failed["event"], failed["error"]) == ("/broken", "RuntimeError: it broke")

    client.ask("prompt", message="swallow")
    assert client.ask("get_state")["messageCount"] == 0
    end = client.run("?this")
    assert text_of(end["messages"][0]) == "Please say: this"

    def of_start(message):
        return message["type"] == "extension_error" and message["event"] == "agent_start"

    told = next(filter(of_start, client.seen), None) or client.until(of_start)
    assert told["error"] == "ValueError: no good"

    done = client.ask("bash", command="magic")
    assert (done["output"], done["exitCode"]) == ("abracadabra", 7)
    assert client.ask("new_session") == {"cancelled": True}
    file = client.ask("get_state")["sessionFile"]
    assert client.ask("clone") == {"cancelled": False}
    assert client.ask("switch_session", sessionPath=file) == {"cancelled": False}
    shown = next((each for each in client.seen if each.get("method") == "setTitle"), None)
    shown = shown or client.until(lambda message: message.get("method") == "setTitle")
    assert shown["title"] == f"switch {client.ask('get_state')['sessionId']}"
    end = client.run("/skill:quick now")
    assert "Be quick." in text_of(end["messages"][0])
    assert text_of(end["messages"][0]).endswith("User: now")
