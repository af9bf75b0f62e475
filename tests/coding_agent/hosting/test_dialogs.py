"""Questions to whoever is connected: answered once, and without an answer a no."""

import asyncio

import pytest

from coding_agent.hosting.dialogs import Asked, Closed, Dialogs, Shown
from coding_agent.permissions.approver import PermissionRequest
from coding_agent.permissions.rules import parse_rule

REQUEST = PermissionRequest(
    "p1", "the seal", "call", "bash", "touch x", "it changes files", (parse_rule("bash(touch *)", "allow"),)
)


class Client:
    """Hears of questions and answers with what it was told to."""

    def __init__(self, dialogs: Dialogs, **response) -> None:
        self.heard = []
        self._dialogs = dialogs
        self._response = response
        self.leave = dialogs.listen(self._hear)

    def _hear(self, event) -> None:
        self.heard.append(event)
        if isinstance(event, Asked) and self._response:
            self._dialogs.answer(event.question.id, self._response)


async def test_each_kind_of_dialog_gives_what_was_answered():
    """A choice, a yes, a line, a text."""
    for response, call, expected in (
        ({"value": "b"}, lambda dialogs: dialogs.select("T", ["a", "b"]), "b"),
        ({"confirmed": True}, lambda dialogs: dialogs.confirm("T", "M"), True),
        ({"value": "line"}, lambda dialogs: dialogs.input("T", "hint"), "line"),
        ({"value": "text"}, lambda dialogs: dialogs.editor("T", "before"), "text"),
    ):
        dialogs = Dialogs()
        client = Client(dialogs, **response)
        assert await call(dialogs) == expected
        assert [type(event) for event in client.heard] == [Asked, Closed]
        assert client.heard[1].answered


@pytest.mark.parametrize(
    "response", [{"cancelled": True}, {"value": "c"}, {"value": 1}, {"confirmed": "yes"}, {"x": 1}]
)
async def test_what_is_no_answer_counts_as_none(response):
    """Cancelled, no option, of the wrong kind: the default."""
    dialogs = Dialogs()
    Client(dialogs, **response)
    assert await dialogs.select("T", ["a", "b"]) is None
    assert await dialogs.confirm("T", "M") is False


async def test_nobody_there_is_a_no_at_once():
    """Without a client nothing is asked, unless the host waits for one to come."""
    assert await Dialogs().select("T", ["a"]) is None
    assert (await Dialogs().ask(REQUEST)).choice == "deny"
    waiting = Dialogs(waits_for_client=True)

    async def somebody_comes() -> None:
        while not waiting.open:
            await asyncio.sleep(0)
        Client(waiting, confirmed=True)

    assert (await asyncio.gather(waiting.confirm("T", "M"), somebody_comes()))[0] is True


async def test_a_question_ends_when_its_time_is_up():
    """The client is told that it is closed, and an answer that comes later is for nothing."""
    dialogs = Dialogs()
    client = Client(dialogs)
    assert await dialogs.confirm("T", "M", timeout_ms=1) is False
    question = client.heard[0].question
    assert question.to_json()["timeout"] == 1
    assert client.heard[1] == Closed(question.id, False)
    assert dialogs.answer(question.id, {"confirmed": True}) is False
    assert dialogs.open == ()


async def test_the_last_client_that_leaves_refuses_what_is_open():
    """Nobody is left who could answer."""
    dialogs = Dialogs()
    one, other = Client(dialogs), Client(dialogs)

    async def all_leave() -> None:
        while not dialogs.open:
            await asyncio.sleep(0)
        one.leave()
        assert dialogs.open
        other.leave()

    assert (await asyncio.gather(dialogs.confirm("T", "M"), all_leave()))[0] is False


@pytest.mark.parametrize(
    ("value", "choice"),
    [("Allow once", "once"), ("Always allow bash(touch *)", "always"), ("Deny", "deny"), ("?", "deny")],
)
async def test_a_permission_is_given_by_the_text_of_an_option(value: str, choice: str):
    """The answer carries the seal of what was shown."""
    dialogs = Dialogs()
    client = Client(dialogs, value=value)
    answer = await dialogs.ask(REQUEST)
    assert (answer.choice, answer.seal) == (choice, "the seal")
    shown = client.heard[0].question.to_json()
    assert (shown["id"], shown["kind"], shown["shown"], shown["rules"]) == (
        "p1", "permission", "touch x", ["bash(touch *)"],
    )  # fmt: skip


async def test_what_only_informs_goes_to_every_client_and_is_forgotten():
    """With the names of the protocol."""
    dialogs = Dialogs()
    one, other = Client(dialogs), Client(dialogs)
    dialogs.notify("careful", "warning")
    dialogs.set_status("k", "text")
    dialogs.set_widget("w", ["line"])
    dialogs.set_title("T")
    dialogs.set_editor_text("E")
    assert [event.method for event in one.heard] == ["notify", "setStatus", "setWidget", "setTitle", "set_editor_text"]
    assert one.heard == other.heard
    assert all(isinstance(event, Shown) for event in one.heard)
    assert one.heard[0].to_json() | {"id": ""} == {
        "type": "extension_ui_request", "id": "", "method": "notify", "message": "careful", "notifyType": "warning",
    }  # fmt: skip
    late = Client(dialogs)
    assert late.heard == []
