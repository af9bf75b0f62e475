"""What a well-formed conversation is, and what repairing makes of others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_agent import dangling_calls, interrupted_result, repaired, user_message, violations
from lemon_agent.errors import InvalidTranscript
from lemon_agent.loop.conversation import Conversation
from lemon_agent.loop.transcript import checked
from lemon_ai import AssistantMessage, TextContent, ToolCall, ToolResultMessage, get_text


def asks(*ids, stop="tool_use"):
    return AssistantMessage(tuple(ToolCall(i, "t") for i in ids), stop_reason=stop, timestamp=1)


def result(call_id):
    return ToolResultMessage(call_id, "t", (TextContent("r"),), timestamp=1)


def user():
    return user_message("u")


def kinds(messages):
    return [(v.kind, v.index) for v in violations(messages)]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [user(), asks("a", "b"), result("b"), result("a"), user()],
        [asks("a"), result("a"), asks("a"), result("a")],
        [user(), asks("a", stop="aborted"), user()],
        [user(), asks("a", "b", stop="error"), result("a"), user()],
        [AssistantMessage((TextContent("x"),)), user()],
    ],
)
def test_conversations_that_are_well_formed(messages):
    """Calls answered once each directly after them, in any order; unfinished messages owe nothing."""
    assert violations(messages) == ()
    checked(messages)


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([asks("a", "b"), result("a")], [("missing_tool_result", 0)]),
        ([asks("a"), user(), result("a")], [("missing_tool_result", 0), ("orphan_tool_result", 2)]),
        ([asks("a"), result("b"), result("a")], [("unexpected_tool_result", 1)]),
        ([asks("a"), result("a"), result("a")], [("duplicate_tool_result", 2)]),
        ([result("a")], [("orphan_tool_result", 0)]),
        ([asks("a", "a"), result("a")], [("duplicate_tool_call_id", 0)]),
        ([asks("", "  ")], [("invalid_tool_call_id", 0), ("invalid_tool_call_id", 0)]),
    ],
)
def test_everything_that_is_wrong_is_told_with_its_place(messages, found):
    """All violations are collected, in message order."""
    assert kinds(messages) == found
    with pytest.raises(InvalidTranscript) as caught:
        checked(messages)
    assert [(v.kind, v.index) for v in caught.value.violations] == found


@pytest.mark.parametrize("value", [None, 7, "text", {"role": "user"}])
def test_what_is_no_list_of_messages_is_told_as_such(value):
    """Nothing is guessed."""
    assert kinds(value) == [("invalid_messages", 0)]


def test_messages_may_be_plain_mappings_in_either_spelling():
    """Roles and ids as the wire has them are read as well."""
    call = {"type": "toolCall", "id": "a", "name": "t", "arguments": {}}
    good = [{"role": "assistant", "content": [call]}, {"role": "toolResult", "toolCallId": "a"}]
    older = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]},
        {"role": "tool_result", "tool_use_id": "a"},
    ]
    assert violations(good) == violations(older) == ()
    assert kinds(good[:1]) == [("missing_tool_result", 0)]


ids = st.sampled_from(["a", "b", "c", "", " "])
message = st.one_of(
    st.builds(user_message, st.just("u")),
    st.builds(
        lambda calls, stop: asks(*calls, stop=stop),
        st.lists(ids, max_size=3),
        st.sampled_from(["stop", "tool_use", "aborted", "error", "redirected"]),
    ),
    st.builds(result, ids),
)
conversations = st.lists(message, max_size=12)


@given(conversations)
def test_a_repaired_conversation_is_well_formed(messages):
    """Whatever the conversation, after repair every call has its one result and there are no others."""
    assert violations(repaired(messages)) == ()


@given(conversations)
def test_repairing_twice_changes_nothing_more(messages):
    """Repair is a projection."""
    once = repaired(messages)
    again = repaired(once)
    assert [a is b for a, b in zip(once, again, strict=True)] == [True] * len(once)


@given(conversations)
def test_a_well_formed_conversation_is_left_alone(messages):
    """Repair of what needs none gives the very same messages."""
    if not violations(messages):
        assert [a is b for a, b in zip(repaired(messages), messages, strict=True)] == [True] * len(messages)


@given(conversations)
def test_repair_keeps_order_and_everything_people_said(messages):
    """User messages stay, all of them, in order; results are never moved before their call."""
    fixed = repaired(messages)
    assert [m for m in fixed if m.role == "user"] == [m for m in messages if m.role == "user"]
    kept = [m for m in fixed if any(m is original for original in messages)]
    places = [next(i for i, original in enumerate(messages) if original is m) for m in kept]
    assert places == sorted(places)


@given(conversations)
def test_a_growing_conversation_knows_the_same_as_one_read_at_once(messages):
    """Fed message by message, asked in between, it finds exactly what reading from the start finds."""
    conversation = Conversation()
    for number, one in enumerate(messages):
        conversation.append(one)
        if number % 3 == 0:
            assert conversation.chars == Conversation(messages[: number + 1]).chars
    if violations(messages):
        with pytest.raises(InvalidTranscript) as caught:
            conversation.check()
        assert sorted(map(str, caught.value.violations)) == sorted(map(str, violations(messages)))
    else:
        conversation.check()


def test_a_copy_goes_its_own_way():
    """What is added to one of two conversations is not in the other."""
    first = Conversation([user()])
    second = first.copy()
    second.append(asks("a"))
    assert (len(first), len(second)) == (1, 2)
    first.check()
    with pytest.raises(InvalidTranscript):
        second.check()


def test_missing_answers_say_that_the_call_was_interrupted():
    """The synthetic result is an error with a text of the caller's choosing."""
    fixed = repaired([asks("a", "b"), result("b")], note="The host stopped.")
    assert [m.tool_call_id for m in fixed[1:]] == ["b", "a"]
    assert (get_text(fixed[2]), fixed[2].is_error) == ("The host stopped.", True)
    assert interrupted_result(ToolCall("x", "t")).tool_call_id == "x"


def test_dangling_calls_are_those_of_the_last_answer_without_a_result():
    """Only when nothing but results follows it, and not when it was never meant to run."""
    assert [c.id for c in dangling_calls([user(), asks("a", "b"), result("b")])] == ["a"]
    assert dangling_calls([asks("a"), result("a")]) == ()
    assert dangling_calls([asks("a"), user()]) == ()
    assert dangling_calls([asks("a", stop="aborted")]) == ()
    assert dangling_calls([]) == ()
