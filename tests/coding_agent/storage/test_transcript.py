import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.storage.transcript import INTERRUPTED_DETAILS, is_well_formed, repair
from lemon_agent import violations
from tests.coding_agent.storage.support import answer, result, user


def test_a_good_conversation_is_left_alone():
    """
    Nothing is added, moved or dropped when every call has its result.
    """
    messages = (user("a"), answer("b", "c1", "c2"), result("c2"), result("c1"), answer("d"))
    repaired = repair(messages)

    assert repaired.messages == messages
    assert repaired.added == ()


@pytest.mark.requirement("PERS-9", "BR-076")
def test_a_call_without_a_result_gets_an_error_right_behind_its_answer():
    """
    Interrupted calls are answered with a trusted error result that says so, one for each, at the time of their answer.
    """
    messages = (user("a"), answer("b", "c1", "c2", at=9), result("c1"))
    repaired = repair(messages)

    assert repaired.messages[:3] == messages
    (added,) = repaired.added
    assert repaired.open_at_end == repaired.added
    assert (added.tool_call_id, added.is_error, added.trust, added.timestamp) == ("c2", True, "trusted", 9)
    assert added.details == dict(INTERRUPTED_DETAILS)
    assert not violations(repaired.messages)


def test_a_call_the_conversation_went_on_without_is_answered_where_it_stands():
    """
    Such a result cannot be appended to a file any more, so it is not counted as open at the end.
    """
    messages = (user("a"), answer("b", "c1"), user("never mind"), answer("ok"))
    repaired = repair(messages)

    assert [message.role for message in repaired.messages] == ["user", "assistant", "tool_result", "user", "assistant"]
    assert repaired.open_at_end == ()
    assert not violations(repaired.messages)


@pytest.mark.requirement("BR-034")
def test_a_result_that_stands_further_down_moves_up_to_its_call():
    """
    A result behind other messages is the result all the same.
    """
    late = result("c1", "late")
    repaired = repair((answer("b", "c1"), user("x"), late, user("y")))

    assert repaired.messages[1] == late
    assert repaired.added == ()


def test_a_result_without_a_call_and_a_second_result_are_left_out():
    """
    A provider refuses both.
    """
    first = result("c1", "first")
    repaired = repair((result("gone"), answer("b", "c1"), first, result("c1", "second")))
    assert repaired.messages == (answer("b", "c1"), first)


def test_an_id_that_is_used_again_belongs_to_the_nearest_answer():
    """
    Some providers number their calls from zero in every turn.
    """
    messages = (answer("a", "call_0"), user("x"), answer("b", "call_0"), result("call_0", "second"))
    repaired = repair(messages)

    assert [getattr(message, "is_error", None) for message in repaired.messages] == [None, True, None, None, False]


def test_an_answer_that_was_aborted_needs_no_results():
    """
    Its calls never ran; a provider is not sent the answer at all.
    """
    messages = (user("a"), evolve(answer("b", "c1"), stop_reason="aborted"), user("again"))
    assert repair(messages).messages == messages


def test_calls_without_an_id_of_their_own_are_left_out():
    """
    A blank id, and the second of two equal ones, cannot be answered.
    """
    repaired = repair((answer("b", "c1", " ", "c1"), result("c1")))
    assert [block.id for block in repaired.messages[0].content[1:]] == ["c1"]


BITS = st.one_of(
    st.builds(user, st.sampled_from("ab")),
    st.builds(lambda calls: answer("x", *calls), st.lists(st.sampled_from(["c1", "c2", "c3", ""]), max_size=3)),
    st.builds(result, st.sampled_from(["c1", "c2", "c3", "c4"])),
)


@pytest.mark.requirement("PERS-9")
@given(st.lists(BITS, max_size=12))
def test_any_conversation_is_accepted_after_its_repair(messages):
    """
    Whatever a damaged file gives, the validator of the agent takes the repaired conversation, and repairing twice is
    repairing once.
    """
    repaired = repair(messages)

    assert is_well_formed(repaired.messages)
    assert not violations(repaired.messages)
    assert repair(repaired.messages).messages == repaired.messages
    roles = [message.role for message in repaired.messages if message.role != "tool_result"]
    assert roles == [message.role for message in messages if message.role != "tool_result"]
