"""Extensions, skills and templates as a client of the protocol meets them."""

from collections.abc import Iterator

import pytest

from tests.flows.hosts import Machine
from tests.flows.rpc_clients import RpcClient, text_of

NOISY = """
import os, sys

print("noise while it is loaded")
os.write(1, b"more noise\\n")


def extension(lemon):
    @lemon.on("input")
    async def see(event, session):
        print("noise", event.text)
        if event.text == "mine":
            return {"handled": True}
        return {"text": event.text.replace("teh", "the")}

    @lemon.register_command("sure", description="Asks.")
    async def sure(args, session):
        yes = await session.ui.confirm("Sure?", args)
        session.ui.notify("it is" if yes else "it is not")

    @lemon.on("user_bash")
    async def own(event, session):
        if event.command == "whoami":
            return {"output": "an extension", "exit_code": 0}

    @lemon.on("session_before_fork")
    async def stay(event, session):
        return {"cancel": True}
"""


@pytest.fixture
def client(machine: Machine) -> Iterator[RpcClient]:
    """A client of a host with a talkative extension, a skill and a template."""
    extension = machine.home / "noisy.py"
    extension.write_text(NOISY)
    template = machine.home / "greet.md"
    template.write_text("Greet $1 kindly.")
    skill = machine.home / "skills" / "counting"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: counting\ndescription: Counts things.\n---\nCount to three.\n")
    client = RpcClient(
        machine, "-e", str(extension), "--prompt-template", str(template), "--skill", str(skill),
        "--permission-mode", "full",
    )  # fmt: skip
    yield client
    client.kill()


def test_a_talkative_extension_does_not_disturb_the_protocol_and_has_its_say(client: RpcClient):
    """
    Every line is an object, whatever is printed and whenever. Texts are changed and taken over, commands run and may
    ask, the user's command has another answer, a fork is refused.
    """
    assert {command["name"]: command["source"] for command in client.ask("get_commands")["commands"]} == {
        "sure": "extension", "greet": "prompt", "skill:counting": "skill",
    }  # fmt: skip
    end = client.run("teh words")
    assert text_of(end["messages"][0]) == "the words"
    client.ask("prompt", message="mine")
    assert client.ask("get_state")["messageCount"] == 2
    asked = client.post("prompt", message="/sure about it")
    question = client.event("extension_ui_request")
    assert (question["method"], question["title"], question["message"]) == ("confirm", "Sure?", "about it")
    client.answer(question, confirmed=True)
    client.until(lambda message: message.get("method") == "notify" and message["message"] == "it is")
    if not any(message.get("id") == asked and message["type"] == "response" for message in client.seen):
        assert client.response(asked)["success"]
    assert "command of an extension" in client.refused("steer", message="/sure now")
    assert client.ask("bash", command="whoami")["output"] == "an extension"
    entry = client.ask("get_fork_messages")["messages"][0]["entryId"]
    assert client.ask("fork", entryId=entry) == {"text": "", "cancelled": True}


def test_names_of_templates_and_skills_are_expanded(client: RpcClient):
    """In prompts, and in what is steered or follows up."""
    assert text_of(client.run("/greet Ada")["messages"][0]) == "Greet Ada kindly."
    assert "Count to three." in text_of(client.run("/skill:counting now")["messages"][0])
    client.ask("steer", message="/greet Bob")
    client.run("go on")
    said = [text_of(message) for message in client.ask("get_messages")["messages"] if message["role"] == "user"]
    assert "Greet Bob kindly." in said
