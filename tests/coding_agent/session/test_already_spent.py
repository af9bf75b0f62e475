"""What a session has used up counts when another program goes on with it."""

import pytest
from attrs import evolve

from coding_agent import client
from coding_agent.session.already_spent import already_spent, spent_in
from coding_agent.session.budget import Account, Budget, Spent
from coding_agent.session_supervisor import start_session, stop_session
from coding_agent.storage import copying
from coding_agent.storage.opening import open_for_reading
from coding_agent.storage.session_manager import SessionManager
from coding_agent.storage.stamps import parse_iso
from lemon_ai import Cost, Usage
from lemon_ai.testing import ScriptedModel
from lemon_otp import self_pid, wall_ms
from tests.coding_agent.storage.support import answer, user
from tests.coding_agent.subagents.conftest import said, team_of

USED = Usage(input=100, output=20, total_tokens=120, cost=Cost(total=0.5))


def paid(text: str):
    return evolve(answer(text), usage=USED)


def test_every_answer_counts_whatever_branch_it_is_on(tmp_path):
    """Tokens, dollars and calls; an answer without usage is a call that used nothing."""
    with SessionManager.create("/p", tmp_path) as store:
        first = store.append_message(user("a"))
        store.append_message(paid("one"))
        store.set_leaf(first)
        store.append_message(paid("two"))
        store.append_message(answer("free"))
        assert spent_in(store) == Spent(240, 1.0, 3)


@pytest.mark.parametrize("beyond", ["1e999", "NaN", "1" + "0" * 400])
def test_a_price_that_nobody_can_count_with_is_none(tmp_path, beyond):
    """A file that something else wrote is opened all the same, and what can be counted in it counts."""
    with SessionManager.create("/p", tmp_path) as store:
        store.append_message(user("a"))
        store.append_message(paid("one"))
    written = store.path.read_text()
    store.path.write_text(written.replace('"total":0.5', f'"total":{beyond}'))
    assert store.path.read_text() != written
    with SessionManager.open(store.path) as store:
        assert [message.role for message in store.build_context().messages] == ["user", "assistant"]
        assert spent_in(store) == Spent(120, 0.0, 1)


@pytest.mark.parametrize("beyond", ["1e999", "NaN"])
def test_a_count_that_nobody_can_count_with_is_none(tmp_path, beyond):
    """The parts of it are taken then."""
    with SessionManager.create("/p", tmp_path) as store:
        store.append_message(user("a"))
        store.append_message(paid("one"))
    written = store.path.read_text()
    store.path.write_text(written.replace('"totalTokens":120', f'"totalTokens":{beyond}'))
    assert store.path.read_text() != written
    with SessionManager.open(store.path) as store:
        assert [message.role for message in store.build_context().messages] == ["user", "assistant"]
        assert spent_in(store) == Spent(120, 0.5, 1)


def test_what_a_fork_took_over_was_paid_for_elsewhere(tmp_path):
    """It begins with what it says itself."""
    with SessionManager.create("/p", tmp_path) as store:
        store.append_message(user("a"))
        store.append_message(paid("one"))
        made = copying.clone(store.log, session_dir=tmp_path)
    with SessionManager.open(made.path) as forked:
        assert spent_in(forked) == Spent()
        while wall_ms() <= parse_iso(forked.header.timestamp):
            pass  # the next millisecond: a fork is told from what it took over by its time
        forked.append_message(paid("two"))
        assert spent_in(forked) == Spent(120, 0.5, 1)


async def test_a_limit_holds_over_programs(host):
    """Two calls are allowed in all: the second program has one left, and the third none."""
    model = ScriptedModel("one", "two", "three")
    options = await host.options(model)
    outcomes = []
    for _ in range(3):
        account = Account(Budget(max_turns=2))
        session = await start_session(evolve(options, account=account))
        await client.subscribe(session, self_pid())
        outcomes.append((await host.run(session, "go on"))[-1].event.outcome)
        await stop_session(session)
    assert outcomes == ["completed", "completed", "budget"]
    assert len(model.requests) == 2


async def test_without_a_limit_nothing_is_read_and_a_session_that_starts_again_counts_nothing_twice(host):
    """An account that something was charged to is the session's own, of before a crash."""
    options = await host.options(ScriptedModel("one", "two"))
    used = Spent(7, 0.0, 7)
    for account, before in ((Account(), Spent()), (Account(Budget(max_turns=9), spent=used), used)):
        session = await start_session(evolve(options, account=account))
        assert account.spent == before
        await client.subscribe(session, self_pid())
        await host.run(session, "go on")
        await stop_session(session)


async def test_subagents_count_for_their_parent(host):
    """Their files lie beside its own."""
    team = await team_of(host)
    await client.subscribe(team.session, self_pid())
    await host.run(team.session, "say something")
    await team.run(said("say one"), said("say two"))
    state = await client.get_state(team.session)
    with open_for_reading(state.file) as store:
        assert (spent_in(store).turns, already_spent(store).turns) == (1, 3)
