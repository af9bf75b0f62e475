"""Cutting the middle out of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_ai import (
    AssistantMessage,
    CannotCompact,
    Context,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    compact,
    estimate_tokens,
    get_text,
)


def said(text: str) -> AssistantMessage:
    return AssistantMessage(content=(TextContent(text),), api="a", provider="p", model="m", timestamp=1)


def called(*ids: str) -> AssistantMessage:
    calls = tuple(ToolCall(id=name, name="read", arguments={}) for name in ids)
    return AssistantMessage(content=calls, api="a", provider="p", model="m", stop_reason="tool_use", timestamp=1)


def result(name: str) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=name, tool_name="read", content=(TextContent("ok"),))


def talk(count: int) -> Context:
    """User and assistant in turn, each message with its number."""
    messages: list[Message] = [UserMessage(f"m{n}") if n % 2 == 0 else said(f"m{n}") for n in range(count)]
    return Context("be brief", messages)


def texts(context: Context) -> list[str]:
    return [get_text(m) if isinstance(m, AssistantMessage) else str(m.content) for m in context.messages]


def open_calls(messages: Sequence[Any]) -> set[str]:
    """Ids of calls without a result, and of results without a call."""
    calls = {block.id for m in messages if m.role == "assistant" for block in m.content if isinstance(block, ToolCall)}
    return calls ^ {m.tool_call_id for m in messages if m.role == "tool_result"}


def test_the_first_and_the_last_messages_stay_and_a_notice_says_what_went() -> None:
    """Twenty messages: the first, the notice and the last four; fifteen messages are seven turns."""
    cut = compact(talk(20))
    assert texts(cut.context) == [
        "m0",
        "[Context compacted: 15 messages (7 conversation turns) removed to fit context window]",
        "m16",
        "m17",
        "m18",
        "m19",
    ]
    assert cut.context.system_prompt == "be brief"
    assert (cut.original_count, cut.new_count, cut.removed_count) == (20, 6, 15)
    assert cut.tokens_saved > 0
    assert not cut.has_summary


def test_too_short_a_conversation_cannot_be_cut() -> None:
    """No more messages than stay in any case; a little more loses nothing either."""
    with pytest.raises(CannotCompact) as refused:
        compact(talk(4))
    assert refused.value.reason == "insufficient_messages"
    assert compact(talk(6)).removed == ()
    assert compact(talk(6)).context == talk(6)


def test_one_or_two_messages_go_without_a_notice() -> None:
    """The notice would be as long as what it stands for."""
    assert texts(compact(talk(7)).context) == ["m0", "m3", "m4", "m5", "m6"]
    assert "3 messages" in texts(compact(talk(8)).context)[1]


def test_a_summary_takes_the_place_of_what_it_tells(caplog: pytest.LogCaptureFixture) -> None:
    """Under the notice; without one, the strategy is a truncation and a warning says so."""
    cut = compact(talk(20), strategy="summarization", summary="They counted.")
    assert (cut.strategy, cut.has_summary) == ("summarization", True)
    assert texts(cut.context)[1].endswith("window]\n\nThey counted.")
    assert not caplog.records

    plain = compact(talk(20), strategy="summarization")
    assert (plain.strategy, plain.has_summary) == ("truncation", False)
    assert "nobody gave a summary" in caplog.text


def test_hybrid_keeps_six_and_its_name() -> None:
    """With or without a summary."""
    cut = compact(talk(20), strategy="hybrid")
    assert (cut.strategy, cut.new_count) == ("hybrid", 8)
    assert texts(cut.context)[-6:] == [f"m{n}" for n in range(14, 20)]


def test_an_unknown_strategy_is_named() -> None:
    """So a typing error does not pass for a conversation that is too short."""
    with pytest.raises(CannotCompact, match=r"'magic'.*truncation, summarization"):
        compact(talk(20), strategy="magic")


def test_a_call_and_its_results_are_never_parted() -> None:
    """The cut falls before the message that made the calls; the first message keeps its results, too."""
    messages = [*talk(10).messages, called("a", "b", "c"), result("a"), result("b"), result("c"), said("done")]
    cut = compact(Context(None, messages), preserve_recent=2)
    assert open_calls(cut.context.messages) == set()
    assert cut.context.messages[-5] == called("a", "b", "c")

    begun = [called("x"), result("x"), *talk(12).messages]
    assert compact(Context(None, begun)).context.messages[:2] == tuple(begun[:2])


def test_a_target_drops_more_until_it_fits_or_one_message_is_left() -> None:
    """Whole groups, oldest first."""
    long = Context(None, [UserMessage("x" * 400) for _ in range(12)])
    one = estimate_tokens(long.messages[:1])
    cut = compact(long, target_tokens=3 * one + 3)
    assert [len(str(m.content)) for m in cut.context.messages if "compacted" not in str(m.content)] == [400] * 3
    assert len(compact(long, target_tokens=1).context.messages) == 3


_turns = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@given(turns=_turns, keep=st.integers(1, 8), target=st.none() | st.integers(1, 400))
def test_no_cut_makes_an_orphan_or_reorders(turns: list[int], keep: int, target: int | None) -> None:
    """Whatever the conversation: nothing open, both ends there, what is left in its old order."""
    messages: list[Message] = []
    for turn, calls in enumerate(turns):
        names = [f"{turn}.{n}" for n in range(calls)]
        messages += [UserMessage(f"u{turn}"), called(*names) if names else said(f"s{turn}"), *map(result, names)]
    try:
        cut = compact(Context(None, messages), preserve_recent=keep, target_tokens=target)
    except CannotCompact:
        assert len(messages) <= keep
        return
    left = [message for message in cut.context.messages if "compacted" not in str(getattr(message, "content", ""))]
    assert open_calls(left) == set()
    assert left[0] == messages[0]
    assert left[-1] == messages[-1]
    assert len(left) + cut.removed_count == len(messages)
    assert [m for m in messages if m in left] == left
