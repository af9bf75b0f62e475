"""What runs are at, and what sessions use up, as telemetry tells it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from coding_agent.event_names import CALL_START, CALL_STOP, PERMISSION_ASKED, PERMISSION_DECIDED, RUN_END, RUN_START
from coding_agent.repl import ledger as ledger_module
from coding_agent.repl.ledger import Ledger, ledger
from lemon_otp import annotate, exit_signal, introspect, receive, repl, send, spawn, telemetry
from lemon_otp.testing import FakeClock, settle

pytestmark = pytest.mark.usefixtures("clocked_runtime")
TOOL = "lemon_agent", "tool_task"


class Loop:
    """A process that executes events as a run does."""

    def __init__(self, session_id: str) -> None:
        self.pid = spawn(self.run, label=f"loop[{session_id}]")
        self.say(RUN_START, session_id=session_id, model="m")

    async def run(self) -> None:
        while True:
            event, measured, told = await receive()
            telemetry.execute(event, measured, told)

    def say(self, event: tuple[str, ...], measured: dict[str, Any] | None = None, **told: Any) -> None:
        send(self.pid, (event, measured or {}, told))


@pytest_asyncio.fixture
async def kept(clocked_runtime: Any) -> AsyncIterator[Ledger]:
    """The ledger of the test's runtime."""
    made = Ledger.start()
    yield made
    made.stop()


def usage(**tokens: int) -> dict[str, Any]:
    kinds = dict.fromkeys(("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"), 0)
    return kinds | {f"{kind}_tokens": amount for kind, amount in tokens.items()} | {"cost": 0.5}


async def shown(kept: Ledger, loop: Loop) -> repl.Detail:
    await settle()
    return kept.details()[loop.pid]


async def test_a_run_waits_for_its_model_then_for_a_tool(kept: Ledger, fake_clock: FakeClock) -> None:
    """Phase, tool, main argument; since when, and when anything last happened."""
    loop = Loop("s1")
    loop.say(CALL_START, call_id=1)
    await settle()
    await fake_clock.advance(3)
    detail = await shown(kept, loop)
    assert (detail.shown, detail.elapsed_s, detail.progress_s) == ({"phase": "model"}, 3.0, 3.0)

    loop.say(CALL_STOP, usage(input=10), call_id=1)
    loop.say((*TOOL, "start"), tool_name="bash", tool_call_id="c1")
    await settle()

    async def tool() -> None:
        annotate(argument="sleep 600")
        telemetry.execute((*TOOL, "entered"), {}, {"tool_name": "bash", "tool_call_id": "c1", "loop": loop.pid})
        await receive()

    spawn(tool)
    await fake_clock.advance(2)
    detail = await shown(kept, loop)
    assert detail.shown == {"phase": "tool", "tool": "bash", "argument": "sleep 600"}
    assert detail.elapsed_s == 2.0
    loop.say((*TOOL, "end"), tool_name="bash", tool_call_id="c1")
    assert (await shown(kept, loop)).shown == {"phase": "working"}


async def test_a_run_that_waits_for_a_person_or_for_a_child_says_so(kept: Ledger) -> None:
    """Permission goes before everything; tools that wait for another agent are no tools at work."""
    loop = Loop("s1")
    loop.say((*TOOL, "start"), tool_name="bash", tool_call_id="c1")
    loop.say(PERMISSION_ASKED, tool_name="bash", tool_call_id="c1")
    assert (await shown(kept, loop)).shown == {"phase": "permission", "tool": "bash"}
    loop.say(PERMISSION_DECIDED, tool_name="bash", tool_call_id="c1", decision="allowed")
    assert (await shown(kept, loop)).shown == {"phase": "tool", "tool": "bash"}
    loop.say((*TOOL, "error"), tool_name="bash", tool_call_id="c1")
    for number in range(2):
        loop.say((*TOOL, "start"), tool_name="task", tool_call_id=f"t{number}")
    assert (await shown(kept, loop)).shown == {"phase": "child", "tool": "task and 1 more"}


async def test_two_runs_with_the_same_call_ids_are_told_apart(kept: Ledger) -> None:
    """Ids of calls are the model's, and models repeat themselves."""
    one, two = Loop("s1"), Loop("s2")
    for loop in (one, two):
        loop.say((*TOOL, "start"), tool_name="bash", tool_call_id="call_1")
    one.say((*TOOL, "end"), tool_name="bash", tool_call_id="call_1")
    assert (await shown(kept, one)).shown == {"phase": "working"}
    assert (await shown(kept, two)).shown == {"phase": "tool", "tool": "bash"}


async def test_what_a_session_uses_up_is_added_up(kept: Ledger) -> None:
    """Tokens of every kind and cost, over its runs; a call outside of any run is nobody's."""
    for _ in range(2):
        loop = Loop("s1")
        loop.say(CALL_START, call_id=1)
        loop.say(CALL_STOP, usage(input=10, output=5, cache_read=100), call_id=1)
        loop.say(RUN_END)
        await settle()
    telemetry.execute(CALL_STOP, usage(input=1), {"call_id": 99})
    used = kept.used["s1"]
    assert (used.tokens, used.cost, used.calls) == (230, 1.0, 2)
    assert kept.runs == {}


async def test_a_run_whose_process_was_killed_is_forgotten(kept: Ledger) -> None:
    """It can say nothing any more."""
    loop = Loop("s1")
    await settle()
    exit_signal(loop.pid, "kill")
    await settle()
    assert kept.running() == {}
    assert kept.details() == {}
    Loop("s2")
    await settle()
    assert [run.session_id for run in kept.runs.values()] == ["s2"]


async def test_the_sums_are_bounded(kept: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that was used longest ago goes first."""
    monkeypatch.setattr(ledger_module, "SESSIONS_MAX", 3)
    for number in range(5):
        loop = Loop(f"s{number}")
        loop.say(CALL_START, call_id=number)
        loop.say(CALL_STOP, usage(input=1), call_id=number)
        await settle()
    assert list(kept.used) == ["s2", "s3", "s4"]


async def test_there_is_one_ledger_a_runtime_and_none_once_it_is_stopped() -> None:
    """Starting it again gives the same one; stopping leaves no handler behind."""
    one = Ledger.start()
    assert Ledger.start() is one is ledger()
    one.stop()
    assert ledger() is None
    assert telemetry.list_handlers() == []
    assert introspect.tree()
