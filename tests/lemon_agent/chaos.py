"""A busy tree in which something dies every few milliseconds: `python -m tests.lemon_agent.chaos [SECONDS] [SEED]`.

Callers start agents, prompt them, steer and abort them; a killer ends a random process of the tree, supervisors and
all. Whoever called must get an answer: the terminal event of its run, or the news that its agent died. Afterwards
nothing but the tree itself may be left.
"""

import asyncio
import random
import sys
from collections import Counter
from typing import Any

from attrs import define, field

from lemon_agent import (
    Agent,
    AgentEventMessage,
    AgentOptions,
    AgentTool,
    signals_in_use,
    subagent_supervisor,
    text_result,
)
from lemon_agent.application import children
from lemon_agent.testing import MODEL, ScriptedModel, assert_transcript, assert_well_formed, is_terminal, tool_call
from lemon_otp import (
    CallFailed,
    Down,
    OtpError,
    Pid,
    Runtime,
    Supervisor,
    exit_signal,
    monitor,
    monotonic_s,
    receive,
    self_pid,
    sleep_s,
    spawn,
    zombies,
)

PATIENCE_S = 10.0
ENOUGH = 20


@define
class Report:
    """What happened."""

    outcomes: Counter[str] = field(factory=Counter)
    killed: Counter[str] = field(factory=Counter)
    unanswered: list[str] = field(factory=list)
    left: list[str] = field(factory=list)
    until_s: float = 0.0

    @property
    def goes_on(self) -> bool:
        """Is there time left, or, on a machine that has other things to do, has too little happened yet?"""
        late_s = monotonic_s() - self.until_s
        busy = sum(self.killed.values()) > ENOUGH and self.outcomes["completed"] > ENOUGH
        return late_s < 0 or (not busy and late_s < PATIENCE_S)


async def nap(call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> Any:
    """A tool that takes a moment and says so."""
    on_update(text_result("..."))
    await sleep_s(params["s"])
    return text_result("rested")


async def deaf(call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> Any:
    """A tool that swallows one cancellation."""
    try:
        await asyncio.sleep(params["s"])
    except asyncio.CancelledError:
        await asyncio.sleep(0.01)
    return text_result("heard nothing")


NUMBER = {"type": "object", "properties": {"s": {"type": "number"}}, "required": ["s"]}
TOOLS = (AgentTool("nap", "", NUMBER, nap), AgentTool("deaf", "", NUMBER, deaf))


def turns(dice: random.Random) -> list[Any]:
    """What a model says in one run: a few batches of calls, then an answer."""

    def batch(number: int) -> list[Any]:
        names = dice.choices(["nap", "deaf", "nothing"], k=dice.randint(1, 4))
        return ["Thinking. ", *(tool_call(n, f"c{number}_{i}", s=dice.uniform(0, 0.02)) for i, n in enumerate(names))]

    return [*map(batch, range(dice.randint(0, 3))), "Done with all of it."]


async def caller(seed: int, report: Report) -> None:
    """Starts agents and talks to them until the time is up."""
    dice = random.Random(seed)
    while report.goes_on:
        try:
            await one_conversation(dice, report)
        except OtpError as error:
            report.outcomes[type(error).__name__] += 1
            await sleep_s(0.002)


async def one_conversation(dice: random.Random, report: Report) -> None:
    options = AgentOptions(
        model=MODEL,
        tools=TOOLS,
        stream_fn=ScriptedModel([step for _ in range(3) for step in turns(dice)]),
        follow_up_window_ms=dice.choice([0, 5]),
        abort_grace_ms=10,
        kill_grace_ms=20,
    )
    key = (f"s{dice.randrange(5)}", "worker", dice.randrange(10**9))
    agent = await subagent_supervisor.start_subagent(options, registry_key=key)
    ref = monitor(agent)
    try:
        await Agent.subscribe(agent, self_pid())
        for _ in range(3):
            await Agent.prompt(agent, "go")
            if dice.random() < 0.3:
                Agent.steer(agent, "and this")
            if dice.random() < 0.3:
                await sleep_s(dice.uniform(0, 0.02))
                Agent.abort(agent)
            if await answer(agent, ref, report):
                return
        await subagent_supervisor.stop_subagent(agent)
    except CallFailed as failed:
        report.outcomes[f"call failed: {failed.reason}"] += 1
        if agent.alive:
            exit_signal(agent, "kill")
    finally:
        while True:
            try:
                await receive(timeout_s=0)
            except OtpError:
                break


async def answer(agent: Pid, ref: Any, report: Report) -> bool:
    """Wait for the end of a run; whether the agent is gone."""
    events = []
    while True:
        try:
            message = await receive(
                lambda m: isinstance(m, AgentEventMessage) or (isinstance(m, Down) and m.ref is ref),
                timeout_s=PATIENCE_S,
            )
        except OtpError:
            report.unanswered.append(f"{agent!r} said nothing more after {[event.type for event in events][-5:]}")
            return True
        if isinstance(message, Down):
            report.outcomes["agent died"] += 1
            return True
        events.append(message.event)
        if is_terminal(message.event):
            assert_well_formed(events)
            assert_transcript((await Agent.get_state(agent)).messages)
            report.outcomes[getattr(message.event, "outcome", message.event.type)] += 1
            return False


async def killer(seed: int, spared: set[Pid], runtime: Runtime, report: Report) -> None:
    """Ends a random process every few milliseconds."""
    dice = random.Random(seed)
    spared = spared | {self_pid()}
    while report.goes_on:
        await sleep_s(dice.uniform(0.001, 0.008))
        victims = [pid for pid in runtime.processes if pid not in spared]
        if victims:
            victim = dice.choice(victims)
            report.killed[str(victim.name or victim.label or "process")] += 1
            exit_signal(victim, "kill")


async def run(seconds: float, seed: int, callers: int = 12) -> Report:
    """Keep a tree busy and broken for so long."""
    report = Report()
    async with Runtime() as runtime:
        top = await Supervisor.start_link(children(), max_restarts=10**9, max_seconds=1.0, name="top")
        report.until_s = monotonic_s() + seconds
        crew = [spawn(caller, seed + number, report) for number in range(callers)]
        spared = {*crew, top, self_pid()}
        killing = spawn(killer, seed, spared, runtime, report)
        for pid in (*crew, killing):
            ref = monitor(pid)
            down = await receive(lambda m, ref=ref: isinstance(m, Down) and m.ref is ref)
            if down.reason not in ("normal", "noproc"):
                report.unanswered.append(f"{pid!r} ended with {down.reason!r}")
        await asyncio.sleep(1.0)
        await subagent_supervisor.stop_all()
        await asyncio.sleep(1.0)
        tree = {self_pid(), top, *(info.pid for info in await Supervisor.which_children(top)), *registry_parts(runtime)}
        report.left = [repr(pid) for pid in runtime.processes if pid not in tree]
        report.left += [f"zombie {pid!r}" for pid in zombies()]
        report.left += [f"{signal!r}" for signal in signals_in_use()]
    return report


def registry_parts(runtime: Runtime) -> set[Pid]:
    """The processes inside the agent registry."""
    from lemon_otp import introspect

    return {pid for pid in runtime.processes if "registry" in str(introspect.info(pid)).lower()}


def main() -> int:
    """Run it from the command line."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    report = asyncio.run(run(seconds, seed))
    print(f"seed {seed}, {seconds:g} s, {sum(report.killed.values())} killed")
    print("killed:", dict(report.killed.most_common(12)))
    print("outcomes:", dict(report.outcomes.most_common()))
    print("without an answer:", report.unanswered or "none")
    print("left behind:", report.left or "nothing")
    return 1 if report.unanswered or report.left else 0


if __name__ == "__main__":
    sys.exit(main())
