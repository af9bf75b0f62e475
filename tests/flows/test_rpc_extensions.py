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

    @lemon.register_shortcut("F5", description="Leaves a card.")
    async def card(session):
        await session.send_message("card", "for the model", details={"score": 3})
        return "left"

    @lemon.register_shortcut("ctrl+c")
    def never(session):
        pass

    @lemon.register_message_renderer("card")
    def show(message):
        print("noise while it is rendered")
        return f"**score {message.details['score']}**"

    @lemon.register_message_renderer("broken")
    def fails(message):
        raise ValueError("no such card")

    @lemon.register_command("broken")
    async def broken(args, session):
        await session.send_message("broken", "as it is")
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
        "sure": "extension", "broken": "extension", "greet": "prompt", "skill:counting": "skill",
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


def test_a_key_runs_what_an_extension_has_registered(client: RpcClient):
    """Its answer is shown. One of the terminal's own keys is not taken, and said; another key is refused."""
    assert [(one["key"], one["description"]) for one in client.ask("get_shortcuts")["shortcuts"]] == [
        ("f5", "Leaves a card.")
    ]
    client.ask("run_shortcut", key="f5")
    client.until(lambda message: message.get("method") == "notify" and message["message"] == "left")
    assert "no extension has registered the key ctrl+c" in client.refused("run_shortcut", key="ctrl+c")


def test_a_message_is_shown_as_its_extension_wants_and_stored_as_it_is(client: RpcClient, machine: Machine):
    """
    What a renderer answers goes along with the message to clients, then and later; the file and the model have the
    message alone. One whose renderer fails is shown as it is, and the failure is told.
    """
    client.run("hello")
    client.ask("run_shortcut", key="f5")
    told = client.until(lambda message: message["type"] == "message_end" and message["message"]["role"] == "custom")
    assert (told["message"]["content"], told["message"]["shown"]) == ("for the model", "**score 3**")
    client.ask("prompt", message="/broken")
    failed = client.event("extension_error")
    assert (failed["event"], failed["error"]) == ("renderer of broken", "ValueError: no such card")
    custom = [message for message in client.ask("get_messages")["messages"] if message["role"] == "custom"]
    assert [message.get("shown") for message in custom] == ["**score 3**", None]
    assert "score 3**" not in machine.session_files()[0].read_text()


def test_names_of_templates_and_skills_are_expanded(client: RpcClient):
    """In prompts, and in what is steered or follows up."""
    assert text_of(client.run("/greet Ada")["messages"][0]) == "Greet Ada kindly."
    assert "Count to three." in text_of(client.run("/skill:counting now")["messages"][0])
    client.ask("steer", message="/greet Bob")
    client.run("go on")
    said = [text_of(message) for message in client.ask("get_messages")["messages"] if message["role"] == "user"]
    assert "Greet Bob kindly." in said


PROVIDER = """
from lemon_ai import Fold


class Parrot:
    api = "parrot"

    async def stream(self, request):
        fold = Fold(request.model)
        words = request.context.messages[-1].content[0].text
        for event in (*fold.text(f"{request.model.id} heard: {words}"), *fold.done("stop")):
            yield event


def extension(lemon):
    lemon.register_provider("acme", {"models": [{"id": "grey", "contextWindow": 5000}]}, provider=Parrot())
    lemon.register_provider("openai", {"baseUrl": "https://proxy.example/v1"})
"""


def test_models_of_an_extension_answer_like_any_other(machine: Machine):
    """By their name on the command line, with the person's own file above them; one that cannot be meant is said."""
    extension = machine.home / "acme.py"
    extension.write_text(PROVIDER)
    done = machine.run("-e", str(extension), "--model", "acme/grey", "-p", "hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "grey heard: hello\n", "")
    client = RpcClient(machine, "-e", str(extension), "--model", "acme/grey")
    try:
        models = {f"{one['provider']}/{one['id']}": one for one in client.ask("get_available_models")["models"]}
        assert client.ask("get_state")["model"]["contextWindow"] == 5000
        assert "acme/grey" in models
    finally:
        client.kill()
    extension.write_text("def extension(lemon):\n    lemon.register_provider('acme', {'models': [{}]})\n")
    refused = machine.run("-e", str(extension), "--model", "acme/grey", "-p", "hello")
    assert refused.returncode == 2
    assert "id: is missing" in refused.stderr
