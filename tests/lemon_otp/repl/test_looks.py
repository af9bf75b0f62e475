"""Looking at processes: complete, bounded, and without running anything of theirs."""

import json
import threading
import time
from typing import Any

import pytest

from lemon_otp import (
    Application,
    DynamicSupervisor,
    EventStream,
    Pid,
    Registry,
    Table,
    ensure_all_started,
    exit_signal,
    introspect,
    repl,
    send,
    sleep_s,
    spawn,
    stop_all,
    whereis,
)
from lemon_otp.recorder import Recorder
from lemon_otp.repl import looks
from lemon_otp.repl.wire import encode
from tests.lemon_otp.repl.conftest import Hostile, Keeper, ask, keeper, passes, refused

pytestmark = pytest.mark.usefixtures("top")


@pytest.mark.parametrize(
    "target", ["the_keeper", "keeper", "top/keeper", "top/kee", "PID", "<PID>", "#PID", "keep"], ids=range(8)
)
async def test_a_process_is_meant_by_its_number_its_name_or_its_id(target: str) -> None:
    """The beginning of an id will do where only one begins so, and ids above it narrow it down."""
    found = await ask("info", target=target.replace("PID", str(keeper().id)))
    assert (found["pid"], found["process"], found["name"]) == (keeper().id, "keeper", "the_keeper")


async def test_what_names_nobody_or_several_is_refused_with_a_hint() -> None:
    """Several are listed with their numbers."""
    assert await refused("info", target="nobody") == ("not_found", "there is no process nobody; `tree` lists them")
    assert (await refused("info", target="999999"))[0] == "not_found"
    code, text = await refused("info", target="session[a")
    assert code == "ambiguous"
    assert "session[a1] (pid " in text
    assert "session[a2] (pid " in text
    for nothing in ("", None, [], True):
        assert (await refused("info", target=nothing))[0] == "bad_request"


async def test_the_tree_shows_states_and_what_processes_say_of_themselves() -> None:
    """Nodes as JSON, the busy ones with how long; a fact whose repr raises is shown by its class."""
    send("the_keeper", "wait")
    await passes()
    answer = await ask("tree", text=True)
    (top,) = [node for node in answer["tree"] if node["id"] == "top"]
    shown = {node["id"]: node for node in top["children"]}
    assert shown["keeper"]["state"] == "busy"
    assert shown["keeper"]["elapsed_s"] >= 0
    assert shown["keeper"]["facts"] == {"phase": "waiting", "hostile": "Hostile()"}
    assert [node["id"] for node in shown["dynamic"]["children"]] == ["session[a1]", "session[a2]", "session[b]"]
    assert "\x1b" not in answer["text"]
    part = await ask("tree", target="dynamic")
    assert [node["id"] for node in part["tree"]] == ["dynamic"]


@pytest.mark.requirement("BR-130")
async def test_an_id_that_is_an_object_is_shown_without_asking_it() -> None:
    """A child's id may be any value; the tree, the busiest and one process are shown all the same."""
    await DynamicSupervisor.start_child("dynamic", Keeper.child_spec(None, id=Hostile()))
    await DynamicSupervisor.start_child("dynamic", Keeper.child_spec(None, id=("a", 2)))
    (answer,) = (await ask("tree", target="dynamic"))["tree"]
    assert [node["id"] for node in answer["children"]][-2:] == ["Hostile()", "('a', 2)"]
    assert {"Hostile()", "('a', 2)"} <= {row["id"] for row in (await ask("top", sort="memory"))["rows"]}
    assert (await ask("info", target="Hostile"))["process"] == "Hostile()"


async def test_info_tells_of_supervisor_links_mailbox_and_memory() -> None:
    """And of the message that is worked on."""
    send("the_keeper", "wait")
    await passes()
    send("the_keeper", "later")
    found = await ask("info", target="keeper")
    assert found["supervisor"]["id"] == "top"
    assert found["child"] == {"restart": "permanent", "shutdown": 5.0, "kind": "worker", "restarts": 0}
    assert (found["state"], found["current_message"], found["mailbox_length"]) == ("busy", "'wait'", 1)
    assert found["memory_bytes"] > 50_000_000
    assert found["exit_reason"] is None


async def test_a_state_of_fifty_megabytes_whose_repr_raises_is_shown_in_a_moment() -> None:
    """Bounded in text and in work."""
    began = time.process_time()
    found = await ask("state", target="keeper")
    assert time.process_time() - began < 0.05
    assert "Hostile()" in found["value"]
    assert len(found["value"]) <= 4_000
    assert (await ask("state", target="keeper", path=".items[1].deep"))["value"] == "'value'"
    assert len((await ask("state", target="keeper", path=".big", limit=100))["value"]) <= 100


async def test_what_has_no_state_says_so() -> None:
    """A plain process, and a path that leads nowhere."""
    plain = spawn(sleep_s, 100)
    assert (await refused("state", target=plain.id))[0] == "no_state"
    assert (await refused("state", target="keeper", path=".nothing"))[0] == "not_found"
    assert (await refused("state", target="keeper", path="()"))[0] == "bad_request"
    assert (await refused("state", target="keeper", limit="x"))[0] == "bad_request"


async def test_the_stack_shows_where_a_coroutine_waits() -> None:
    """Real frames with their lines of source, outermost first."""
    send("the_keeper", "wait")
    await passes()
    found = await ask("stack", target="keeper")
    functions = [frame["function"] for frame in found["frames"]]
    assert found["where"] == "waits"
    assert functions[-3:-1] == ["deep_inside", "sleep_s"] or "deep_inside" in functions
    (inner,) = [frame for frame in found["frames"] if frame["function"] == "deep_inside"]
    assert inner["line"] == "await sleep_s(3600)"
    assert (await ask("stack", target="passing"))["where"] == "idle"


async def test_the_stack_of_a_thread_is_shown_with_whoever_waits_for_it() -> None:
    """A process that works on a thread stands where its thread stands."""
    release = threading.Event()

    def blocked() -> None:
        release.wait()

    async def waits() -> None:
        spawn(blocked, link=True, on="thread", label="worker")
        await sleep_s(3600)

    waiting = spawn(waits, label="waiting")
    try:
        found: dict[str, Any] = {}
        while not found.get("helpers"):
            await passes(20)
            found = await ask("stack", target=waiting.id)
        (helper,) = found["helpers"]
        assert helper["where"] == "thread"
        assert "blocked" in [frame["function"].rpartition(".")[2] for frame in helper["frames"]]
    finally:
        release.set()


async def test_waiting_messages_are_shown_oldest_first() -> None:
    """Without the envelope of a call, bounded in number and length."""
    send("the_keeper", "wait")
    await passes()
    for number in range(30):
        send("the_keeper", ("line", number))
    found = await ask("messages", target="keeper", limit=3)
    assert found["messages"] == ["('line', 0)", "('line', 1)", "('line', 2)"]
    assert found["waiting"] == 30


@pytest.mark.parametrize("order", ["messages", "mailbox", "time", "memory"])
async def test_the_busiest_processes_come_first(order: str) -> None:
    """By what was asked; ties by their numbers."""
    send("the_keeper", "wait")
    await passes()
    for number in range(30):
        send("the_keeper", f"{number:1000}")
    found = await ask("top", sort=order, limit=3)
    assert len(found["rows"]) == 3
    if order != "messages":
        assert found["rows"][0]["id"] == "keeper"
    assert found["totals"]["mailbox"] >= 30
    assert (await refused("top", sort="beauty"))[0] == "bad_request"


async def test_measuring_what_processes_hold_takes_no_time_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done by whoever writes the answer, for so long only; what was not measured is said to be missing."""
    monkeypatch.setattr(looks, "MEASURE_S", 0.0)
    calls: list[int] = []
    monkeypatch.setattr(looks, "size_estimate", lambda *_, objects_max: calls.append(objects_max) or 7)
    later = looks.look_at_top({"sort": "mailbox", "limit": 3})
    assert not calls
    answer = later.finish()
    assert [row["memory_bytes"] for row in answer["rows"]] == [7, None, None]
    assert answer["partial"] == "measured 1 of 3 processes"
    by_memory = looks.look_at_top({"sort": "memory", "limit": 3}).finish()
    assert [row["memory_bytes"] for row in by_memory["rows"]] == [7]
    assert "measured 1 of" in by_memory["partial"]


async def test_names_registries_and_their_entries_are_listed() -> None:
    """The entries of one registry by key."""
    Registry.register("names", "key", {"some": "value"})
    found = await ask("registry")
    assert {"name": "the_keeper", "pid": keeper().id} in found["names"]
    assert found["registries"] == [{"name": "names", "keys": "unique", "entries": 1, "processes": 1}]
    (entry,) = (await ask("registry", name="names"))["entries"]
    assert (entry["key"], entry["value"]) == ("'key'", "{'some': 'value'}")
    assert (await refused("registry", name="other"))[0] == "not_found"


async def test_tables_streams_and_applications_are_listed() -> None:
    """With owner, size, depth, high-water mark, drops."""
    table = Table.new("words")
    table.insert(("a", 1))
    stream: EventStream[int, None] = EventStream.start(max_queue=2, drop_strategy="drop_oldest")
    for number in range(4):
        stream.push(number)
    await ensure_all_started(Application("app", start_other))
    (shown,) = [told for told in (await ask("tables"))["tables"] if told["name"] == "words"]
    assert (shown["size"], shown["owner"]["id"]) == (1, "attached")
    (told,) = [told for told in (await ask("streams"))["streams"] if told["pid"] == stream.pid.id]
    assert (told["depth"], told["high_water"], told["dropped"], told["open"]) == (2, 2, 2, True)
    (application,) = (await ask("apps"))["applications"]
    assert (application["name"], application["running"]) == ("app", True)
    await stop_all()
    (application,) = (await ask("apps"))["applications"]
    assert (application["running"], application["top"]) == (False, None)


async def start_other() -> Pid:
    from lemon_otp import Supervisor

    return await Supervisor.start_link([], name="other")


async def test_zombies_are_shown_with_where_they_stand() -> None:
    """A coroutine that swallows its end is found by its number although it is dead."""
    import asyncio

    held = asyncio.Event()

    async def stubborn() -> None:
        while not held.is_set():
            try:
                await held.wait()
            except asyncio.CancelledError:
                continue

    pid = spawn(stubborn, label="stubborn")
    await passes()
    exit_signal(pid, "kill")
    await passes()
    (zombie,) = (await ask("zombies"))["zombies"]
    assert (zombie["pid"], zombie["what"]) == (pid.id, "coroutine")
    assert (await ask("info", target=pid.id))["zombie"]
    held.set()
    await passes()


async def test_a_process_that_dies_while_it_is_shown_is_an_answer() -> None:
    """Whoever was there a moment ago is not found, and nobody fails."""
    pid = keeper()
    exit_signal(pid, "kill")
    assert (await refused("info", target=pid.id))[0] == "not_found"
    assert (await refused("stack", target=pid.id))[0] == "not_found"


@pytest.mark.requirement("BR-145")
async def test_looking_while_supervisors_die_never_fails() -> None:
    """A tree whose supervisors come and go is shown as it is at that moment."""
    for _ in range(20):
        found = whereis("dynamic")
        if found is not None:
            exit_signal(found, "kill")
        for op in ("tree", "top", "names", "registry"):
            await ask(op)
        await passes(1)


async def test_history_and_log_say_what_happened_once_it_is_recorded() -> None:
    """Nothing is recorded unless somebody asked for it."""
    assert (await refused("history"))[0] == "not_recorded"
    assert (await refused("log"))[0] == "not_recorded"
    Recorder.start()
    pid = keeper()
    send(pid, "boom")
    await passes(20)
    events = [entry["event"] for entry in (await ask("history", target=pid.id))["entries"]]
    assert "lemon_otp.process.crash" in events
    assert (await ask("log"))["records"] == []


async def test_the_lag_of_the_loop_is_measured() -> None:
    """Over a few passes, now."""
    found = await ask("lag")
    assert 0 <= found["median_ms"] <= found["worst_ms"]


async def test_every_answer_can_be_written_as_json_that_no_terminal_obeys() -> None:
    """Ids may hold anything."""
    for op in ("tree", "names", "registry", "top"):
        assert json.loads(encode(await ask(op)))["ok"]
    assert introspect.printable("\x1b[2J") == "\\x1b[2J"


async def test_unknown_operations_are_refused_with_what_there_is() -> None:
    """Also those that need a connection."""
    code, text = await refused("nonsense")
    assert code == "bad_request"
    assert "tree" in text
    assert (await refused("trace", target="keeper"))[0] == "bad_request"


async def test_commands_work_in_the_program_itself() -> None:
    """The same text that a prompt elsewhere would show."""
    shown = await repl.run_command("tree dynamic")
    assert "session[a1]" in shown
    assert "keeper" in await repl.run_command("info the_keeper")
    assert "error: there is no process" in await repl.run_command("kill nobody")
    assert "usage: kill TARGET" in await repl.run_command("help kill")
    assert await repl.run_command("  ") == ""
    assert "'x" in await repl.run_command("watch the_keeper.big")
