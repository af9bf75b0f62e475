"""Budgets: what a tree of sessions may use up, checked before each model call."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from coding_agent import client
from coding_agent.application import APPLICATION
from coding_agent.errors import BudgetExceeded, CompactionError
from coding_agent.session.budget import Account, Budget, Spent, reached, spent_by
from lemon_agent import AgentEnd, AgentTool, MessageEnd, MessageUpdate, ToolExecutionStart
from lemon_ai import Cost, Model, Usage
from lemon_ai.testing import Call, Delay, Say
from lemon_otp import ensure_all_started, exit_signal, sleep_s, stop_all
from lemon_otp.testing import settle
from tests.coding_agent.conftest import Host
from tests.coding_agent.storage.support import said as said_by
from tests.coding_agent.subagents.conftest import obedient, said, team_of
from tests.coding_agent.test_coordinator import answer, at_work, in_background


@pytest_asyncio.fixture
async def timed_host(clocked_runtime, tmp_path) -> AsyncIterator[Host]:
    """A host whose time is `fake_clock`."""
    await ensure_all_started(APPLICATION)
    yield Host(tmp_path)
    await stop_all()


FREE = Model(id="m", provider="p", api="a")
NOTHING = Spent()


@pytest.mark.parametrize(
    ("budget", "spent", "kind"),
    [
        (Budget(max_tokens=100, guessed_tokens=0), Spent(100), None),
        (Budget(max_tokens=100, guessed_tokens=0), Spent(101), "token_limit_exceeded"),
        (Budget(max_cost=1.0), Spent(0, 1.01), "cost_limit_exceeded"),
        (Budget(max_tokens=4_000), NOTHING, None),
        (Budget(max_tokens=4_000), Spent(1), "token_limit_would_exceed"),
        (Budget(max_cost=0.1), Spent(0, 0.0), None),
        (Budget(max_cost=0.1), Spent(0, 0.05), "cost_limit_would_exceed"),
        (Budget(max_turns=2), Spent(0, 0.0, 1), None),
        (Budget(max_turns=2), Spent(0, 0.0, 2), "turn_limit_exceeded"),
        (Budget(max_time_s=9.0), NOTHING, "time_limit_exceeded"),
        (Budget(max_time_s=10.0), NOTHING, None),
        (Budget(), Spent(10**9, 10**9, 10**9), None),
    ],
)
def test_a_limit_is_broken_by_more_than_it_allows(budget, spent, kind):
    """Using up exactly what is allowed breaks nothing; a guess for the next call counts along."""
    guess = Spent(budget.guessed_tokens, budget.guessed_cost, 1)

    found = reached(budget, spent, NOTHING, guess, 10.0)

    assert (found and found.kind) == kind


def test_what_a_call_used_counts_here_and_above(runtime):
    """A child's call is in flight for its parent too, and its usage is the parent's when it is known."""
    parent = Account(Budget(max_tokens=10_000))
    child = parent.child(Budget(max_tokens=5_000))

    charge = child.begin(FREE)
    assert (parent.in_flight, child.in_flight) == (Spent(4_000, 0.0, 1), Spent(4_000, 0.0, 1))
    charge.settle(Usage(input=10, output=5, total_tokens=15, cost=Cost(total=0.5)))
    charge.settle(Usage(input=999))

    assert parent.spent == child.spent == Spent(15, 0.5, 1)
    assert parent.in_flight == child.in_flight == NOTHING
    unmade = child.begin(FREE)
    unmade.settle(None)
    assert child.spent == Spent(15, 0.5, 1)


def test_the_strictest_limit_on_the_way_up_holds(runtime):
    """A child's wider limit does not help it when the parent has none left, nor the other way round."""
    parent = Account(Budget(max_tokens=5_000))
    wide, narrow = parent.child(Budget(max_tokens=100_000)), parent.child(Budget(max_turns=0))

    wide.begin(FREE)
    with pytest.raises(BudgetExceeded) as refused:
        wide.begin(FREE)
    assert (refused.value.kind, refused.value.limit, refused.value.used) == ("token_limit_would_exceed", 5_000, 4_000)
    with pytest.raises(BudgetExceeded, match="turn limit exceeded"):
        narrow.begin(FREE)
    assert parent.in_flight == Spent(4_000, 0.0, 1)


def test_a_limit_on_subagents_counts_those_at_work(runtime):
    """One more than allowed is refused until one has ended."""
    account = Account(Budget(max_children=1))
    account.begin_child()
    with pytest.raises(BudgetExceeded, match="max children exceeded"):
        account.begin_child()
    account.end_child()
    account.begin_child()


@pytest.mark.parametrize(
    ("budget", "kind"),
    [
        (Budget(max_tokens=99, guessed_tokens=0), "token_limit_exceeded"),
        (Budget(max_cost=0.5), "cost_limit_exceeded"),
        (Budget(max_turns=1), "turn_limit_exceeded"),
        (Budget(max_tokens=100, guessed_tokens=0, max_cost=1.0, max_turns=2), None),
    ],
)
def test_no_subagent_begins_that_could_make_no_call(runtime, budget, kind):
    """What is used up here or above stands in its way; the last of it does not."""
    parent = Account(budget)
    parent.begin(FREE).settle(Usage(total_tokens=100, cost=Cost(total=1.0)))
    account = parent.child()

    if kind is None:
        account.begin_child()
    else:
        with pytest.raises(BudgetExceeded) as refused:
            account.begin_child()
        assert refused.value.kind == kind
    assert account.children == (1 if kind is None else 0)


def test_usage_without_a_total_is_added_up():
    """Some providers give no total; cached tokens count."""
    assert spent_by(Usage(input=1, output=2, cache_read=3, cache_write=4)) == Spent(10, 0.0, 1)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3_000)), max_size=40))
def test_calls_one_after_the_other_never_use_more_than_allowed_and_one_guess(calls):
    """Whatever they use, a tree is never over its limit by more than one call went over its guess."""
    account = Account(Budget(max_tokens=10_000, guessed_tokens=1_000), None, began_s=0.0)
    children = [account.child() for _ in range(3)]
    for which, used in calls:
        try:
            charge = children[which].begin(FREE)
        except BudgetExceeded:
            continue
        charge.settle(Usage(total_tokens=used))

    assert account.spent.tokens <= 10_000 + 2_000
    assert account.in_flight == NOTHING


async def test_a_session_whose_budget_is_used_up_says_so(host):
    """The run ends before the model is asked: outcome budget, the limit as its reason, the words in the message."""
    session = await host.session("One.", "Two.", account=Account(Budget(max_turns=1)))
    first = await host.run(session, "hi")
    second = await host.run(session, "again")

    assert first[-1].event.outcome == "completed"
    (end,) = [event.event for event in second if isinstance(event.event, AgentEnd)]
    assert (end.outcome, end.reason) == ("budget", ("budget_exceeded", "turn_limit_exceeded"))
    assert (second[-1].event.outcome, second[-1].event.reason) == ("budget", end.reason)
    last = [event.event.message for event in second if isinstance(event.event, MessageEnd)][-1]
    assert "the budget is used up: turn limit exceeded (limit 1, used 1)" in last.error_message


@pytest.mark.parametrize("turn", [[Say("Hello"), Delay(600_000)], [Call("wait", {})]], ids=["a call", "a tool"])
async def test_what_goes_on_when_the_time_is_over_is_ended(fake_clock, timed_host, turn):
    """A call or a tool that is under way is ended then; what was said is kept, and the budget is named."""

    async def forever(*_given):
        await sleep_s(600.0)

    waiting = AgentTool(name="wait", description="", parameters={"type": "object", "properties": {}}, execute=forever)
    account = Account(Budget(max_time_s=60.0))
    session = await timed_host.session(turn, "Never.", account=account, tools=(waiting,))
    await client.prompt(session, "hi")
    heard = await timed_host.until(ToolExecutionStart if turn[0] == Call("wait", {}) else MessageUpdate)
    await fake_clock.advance(59.0)
    assert (await client.get_state(session)).phase == "turn"

    await fake_clock.advance(1.0)
    await fake_clock.advance(5.0)  # what a tool is given to end by itself
    heard += await timed_host.until_settled()

    (end,) = [event.event for event in heard if isinstance(event.event, AgentEnd)]
    assert (end.outcome, end.reason) == ("budget", ("budget_exceeded", "time_limit_exceeded"))
    assert heard[-1].event.outcome == "budget"
    assert account.in_flight == NOTHING
    stored = await client.look(session, lambda store: said_by(store.build_context().messages))
    assert "Hello" in stored or "Tool execution aborted" in stored


async def test_the_time_of_a_parent_ends_its_subagents_too(fake_clock, timed_host):
    """A subagent at work counts as failed of the budget, and nothing of it is left."""
    account = Account(Budget(max_time_s=60.0))
    team = await team_of(timed_host, turns=[obedient] * 4, account=account)
    in_background(team, said("wait long"))
    while not account.in_flight.turns:
        await settle()

    await fake_clock.advance(60.0)

    (result,) = await answer()
    assert (result.status, result.error) == ("error", ("budget_exceeded", "time_limit_exceeded"))
    await team.quiet()


async def test_a_call_that_is_aborted_is_charged_and_leaves_nothing_in_flight(host):
    """What is known of its usage counts; the guess is taken back."""
    account = Account(Budget(max_tokens=1_000_000))
    session = await host.session([Say("Hello"), Delay(600_000)], account=account)
    await client.prompt(session, "hi")
    await host.until(MessageUpdate)
    assert account.in_flight.turns == 1

    await client.abort(session)

    assert account.in_flight == NOTHING
    assert account.spent.turns == 1


async def test_a_session_that_is_killed_leaves_nothing_in_flight(host):
    """Its call counts as made; the guess does not stand in the way of others for ever."""
    account = Account(Budget(max_tokens=1_000_000))
    session = await host.session([Say("Hello"), Delay(600_000)], account=account.child())
    await client.prompt(session, "hi")
    await host.until(MessageUpdate)
    assert account.in_flight.turns == 1

    exit_signal(session, "kill")
    await settle()

    assert account.in_flight == NOTHING
    assert account.spent.turns == 1


async def test_children_draw_on_the_budget_of_their_parent(host):
    """A subagent's calls are its parent's: when they have used up what there is, child and parent both stop."""
    account = Account(Budget(max_turns=3))
    turns = [[Call("task", {"prompt": "say a"})], obedient, obedient, obedient, obedient]
    team = await team_of(host, turns=turns, account=account)
    (first, second) = await team.run(said("say a"), said("say b"))
    (third,) = await team.run(said("say c"))
    (fourth,) = await team.run(said("say d"))

    assert account.spent.turns == 3
    assert {first.status, second.status, third.status} <= {"completed", "error"}
    assert fourth.status == "error"
    assert "budget is used up" in str(fourth.error)


async def test_a_summary_is_charged_too_and_refused_when_nothing_is_left(host):
    """A compaction is a model call like any other: it counts, and without budget it says why there is no summary."""
    account = Account(Budget(max_turns=3))
    session = await host.session("One.", "A summary.", "Two.", account=account)
    await host.run(session, "hi")
    await client.compact(session)
    await host.until_settled()
    assert account.spent.turns == 2
    await host.run(session, "again")
    with pytest.raises(CompactionError, match="the budget is used up: turn limit exceeded"):
        await client.compact(session)

    assert account.in_flight == NOTHING


async def test_more_subagents_than_the_budget_allows_are_refused(host):
    """The one too many is an error of its own; when one has ended, however it did, there is room again."""
    team = await team_of(host, account=Account(Budget(max_children=1)))
    results = await team.run(said("say a"), said("say b"))
    again = await team.run(said("say c"))

    assert [result.status for result in results] == ["completed", "error"]
    assert "max children exceeded" in results[1].error
    assert again[0].status == "completed"


async def test_a_crash_gives_the_place_of_a_subagent_back(host):
    """A killed subagent no longer counts as at work."""
    team = await team_of(host, account=Account(Budget(max_children=1)))
    in_background(team, said("wait a"))
    await at_work(team, 1)
    exit_signal((await team.sessions())[0], "kill")
    await answer()

    assert [result.status for result in await team.run(said("say b"))] == ["completed"]
