"""What can be asked of a host beside what every tree answers."""

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from coding_agent import client
from coding_agent.control.operations import add_host_operations
from coding_agent.events import Settled
from coding_agent.repl.ledger import Ledger
from lemon_agent import AgentTool, MessageUpdate, ToolExecutionStart
from lemon_ai import Fold
from lemon_ai.testing import Call, Say
from lemon_otp import exit_signal, repl, sleep_s, spawn
from lemon_otp.testing import settle
from tests.coding_agent.conftest import Host


async def _forever(*_: Any) -> Any:
    await sleep_s(3600)


STUCK = AgentTool("stuck", "Never ends.", {"type": "object"}, _forever)


@pytest_asyncio.fixture
async def asked(host: Host) -> Host:
    """A host that can be asked."""
    add_host_operations()
    Ledger.start()
    return host


async def ask(op: str, **parameters: Any) -> dict[str, Any]:
    return await repl.ask({"op": op, **parameters})


async def test_sessions_are_listed_with_what_they_are_at_and_have_used(asked: Host) -> None:
    """While a tool runs, and when the run is over."""
    session = await asked.session([Call("stuck", {})], [Say("ok")], tools=(STUCK,))
    await client.prompt(session, "go")
    await asked.until(ToolExecutionStart)
    await settle()
    (told,) = (await ask("sessions"))["sessions"]
    assert (told["pid"], told["phase"], told["tool"]) == (session.id, "tool", "stuck")
    assert told["tokens"] > 0
    answer = await ask("abort", target=told["session"][:20])
    assert answer["idle"]
    (told,) = (await ask("sessions"))["sessions"]
    assert told["phase"] == "idle"


async def test_all_sessions_are_looked_at_once(asked: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: what is known of runs is put together once a look, not once a session."""
    for _ in range(3):
        session = await asked.session([Call("stuck", {})], tools=(STUCK,))
        await client.prompt(session, "go")
        await asked.until(ToolExecutionStart)
    looked: list[int] = []
    details = Ledger.details
    monkeypatch.setattr(Ledger, "details", lambda kept: looked.append(1) or details(kept))
    answer = await ask("sessions")
    assert [told["phase"] for told in answer["sessions"]] == ["tool"] * 3
    assert len(looked) == 1


async def test_a_session_is_meant_by_its_id_or_its_process(asked: Host) -> None:
    """What names none, or several, is refused."""
    one = await asked.session([Say("a")])
    state = await client.get_state(one)
    for target in (state.session_id, f"session[{state.session_id}]", str(one.id), one.id):
        assert (await ask("steer", target=target, text="hurry"))["ok"]
    assert (await ask("steer", target="nobody", text="x"))["code"] == "not_found"
    assert (await ask("steer", target=one.id, text="  "))["code"] == "bad_request"
    await asked.session([Say("b")])
    shared = state.session_id[:4]
    assert (await ask("abort", target=shared))["code"] == "ambiguous"


async def test_what_a_session_says_can_be_followed(asked: Host) -> None:
    """Line by line, without the pieces of growing messages, until the session ends."""
    session = await asked.session([Say("hello there")])
    said: list[Any] = []
    last: list[Any] = []

    async def follow() -> None:
        operation = repl.find_operation("events")
        assert operation is not None
        last.append(await operation.run({"target": session.id}, said.append))  # type: ignore[misc]

    spawn(follow)
    await settle()
    await client.prompt(session, "hi")
    await asked.until(Settled)
    await settle()
    kinds = [event["what"] for event in said]
    assert "agent_start" in kinds
    assert "agent_end" in kinds
    assert "message_update" not in kinds
    exit_signal(session, "kill")
    await settle()
    assert "ended" in last[0]["text"]


async def test_admission_and_breakers_are_shown_by_provider(asked: Host) -> None:
    """Those that are in use."""
    await asked.run(await asked.session([Say("hello")]), "hi")
    dispatcher = await ask("dispatcher")
    assert dispatcher["default_cap"] > 0
    assert (await ask("breakers"))["ok"]


async def test_without_metrics_a_host_says_how_to_have_them(asked: Host) -> None:
    """A refusal, not a failure."""
    answer = await ask("metrics")
    assert not answer["ok"]
    assert "--metrics" in answer["error"]


async def test_operations_that_were_added_before_stay(host: Host) -> None:
    """A feature may put its own in the place of one of ours."""
    mine = repl.Operation("sessions", lambda _: {"mine": True})
    repl.add_operation(mine)
    add_host_operations()
    assert (await ask("sessions"))["mine"]


async def test_a_model_that_talks_gets_on_and_one_that_is_silent_does_not(asked: Host) -> None:
    """From one look to the next: pieces of an answer count, though they are no events of their own."""
    pieces = asyncio.Event()

    async def talks(model: Any, context: Any, options: Any) -> Any:
        async def said() -> Any:
            fold = Fold(model)
            for event in (*fold.start(), *fold.text("a few words ")):
                yield event
            await pieces.wait()
            for event in fold.text("and more"):
                yield event
            await sleep_s(3600)

        return said()

    session = await asked.session([Say("unused")], agent_settings={"stream_fn": talks})
    await client.prompt(session, "go")
    await asked.until(MessageUpdate)
    await settle()

    async def progress_s() -> float:
        (told,) = (await ask("sessions"))["sessions"]
        return told["progress_s"]

    while (silent_s := await progress_s()) < 0.5:  # well beyond what a busy machine takes to ask once more
        await asyncio.sleep(0.05)
    pieces.set()
    await asked.until(MessageUpdate)
    await settle()
    assert await progress_s() < silent_s
    await ask("abort", target=session.id)
