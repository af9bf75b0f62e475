import pytest
from attrs import evolve

from coding_agent.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    UnknownMessage,
)
from coding_agent.session.token_estimate import context_size, estimate, estimate_message, estimate_text
from lemon_ai import AssistantMessage, ImageContent, TextContent, ThinkingContent, ToolCall, Usage, UserMessage
from tests.coding_agent.storage.support import answer, result, user


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (UserMessage("abcde", 1), 2),
        (user(""), 0),
        (UserMessage((TextContent("abcd"), ImageContent("AA==")), 1), 1201),
        (AssistantMessage((ThinkingContent("abcdefgh"), TextContent("abcd")), timestamp=1), 3),
        (AssistantMessage((ToolCall("id", "bash", {"a": 1}),), timestamp=1), 3),
        (result("c1", "x" * 400), 100),
        (BashExecutionMessage("ls", "x" * 100, 0), 30),
        (BashExecutionMessage("ls", "x", exclude_from_context=True), 0),
        (CustomMessage("x", "abcdefgh"), 2),
        (BranchSummaryMessage("abcd"), 1),
        (CompactionSummaryMessage("abcd"), 1),
        (UnknownMessage("x", {}), 0),
    ],
)
def test_a_message_is_a_quarter_of_its_characters(message, tokens):
    """
    Rounded up; pictures count as 1200 tokens, calls by name and arguments, thinking as text.
    """
    assert estimate_message(message) == tokens


def test_several_messages_are_the_sum():
    """
    Each is rounded by itself.
    """
    assert estimate([user("a"), user("b")]) == 2
    assert estimate_text("abcde") == 2


def counted(text, total, at=2, **members):
    return evolve(answer(text, at=at), usage=Usage(total_tokens=total), **members)


def test_what_the_provider_counted_is_taken_at_its_word():
    """
    The last counted answer, plus a guess at what follows it; the overhead is in the count.
    """
    size = context_size([user("x" * 4000), counted("b", 500), user("abcd")], overhead=lambda: 99)
    assert (size.tokens, size.counted, size.estimated) == (501, 500, 1)


def test_without_a_count_everything_is_guessed():
    """
    System prompt and tools are added then.
    """
    assert context_size([user("abcd"), answer("efgh")], overhead=lambda: 10).tokens == 12
    assert context_size([], overhead=lambda: 10).tokens == 10


def test_a_usage_without_a_total_is_added_up():
    """
    Older files leave the total out.
    """
    usage = Usage(input=1, output=2, cache_read=3, cache_write=4)
    assert context_size([evolve(answer("b"), usage=usage)]).tokens == 10


@pytest.mark.parametrize("reason", ["error", "aborted"])
def test_an_answer_that_failed_counted_nothing(reason):
    """
    The last good answer is used instead.
    """
    failed = counted("", 9999, stop_reason=reason)
    assert context_size([counted("a", 100), user("abcd"), failed]).tokens == 101


def test_an_answer_from_before_the_compaction_counted_what_is_gone():
    """
    Kept answers are older than the summary in front of them; their counts are of the longer conversation.
    """
    messages = [CompactionSummaryMessage("abcd", 90_000, timestamp=100), counted("kept", 90_000, at=50), user("efgh")]
    assert context_size(messages).tokens == 3

    messages.append(counted("fresh", 40, at=150))
    assert context_size(messages).tokens == 40
