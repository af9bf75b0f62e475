import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.errors import NoHeadroom, NothingToCompact
from coding_agent.messages import BashExecutionMessage, CompactionSummaryMessage, CustomMessage
from coding_agent.session.compaction import (
    CompactionSettings,
    check_headroom,
    is_due,
    plan_compaction,
    valid_cuts,
)
from coding_agent.session.file_operations import FileOperations
from coding_agent.session.token_estimate import estimate
from coding_agent.storage.session_manager import SessionManager
from coding_agent.storage.transcript import interrupted, repair
from lemon_agent import violations
from lemon_ai import AssistantMessage, ToolCall
from tests.coding_agent.storage.support import answer, result, said, user

LONG = "x" * 400


def items(*messages):
    return [(f"e{n}", message) for n, message in enumerate(messages)]


def plan(*messages, keep=100, **options):
    return plan_compaction(items(*messages), keep_recent_tokens=keep, tokens_before=1000, leaf_id="leaf", **options)


def turn(name, *calls):
    """A question, an answer with calls, the results, a last answer; each about a hundred tokens."""
    asked = [user(f"{name} asks {LONG}")]
    if calls:
        asked += [answer(f"{name} calls {LONG}", *calls), *(result(call, LONG) for call in calls)]
    return [*asked, answer(f"{name} ends {LONG}")]


# When.


def test_compaction_is_due_when_less_than_the_reserve_is_left():
    """
    Strictly more than the window without the reserve; never when it is switched off.
    """
    settings = CompactionSettings()
    assert not is_due(200_000 - 16_384, 200_000, settings)
    assert is_due(200_000 - 16_383, 200_000, settings)
    assert not is_due(10**9, 200_000, evolve(settings, enabled=False))
    assert not is_due(10**9, 0, settings)


def test_a_small_window_reserves_half_of_itself_at_most():
    """
    A window smaller than the reserve can still be used.
    """
    settings = CompactionSettings()
    assert settings.usable(8_000) == 4_000
    assert settings.kept(8_000, 2_000) == 1_000
    assert settings.kept(200_000, 5_000) == 20_000
    assert settings.kept(8_000, 9_000) == 0


@pytest.mark.requirement("BR-038")
def test_an_overhead_that_fills_the_window_is_said_and_not_compacted_for_ever():
    """
    System prompt and tools of 29k in a window of 32k: no compaction can help, and the larger part is named first.
    """
    settings = CompactionSettings(reserve_tokens=4_800)
    with pytest.raises(NoHeadroom, match=r"tools 21000, system prompt 8000.*27200") as refused:
        check_headroom({"system prompt": 8_000, "tools": 21_000}, 32_000, settings)
    assert refused.value.parts[0] == ("tools", 21_000)
    check_headroom({"system prompt": 8_000, "tools": 3_000}, 32_000, settings)


# Where.


def test_the_newest_part_is_kept_and_the_older_summarised():
    """
    Walk back until enough is kept, then cut at the next place where a turn may begin.
    """
    messages = [*turn("one"), *turn("two"), *turn("three")]
    made = plan(*messages, keep=200)

    assert [text.split()[0] for text in said(made.kept)] == ["three", "three"]
    assert len(made.summarised) == 4
    assert made.turn_prefix == ()
    assert made.first_kept_entry_id == "e4"
    assert (made.leaf_id, made.tokens_before, made.removed()) == ("leaf", 1000, 4)


@pytest.mark.requirement("BR-036", "BR-037")
def test_results_at_the_end_are_kept_with_their_calls():
    """
    The conversation ends in tool results larger than what is to be kept: the cut moves in front of the answer that made
    the calls, and never fails on its own rule.
    """
    messages = [*turn("one"), user("two"), answer("b", "c1", "c2"), result("c1", LONG * 10), result("c2", LONG * 10)]
    made = plan(*messages)

    assert [message.role for message in made.kept] == ["assistant", "tool_result", "tool_result"]
    assert not violations(made.kept)
    assert said(made.turn_prefix) == ["two"]


@pytest.mark.requirement("BR-034")
def test_a_synthetic_result_stays_with_its_call_however_far_down_it_stands():
    """
    Call and result are one unit: the cut goes before both or behind both.
    """
    call = answer("b", "c1")
    late = interrupted(ToolCall("c1", "bash"), 1)
    messages = [*turn("one"), user("q"), call, *turn("two"), late, *turn("three"), *turn("four")]
    first, last = messages.index(call), messages.index(late)

    assert all(cut <= first or cut > last for cut in valid_cuts(messages))
    for keep in range(50, 1200, 50):
        try:
            made = plan(*messages, keep=keep)
        except NothingToCompact:
            continue
        assert (call in made.kept) == (late in made.kept)


@pytest.mark.requirement("BR-035")
def test_a_call_the_provider_ran_itself_stays_with_its_result():
    """
    Blocks of server-side tools are pairs too, in one message or over two.
    """

    class Foreign:
        role = "assistant"

        def __init__(self, *content):
            self.content = content

    use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search"}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1"}
    messages = [user("a"), Foreign(use), user("b"), Foreign(found), user("c")]
    assert valid_cuts(messages) == [4]


def test_a_cut_inside_a_turn_parts_the_turn():
    """
    History and the beginning of the turn are summarised one by one.
    """
    messages = [*turn("one"), user("two"), *[answer(f"step {n} {LONG}") for n in range(10)]]
    made = plan(*messages, keep=300)

    assert said(made.turn_prefix)[0] == "two"
    assert len(made.turn_prefix) == 8
    assert [text.split()[0] for text in said(made.summarised)] == ["one", "one"]
    assert len(made.kept) == 3


def test_commands_and_messages_of_extensions_begin_turns_too():
    """
    Whatever stands for the user's words.
    """
    for beginning in (BashExecutionMessage("ls", LONG, 0), CustomMessage("x", LONG)):
        made = plan(*turn("one"), beginning, answer(LONG), keep=150)
        assert made.kept[0] == beginning
        assert made.turn_prefix == ()


def test_an_earlier_summary_is_carried_forward_and_not_summarised():
    """
    Only what came since is new; the files of the earlier part stay known.
    """
    earlier = FileOperations(("old.py",), ())
    read = AssistantMessage((ToolCall("c1", "read", {"path": "new.py"}),), timestamp=1)
    made = plan(
        CompactionSummaryMessage("earlier"), user("a"), read, result("c1"), *turn("b"), keep=150, earlier_files=earlier
    )

    assert made.previous_summary == "earlier"
    assert said(made.summarised)[0] == "a"
    assert made.files.read == ("new.py", "old.py")


def test_nothing_to_compact_is_an_error_of_its_own():
    """
    An empty conversation, one that is recent as a whole, one that was compacted just now.
    """
    for messages, options in (
        ((), {}),
        ((CompactionSummaryMessage("s"),), {}),
        (turn("one"), {"keep": 10_000}),
        ((CompactionSummaryMessage("s"), *turn("one")), {"keep": 10, "nothing_new": True}),
    ):
        with pytest.raises(NothingToCompact):
            plan(*messages, **options)


def test_force_cuts_a_short_conversation_and_leaves_the_last_few_alone():
    """
    A person who asks for it gets it.
    """
    made = plan(*turn("one"), *turn("two"), *turn("three"), *turn("four"), keep=100_000, force=True)
    assert len(made.kept) == 5
    assert plan(user("a"), answer("b"), keep=100_000, force=True).removed() == 1
    assert plan(user("a"), keep=100_000, force=True).kept == ()


def test_force_keeps_nothing_when_the_whole_is_one_unit():
    """
    A single call with a result larger than the window becomes prose; without force there is no such cut.
    """
    messages = [answer("b", "c1"), result("c1", LONG * 100)]
    made = plan(*messages, force=True)

    assert made.kept == ()
    assert made.first_kept_entry_id is None
    with pytest.raises(NothingToCompact):
        plan(*messages)


def test_a_call_that_is_still_running_is_never_summarised():
    """
    Its result will come; it must find its call.
    """
    messages = [*turn("one"), user("two"), answer(LONG, "c1", "c2"), result("c1", LONG)]
    made = plan(*messages, keep=10, force=True)
    assert messages[-2] in made.kept
    with pytest.raises(NothingToCompact):
        plan(answer(LONG, "c1"), keep=10, force=True)


def test_an_entry_only_a_compaction_holds_has_no_id_to_point_to():
    """
    Then the kept messages themselves are what is stored.
    """
    kept = [(None, user(LONG)), (None, answer(LONG)), ("e9", user(LONG))]
    made = plan_compaction(kept, keep_recent_tokens=150, tokens_before=1)
    assert (made.first_kept_entry_id, len(made.kept)) == (None, 2)


SCRIPTS = st.lists(
    st.one_of(
        st.builds(user, st.text(alphabet="ab ", max_size=60)),
        st.builds(answer, st.text(alphabet="ab ", max_size=60)),
        st.builds(
            lambda n, text: [answer(text, *(f"c{n}-{i}" for i in range(n % 3 + 1)))], st.integers(0, 99), st.just("x")
        ),
        st.builds(lambda n: BashExecutionMessage("ls", "x" * n, 0), st.integers(0, 50)),
    ),
    max_size=25,
)


@pytest.mark.requirement("BR-034", "BR-036", "BR-037", "CTX-7")
@given(SCRIPTS, st.integers(0, 60), st.booleans(), st.booleans())
def test_no_plan_ever_parts_a_call_from_its_result(script, keep, force, summarised_before):
    """
    Whatever the conversation and the size: kept and summarised part are each well-formed, and together they are the
    conversation.
    """
    messages = []
    for number, part in enumerate(script):
        if isinstance(part, list):
            calls = [
                ToolCall(f"{number}-{block.id}", "bash") for block in part[0].content if isinstance(block, ToolCall)
            ]
            messages += [evolve(part[0], content=calls), *(result(call.id, "x" * 20) for call in calls)]
        else:
            messages.append(part)
    head = [CompactionSummaryMessage("s")] if summarised_before else []
    try:
        made = plan(*head, *messages, keep=keep, force=force)
    except NothingToCompact:
        return

    assert [*made.summarised, *made.turn_prefix, *made.kept] == messages
    assert made.removed() > 0
    for part in (made.kept, (*made.summarised, *made.turn_prefix)):
        assert not violations([message for message in part if message.role in ("user", "assistant", "tool_result")])
    if made.kept and not force:
        assert estimate(made.kept[1:]) <= keep or estimate(made.kept) >= keep


@pytest.mark.requirement("SESS-3", "BR-034", "BR-045")
def test_a_plan_applied_to_a_session_gives_the_context_it_promised(tmp_path):
    """
    From the items of a session to its next context, twice, with something said in between.
    """
    with SessionManager.create("/p", tmp_path) as manager:
        for message in [*turn("one", "c1"), *turn("two", "c2", "c3"), *turn("three")]:
            manager.append_message(message)
        for round_number in (1, 2):
            made = plan_compaction(
                manager.context_items(), keep_recent_tokens=250, tokens_before=7, leaf_id=manager.leaf_id
            )
            manager.append_message(user(f"meanwhile {round_number} {LONG}"))
            manager.append_compaction(
                f"summary {round_number}",
                first_kept_entry_id=made.first_kept_entry_id,
                kept=made.kept,
                as_of=made.leaf_id,
                tokens_before=made.tokens_before,
                details=made.files.to_json(),
            )
            context = manager.build_context().messages
            assert said(context)[0] == f"summary {round_number}"
            assert context[1:-1] == made.kept
            assert said(context)[-1].startswith(f"meanwhile {round_number}")
            assert repair(context).added == ()
            manager.append_message(answer(f"goes on {LONG}"))
    with SessionManager.open(manager.path) as again:
        assert again.build_context().messages[:-1] == context
