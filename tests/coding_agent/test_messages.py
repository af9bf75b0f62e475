import json

import pytest

from coding_agent.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    UnknownMessage,
    content_from_json,
    convert_to_llm,
    message_from_json,
    message_to_json,
)
from lemon_ai import ImageContent, TextContent, UserMessage, get_text
from tests.coding_agent.storage.support import PI, answer, result, user

STORED = [
    {
        "role": "bashExecution",
        "command": "ls",
        "output": "a",
        "exitCode": 0,
        "cancelled": False,
        "truncated": False,
        "timestamp": 7,
    },
    {
        "role": "bashExecution",
        "command": "ls",
        "output": "",
        "cancelled": True,
        "truncated": True,
        "fullOutputPath": "/t",
        "timestamp": 7,
        "excludeFromContext": True,
    },
    {"role": "custom", "customType": "x", "content": "hi", "display": True, "details": {"k": 1}, "timestamp": 7},
    {
        "role": "custom",
        "customType": "x",
        "content": [{"type": "text", "text": "hi"}],
        "display": False,
        "timestamp": 7,
    },
    {"role": "branchSummary", "summary": "s", "fromId": "a", "timestamp": 7},
    {"role": "compactionSummary", "summary": "s", "tokensBefore": 9, "timestamp": 7},
    {"role": "x_future", "anything": [1, 2.0], "timestamp": 7},
]


@pytest.mark.requirement("MSG-3", "MSG-5")
@pytest.mark.parametrize("data", STORED, ids=lambda data: data["role"])
def test_roles_beyond_a_models_three_read_and_write_the_same(data):
    """
    A role of ours, or of an extension nobody here knows, is carried whole.
    """
    assert message_to_json(message_from_json(data)) == data


@pytest.mark.requirement("MSG-3", "MSG-4")
def test_the_messages_of_the_sample_read_and_write_the_same():
    """
    Every message of the sample with all entry types survives, whatever its role.
    """
    raw = [json.loads(line) for line in (PI / "v3-all-entry-types.jsonl").read_bytes().split(b"\n") if line]
    stored = [data["message"] for data in raw if data["type"] == "message"]

    assert {data["role"] for data in stored} == {"user", "assistant", "toolResult", "bashExecution"}
    assert [message_to_json(message_from_json(data)) for data in stored] == stored


@pytest.mark.parametrize(("old", "new"), [("tool_result", "toolResult"), ("hookMessage", "custom")])
def test_older_spellings_of_roles_are_read_and_not_written(old, new):
    """
    What is written has one spelling.
    """
    data = {"role": old, "toolCallId": "c", "toolName": "bash", "customType": "x", "content": [], "timestamp": 1}
    assert message_to_json(message_from_json(data))["role"] == new


@pytest.mark.parametrize("data", [{}, {"role": 7}, {"role": "user", "content": 5}, {"role": "assistant", "content": 3}])
def test_what_is_no_message_is_a_value_error(data):
    """
    A loader has one error to catch.
    """
    with pytest.raises(ValueError):
        message_from_json(data)


def test_content_that_is_none_at_all_holds_no_blocks():
    """
    Null, or a number where blocks should be, is empty content and no error.
    """
    assert content_from_json(None) == ()
    assert content_from_json(5) == ()
    assert content_from_json("x") == "x"


@pytest.mark.requirement("MSG-5")
def test_a_models_own_roles_pass_unchanged_and_an_unknown_one_is_left_out():
    """
    convert_to_llm is the only place where roles of ours become words of the user.
    """
    known = [user("a"), answer("b", "c1"), result("c1")]
    assert convert_to_llm([*known, UnknownMessage("x_future", {}, 1)]) == known


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (BashExecutionMessage("ls", "a\nb", 0), "Ran `ls`\n```\na\nb\n```"),
        (BashExecutionMessage("ls", "", 2), "Ran `ls`\n(no output)\nCommand exited with code 2"),
        (BashExecutionMessage("ls", "", None, cancelled=True), "Ran `ls`\n(no output)\n(command cancelled)"),
        (
            BashExecutionMessage("ls", "a", 0, truncated=True, full_output_path="/tmp/o"),
            "Ran `ls`\n```\na\n```\n[Output truncated. Full output: /tmp/o]",
        ),
    ],
)
def test_a_command_of_the_users_is_told_with_its_outcome(message, text):
    """
    The model learns what was run and how it ended.
    """
    (told,) = convert_to_llm([message])
    assert isinstance(told, UserMessage)
    assert get_text(told) == text


def test_a_command_the_user_kept_to_himself_is_not_told():
    """
    excludeFromContext keeps a command in the session and out of the model.
    """
    assert convert_to_llm([BashExecutionMessage("env", "KEY=x", 0, exclude_from_context=True)]) == []


def test_the_words_of_an_extension_are_told_and_its_details_are_not():
    """
    Text becomes one block, blocks stay as they are.
    """
    picture = ImageContent("AA==")
    told = convert_to_llm([CustomMessage("x", "note", details={"secret": 1}), CustomMessage("x", (picture,))])

    assert told == [UserMessage((TextContent("note"),), 0), UserMessage((picture,), 0)]


@pytest.mark.parametrize("message", [BranchSummaryMessage("what happened"), CompactionSummaryMessage("what happened")])
def test_a_summary_is_told_in_tags(message):
    """
    The model can tell a summary from the user's own words.
    """
    (told,) = convert_to_llm([message])
    assert "<summary>\nwhat happened\n</summary>" in get_text(told)
