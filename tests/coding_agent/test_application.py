"""The tree of coding_agent: who stands where, and who falls with whom."""

import ast
from pathlib import Path

import pytest

from coding_agent import client, session_registry
from coding_agent.application import APPLICATION
from lemon_ai import get_text
from lemon_otp import Supervisor, ensure_all_started, exit_signal, stop_all, whereis
from lemon_otp.testing import settle

SESSION_FOLDER = Path(__file__).resolve().parents[2] / "coding_agent" / "session"


async def standing() -> dict[str, object]:
    return {child.id: child.pid for child in await Supervisor.which_children("coding_agent.supervisor")}


@pytest.mark.requirement("TREE-5", "RCHK-25")
async def test_the_tree_has_its_two_mandated_children_first(host):
    """`session_registry` and `session_supervisor` are started first; whatever else there is comes after."""
    assert list(await standing())[:2] == ["session_registry", "session_supervisor"]


@pytest.mark.requirement("TREE-6")
@pytest.mark.parametrize("victim", ["session_registry", "session_supervisor"])
async def test_one_standing_process_that_crashes_comes_back_and_leaves_the_other_alone(host, victim):
    """The killed one has another pid afterwards, all others keep theirs."""
    before = await standing()

    exit_signal(before[victim], "kill")
    await settle()
    after = await standing()

    assert after.pop(victim) != before.pop(victim)
    assert after == before


@pytest.mark.requirement("TREE-6", "REG-3")
async def test_a_session_is_found_again_after_its_registry_crashed(host):
    """The session goes on, and registers with the new registry."""
    session = await host.session("Fine.")
    session_id = (await client.get_state(session)).session_id

    exit_signal(whereis("session_registry"), "kill")
    await settle()

    assert session.alive
    assert session_registry.lookup(session_id) == session
    await host.run(session, "hi")
    assert get_text((await client.get_messages(session))[-1]) == "Fine."


@pytest.mark.requirement("TREE-8", "RCHK-27")
async def test_the_application_can_be_stopped_and_started_again(host):
    """The second start has empty registries and no sessions."""
    await host.session()
    await stop_all()
    assert whereis("coding_agent.supervisor") is None

    await ensure_all_started(APPLICATION)

    assert session_registry.list_ids() == []
    assert set(await standing()) >= {"session_registry", "session_supervisor"}


@pytest.mark.requirement("FAN-10")
def test_only_the_notifier_sends_events():
    """No other module of the session sends to a subscriber or pushes to a stream."""
    told = {"push", "push_async", "complete"}
    senders = set()
    for path in SESSION_FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in told:
                senders.add(path.name)
            if (
                isinstance(node, ast.Call)
                and "SessionEvent" in ast.dump(node)
                and getattr(node.func, "id", "") == "send"
            ):
                senders.add(path.name)

    assert senders == {"notifier.py"}
