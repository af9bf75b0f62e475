"""What an agent costs beside its model: turns with tools, streamed text, many agents at once, long conversations.

Models are in this process and answer at once, so that what is measured is the framework. Supervision, monitors,
argument checking and telemetry handlers are on. "By hand" is the same job written in plain asyncio in the same run.
Other frameworks are measured in the same run when `LEMON_PEERS_PYTHON` names a Python that has them (see
`agent_peers.py`); otherwise the limit is what they took where both were measured: ninety times by hand a turn.
"""

import asyncio
import gc
import json
import os
import statistics
import subprocess
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from benches.in_process import in_process
from lemon_agent import Agent, AgentEnd, AgentOptions, AgentTool, text_result, user_message
from lemon_agent.testing import MODEL, agent_tree
from lemon_ai import AssistantMessage, Context, Fold, Model, StreamEvent, TextContent, ToolCall
from lemon_otp import Pid, receive, telemetry

Row = dict[str, object]

TURNS = 10
DELTAS = 2000
ROUNDS = 15
AGENTS = 1000
MODEL_S = 0.05
HISTORY = 2000

PEER_SHARE = 0.2
PEERS_BY_HAND = 90.0
"""The best of three frameworks against by hand, where both were measured: 2.7 ms and 0.03 ms a turn."""
DELTA_LIMIT = 1.5
RUN_MEMORY_LIMIT_KB = 10.0
IDLE_MEMORY_LIMIT_KB = 30.0
CROWD_LIMIT = 1.5
HISTORY_LIMIT = 1.5

COUNTED = [("lemon_agent", "loop", name) for name in ("start", "end")]
COUNTED += [("lemon_agent", "tool_task", name) for name in ("start", "end", "error")]
COUNTED += [("lemon_agent", "tool_result", "emit")]


async def _noop(call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> Any:
    return OK


OK = text_result("ok")
NOOP = AgentTool(
    "noop", "Does nothing.", {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}, _noop
)


def _turn_events(model: Model, turn: int) -> list[StreamEvent]:
    """What a model says in one turn: two calls, or a text in the last."""
    fold = Fold(model, timestamp=1)
    events = [*fold.start()]
    if turn < TURNS:
        for number in range(2):
            events += fold.tool_start(number, f"c{turn}_{number}", "noop")
            events += fold.tool_args(number, json.dumps({"x": number}))
            events += fold.end(number)
    else:
        events += fold.text("done")
    return [*events, *fold.done("stop")]


class Tools:
    """A model that asks for two tools, ten times, then says it is done. Its events are made beforehand."""

    def __init__(self) -> None:
        self.prepared = [_turn_events(MODEL, turn) for turn in range(TURNS + 1)]
        self.turn = 0

    async def __call__(self, model: Model, context: Context, options: Any) -> AsyncIterator[StreamEvent]:
        return self._play()

    async def _play(self) -> AsyncIterator[StreamEvent]:
        events = self.prepared[self.turn % (TURNS + 1)]
        self.turn += 1
        for event in events:
            yield event


async def _talk(model: Model, context: Context, options: Any) -> AsyncIterator[StreamEvent]:
    """Two thousand deltas, each on a turn of the event loop of its own."""
    fold = Fold(model)
    for event in fold.start():
        yield event
    for _ in range(DELTAS):
        for event in fold.text("word "):
            yield event
        await asyncio.sleep(0)
    for event in fold.done("stop"):
        yield event


async def _short(model: Model, context: Context, options: Any) -> AsyncIterator[StreamEvent]:
    """A word, after fifty milliseconds."""
    await asyncio.sleep(MODEL_S)
    fold = Fold(model)
    for event in (*fold.start(), *fold.text("ok"), *fold.done("stop")):
        yield event


async def new_agent(stream_fn: Any, **options: Any) -> Pid:
    pid = await Agent.start_link(AgentOptions(model=MODEL, stream_fn=stream_fn, follow_up_window_ms=0, **options))
    assert pid is not None
    return pid


async def one_run(agent: Pid) -> None:
    """Prompt an agent and read what it says, as a subscriber does."""
    await Agent.prompt(agent, "hi")
    while not isinstance((await receive()).event, AgentEnd):
        pass


async def _pairs(ours: Callable[[], Awaitable[None]], base: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """The least seconds of both, taken in turns: what the work takes when nothing else gets in its way."""
    await ours()
    await base()
    taken: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        gc.collect()
        began = time.perf_counter()
        await ours()
        middle = time.perf_counter()
        await base()
        taken.append((middle - began, time.perf_counter() - middle))
    mine, theirs = zip(*taken, strict=True)
    return min(mine), min(theirs)


# By hand.


@frozen
class Said:
    """An event of a loop written by hand."""

    type: str
    value: Any = None


async def _turns_by_hand() -> None:
    """Ten turns of two tools in plain asyncio: a list of messages and `gather`."""
    messages: list[Any] = ["hi"]

    async def tool(call: ToolCall) -> str:
        return "ok"

    for turn in range(TURNS):
        calls = [ToolCall(f"c{turn}_{number}", "noop", {"x": number}) for number in range(2)]
        messages.append(calls)
        messages.extend(await asyncio.gather(*map(tool, calls)))
    messages.append("done")


async def _deltas_by_hand() -> None:
    """A model, a loop that says the delta and the text so far, and a subscriber behind a queue."""
    queue: asyncio.Queue[Said] = asyncio.Queue()

    async def model() -> AsyncIterator[Said]:
        for _ in range(DELTAS):
            yield Said("text_delta", "word ")
            await asyncio.sleep(0)

    async def loop() -> None:
        text = ""
        async for event in model():
            text += event.value
            await queue.put(Said("message_update", (event, text)))
        await queue.put(Said("agent_end", text))

    async def subscriber() -> None:
        while (await queue.get()).type != "agent_end":
            pass

    await asyncio.gather(loop(), subscriber())


# Rows.


def _row(metric: str, value_us: float, limit: str, limit_us: float, ratio: float, **more: object) -> Row:
    return {
        "metric": f"agent: {metric}",
        "value_us": round(value_us, 2),
        "limit": limit,
        "limit_us": round(limit_us, 2),
        "ratio": round(ratio, 3),
        **more,
    }


def _peers() -> dict[str, dict[str, float]]:
    """What other frameworks take, where there is a Python that has them."""
    python = os.environ.get("LEMON_PEERS_PYTHON")
    if not python:
        return {}
    program = Path(__file__).with_name("agent_peers.py")
    done = subprocess.run([python, "-W", "ignore", str(program)], capture_output=True, text=True, check=False)
    found: dict[str, dict[str, float]] = json.loads(done.stdout.strip().splitlines()[-1]) if done.stdout else {}
    return found


async def _turns(peers: dict[str, dict[str, float]]) -> Row:
    said = [0]

    def count(*_event: Any) -> None:
        said[0] += 1

    telemetry.attach_many("bench", COUNTED, count)
    agent = await new_agent(Tools(), tools=(NOOP,))
    await Agent.subscribe(agent)

    async def ours() -> None:
        await one_run(agent)
        await Agent.replace_messages(agent, ())

    taken_s, hand_s = await _pairs(ours, _turns_by_hand)
    turn_us, hand_us = taken_s / TURNS * 1e6, hand_s / TURNS * 1e6
    assert said[0] > 0
    if peers:
        best = min(peer["turn_s"] for peer in peers.values()) * 1e6
        limit, limit_us = f"{PEER_SHARE}x the best of {', '.join(sorted(peers))}", PEER_SHARE * best
    else:
        limit = f"{PEER_SHARE}x other frameworks ({PEERS_BY_HAND:g}x by hand; none installed here)"
        limit_us = PEER_SHARE * PEERS_BY_HAND * hand_us
    others: dict[str, float] = {name: round(peer["turn_s"] * 1e6) for name, peer in peers.items()}
    return _row(
        "a turn with two no-op tools",
        turn_us,
        limit,
        limit_us,
        turn_us / limit_us,
        by_hand_us=round(hand_us, 1),
        **others,
    )


async def _deltas(peers: dict[str, dict[str, float]]) -> Row:
    agent = await new_agent(_talk)
    await Agent.subscribe(agent)

    async def ours() -> None:
        await one_run(agent)
        await Agent.replace_messages(agent, ())

    taken_s, hand_s = await _pairs(ours, _deltas_by_hand)
    delta_us, hand_us = taken_s / DELTAS * 1e6, hand_s / DELTAS * 1e6
    others = {name: round(peer["delta_s"] * 1e6, 1) for name, peer in peers.items()}
    return _row(
        f"one of {DELTAS} deltas to a subscriber",
        delta_us,
        f"{DELTA_LIMIT:g}x by hand",
        DELTA_LIMIT * hand_us,
        delta_us / hand_us,
        **others,
    )


async def _memory() -> list[Row]:
    """What a finished run and an idle agent keep."""
    agent = await new_agent(Tools(), tools=(NOOP,))
    await Agent.subscribe(agent)
    runs = 100
    tracemalloc.start()
    for _ in range(runs):  # what is made once is not what is measured
        await one_run(agent)
        await Agent.replace_messages(agent, ())
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(runs):
        await one_run(agent)
        await Agent.replace_messages(agent, ())
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    kept_kb = (after - before) / runs / 1024
    options = AgentOptions(model=MODEL, stream_fn=_short, tools=(NOOP,), follow_up_window_ms=0)
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    idle = [await Agent.start_link(options) for _ in range(AGENTS)]
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    idle_kb = (after - before) / len(idle) / 1024
    return [
        _kb("memory kept of a run", kept_kb, RUN_MEMORY_LIMIT_KB),
        _kb("memory of an idle agent", idle_kb, IDLE_MEMORY_LIMIT_KB),
    ]


def _kb(metric: str, value: float, limit: float) -> Row:
    return {
        "metric": f"agent: {metric}",
        "value_us": round(value, 2),
        "unit": "KB",
        "limit": f"{limit:g} KB",
        "limit_us": limit,
        "ratio": round(value / limit, 3),
    }


async def _crowd() -> Row:
    """A thousand agents at once against one, each with a model that takes fifty milliseconds; and the same by hand."""
    options = AgentOptions(model=MODEL, stream_fn=_short, follow_up_window_ms=0)
    agents: list[Pid] = []
    for _ in range(AGENTS):
        pid = await Agent.start_link(options)
        assert pid is not None
        agents.append(pid)
    await _together(agents[:1])
    ones, crowds, hands = [], [], []
    for _ in range(3):
        ones.append(await _seconds(_together(agents[:1])))
        crowds.append(await _seconds(_together(agents)))
        hands.append(await _seconds(asyncio.gather(*(asyncio.sleep(MODEL_S) for _ in range(AGENTS)))))
    one_s, crowd_s = statistics.median(ones), min(crowds)
    return _row(
        f"{AGENTS} agents at once, one turn each",
        crowd_s * 1e6,
        f"{CROWD_LIMIT:g}x one agent",
        one_s * CROWD_LIMIT * 1e6,
        crowd_s / one_s,
        bare_sleeps_us=round(min(hands) * 1e6),
        cpu_us_each=round((crowd_s - MODEL_S) / AGENTS * 1e6),
    )


async def _together(agents: Sequence[Pid]) -> None:
    for agent in agents:
        await Agent.prompt(agent, "hi")
    for agent in agents:
        await Agent.wait_for_idle(agent)


async def _seconds(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def _history() -> Row:
    """A turn after two thousand messages against a turn after none."""
    long: list[Any] = []
    for number in range(HISTORY // 2):
        long += [user_message(f"question {number}"), AssistantMessage((TextContent(f"answer {number}"),), timestamp=1)]
    old = await new_agent(Tools(), tools=(NOOP,), messages=tuple(long))
    fresh = await new_agent(Tools(), tools=(NOOP,))
    for agent in (old, fresh):
        await Agent.subscribe(agent)

    long_s, short_s = await _pairs(lambda: one_run(old), lambda: one_run(fresh))
    return _row(
        f"a turn after {HISTORY} messages",
        long_s / TURNS * 1e6,
        f"{HISTORY_LIMIT:g}x a turn after none",
        short_s / TURNS * HISTORY_LIMIT * 1e6,
        long_s / short_s,
    )


async def in_agent_tree(work: Callable[[], Awaitable[Any]]) -> Any:
    """What `work` gives in a process beside the tree of lemon_agent, as code under supervision runs."""
    async with agent_tree():
        return await in_process(work)


def rows() -> list[Row]:
    """All rows of this module."""
    peers = _peers()
    made: list[Row] = [
        asyncio.run(in_agent_tree(lambda: _turns(peers))),
        asyncio.run(in_agent_tree(lambda: _deltas(peers))),
        asyncio.run(in_agent_tree(_crowd)),
        asyncio.run(in_agent_tree(_history)),
    ]
    made += asyncio.run(in_agent_tree(_memory))
    return made


if __name__ == "__main__":
    for each in rows():
        print(json.dumps(each))
