"""Questions that are no permissions: forms and pages where the client has them, choices where it has not."""

import asyncio
from typing import Any

import pytest

from coding_agent.acp.question_shapes import filled_in, response_of
from coding_agent.hosting.dialogs import Dialogs, Question
from lemon_otp import spawn
from tests.coding_agent.acp.support import Connection, fits


def asked(coroutine: Any) -> "asyncio.Future[Any]":
    """The answer to a question that is put beside the test."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def ask() -> None:
        answer.set_result(await coroutine)

    spawn(ask)
    return answer


async def dialogs_of(connection: Connection, **elicitation: Any) -> Dialogs:
    session = await connection.open(elicitation=elicitation)
    return connection.agent.sessions[session].desk.dialogs


async def form_in(connection: Connection) -> dict:
    message = await connection.until(lambda message: message.get("method") == "elicitation/create")
    fits("CreateElicitationRequest", message["params"])
    return message


async def test_words_are_asked_for_in_a_form(connection):
    """With what was there before; the answer is what was typed."""
    dialogs = await dialogs_of(connection, form={})
    answer = asked(dialogs.editor("Say why", prefill="because"))

    form = await form_in(connection)
    await connection.send(id=form["id"], result={"action": "accept", "content": {"answer": "so"}})

    assert await answer == "so"
    assert form["params"]["requestedSchema"]["properties"]["answer"]["default"] == "because"
    assert form["params"]["message"] == "Say why"


@pytest.mark.parametrize(
    "result", [{"action": "decline"}, {"action": "cancel"}, {"action": "accept"}, {"action": "accept", "content": 3}]
)
async def test_a_form_that_is_not_filled_in_is_no_answer(connection, result):
    """Whatever the client says instead of an answer."""
    dialogs = await dialogs_of(connection, form={})
    answer = asked(dialogs.input("Name?"))

    form = await form_in(connection)
    await connection.send(id=form["id"], result=result)

    assert await answer is None


async def test_a_choice_is_a_form_too_and_only_what_was_offered_counts(connection):
    """One that the client makes up is none."""
    dialogs = await dialogs_of(connection, form={})
    answer = asked(dialogs.select("Which?", ["a", "b"]))

    form = await form_in(connection)
    await connection.send(id=form["id"], result={"action": "accept", "content": {"answer": "c"}})

    assert await answer is None
    assert form["params"]["requestedSchema"]["properties"]["answer"]["enum"] == ["a", "b"]


async def test_a_page_is_opened_by_the_client(connection):
    """Where it says that it can; going there is the first of the answers."""
    dialogs = await dialogs_of(connection, url={})
    answer = asked(dialogs.select("Go there", ["opened", "no"], url="https://example.com/"))

    page = await form_in(connection)
    await connection.send(id=page["id"], result={"action": "accept"})

    assert await answer == "opened"
    assert (page["params"]["mode"], page["params"]["url"]) == ("url", "https://example.com/")


@pytest.mark.parametrize(("action", "heard"), [("decline", "no"), ("cancel", None)])
async def test_a_page_that_is_set_aside_is_not_declined(connection, action, heard):
    """Saying no is an answer, turning away is none."""
    dialogs = await dialogs_of(connection, url={})
    answer = asked(dialogs.select("Go there", ["opened", "no"], url="https://example.com/"))

    page = await form_in(connection)
    await connection.send(id=page["id"], result={"action": action})

    assert await answer == heard


async def test_a_client_without_forms_is_asked_for_choices_only(connection):
    """Words cannot be asked for; a page is one more thing to say yes to."""
    dialogs = await dialogs_of(connection)
    assert await dialogs.input("Name?") is None
    answer = asked(dialogs.select("Go to https://example.com/", ["opened", "no"], url="https://example.com/"))

    question = await connection.until(lambda message: message.get("method") == "session/request_permission")
    fits("RequestPermissionRequest", question["params"])
    await connection.send(id=question["id"], result={"outcome": {"outcome": "selected", "optionId": "1"}})

    assert await answer == "no"


async def test_a_question_that_is_closed_is_taken_back(connection):
    """The client is told, so that it does not stay on the screen."""
    dialogs = await dialogs_of(connection, form={})
    answer = asked(dialogs.input("Name?", timeout_ms=200))

    form = await form_in(connection)

    back = await connection.until(lambda message: message.get("method") == "$/cancel_request")
    assert back["params"] == {"requestId": form["id"]}
    assert await answer is None


def test_answers_are_what_was_asked_for():
    """Yes and no for a confirmation, one of the options for a choice, any words otherwise."""
    confirm, select, words = (Question("q", method, {}) for method in ("confirm", "select", "input"))

    assert response_of(confirm, ["Yes", "No"], "Yes") == {"confirmed": True}
    assert response_of(confirm, ["Yes", "No"], "No") == {"confirmed": False}
    assert response_of(select, ["a"], "b") == {"cancelled": True}
    assert response_of(words, [], "b") == {"value": "b"}
    assert response_of(words, [], None) == {"cancelled": True}
    assert filled_in({"action": "accept", "content": {"answer": 3}}) is None
