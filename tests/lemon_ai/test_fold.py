"""How an answer grows: events, partials as of each of them, and the final message."""

from __future__ import annotations

from time import perf_counter, process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_ai import (
    AssistantMessage,
    Fold,
    Model,
    ModelCost,
    ProviderError,
    StreamDone,
    StreamError,
    StreamTruncated,
    TextContent,
    TextDelta,
    ThinkingContent,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    get_text,
    get_tool_calls,
)
from lemon_ai.testing import check_events

MODEL = Model(id="m", api="a", provider="p", cost=ModelCost(1.0, 2.0, 0.1, 1.25))


def types(events: list) -> list[str]:
    return [event.type for event in events]


def test_a_text_answer_starts_grows_and_ends() -> None:
    """start, text_start, deltas, text_end, done; the message carries the model's stamp."""
    fold = Fold(MODEL, timestamp=7)
    events = [*fold.start(), *fold.text("Hel"), *fold.text("lo"), *fold.done("stop")]
    assert types(events) == ["start", "text_start", "text_delta", "text_delta", "text_end", "done"]
    check_events(events)
    assert events[-1].message == AssistantMessage((TextContent("Hello"),), "a", "p", "m", timestamp=7)


def test_a_partial_is_the_message_as_of_its_event_whenever_it_is_read() -> None:
    """Read in order, out of order and after the end, a partial shows what was there at its event and nothing later."""
    fold = Fold(MODEL)
    events = [*fold.text("a"), *fold.thinking("x"), *fold.text("b"), *fold.text("c"), *fold.done("stop")]
    deltas = [event for event in events if isinstance(event, TextDelta)]
    shown = [[getattr(block, "text", "-") for block in event.partial.content] for event in reversed(deltas)]
    assert shown == [["a", "-", "bc"], ["a", "-", "b"], ["a"]]
    assert events[0].partial.content == ()


@given(st.lists(st.sampled_from(["text", "thinking", "tool"]), max_size=30), st.data())
def test_partials_read_in_any_order_equal_partials_read_at_once(kinds: list[str], data: st.DataObject) -> None:
    """Reading lazily and reading eagerly give the same, for any mix of blocks."""
    fold = Fold(MODEL, timestamp=0)
    events, eager = [], []
    for number, kind in enumerate(kinds):
        told = {
            "text": lambda n=number: fold.text(f"t{n}"),
            "thinking": lambda n=number: fold.thinking(f"h{n}"),
            "tool": lambda n=number: fold.tool_args(n % 3, f'{{"k{n}": {n}}}'),
        }[kind]()
        events += told
        eager += [event.partial for event in told]
    order = data.draw(st.permutations(range(len(events))))
    assert [events[place].partial for place in order] == [eager[place] for place in order]


def test_opening_a_block_ends_the_text_or_thinking_before_it() -> None:
    """Text, thinking and the first tool call do not overlap; tool calls may, and end in the order of the content."""
    fold = Fold(MODEL)
    events = [
        *fold.thinking("hm"),
        *fold.text("I look"),
        *fold.tool_start(0, "c0", "ls"),
        *fold.tool_start(1, "c1", "read"),
        *fold.tool_args(1, '{"path": "a"}'),
        *fold.tool_args(0, "{}"),
        *fold.done("stop"),
    ]
    check_events(events)
    ends = [(event.type, event.index) for event in events if event.type.endswith("_end")]
    assert ends == [("thinking_end", 0), ("text_end", 1), ("tool_call_end", 2), ("tool_call_end", 3)]
    assert events[-1].reason == "tool_use"


@pytest.mark.requirement("BR-002")
def test_arguments_before_the_id_are_kept() -> None:
    """Bytes that come before id and name belong to the call all the same."""
    fold = Fold(MODEL)
    fold.tool_args(0, '{"path"')
    fold.tool_start(0, "c1", "read")
    fold.tool_args(0, ':"a"}')
    message = fold.done("tool_use")[-1].message
    assert get_tool_calls(message) == (ToolCall("c1", "read", {"path": "a"}),)


def test_a_call_without_name_or_id_gets_both_and_no_two_ids_are_alike() -> None:
    """A blank id becomes one that neither this message nor the conversation holds; a blank name says so."""
    fold = Fold(MODEL, taken_ids=["call_stream_0"])
    fold.tool_args("x", "{}")
    fold.tool_start("y", "same", "b")
    fold.tool_start("z", "same", "c")
    ids = [(call.id, call.name) for call in get_tool_calls(fold.done("stop")[-1].message)]
    assert ids == [("call_stream_0_0_1", "unknown_tool"), ("same", "b"), ("same_2_1", "c")]


def test_streamed_arguments_are_readable_while_they_come() -> None:
    """A partial of a call shows the arguments so far, as an object."""
    fold = Fold(MODEL)
    fold.tool_start(0, "c", "write")
    seen = [
        event.partial.content[0].arguments
        for fragment in ('{"path": "a.', 'txt", "content"', ': "hel', 'lo"}')
        for event in fold.tool_args(0, fragment)
        if isinstance(event, ToolCallDelta)
    ]
    assert seen == [
        {"path": "a."},
        {"path": "a.txt"},
        {"path": "a.txt", "content": "hel"},
        {"path": "a.txt", "content": "hello"},
    ]


def test_what_an_end_says_replaces_what_was_streamed() -> None:
    """A completed item is authoritative: text, signature, arguments and id."""
    fold = Fold(MODEL)
    fold.thinking("first thoughts", "t")
    fold.end("t", content="final thoughts", signature="sig")
    fold.tool_start("c", "short", "f")
    fold.tool_args("c", "{}")
    (end,) = fold.end("c", arguments='{"a": 1}', call_id="short|item")
    assert isinstance(end, ToolCallEnd)
    content = fold.done("stop")[-1].message.content
    assert content == (ThinkingContent("final thoughts", "sig"), ToolCall("short|item", "f", {"a": 1}))


def test_a_signature_may_come_in_pieces_and_after_the_block_ended() -> None:
    """Pieces are put together; a late one still reaches the final message."""
    fold = Fold(MODEL)
    fold.thinking("t", 1)
    fold.sign(1, "ab")
    fold.sign(1, "cd", append=True)
    fold.text("x", 2)
    fold.sign(1, "ef", append=True)
    assert fold.done("stop")[-1].message.content[0] == ThinkingContent("t", "abcdef")


def test_usage_is_updated_field_by_field_and_priced() -> None:
    """None leaves what was known; the total is the sum unless the provider gave one; the cost follows."""
    fold = Fold(MODEL)
    fold.usage(input=1000, cache_read=500)
    fold.usage(output=10, input=None)
    fold.text("x")
    usage = fold.done("stop")[-1].message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.total_tokens) == (1000, 10, 500, 1510)
    assert usage.cost.total == pytest.approx((1000 * 1.0 + 10 * 2.0 + 500 * 0.1) / 1_000_000)
    fold = Fold(MODEL)
    fold.usage(input=-5, output=1, total_tokens=99, multiplier=2.0)
    assert fold.message.usage.input == 0
    assert fold.message.usage.total_tokens == 99
    assert fold.message.usage.cost.total == pytest.approx(4 / 1_000_000)


@pytest.mark.requirement("BR-012")
def test_a_call_that_was_cut_is_marked_invalid_and_shown() -> None:
    """A failure keeps what was said; a call whose end was not seen has no arguments anybody could run."""
    fold = Fold(MODEL)
    fold.text("Now ")
    fold.tool_start(0, "c", "bash")
    fold.tool_args(0, '{"cmd":"rm -"}')
    (last,) = fold.fail("error", ProviderError(provider="p", message="it broke"))
    assert isinstance(last, StreamError)
    assert last.message.stop_reason == "error"
    assert last.message.error_message == "it broke"
    assert get_text(last.message) == "Now "
    assert get_tool_calls(last.message) == (ToolCall("c", "bash", {}, invalid='{"cmd":"rm -"}'),)
    assert last.error is not None
    assert last.error.partial == last.message


def test_an_abort_carries_no_error_of_the_provider() -> None:
    """Aborting ends with reason aborted and a message that says so."""
    fold = Fold(MODEL)
    fold.text("x")
    (last,) = fold.fail("aborted", "Request was aborted")
    assert (last.reason, last.error, last.message.stop_reason) == ("aborted", None, "aborted")


def test_a_lost_connection_tells_what_broke_only_if_the_answer_was_cut() -> None:
    """After `lost`, a truncation is told as the error of the connection; a complete answer stays complete."""
    cause = ProviderError(provider="p", message="reset")
    fold = Fold(MODEL)
    fold.lost(cause)
    assert fold.fail("error", StreamTruncated(provider="p", message="cut"))[-1].error is cause
    fold = Fold(MODEL)
    fold.lost(cause)
    assert isinstance(fold.done("stop")[-1], StreamDone)


def test_nothing_is_said_after_the_terminal_event() -> None:
    """Every way to say something answers with nothing, and the message does not change."""
    fold = Fold(MODEL)
    fold.text("x")
    message = fold.done("stop")[-1].message
    late = [
        *fold.start(),
        *fold.text("y"),
        *fold.thinking("y"),
        *fold.tool_args(0, "{}"),
        *fold.end("text"),
        *fold.done("stop"),
        *fold.fail("error", "late"),
    ]
    assert late == []
    assert message.content == (TextContent("x"),)


@pytest.mark.parametrize("calls", [0, 1])
def test_whether_it_stopped_for_tools_is_read_from_the_answer(calls: int) -> None:
    """Vendors say stop with calls present and tool_use without; length is left alone."""
    for told in ("stop", "tool_use", "length"):
        fold = Fold(MODEL)
        fold.text("x")
        for number in range(calls):
            fold.tool_args(number, "{}")
        assert fold.done(told)[-1].reason == ("length" if told == "length" else ["stop", "tool_use"][calls])


def test_a_delta_costs_the_same_whether_it_is_the_first_or_the_last() -> None:
    """From 1,000 to 50,000 deltas the time for each stays flat, text and arguments alike."""

    def per_delta(count: int) -> float:
        best = float("inf")
        for _ in range(200_000 // count):
            fold = Fold(MODEL)
            start = process_time()
            for _ in range(count):
                fold.text("token ")
            for _ in range(count):
                fold.tool_args(0, "x")
            best = min(best, (process_time() - start) / count)
        return best

    assert per_delta(50_000) < 3 * per_delta(1_000)


def test_reading_each_partial_as_it_comes_stays_cheap() -> None:
    """A reader that looks at every partial pays for joining text, never for going through all pieces again."""
    fold = Fold(MODEL)
    start = perf_counter()
    size = 0
    for number in range(20_000):
        (*_, event) = fold.tool_args(0, '{"content": "' if number == 0 else "abcd ")
        size = len(event.partial.content[0].arguments.get("content", ""))
    assert size == 19_999 * 5
    assert perf_counter() - start < 5


@pytest.mark.parametrize("kind", ["text", "thinking", "tool_args"])
@pytest.mark.parametrize(
    ("pieces", "deltas"),
    [
        (("a\ud83d", "\ude00b"), ["a", "😀b"]),
        (("\ud83d", "\ude00"), ["😀"]),
        (("\ud83d", "", "\ude00"), ["😀"]),
        (("\ud83dx", "y"), ["\ufffdx", "y"]),
        (("\ud83d", "\ud83d", "\ude00"), ["\ufffd", "😀"]),
        (("\ude00", "é"), ["\ufffd", "é"]),
    ],
)
def test_a_character_in_two_halves_is_one_character(kind: str, pieces: tuple[str, ...], deltas: list[str]) -> None:
    """A server that escapes its tokens may cut a character in two; no half of one is shown, stored or printed."""
    fold = Fold(MODEL)
    events = [
        event for piece in pieces for event in getattr(fold, kind)(*(("k", piece) if "tool" in kind else (piece,)))
    ]
    assert [event.delta for event in events if event.type.endswith("_delta")] == deltas
    assert fold.streamed("k" if "tool" in kind else kind) == "".join(deltas)


def test_half_a_character_at_the_end_is_marked() -> None:
    """Its other half never comes."""
    fold = Fold(MODEL)
    fold.text("a\ud83d")
    done = fold.done("stop")[-1]
    assert isinstance(done, StreamDone)
    assert get_text(done.message) == "a\ufffd"
