"""No message between live processes is lost or doubled, and each sender's stay in their order."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lemon_otp import (
    GenServer,
    NoReply,
    Pid,
    Reply,
    TaskSupervisor,
    call,
    cast,
    receive,
    run,
    send,
    sleep_s,
    spawn,
    sys,
)
from lemon_otp.testing import settle

PLANS = st.lists(
    st.lists(st.tuples(st.sampled_from(["send", "cast", "call", "yield"]), st.integers(0, 2)), max_size=30),
    min_size=1,
    max_size=4,
)


class Ledger(GenServer[bool, Any, Any, list[Any]]):
    """Writes down what it gets; may wait in the middle of its work."""

    def init(self, arg: bool) -> list[Any]:
        self.slow = arg
        return []

    async def handle_call(self, message: Any, caller: Any, state: list[Any]) -> Reply[list[Any]]:
        return Reply(message, await self.note(message, state))

    async def handle_cast(self, message: Any, state: list[Any]) -> NoReply[list[Any]]:
        return NoReply(await self.note(message, state))

    async def handle_info(self, message: Any, state: list[Any]) -> NoReply[list[Any]]:
        return NoReply(await self.note(message, state))

    async def note(self, message: Any, state: list[Any]) -> list[Any]:
        if self.slow:
            await sleep_s(0)
        return [*state, message]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(plans=PLANS, slow=st.lists(st.booleans(), min_size=3, max_size=3))
def test_servers_get_every_message_once_in_the_order_of_each_sender(plans: Any, slow: list[bool]) -> None:
    """Whatever mixes of send, cast and call go where, inline or through the mailbox, busy or idle."""

    async def sender(name: int, plan: list[tuple[str, int]], ledgers: list[Pid]) -> None:
        for number, (how, target) in enumerate(plan):
            message = (name, number)
            if how == "send":
                send(ledgers[target], message)
            elif how == "cast":
                cast(ledgers[target], message)
            elif how == "call":
                assert await call(ledgers[target], message) == message
            else:
                await sleep_s(0)

    async def scenario() -> None:
        ledgers: list[Any] = [await Ledger.start(is_slow) for is_slow in slow]
        tasks = await TaskSupervisor.start_link()
        running = [await TaskSupervisor.async_nolink(tasks, sender, n, plan, ledgers) for n, plan in enumerate(plans)]
        for task in running:
            await task.await_()
        await settle()
        for target, ledger in enumerate(ledgers):
            got = await sys.get_state(ledger)
            for name, plan in enumerate(plans):
                sent = [(name, n) for n, (how, to) in enumerate(plan) if to == target and how != "yield"]
                assert [message for message in got if message[0] == name] == sent
            assert len(got) == len(set(got))

    run(scenario)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(messages=st.lists(st.integers(0, 5), max_size=40), wanted=st.lists(st.integers(0, 5), max_size=10))
def test_selective_receive_takes_what_it_wants_and_leaves_the_rest_in_order(
    messages: list[int], wanted: list[int]
) -> None:
    """Compared with a plain list."""

    def equals(value: int) -> Callable[[Any], bool]:
        return lambda message: bool(message == value)

    async def body(results: list[Any]) -> None:
        rest = list(messages)
        for value in wanted:
            if value in rest:
                results.append(await receive(equals(value), timeout_s=0) == value)
                rest.remove(value)
        results.append([await receive() for _ in rest] == rest)

    async def scenario() -> None:
        results: list[Any] = []
        pid = spawn(body, results)
        for message in messages:
            send(pid, message)
        await settle()
        assert results
        assert all(results)

    run(scenario)


@pytest.mark.usefixtures("runtime")
async def test_a_process_that_dies_loses_only_its_own_mailbox() -> None:
    """What others sent each other goes on."""
    ledger = await Ledger.start(False)
    assert ledger is not None

    async def relay() -> None:
        for number in range(10):
            send(ledger, number)
            if number == 4:
                raise SystemError("broken")

    spawn(relay)
    cast(ledger, "after")
    await settle()
    assert await sys.get_state(ledger) == ["after", 0, 1, 2, 3, 4]
