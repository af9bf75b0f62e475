"""Acting on processes."""

import asyncio
import threading

import pytest

from lemon_otp import Supervisor, exit_signal, repl, send, sleep_s, spawn, whereis
from tests.lemon_otp.repl.conftest import Hostile, Keeper, ask, keeper, passes, refused

pytestmark = pytest.mark.usefixtures("top")


async def test_a_killed_child_is_started_again_and_that_is_said() -> None:
    """With the number of the new process; one that is temporary stays away."""
    before = keeper()
    answer = await ask("kill", target="keeper")
    assert not before.alive
    assert f"started it again as pid {keeper().id}" in answer["text"]
    assert answer["reason"] == "'killed'"
    assert "stays away" in (await ask("kill", target="passing"))["text"]
    assert (await refused("kill", target=before.id))[0] == "not_found"


async def test_who_is_acted_on_must_be_said_in_full() -> None:
    """The beginning of an id will do to look; to act it must reach into the key."""
    assert (await ask("info", target="keep"))["process"] == "keeper"
    code, text = await refused("kill", target="keep")
    assert code == "ambiguous"
    assert f"keeper (pid {keeper().id})" in text
    assert "started it again" in (await ask("kill", target="session[b"))["text"]


async def test_a_child_whose_id_is_an_object_stops_nobody_from_acting() -> None:
    """It is called what the tree calls it, and is not asked itself."""
    await Supervisor.start_child("top", Keeper.child_spec(None, id=Hostile()))
    await ask("stop", target="Hostile()")
    await ask("stop", target="keeper")
    assert (await ask("restart", target="keeper"))["pid"] == keeper().id
    assert "started Hostile() again" in (await ask("restart", target="Hostile()"))["text"]


async def test_a_process_that_is_busy_is_killed_all_the_same() -> None:
    """Where it stands does not matter."""
    send("the_keeper", "wait")
    await passes()
    before = keeper()
    await ask("kill", target=before.id)
    assert not before.alive


async def test_a_thread_that_outlives_its_process_is_said() -> None:
    """Threads cannot be killed."""
    release = threading.Event()
    pid = spawn(release.wait, on="thread")
    await passes(20)
    assert "threads cannot be killed" in (await ask("kill", target=pid.id))["text"]
    release.set()


async def test_a_stopped_child_stays_stopped_until_it_is_restarted() -> None:
    """`stop` ends in order; `restart` starts a child that is stopped, or stops it first."""
    before = keeper()
    assert "starts it again" in (await ask("stop", target="keeper"))["text"]
    assert whereis("the_keeper") is None
    answer = await ask("restart", target="keeper")
    assert answer["pid"] == keeper().id
    first = keeper()
    await ask("restart", target="keeper")
    assert keeper() is not first is not before


async def test_children_that_come_and_go_are_stopped_and_restarted_by_their_supervisor() -> None:
    """A dynamic child is ended by its supervisor; one that is temporary cannot be restarted."""
    await ask("stop", target="session[b]")
    assert (await refused("info", target="session[b]"))[0] == "not_found"
    assert "started it again" in (await ask("restart", target="session[a1]"))["text"]
    assert (await refused("restart", target="passing"))[0] == "temporary"
    alone = spawn(sleep_s, 100)
    assert (await refused("restart", target=alone.id))[0] == "not_supervised"
    await ask("stop", target=alone.id)
    assert not alone.alive


async def test_a_server_can_be_held_and_let_go() -> None:
    """Its messages wait meanwhile; one in the middle of a message is held after it."""
    await ask("suspend", target="keeper")
    assert (await ask("info", target="keeper"))["state"] == "suspended"
    send("the_keeper", "anything")
    await passes()
    assert (await ask("messages", target="keeper"))["waiting"] == 1
    await ask("resume", target="keeper")
    await passes()
    assert (await ask("messages", target="keeper"))["waiting"] == 0
    plain = spawn(sleep_s, 100)
    assert (await refused("suspend", target=plain.id))[0] == "no_server"
    send("the_keeper", "wait")
    await passes()
    assert (await ask("suspend", target="keeper"))["waits"]


async def test_a_message_can_be_sent_as_a_literal_or_as_text() -> None:
    """A Python literal is that value, anything else the text."""
    await ask("suspend", target="keeper")
    await ask("send", target="keeper", message="('line', 1)")
    await ask("send", target="keeper", message="just text")
    assert (await ask("messages", target="keeper"))["messages"] == ["('line', 1)", "'just text'"]


async def test_python_runs_in_the_host_only_where_that_was_allowed() -> None:
    """Expressions, statements and `await`; what it raises is an answer."""
    assert (await refused("eval", code="1"))[0] == "unsafe"

    async def run(code: str) -> dict[str, object]:
        return await repl.ask({"op": "eval", "code": code}, unsafe=True)

    assert (await run("x = 20; x + 1"))["text"] == "21"
    assert (await run("await asyncio.sleep(0)"))["text"] == "None"
    assert (await run("state('keeper')['items'][0]"))["text"] == "1"
    assert (await run("x = 1"))["text"] == ""
    for bad in ("1 +", "nowhere", "raise SystemError('no')", "exit()", "raise KeyboardInterrupt"):
        answer = await run(bad)
        assert (answer["ok"], answer["code"]) == (False, "raised")


async def test_two_who_act_at_once_do_not_disturb_each_other() -> None:
    """Each act is a process of its own."""

    async def kill(target: str) -> dict[str, object]:
        return await repl.ask({"op": "kill", "target": target})

    pids = [spawn(sleep_s, 100) for _ in range(5)]
    exit_signal(pids[0], "kill")
    for answer in [await kill(str(pid.id)) for pid in pids[1:]]:
        assert answer["ok"]
    await asyncio.sleep(0)
    assert not any(pid.alive for pid in pids)
