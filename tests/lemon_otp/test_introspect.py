"""Looking at what runs: complete, bounded, and without disturbing it."""

import asyncio
import threading
import time
from importlib import import_module
from typing import Any

import pytest

from lemon_otp import (
    Application,
    DynamicSupervisor,
    EventStream,
    GenServer,
    NoProcess,
    NoReply,
    Pid,
    Registry,
    Reply,
    Runtime,
    Supervisor,
    TaskSupervisor,
    annotate,
    call,
    current_runtime,
    ensure_all_started,
    exit_signal,
    info,
    introspect,
    monitor,
    receive,
    render,
    self_pid,
    send,
    sleep_s,
    spawn,
    stop_all,
    sys,
    trap_exit,
    tree,
    whereis,
)
from lemon_otp.testing import FakeClock, settle
from tests.lemon_otp.trees import Child, child, end, pids

pytestmark = pytest.mark.usefixtures("runtime")


async def start() -> Pid:
    return await Supervisor.start_link(
        [
            Registry.child_spec("names"),
            DynamicSupervisor.child_spec(name="dynamic"),
            TaskSupervisor.child_spec(name="tasks"),
            child([], "worker"),
        ],
        name="app.supervisor",
    )


async def test_the_tree_shows_every_child_under_its_supervisor_by_its_id() -> None:
    """Applications first, ids and modules as the specs give them; every module named can be imported."""
    await ensure_all_started(Application("app", start))
    await DynamicSupervisor.start_child("dynamic", Child.child_spec(([], "x"), id="session[1]"))
    await TaskSupervisor.async_nolink("tasks", receive, label="loop")
    nodes = tree()
    top = nodes[0]
    assert top.id == "app.supervisor"
    assert [node.id for node in top.children] == ["names", "dynamic", "tasks", "worker"]
    by_id = {node.id: node for node in introspect.walk(nodes)}
    assert [node.id for node in by_id["dynamic"].children] == ["session[1]"]
    assert [node.id for node in by_id["tasks"].children] == ["loop"]
    assert [node.id for node in by_id["names"].children] == ["partition[0]"]
    assert by_id["tasks"].kind == "supervisor"
    assert by_id["worker"].kind == "worker"
    assert nodes[-1].pid is self_pid()
    for node in introspect.walk(nodes):
        assert node.module is not None
        import_module(node.module)
    shown = [node.pid for node in introspect.walk(nodes)]
    masters = [pid for pid in self_pid().runtime.processes.values() if pid not in shown]  # type: ignore[attr-defined]
    assert [pid.label for pid in masters] == ["application[app]"]
    await stop_all()


async def test_what_no_supervisor_started_stands_below_who_did() -> None:
    """A stream's guard below the process that opened it."""

    async def opener() -> None:
        EventStream.start()
        await receive()

    spawn(opener, label="opener")
    await settle()
    nodes = {node.id: node for node in tree()}
    assert [node.id for node in nodes["opener"].children] == ["event_stream"]


async def test_children_without_a_process_are_shown_too() -> None:
    """Stopped ones keep their line."""
    supervisor = await start()
    await Supervisor.terminate_child(supervisor, "worker")
    (node,) = tree(supervisor)
    worker = node.children[-1]
    assert (worker.id, worker.pid, worker.state) == ("worker", None, "stopped")


async def test_a_line_counts_waiting_messages_and_restarts() -> None:
    """What waits in the mailbox, and how often the supervisor has started the child again."""
    supervisor = await start()
    await end((await pids(supervisor))["worker"])
    worker = (await pids(supervisor))["worker"]
    await sys.suspend(worker)
    for _ in range(3):
        send(worker, "wait")
    node = tree(supervisor)[0].children[-1]
    assert (node.mailbox_length, node.restarts) == (3, 1)


async def test_a_part_of_the_tree_is_found_by_pid_or_name() -> None:
    """And is empty for who is not there."""
    await start()
    assert [node.id for node in tree("tasks")] == ["tasks"]
    assert tree(whereis("app.supervisor"))[0].id == "app.supervisor"
    assert tree("nobody") == []


async def test_a_large_tree_is_cut_and_says_so() -> None:
    """The nodes left out are counted."""
    supervisor = await DynamicSupervisor.start_link(name="dynamic")
    for number in range(100):
        await DynamicSupervisor.start_child(supervisor, Child.child_spec(([], "x"), id=f"w[{number}]"))
    (node,) = tree(supervisor, max_nodes=11)
    assert len(node.children) == 11
    assert node.children[-1].kind == "more"
    assert node.children[-1].id == "… 90 more"


async def test_info_tells_all_about_a_process(fake_clock: FakeClock, clocked_runtime: Runtime) -> None:
    """Names, relations, counts, what it works on and since when, what it said of itself, and where it waits."""

    class Slow(GenServer[None, Any, Any, list[int]]):
        def init(self, arg: None) -> list[int]:
            return [1, 2, 3]

        async def handle_info(self, message: Any, state: list[int]) -> NoReply[list[int]]:
            annotate(phase="tool", tool="bash", n=3)
            await sleep_s(100)
            return NoReply(state)

    slow = await Slow.start(None, name="slow")
    assert slow is not None
    monitor(slow)
    send(slow, ("work", 1))
    send(slow, ("work", 2))
    await fake_clock.advance(7)
    seen = info("slow")
    assert (seen.name, seen.state, seen.module) == ("slow", "busy", __name__)
    assert seen.current_message == "('work', 1)"
    assert seen.current_age_s == pytest.approx(7, abs=0.01)
    assert (seen.mailbox_length, seen.messages_handled) == (1, 1)
    assert seen.monitored_by == (self_pid(),)
    assert seen.parent is self_pid()
    assert seen.facts == {"phase": "tool", "tool": "bash", "n": "3"}
    assert seen.held_state == "[1, 2, 3]"
    assert seen.memory_bytes > 0
    assert any("handle_info" in frame for frame in seen.stack)
    assert introspect.messages("slow") == ["('work', 2)"]
    mine = info(self_pid())
    assert mine.monitors == (slow,)


async def test_states_tell_what_a_process_is_doing() -> None:
    """idle, ready, busy, suspended, dead."""
    supervisor = await start()
    worker = (await pids(supervisor))["worker"]
    assert info(worker).state == "idle"
    await sys.suspend(worker)
    assert info(worker).state == "suspended"
    await sys.resume(worker)
    assert info(spawn(receive)).state == "ready"
    sleeper = spawn(sleep_s, 100)
    await settle()
    assert info(sleeper).state == "busy"
    exit_signal(sleeper, "boom")
    assert (info(sleeper).state, info(sleeper).exit_reason) == ("dead", "'boom'")
    with pytest.raises(NoProcess):
        info("nobody")


@pytest.mark.requirement("BR-130")
async def test_looking_is_bounded_whatever_the_state_does() -> None:
    """A state that raises in its repr, holds a handle of its own process, or is huge, costs the looker little."""

    class Nasty:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    class Server(GenServer[Any, Any, Any, Any]):
        def init(self, arg: Any) -> Any:
            return arg(self_pid())

    for make in (lambda pid: Nasty(), lambda pid: {"me": pid}, lambda pid: ["x" * 1000] * 1_000_000):
        server = await Server.start(make)
        assert server is not None
        began_s = time.perf_counter()
        seen = info(server)
        assert time.perf_counter() - began_s < 0.5
        assert seen.held_state is not None
        assert len(seen.held_state) <= 500


@pytest.mark.requirement("BR-145")
async def test_looking_goes_on_while_supervisors_die() -> None:
    """Values, never an exit: trees and infos are taken while supervisors are killed and started."""
    looked = 0
    for number in range(50):
        supervisor = await DynamicSupervisor.start_link(name="dynamic")
        trap_exit(True)
        children = [await DynamicSupervisor.start_child(supervisor, child([], "x")) for _ in range(3)]
        exit_signal(supervisor, "kill")
        for _ in range(number % 4):
            await asyncio.sleep(0)
        for pid in (supervisor, *children):
            looked += len(introspect.render(tree())) > 0
            info(pid)
        await settle()
    assert looked == 200


async def test_looking_sends_nothing_and_wakes_nobody() -> None:
    """Counts, mailboxes and states are as they were."""
    supervisor = await start()
    worker: Any = (await pids(supervisor))["worker"]
    await settle()
    before = (worker.handled, worker.mailbox, worker.state)
    for _ in range(10):
        render(tree())
        info(worker)
    assert (worker.handled, worker.mailbox, worker.state) == before
    assert not current_runtime().queue


async def test_another_thread_may_look_while_a_handler_blocks_the_loop() -> None:
    """The tree is there although no event is served."""

    class Blocker(GenServer[None, Any, Any, None]):
        def init(self, arg: None) -> None:
            return None

        def handle_call(self, message: Any, caller: Any, state: None) -> Reply[None]:
            reached.set()
            looked.wait(5)
            return Reply(None, state)

    reached, looked = threading.Event(), threading.Event()
    runtime = current_runtime()
    seen: list[Any] = []

    def look() -> None:
        reached.wait(5)
        seen.extend(introspect.walk(tree(runtime=runtime)))
        looked.set()

    thread = threading.Thread(target=look)
    thread.start()
    blocker = await Blocker.start(None, name="blocker")
    assert blocker is not None
    await call(blocker, "block")
    thread.join()
    assert [node.state for node in seen if node.id == "blocker"] == ["ready"]


async def test_text_and_json_escape_what_a_terminal_would_obey() -> None:
    """Control characters in ids and facts are written out."""

    async def hostile() -> None:
        annotate(tool="\x1b[31mred\n")
        await receive()

    spawn(hostile, label="evil\x1b[2J")
    await settle()
    text = render(tree(), pids=True)
    assert "\x1b" not in text
    assert "evil\\x1b[2J" in text
    assert "red\\n" in text
    node = introspect.to_json(tree()[-1])
    keys = {"id", "pid", "module", "kind", "state", "facts", "mailbox_length", "restarts", "messages_handled"}
    assert keys | {"children"} == set(node)


async def test_the_tree_is_drawn_with_lines() -> None:
    """Ids at the left, module, state and facts at the right."""
    await start()
    lines = render(tree("app.supervisor")).splitlines()
    assert [line.split("  lemon_otp")[0].split("  tests")[0].rstrip() for line in lines] == [
        "app.supervisor",
        "├─ names",
        "│  └─ partition[0]",
        "├─ dynamic",
        "├─ tasks",
        "└─ worker",
    ]
