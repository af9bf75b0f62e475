"""What servers ask of us: folders, a person's words, the model's. Real servers of the library, as programs."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from coding_agent import client
from coding_agent.hosting.dialogs import Asked, Dialogs
from coding_agent.mcp.asks import OPEN_MAX
from coding_agent.mcp.backing import Backing
from coding_agent.mcp.call_clocks import CallClocks
from coding_agent.mcp.config_files import Configured
from coding_agent.mcp.elicitation import BadForm, DoesNotFit, form_fields
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.sampling import permission_name
from coding_agent.mcp.session_servers import with_mcp
from coding_agent.permissions.gate import PermissionGate
from coding_agent.permissions.policy import Policy
from coding_agent.permissions.rules import Rule
from coding_agent.session.budget import Account, Budget
from coding_agent.session_supervisor import start_session
from lemon_agent import AbortSignal, MessageEnd, ToolError
from lemon_ai import ToolResultMessage, get_text
from lemon_ai.testing import Call, ScriptedModel
from lemon_otp import self_pid
from tests.coding_agent.mcp.support import ASKING, Toolbox, asking, script, served

pytestmark = pytest.mark.xdist_group("mcp")


@pytest.fixture
def folder(host, tmp_path) -> Path:
    return tmp_path


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a server over HTTP that these tests share."""
    with served(ASKING, "http", "PORT") as address:
        yield address


@pytest.fixture
def web(address: str) -> ServerEntry:
    return ServerEntry("asking", "http", url=address)


class Person:
    """Answers questions in order: a text, or None to leave one open."""

    def __init__(self, dialogs: Dialogs, *answers: str | None) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)
        self._dialogs = dialogs
        dialogs.listen(self.hear)

    def hear(self, event) -> None:
        if isinstance(event, Asked):
            question = event.question
            self.asked.append(str(question.fields["title"]))
            answer = self._answers.pop(0)
            said = {"cancelled": True} if answer is None else {"value": answer}
            asyncio.get_running_loop().call_soon(self._dialogs.answer, question.id, said)


# Folders.


async def test_a_server_learns_the_folders_of_the_session(folder):
    """The working folder and the others, as addresses; blanks and odd letters are escaped."""
    odd = folder / "a b ü"
    box = await Toolbox.open(asking(), folder=folder, backing=Backing((folder, odd)))

    told = await box.text("mcp__asking__folders")

    assert told.split() == [folder.as_uri(), odd.as_uri()]


# A person.


async def test_a_form_is_asked_field_by_field_and_answered(folder):
    """Texts are typed, numbers checked, choices chosen; the server gets values of the right kinds."""
    dialogs = Dialogs()
    person = Person(dialogs, "Answer", "Ann", "many", "3", "large", "Yes")
    box = await Toolbox.open(asking(), folder=folder, backing=Backing(dialogs=dialogs))

    told = await box.text("mcp__asking__order")

    assert told == '{"name":"Ann","count":3,"size":"large","gift":true}'
    assert person.asked[0] == "The MCP server asking asks: What do you want?"
    assert all("asking" in each for each in person.asked)


@pytest.mark.parametrize(
    ("answers", "told"), [(["Decline"], "decline"), ([None], "cancel"), (["Answer", "Ann", None], "cancel")]
)
async def test_a_person_may_decline_or_leave_a_form_open(folder, web, answers, told):
    """Nothing is sent of what was filled in."""
    dialogs = Dialogs()
    Person(dialogs, *answers)
    box = await Toolbox.open(web, folder=folder, backing=Backing(dialogs=dialogs))

    assert await box.text("mcp__asking__order") == f"nothing: {told}"


@pytest.mark.parametrize("dialogs", [None, Dialogs()], ids=["headless", "nobody listens"])
async def test_with_nobody_there_a_question_ends_at_once(folder, web, dialogs):
    """Declined where there is nobody at all, cancelled where nobody is connected now."""
    box = await Toolbox.open(web, folder=folder, backing=Backing(dialogs=dialogs))

    assert await box.text("mcp__asking__order") == f"nothing: {'decline' if dialogs is None else 'cancel'}"


async def test_an_address_is_shown_and_never_opened(folder, web):
    """The person says that they went there; what is no web address is declined unseen."""
    dialogs = Dialogs()
    person = Person(dialogs, "I have opened it")
    box = await Toolbox.open(web, folder=folder, backing=Backing(dialogs=dialogs))

    assert await box.text("mcp__asking__visit", url="https://example.com/login") == "accept"
    assert await box.text("mcp__asking__visit", url="file:///etc/passwd") == "decline"
    assert len(person.asked) == 1
    assert "https://example.com/login" in person.asked[0]


async def test_a_call_that_ends_takes_its_question_back(folder, web):
    """The dialog closes when the call is aborted; nothing waits for ever."""
    dialogs, abort = Dialogs(), AbortSignal()
    dialogs.listen(lambda event: abort.abort("enough") if isinstance(event, Asked) else None)
    box = await Toolbox.open(web, folder=folder, backing=Backing(dialogs=dialogs))

    with pytest.raises(ToolError, match="aborted"):
        await box.call("mcp__asking__order", abort)

    for _round in range(500):
        if not dialogs.open:
            break
        await asyncio.sleep(0.01)
    assert dialogs.open == ()


async def test_a_call_loses_no_time_while_a_person_thinks(folder):
    """The limit is for the server; one that is over with nobody asked still ends the call."""
    dialogs, answers = Dialogs(), ["Answer", "Ann", "3", "large", "Yes"]

    def answer_later(event) -> None:
        if isinstance(event, Asked):
            said = {"value": answers.pop(0)}
            asyncio.get_running_loop().call_later(0.3, dialogs.answer, event.question.id, said)

    dialogs.listen(answer_later)
    box = await Toolbox.open(asking(timeout=1.0), folder=folder, backing=Backing(dialogs=dialogs))

    assert '"count":3' in await box.text("mcp__asking__order")


async def test_the_clocks_of_calls_stand_still_together():
    """Those that began before the wait and in it; each has left afterwards what it had left before."""
    clocks = CallClocks()

    async def late() -> bool:
        try:
            async with clocks.limit(0.05):
                await asyncio.sleep(30)
        except TimeoutError:
            return True
        return False

    with clocks.standing_still():
        async with clocks.limit(0.01):
            with clocks.standing_still():
                await asyncio.sleep(0.05)
    assert await late()


async def test_a_flood_of_questions_is_declined_unseen(folder):
    """So many at once reach a person, and no more."""
    dialogs, asked = Dialogs(), []
    dialogs.listen(lambda event: asked.append(event) if isinstance(event, Asked) else None)
    code = FLOOD.replace("COUNT", "50")
    box = await Toolbox.open(script("flood", code), folder=folder, backing=Backing(dialogs=dialogs))

    told = await box.text("mcp__flood__go")

    assert told == "declined 46"
    assert len(asked) == OPEN_MAX


FLOOD = """
import json, sys
def say(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
declined, call = 0, None
for line in sys.stdin:
    asked = json.loads(line)
    method, number = asked.get("method"), asked.get("id")
    if method == "initialize":
        say({"id": number, "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                      "serverInfo": {"name": "f", "version": "1"}}})
    elif method == "tools/list":
        say({"id": number, "result": {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        call = number
        form = {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
        for each in range(COUNT):
            say({"id": f"q{each}", "method": "elicitation/create", "params": form})
    elif method is None and asked["result"].get("action") == "decline":
        declined += 1
        if declined == COUNT - 4:
            say({"id": call, "result": {"content": [{"type": "text", "text": f"declined {declined}"}]}})
"""


def test_forms_are_read_strictly():
    """Every kind the protocol has; what is nested or unknown cannot be asked."""
    schema = {
        "properties": {
            "a": {"type": "string", "minLength": 2, "maxLength": 3},
            "b": {"type": "integer", "minimum": 1, "maximum": 9},
            "c": {"type": "string", "enum": ["x", "y"], "enumNames": ["Ex", "Why"]},
            "d": {"type": "array", "items": {"anyOf": [{"const": "p", "title": "Pe"}]}, "minItems": 1},
            "e": {"type": "string", "oneOf": [{"const": "1", "title": "One"}]},
        },
        "required": ["a"],
    }

    a, b, c, d, e = form_fields(schema)

    assert (a.required, b.required) == (True, False)
    assert a.read("ab") == "ab"
    assert b.read("7") == 7
    for field, text in ((a, "a"), (a, "abcd"), (b, "0"), (b, "x"), (b, "1.5")):
        with pytest.raises(DoesNotFit):
            field.read(text)
    assert (c.choices, d.kind, d.choices, e.choices) == ({"Ex": "x", "Why": "y"}, "several", {"Pe": "p"}, {"One": "1"})
    for bad in (
        {"properties": {"a": {"type": "object"}}},
        {"properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        {"properties": {f"a{number}": {"type": "string"} for number in range(100)}},
        {"properties": {"a": {"type": "string", "enum": [str(number) for number in range(1000)]}}},
        {"properties": 3},
        {},
    ):
        with pytest.raises(BadForm):
            form_fields(bad)


# The model.


def results(events) -> list[ToolResultMessage]:
    messages = [event.event.message for event in events if isinstance(event.event, MessageEnd)]
    return [message for message in messages if isinstance(message, ToolResultMessage)]


async def thought(
    host, web, *, sampling: bool = True, account: Account | None = None, rules: tuple[Rule, ...] = ()
) -> str:
    """What a server's tool says that has the model think, in a session whose other calls are allowed."""
    rules = (Rule("allow", "mcp__asking__think"), *rules)
    gate = PermissionGate(Policy("ask", rules))
    model = ScriptedModel([Call("mcp__asking__think", {"about": "the sea"})], "It is wide.", "Done.")
    options = await host.options(model, companions=(gate.join,), account=account)
    options = await with_mcp(options, Configured((web,)), wait_s=30, sampling=sampling)
    session = await start_session(options)
    await client.subscribe(session, self_pid())
    (result,) = results(await host.run(session, "think"))
    return get_text(result)


ALLOWED = (Rule("allow", "mcp_sampling__asking"),)


async def test_a_server_may_ask_the_model_when_settings_and_permission_allow_it(host, folder, web):
    """It gets the answer; the session's account has paid for it too."""
    account = Account()

    said = await thought(host, web, account=account, rules=ALLOWED)

    assert said == "It is wide."
    assert account.spent.turns == 3  # two of the session, one of the server


async def test_without_the_setting_a_server_cannot_ask_the_model(host, folder, web):
    """Whatever the rules say: it is not even offered."""
    assert "It is wide." not in await thought(host, web, sampling=False, rules=ALLOWED)


async def test_without_permission_the_model_is_not_asked(host, folder, web):
    """A rule for the server's tools is none for the model."""
    account = Account()

    assert "it was not allowed" in await thought(host, web, account=account, rules=(Rule("allow", "mcp__asking__*"),))
    assert account.spent.turns == 2


async def test_a_budget_that_is_used_up_holds_for_servers_too(host, folder, web):
    """The turn that calls the tool is the last one."""
    account = Account(Budget(max_turns=1))

    assert "turn" in await thought(host, web, account=account, rules=ALLOWED)
    assert account.spent.turns == 1


def test_the_permission_has_a_name_of_its_own():
    """So that no rule for a server's tools is one for the model."""
    assert permission_name("demo") == "mcp_sampling__demo"
    assert not Rule("allow", "mcp__demo__*").names(permission_name("demo"))
