"""Finding agents by session, role and number."""

import asyncio

import pytest

from lemon_agent import Agent, AgentOptions
from lemon_agent import agent_registry as registry
from lemon_agent import subagent_supervisor as subagents
from lemon_agent.testing import MODEL, ScriptedModel
from lemon_otp import (
    AlreadyRegistered,
    NotFound,
    exit_signal,
    monitor,
    receive,
    self_pid,
    spawn,
    stop,
    unlink,
)
from lemon_otp.testing import settle


def options():
    return AgentOptions(model=MODEL, stream_fn=ScriptedModel())


async def holder(key, metadata=None):
    registry.register(key, metadata)
    await receive()


@pytest.mark.requirement("INV-3.1", "REG-2", "RCHK-17")
async def test_a_subagent_with_a_key_is_found_under_it(tree):
    """Session, role and number lead to its pid, and the lists by session and by role have it."""
    pid = await subagents.start_subagent(options(), registry_key=("s1", "researcher", 2))
    assert registry.lookup(("s1", "researcher", 2)) is pid
    assert registry.list_agents() == [(("s1", "researcher", 2), pid)]
    assert registry.list_by_session("s1") == [("researcher", 2, pid)]
    assert registry.list_by_role("researcher") == [("s1", 2, pid)]
    assert registry.list_by_session("s2") == registry.list_by_role("other") == []


@pytest.mark.requirement("REG-1", "RCHK-16")
async def test_an_agent_started_under_its_sessions_name_is_its_main_agent(tree):
    """`via` names an agent from before its first message; a session's own is (session, main, 0)."""
    pid = await Agent.start_link(options(), name=registry.via(("s1", "main", 0), {"cwd": "/tmp"}))
    assert registry.lookup_with_metadata(("s1", "main", 0)) == (pid, {"cwd": "/tmp"})
    assert await Agent.get_session_id(registry.via(("s1", "main", 0))) is None


@pytest.mark.requirement("INV-3.3", "REG-5", "TREE-3")
async def test_a_key_belongs_to_one_process_at_a_time(tree):
    """A second registration is refused with the holder's pid; after the holder is gone it succeeds."""
    key = ("s1", "worker", 0)
    first = await subagents.start_subagent(options(), registry_key=key)
    with pytest.raises(AlreadyRegistered) as caught:
        await subagents.start_subagent(options(), registry_key=key)
    assert caught.value.pid is first
    with pytest.raises(AlreadyRegistered) as refused:
        registry.register(key)
    assert refused.value.pid is first

    await subagents.stop_subagent(first)
    second = await subagents.start_subagent(options(), registry_key=key)
    assert registry.lookup(key) is second


@pytest.mark.requirement("INV-3.4", "REG-4", "RCHK-19")
@pytest.mark.parametrize("how", ["stop", "kill", "shutdown", "crash"])
async def test_an_entry_goes_with_its_process_however_that_ends(tree, how):
    """As soon as the Down is there the key is free, without anybody having unregistered it."""
    key = ("s1", "worker", 0)
    pid = await Agent.start_link(options(), name=registry.via(key))
    unlink(pid)
    ref = monitor(pid)
    if how == "stop":
        await stop(pid)
    else:
        exit_signal(pid, {"kill": "kill", "shutdown": "shutdown", "crash": RuntimeError("boom")}[how])
    await receive(lambda message: getattr(message, "ref", None) is ref)
    with pytest.raises(NotFound):
        registry.lookup(key)
    registry.register(key)
    assert registry.lookup(key) is self_pid()


async def test_a_key_can_be_given_back(tree):
    """Unregistering frees it for another; doing so without having it is harmless."""
    registry.register(("s", "r", 0), 7)
    registry.unregister(("s", "r", 0))
    registry.unregister(("s", "r", 0))
    with pytest.raises(NotFound):
        registry.lookup_with_metadata(("s", "r", 0))


@pytest.mark.requirement("INV-3.3")
@pytest.mark.parametrize("key", ["main", ("s", "main"), ("s", "main", -1), ("s", "main", True), (1, "main", 0), None])
async def test_keys_are_triples(tree, key):
    """Anything but a session id, a role and a number from 0 up is refused before it gets anywhere."""
    with pytest.raises(ValueError, match="session_id, role, index"):
        registry.register(key)
    with pytest.raises(ValueError, match="session_id, role, index"):
        registry.via(key)


@pytest.mark.requirement("REG-6")
async def test_counts_lists_and_lookups_agree_while_agents_come_and_go(tree):
    """At every moment of a churn of two hundred registrations they tell the same story."""
    for number in range(200):
        key = (f"s{number % 5}", "worker", number)
        pid = spawn(holder, key, number)
        if number % 3 == 0:
            await asyncio.sleep(0)
        if number % 4 == 0:
            exit_signal(pid, "kill")
        listed = registry.list_agents()
        assert registry.count() == len(listed)
        assert sum(registry.count_by_session(f"s{n}") for n in range(5)) == len(listed)
        for key_listed, pid_listed in listed:
            assert registry.lookup_with_metadata(key_listed) == (pid_listed, key_listed[2])
    await settle()
    assert registry.count() == len(registry.list_agents()) > 0
