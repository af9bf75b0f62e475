"""The words of an entry, wherever it has one line."""

from typing import Any

import pytest
from attrs import define

from coding_agent.messages import BashExecutionMessage, BranchSummaryMessage
from coding_agent.storage.gist import message_words
from lemon_ai import ImageContent, TextContent, ToolCall, UserMessage


@define
class Failed:
    content: tuple[Any, ...] = ()
    error_message: str = "no answer"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (UserMessage("Look\nhere"), "Look\nhere"),
        (UserMessage((TextContent("see"), ImageContent("aGk="))), "see [image]"),
        (Failed((ToolCall("1", "read", {}),)), "read"),
        (Failed(), "no answer"),
        (BashExecutionMessage("ls -l", "files"), "ls -l"),
        (BranchSummaryMessage("What was tried"), "What was tried"),
        (None, ""),
    ],
    ids=map(str, range(7)),
)
def test_a_message_is_told_by_its_words(message: Any, words: str) -> None:
    """Its text, the names of its calls, what else is in it, or why it failed; the same for a list and for an export."""
    assert message_words(message) == words
