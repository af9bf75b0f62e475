"""How big a conversation is, and cutting it without breaking it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_agent import context, user_message, violations
from lemon_agent.testing import ScriptedAgent
from lemon_ai import AssistantMessage, ImageContent, TextContent, ThinkingContent, ToolCall, ToolResultMessage, get_text


def exchange(number):
    """A question, a call, its result and an answer."""
    return [
        user_message(f"q{number}"),
        AssistantMessage((ToolCall(f"c{number}", "t", {"n": number}),), timestamp=1),
        ToolResultMessage(f"c{number}", "t", (TextContent("r" * 50),), timestamp=1),
        AssistantMessage((TextContent(f"a{number}"),), timestamp=1),
    ]


LONG = [message for number in range(60) for message in exchange(number)]


@pytest.mark.parametrize(
    ("block", "chars"),
    [
        (TextContent("Žluť"), 4),
        (ThinkingContent("hmm"), 3),
        (ToolCall("c", "t", {"a": 1}), 7),
        (ToolCall("c", "t", {"a": object()}), 50),
        (ToolCall("c", "t", None), 0),
        (ImageContent("x" * 9999), 100),
    ],
)
def test_each_kind_of_block_has_its_size(block, chars):
    """Characters of text and thinking, of the arguments as JSON, a flat hundred for a picture."""
    assert context.message_chars(AssistantMessage((block,))) == chars


async def test_sizes_are_said_and_worrying_ones_warned_of(runtime, heard):
    """A threshold itself is still fine; above it comes a warning with its level."""
    messages = [user_message("x" * 90)]
    assert context.check_size(messages, "y" * 10, warning=100, critical=200) == "ok"
    assert context.check_size(messages, "y" * 11, warning=100, critical=200) == "warning"
    assert context.check_size(messages, "y" * 111, warning=100, critical=200) == "critical"
    assert heard.measured("context", "size")[0] == {"char_count": 100, "message_count": 1}
    assert heard.of("context", "size")[0] == {"has_system_prompt": True}
    assert heard.of("context", "warning") == [{"level": "warning"}, {"level": "critical"}]
    assert heard.measured("context", "warning")[1] == {"char_count": 201, "threshold": 200}


def test_a_conversation_in_numbers():
    """Counts by role, characters, tokens at four characters each."""
    stats = context.stats(exchange(1), "prompt")
    assert stats.by_role == {"user": 1, "assistant": 2, "tool_result": 1}
    assert stats.char_count == 2 + 7 + 50 + 2 + 6
    assert stats.estimated_tokens == stats.char_count // 4
    assert stats.system_prompt_chars == 6
    assert context.large_context(exchange(1), threshold=60)
    assert not context.large_context(exchange(1), threshold=61)


@pytest.mark.requirement("CTX-7")
@given(
    st.integers(0, 60), st.integers(1, 80), st.integers(0, 4000), st.sampled_from(["sliding_window", "keep_bookends"])
)
def test_a_cut_conversation_is_in_order_and_parts_no_call_from_its_result(length, most, chars, strategy):
    """Whatever the limits: what is left is in its order, the limits hold, and every call keeps its result."""
    messages = LONG[: length * 4]
    result = context.truncate(messages, max_messages=most, max_chars=chars, strategy=strategy)

    places = [next(i for i, m in enumerate(messages) if m is kept) for kept in result.messages]
    assert places == sorted(places)
    assert result.dropped == len(messages) - len(result.messages)
    assert violations(result.messages) == ()
    assert len(result.messages) <= max(most, 1)
    if strategy == "sliding_window" and len(result.messages) > 1:
        assert context.size_of(result.messages) <= chars or len(messages) == len(result.messages)


@pytest.mark.requirement("CTX-7")
async def test_the_first_user_message_is_kept_with_the_newest_ones(runtime, heard):
    """The window holds the beginning of the task and the end of the conversation; the cut is told."""
    cut = context.truncate(LONG, max_messages=9)
    assert get_text(cut.messages[0]) == "q0"
    assert [get_text(m) for m in cut.messages if m.role == "user"] == ["q0", "q58", "q59"]
    assert len(cut.messages) == 9
    assert heard.of("context", "truncated") == [{"strategy": "sliding_window"}]
    assert heard.measured("context", "truncated") == [{"dropped_count": 231, "remaining_count": 9}]


def test_without_the_first_user_message_only_the_end_is_kept():
    """`keep_first_user=False` gives the newest messages and no more."""
    cut = context.truncate(LONG, max_messages=4, keep_first_user=False)
    assert list(cut.messages) == LONG[-4:]


def test_a_conversation_within_its_limits_is_left_alone():
    """Nothing is dropped, the very messages come back."""
    cut = context.truncate(LONG[:8])
    assert cut.messages == tuple(LONG[:8])
    assert cut.dropped == 0


def test_bookends_keep_both_ends():
    """Half from the beginning, half from the end, whole groups only; an odd limit loses one, a limit of one all."""
    cut = context.truncate(LONG, max_messages=9, strategy="keep_bookends")
    assert cut.messages == (*LONG[:4], *LONG[-4:])
    assert context.truncate(LONG, max_messages=1, strategy="keep_bookends").messages == ()
    assert context.truncate(LONG, max_messages=5, strategy="no such").messages[0] is LONG[0]


async def test_a_transform_cuts_for_each_call_and_tells_how_much(tree):
    """`make_transform` plugs into an agent; the transcript itself stays whole."""
    told = []
    transform = context.make_transform(max_messages=2, on_truncation=told.append)
    agent = await ScriptedAgent.start(["b", "d"], transform_context=transform)
    await agent.run("a")
    await agent.run("c")
    assert [len(c.messages) for c in agent.model.asked] == [1, 2]
    assert told == [1]
    assert len((await agent.state()).messages) == 4


async def test_every_model_call_says_how_big_its_conversation_is(tree, heard):
    """The size is kept up to date message by message, the system prompt counted in."""
    agent = await ScriptedAgent.start(["four", "more"], system_prompt="12345")
    await agent.run("ab")
    await agent.run("cd")
    assert [m["char_count"] for m in heard.measured("context", "size")] == [7, 13]
