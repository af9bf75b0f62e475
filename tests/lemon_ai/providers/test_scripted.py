"""The embedded models: what they play, and that they behave as a provider must."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lemon_ai import (
    AssistantMessage,
    BadScript,
    Context,
    ImageContent,
    Provider,
    ProviderError,
    ProviderRequest,
    StreamDone,
    StreamError,
    StreamOptions,
    StreamTruncated,
    TextContent,
    TextDelta,
    Tool,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    complete,
    find_model,
    get_text,
    get_thinking,
    get_tool_calls,
)
from lemon_ai.providers.script import (
    ERROR_KINDS,
    Call,
    Count,
    Crash,
    Delay,
    Fail,
    Say,
    Stop,
    Think,
    Truncate,
    parse_file,
    parse_prompt,
    pieces,
)
from lemon_ai.providers.scripted import FINISHED, ScriptedProvider
from lemon_ai.testing import Case, ProviderContract, ScriptedModel, check_events, collect
from lemon_otp.testing import FakeClock, settle

PATH = {"type": "object", "properties": {"path": {"type": "string"}, "pattern": {"type": "string"}}}
TOOLS = tuple(Tool(name, name, PATH) for name in ("ls", "read", "grep", "find"))
BASH = Tool("bash", "run", {"type": "object", "properties": {"command": {"type": "string"}}})


def request(prompt: str, model: str = "scripted/echo", *more: Any, tools: Any = (), **options: Any) -> ProviderRequest:
    context = Context(None, (UserMessage(prompt, timestamp=1), *more), tools)
    return ProviderRequest(find_model(model), context, StreamOptions(**options))


async def played(prompt: str, model: str = "scripted/echo", *more: Any, **options: Any) -> Any:
    """The terminal event of a call without any application."""
    events = await collect(ScriptedProvider(), request(prompt, model, *more, **options))
    check_events(events)
    return events[-1]


class TestContract(ProviderContract):
    """What every provider must do."""

    prompts: Mapping[str, str] = {
        "text": "@usage input=10 output=5\n@text Hello world",
        "tools": '@tool ls {"path": "."}\n@tool read {"path": "README.md"}',
        "auth": "@error auth",
        "rate_limit": "@error rate_limit retry_after=7",
        "truncated": '@text Hel\n@tool bash {"command": "rm -\n@truncate',
        "stalled": "@text Hel\n@delay 100000",
    }

    def case(self, name: Case) -> AbstractAsyncContextManager[tuple[Provider, ProviderRequest]]:
        return self._case(name)

    @asynccontextmanager
    async def _case(self, name: Case) -> AsyncIterator[tuple[Provider, ProviderRequest]]:
        from lemon_otp import Runtime

        async with Runtime():
            yield ScriptedProvider(), request(self.prompts[name], api_key=self.secret)


async def test_echo_says_what_it_was_told() -> None:
    """And after tools ran, what they returned."""
    assert get_text((await played("hello there")).message) == "hello there"
    call = AssistantMessage((ToolCall("c", "ls", {}),))
    result = ToolResultMessage("c", "ls", (TextContent("a.txt"), ImageContent("AAAA")))
    failed = ToolResultMessage("d", "read", (TextContent("no such file"),), is_error=True)
    last = await played("hello", "scripted/echo", call, result, failed)
    assert get_text(last.message) == "ls: a.txt\n[image/png]\nread failed: no such file"


async def test_text_comes_in_pieces_like_tokens() -> None:
    """Pieces put together are the text, whatever is in it; each is about a word."""
    text = "Straße, 你好 — wörld!\n\n  indented\tand   spaced 😀😀😀"
    assert "".join(pieces(text)) == text
    events = await collect(ScriptedProvider(), request("antidisestablishmentarianism is a word"))
    deltas = [event.delta for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 5
    assert max(map(len, deltas)) <= 8


PROMPT = """Please do this:
@think Let me think
about it
@text First line
second line
@tool read {"path": "a.txt"}
@tool bash {"command":
  "ls"}
@delay 20
@usage input=3 output=4 cache_read=5 cache_write=6
@turn
@text Done.
@stop length
"""


def test_a_prompt_may_hold_a_script() -> None:
    """A directive a line; lines that are none belong to the one before; what stands before the first is ignored."""
    assert parse_prompt(PROMPT) == [
        (
            Think("Let me think\nabout it"),
            Say("First line\nsecond line"),
            Call("read", '{"path": "a.txt"}'),
            Call("bash", '{"command":\n  "ls"}'),
            Delay(20),
            Count(3, 4, 5, 6),
        ),
        (Say("Done."), Stop("length")),
    ]
    assert parse_prompt("mail me @home, or at @text") is None
    assert parse_prompt("@unknown thing") is None
    assert parse_prompt("@empty") == [()]
    assert parse_prompt("@error server times=2 retry_after=1.5 Out of order") == [
        (Fail("server", 1.5, 2, "Out of order"),)
    ]


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ("@error nonsense", "rate_limit"),
        ("@error server retry_after=soon", "must be numbers"),
        ("@error server color=red", "color"),
        ("@delay soon", "whole number"),
        ("@delay -3", "negative"),
        ("@usage input=x", "whole number"),
        ("@stop because", "because"),
        ("@tool", "name of a tool"),
    ],
)
async def test_a_directive_that_cannot_be_read_says_why(prompt: str, says: str) -> None:
    """In one line."""
    with pytest.raises(BadScript, match=says):
        await played(prompt)


async def test_each_turn_is_played_after_the_tools_of_the_one_before(runtime: Any) -> None:
    """The number of answers since the prompt says which turn it is; after the last one it says so."""
    last = await played(PROMPT)
    assert (last.reason, get_thinking(last.message)) == ("tool_use", "Let me think\nabout it")
    assert [(call.name, dict(call.arguments)) for call in get_tool_calls(last.message)] == [
        ("read", {"path": "a.txt"}),
        ("bash", {"command": "ls"}),
    ]
    usage = last.message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (3, 4, 5, 6)
    result = ToolResultMessage("x", "read", (TextContent("content"),))
    second = await played(PROMPT, "scripted/echo", last.message, result)
    assert (second.reason, get_text(second.message)) == ("length", "Done.")
    third = await played(PROMPT, "scripted/echo", last.message, result, second.message)
    assert get_text(third.message) == FINISHED


async def test_malformed_arguments_are_streamed_as_they_are() -> None:
    """And come out marked invalid."""
    last = await played('@tool write {"path": "a", "content": oops}')
    (call,) = get_tool_calls(last.message)
    assert (call.arguments, call.invalid) == ({}, '{"path": "a", "content": oops}')
    assert isinstance(last, StreamDone)


async def test_an_empty_answer_and_a_truncated_one() -> None:
    """An empty answer is a success without content; a truncated one an error."""
    empty = await played("@empty")
    assert (empty.reason, empty.message.content) == ("stop", ())
    cut = await played("@text Half of\n@truncate")
    assert isinstance(cut, StreamError)
    assert isinstance(cut.error, StreamTruncated)


@pytest.mark.parametrize("kind", ERROR_KINDS)
async def test_every_kind_of_failure_can_be_played(kind: str) -> None:
    """Before any content, and in the middle of it; a hint goes along."""
    last = await played(f"@error {kind} retry_after=3 the words")
    assert isinstance(last.error, ProviderError)
    assert (last.error.retry_after_s, last.error.provider_message) == (3.0, "the words")
    assert last.message.content == ()
    middle = await played(f"@text So far\n@error {kind}")
    assert (get_text(middle.message), middle.error.in_stream) == ("So far", True)


async def test_a_failure_may_pass_after_some_tries(ai: Any) -> None:
    """`times=2` fails two tries of the same call, and again in the next conversation."""

    async def no_wait(seconds: float) -> None: ...

    for session in ("one", "two"):
        context = Context(None, (UserMessage("@error overloaded times=2\n@text fine", timestamp=5),))
        given = StreamOptions(retry_sleep=no_wait, session_id=session)
        assert get_text(await complete("scripted/echo", context, given)) == "fine"
    with pytest.raises(ProviderError):
        context = Context(None, (UserMessage("@error overloaded times=2\n@text fine", timestamp=6),))
        await complete("scripted/echo", context, StreamOptions(max_retries=1, retry_sleep=no_wait))


async def test_delays_pass_on_the_runtimes_clock(clocked_ai: FakeClock) -> None:
    """Nothing waits for the machine's clock."""
    from lemon_ai import stream

    running = await stream("scripted/echo", Context(None, (UserMessage("@text a\n@delay 60000\n@text b"),)))
    await settle()
    assert not running.done
    await clocked_ai.advance(60.0)
    assert get_text(await running.result()) == "ab"


FILE = {
    "turns": [
        ["Just text", {"thinking": "hm"}, {"tool_call": {"name": "ls", "arguments": {"path": "."}, "id": "c1"}}],
        {"steps": [{"text": "second"}, {"usage": {"input": 1, "output": 2}}, {"stop": "length"}]},
        [{"error": {"kind": "overloaded", "times": 1}}, {"delay_ms": 1}, {"truncate": True}],
        [{"tool_call": {"name": "ls", "arguments": "{raw"}}, {"crash": "bug"}],
        "only text",
        [],
    ]
}


def test_a_script_file_holds_turns_as_one_document_or_a_line_each() -> None:
    """Both say the same."""
    turns = parse_file(json.dumps(FILE), "f.json")
    assert turns == [
        (Say("Just text"), Think("hm"), Call("ls", {"path": "."}, "c1")),
        (Say("second"), Count(1, 2), Stop("length")),
        (Fail("overloaded", times=1), Delay(1), Truncate()),
        (Call("ls", "{raw"), Crash("bug")),
        (Say("only text"),),
        (),
    ]
    lines = "\n".join(json.dumps(turn) for turn in FILE["turns"])
    assert parse_file(lines, "f.jsonl") == turns
    assert parse_file('{"steps": ["one turn"]}', "f.json") == [(Say("one turn"),)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "line 1"),
        ("3", "list of turns"),
        ('[[{"text": "a", "more": 1}]]', "one key"),
        ('[[{"sing": "la"}]]', "sing"),
        ('[[{"tool_call": {"arguments": {}}}]]', "name"),
        ('[[{"error": {"kind": "odd"}}]]', "odd"),
        ("[[3]]", "turn 1"),
    ],
)
def test_a_script_file_that_cannot_be_read_says_where(text: str, says: str) -> None:
    """File, line or turn, and what is wrong."""
    with pytest.raises(BadScript, match=says) as bad:
        parse_file(text, "f.json")
    assert str(bad.value).startswith("f.json")


async def test_a_script_file_is_played_turn_by_turn_through_a_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name, by a variable, or by an option; an answer that failed does not count."""
    file = tmp_path / "talk.jsonl"
    file.write_text('["first"]\n["second"]\n')
    named = f"scripted/{file}"
    assert get_text((await played("x", named)).message) == "first"
    answered = (AssistantMessage(stop_reason="error"), AssistantMessage((TextContent("first"),)), UserMessage("more"))
    assert get_text((await played("x", named, *answered)).message) == "second"
    monkeypatch.setenv("LEMON_SCRIPT", str(file))
    assert get_text((await played("x", "scripted/script")).message) == "first"
    given = {"scripted": {"script": [[Say("by option")]]}}
    assert get_text((await played("x", "scripted/script", provider_options=given)).message) == "by option"
    monkeypatch.delenv("LEMON_SCRIPT")
    with pytest.raises(BadScript, match="LEMON_SCRIPT"):
        await played("x", "scripted/script")
    with pytest.raises(BadScript, match="cannot be read"):
        await played("x", "scripted/no-such-file.jsonl")


async def test_demo_looks_with_several_tools_at_once_and_quotes_what_they_returned() -> None:
    """Asked about the repository, it calls what is on offer in one batch; then it answers from the results."""
    question = "What is in this repository?"
    last = await played(question, "scripted/demo", tools=TOOLS)
    calls = get_tool_calls(last.message)
    assert {call.name for call in calls} == {"ls", "read", "find"}
    results = [
        ToolResultMessage(
            calls[0].id, "ls", (TextContent("README.md\nsrc\n" + "\n".join(f"f{n}" for n in range(20))),)
        ),
        ToolResultMessage(calls[1].id, "read", (TextContent("# Lemon\n\nAgents as processes."),)),
        ToolResultMessage(calls[2].id, "find", (TextContent("not allowed"),), is_error=True),
    ]
    answer = get_text((await played(question, "scripted/demo", last.message, *results, tools=TOOLS)).message)
    assert "22 entries" in answer
    assert "```text\n# Lemon\nAgents as processes.\n```" in answer
    assert "failed: not allowed" in answer


@pytest.mark.parametrize(
    ("prompt", "calls"),
    [
        ("Show me docs/a.md and b.txt", [("read", {"path": "docs/a.md"}), ("read", {"path": "b.txt"})]),
        ("run `ls -l`", [("bash", {"command": "ls -l"})]),
        ("$ git status", [("bash", {"command": "git status"})]),
        (
            "search for `def main`",
            [("grep", {"pattern": "def main", "path": "."}), ("find", {"pattern": "*", "path": "."})],
        ),
        ("How are you?", []),
    ],
)
async def test_demo_knows_a_handful_of_wishes(prompt: str, calls: list[Any]) -> None:
    """Files, commands and searches; anything else it answers by itself."""
    last = await played(prompt, "scripted/demo", tools=(*TOOLS, BASH))
    assert [(call.name, dict(call.arguments)) for call in get_tool_calls(last.message)] == calls


async def test_demo_uses_only_tools_on_offer_under_the_names_they_declare() -> None:
    """Without tools it talks; a tool that calls its path otherwise gets it so."""
    assert get_tool_calls((await played("What is in this repository?", "scripted/demo")).message) == ()
    odd = Tool("read", "", {"type": "object", "properties": {"file_path": {"type": "string"}}})
    last = await played("What is in this repository?", "scripted/demo", tools=(odd,))
    assert [dict(call.arguments) for call in get_tool_calls(last.message)] == [{"file_path": "README.md"}]


@pytest.mark.parametrize(
    "question", ["What did I ask before?", "what did I just say", "Do you remember my first question?"]
)
async def test_demo_recalls_the_conversation(question: str) -> None:
    """Earlier prompts are quoted; in a new conversation there are none."""
    more = (AssistantMessage((TextContent("An answer"),)), UserMessage(question))
    answer = get_text((await played("What is in this repository?", "scripted/demo", *more, tools=TOOLS)).message)
    assert "1. What is in this repository?" in answer
    assert "first thing you said" in get_text((await played(question, "scripted/demo")).message)


async def test_the_same_request_gets_the_same_answer() -> None:
    """Ids included; nothing is random."""
    one, two = [await played("What is in this repository?", "scripted/demo", tools=TOOLS) for _ in range(2)]
    assert one.message.content == two.message.content


async def test_a_program_scripts_a_model_for_its_tests(ai: Any) -> None:
    """Turns as texts, steps, lists or functions; requests are written down; two models do not mix."""
    one = ScriptedModel("a", Say("b"), [Think("t"), "c"], lambda asked: (Say(asked.model.id),), id="my-model")
    two = ScriptedModel("other")
    await one.install()
    await two.install()
    context = Context("system", (UserMessage("x"),))
    said = [get_text(await complete(one.model, context)) for _ in range(5)]
    assert said == ["a", "b", "c", "my-model", FINISHED]
    assert get_text(await complete(two.model, context)) == "other"
    assert [asked.context.system_prompt for asked in one.requests] == ["system"] * 5
    one.add("more")
    assert get_text(await complete(one.model, context)) == "more"
