"""The abort signal, and the table that lists those in use."""

import asyncio
import threading

import pytest

from lemon_agent import AbortSignal, Agent, MessageUpdate, ToolError, check_abort, is_aborted, signals_in_use
from lemon_agent.testing import Pause, ScriptedAgent, until
from lemon_otp import Table, exit_signal, spawn, whereis
from lemon_otp.testing import settle


@pytest.mark.requirement("ABORT-9")
def test_a_signal_is_sticky_keeps_its_first_reason_and_can_be_cleared():
    """Not aborted at first; once said it stays, with the reason it was first given; clear forgets both bits."""
    signal = AbortSignal()
    assert (signal.aborted, signal.reason) == (False, None)
    signal.abort("lunch")
    signal.abort("dinner")
    assert (signal.aborted, signal.reason) == (True, "lunch")
    signal.request_redirect()
    signal.clear()
    assert (signal.aborted, signal.reason, signal.redirect_requested) == (False, None, False)


@pytest.mark.requirement("ABORT-9")
def test_signals_know_nothing_of_each_other_and_none_means_not_aborted():
    """Aborting one leaves another quiet; no signal at all was never said."""
    first, second = AbortSignal(), AbortSignal()
    first.abort()
    assert not second.aborted
    assert is_aborted(first)
    assert not is_aborted(None)
    check_abort(None)
    check_abort(second)
    with pytest.raises(ToolError, match="Operation aborted"):
        check_abort(first)


def test_the_redirect_bit_is_independent():
    """It can be set and cleared without touching the abort."""
    signal = AbortSignal()
    signal.request_redirect()
    assert (signal.redirect_requested, signal.aborted) == (True, False)
    signal.clear_redirect()
    signal.abort()
    assert (signal.redirect_requested, signal.aborted) == (False, True)


async def test_whoever_waits_is_woken_with_the_reason(runtime):
    """Any number of waiters, also those that come late; one that gives up is forgotten."""
    signal = AbortSignal()
    woken = []

    async def waiter():
        woken.append(await signal.wait())

    waiters = [spawn(waiter) for _ in range(3)]
    await settle()
    exit_signal(waiters[0], "shutdown")
    await settle()
    signal.abort("now")
    await settle()
    assert woken == ["now", "now"]
    assert await signal.wait() == "now"


async def test_a_signal_said_on_a_thread_wakes_the_loop():
    """Abort may be called from any thread; what waits on the loop is woken there."""
    signal = AbortSignal()
    woken = []
    signal.on_abort(lambda reason: woken.append((reason, threading.current_thread() is threading.main_thread())))
    threading.Thread(target=signal.abort, args=("from afar",)).start()
    assert await signal.wait() == "from afar"
    await asyncio.sleep(0.02)
    assert woken == [("from afar", True)]


async def test_a_thread_can_wait_for_a_signal():
    """It gets True when the signal was said, False when its patience ends first."""
    signal = AbortSignal()
    assert await asyncio.to_thread(signal.wait_in_thread, 0.01) is False
    asyncio.get_running_loop().call_later(0.02, signal.abort)
    assert await asyncio.to_thread(signal.wait_in_thread, 30) is True
    assert signal.wait_in_thread(0) is True


async def test_a_callback_is_called_once_and_can_be_taken_back():
    """At once when the signal was said before; never after it was taken back."""
    signal = AbortSignal()
    heard = []
    undo = signal.on_abort(heard.append)
    signal.on_abort(heard.append)
    undo()
    undo()
    signal.abort("x")
    signal.abort("y")
    assert heard == ["x"]
    signal.on_abort(heard.append)
    assert heard == ["x", "x"]
    signal.on_redirect(heard.append)
    signal.request_redirect()
    signal.request_redirect()
    assert heard == ["x", "x", "redirected"]


async def test_a_listener_hears_what_it_asked_for_until_it_is_forgotten():
    """The abort always, a redirect when it wants to; at once when it was said before."""
    signal, heard = AbortSignal(), []
    signal.add(heard.append)
    signal.request_redirect()
    assert heard == []
    for redirect in (False, True):
        listener = heard.append if redirect else print
        signal.add(listener, redirect=redirect)
        signal.forget(listener)
    assert heard == ["redirected"]
    signal.abort("enough")
    assert heard == ["redirected"]
    signal.add(heard.append, redirect=True)
    assert heard == ["redirected", "enough"]


@pytest.mark.requirement("TREE-4")
async def test_the_abort_table_belongs_to_its_owner_not_to_whoever_made_a_signal(tree):
    """A signal made and listed by a process that ends at once stays listed and stays good."""
    made = []

    async def short_lived():
        signal = AbortSignal()
        signal.track()
        made.append(signal)

    spawn(short_lived)
    await settle()
    assert Table.named("abort_signals").info().owner is whereis("table_owner")
    assert signals_in_use() == made
    made[0].abort()
    assert made[0].aborted
    made[0].untrack()
    assert signals_in_use() == []


@pytest.mark.requirement("TREE-4")
async def test_a_table_owner_that_starts_anew_loses_nothing(tree):
    """Killed in the middle of a run: the new owner lists the run's signal again, and an abort still gets through."""
    agent = await ScriptedAgent.start([["...", Pause()]])
    await Agent.prompt(agent.pid, "hi")
    await until(MessageUpdate)
    before = signals_in_use()
    assert len(before) == 1

    owner = whereis("table_owner")
    exit_signal(owner, "kill")
    await settle()
    assert whereis("table_owner") is not owner
    assert signals_in_use() == before
    Agent.abort(agent.pid)
    await agent.events()
    assert signals_in_use() == []


async def test_a_signal_can_be_used_where_there_is_no_runtime():
    """Outside any process a signal works as ever; it is only not listed."""
    signal = AbortSignal()
    signal.untrack()
    signal.abort()
    assert repr(signal) == f"<abort signal {signal.id}: aborted>"
