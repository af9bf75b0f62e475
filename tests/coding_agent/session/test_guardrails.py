"""Guardrails: what one message may take up of a model call; the history keeps all of it."""

from hashlib import sha256
from pathlib import Path

import pytest

from coding_agent import client
from coding_agent.session.guardrails import NO_IMAGE, Guard, Guardrails
from lemon_agent import AgentTool, text_result
from lemon_ai import AssistantMessage, ImageContent, TextContent, ThinkingContent, ToolCall, ToolResultMessage
from lemon_ai.testing import Call


def result(*blocks, call="c1") -> ToolResultMessage:
    return ToolResultMessage(call, "fetch", blocks, timestamp=1)


def said(*blocks) -> AssistantMessage:
    return AssistantMessage(blocks, api="a", provider="p", model="m", stop_reason="stop", timestamp=1)


@pytest.fixture
def guard(tmp_path) -> Guard:
    return Guard(Guardrails(max_tool_result_bytes=1_000, max_tool_call_arg_string_bytes=1_000), tmp_path / "spill")


def test_the_limits_are_those_of_the_reference():
    """Sixty kilobytes of a result, twelve of an argument, sixty-four of thinking."""
    limits = Guardrails()
    assert limits.max_tool_result_bytes == 60_000
    assert limits.max_thinking_bytes == 65_536
    assert limits.max_tool_call_arg_string_bytes == 12_000


def test_what_is_within_the_limits_is_handed_on_as_it_is(guard):
    """The very same messages, so that nothing is made anew for each call."""
    call = ToolCall("c1", "fetch", {"a": ["b" * 999]})
    messages = [said(TextContent("x" * 5_000), call), result(TextContent("é" * 500))]

    assert all(one is other for one, other in zip(guard.convert(messages), messages, strict=True))


def test_a_result_that_is_too_long_keeps_its_ends_and_says_where_all_of_it_is(guard, tmp_path):
    """Head, tail, size and hash; the file holds every byte, is private, and its name depends on nothing else."""
    text = "begin " + "é" * 2_000 + " end"
    message = result(TextContent(text))

    (shown,) = guard.convert([message])
    again = Guard(guard.limits, guard.spill_dir).convert([result(TextContent(text))])

    words = shown.content[0].text
    raw = text.encode()
    path = tmp_path / "spill" / f"{sha256(raw).hexdigest()}.txt"
    head = f"[fetch: {len(raw)} bytes, sha256 {sha256(raw).hexdigest()}; all of it is in {path}]"
    assert words.startswith(f"{head}\nbegin ")
    assert words.endswith(" end")
    assert "bytes left out" in words
    assert len(words.encode()) < 1_400
    assert path.read_bytes() == raw
    assert path.stat().st_mode & 0o777 == 0o600
    assert again == [shown]
    assert message.content[0].text == text


def test_texts_of_one_result_count_together_and_its_pictures_stay(guard):
    """Two texts that are too long together are cut as one."""
    picture = ImageContent("aGk=", "image/png")

    (shown,) = guard.convert([result(TextContent("a" * 600), picture, TextContent("b" * 600))])

    assert [type(block) for block in shown.content] == [TextContent, ImageContent]


def test_a_long_argument_is_named_by_what_it_was(guard):
    """Only the text that is too long is replaced; names and other values stay."""
    call = ToolCall("c1", "write", {"path": "a.txt", "content": "x" * 2_000, "edits": [{"new": "y" * 3_000}]})

    (shown,) = guard.convert([said(TextContent("So."), call)])

    arguments = shown.content[1].arguments
    assert arguments["path"] == "a.txt"
    assert arguments["content"]["_truncated"] is True
    assert arguments["content"]["bytes"] == 2_000
    assert Path(arguments["content"]["spill_path"]).read_text() == "x" * 2_000
    assert arguments["edits"][0]["new"]["sha256"] == sha256(b"y" * 3_000).hexdigest()
    assert call.arguments["content"] == "x" * 2_000


def test_of_many_pictures_the_newest_stay(tmp_path):
    """Older ones are named as left out; those a person sent are not counted."""
    guard = Guard(Guardrails(max_tool_result_images=2), None)
    pictures = [result(ImageContent("aGk=", "image/png"), call=f"c{n}") for n in range(4)]

    shown = guard.convert(pictures)

    assert [message.content[0] is NO_IMAGE for message in shown] == [True, True, False, False]


def test_thinking_is_left_out_where_it_is_too_long_unless_its_provider_signed_it(guard):
    """A signed block must go back as it came."""
    unsigned, signed = ThinkingContent("t" * 70_000), ThinkingContent("t" * 70_000, "signature")

    (first, second) = guard.convert([said(unsigned, TextContent("a")), said(signed, TextContent("a"))])

    assert [type(block) for block in first.content] == [TextContent]
    assert second.content[0] is signed


def test_without_a_place_for_it_the_rest_is_just_left_out():
    """A folder that cannot be made is no reason to fail."""
    (shown,) = Guard(Guardrails(max_tool_result_bytes=10), Path("/dev/null/x")).convert([result(TextContent("a" * 99))])

    assert "all of it is in" not in shown.content[0].text


async def test_a_session_sends_the_cut_and_stores_the_whole(host):
    """The model reads head and tail; the session's file has every byte."""
    tool = AgentTool(
        name="fetch",
        description="",
        parameters={"type": "object", "properties": {}},
        execute=lambda *_: text_result("z" * 100_000),
    )
    requests = []

    def look(request):
        requests.append(request)
        return "Done."

    session = await host.session([Call("fetch", {})], look, tools=(tool,))

    await host.run(session, "hi")

    (told,) = [message for message in requests[0].context.messages if message.role == "tool_result"]
    assert len(told.content[0].text) < 61_000
    kept = [message for message in await client.get_messages(session) if message.role == "tool_result"]
    assert kept[0].content[0].text == "z" * 100_000
