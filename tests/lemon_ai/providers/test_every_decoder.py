"""Recorded answers, cut, damaged and put together again: what every decoder must survive."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lemon_ai.events import StreamDone, StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.messages import ToolCall, get_tool_calls
from lemon_ai.providers.anthropic_decode import AnthropicDecoder
from lemon_ai.providers.bedrock_decode import BedrockDecoder
from lemon_ai.providers.bedrock_frames import ChunkFramer, FrameFramer
from lemon_ai.providers.google_decode import GoogleDecoder
from lemon_ai.providers.mistral_decode import MistralDecoder
from lemon_ai.providers.ollama_decode import NdjsonFramer, OllamaDecoder
from lemon_ai.providers.openai_completions_decode import OpenAICompletionsDecoder
from lemon_ai.providers.openai_responses_decode import ResponsesDecoder
from lemon_ai.providers.sse import SseFramer
from lemon_ai.providers.wire import WireReader
from tests.cassettes.recording import SHARED, Cassette, find, load
from tests.lemon_ai.providers.wires import ended, model

DECODERS: dict[str, tuple[Any, Any]] = {
    "anthropic_messages": (AnthropicDecoder, SseFramer),
    "azure_openai_completions": (OpenAICompletionsDecoder, SseFramer),
    "azure_openai_responses": (ResponsesDecoder, SseFramer),
    "bedrock_converse": (BedrockDecoder, FrameFramer),
    "bedrock_converse_stream": (BedrockDecoder, FrameFramer),
    "bedrock_invoke_anthropic_stream": (AnthropicDecoder, ChunkFramer),
    "google_generative_ai": (GoogleDecoder, SseFramer),
    "google_vertex": (GoogleDecoder, SseFramer),
    "mistral": (MistralDecoder, SseFramer),
    "ollama_chat": (OllamaDecoder, NdjsonFramer),
    "openai_completions": (OpenAICompletionsDecoder, SseFramer),
    "openai_responses": (ResponsesDecoder, SseFramer),
}


def recordings() -> list[Cassette]:
    """The answers with status 200."""
    return [cassette for path in find([SHARED]) if (cassette := load(Path(path))).status == 200]


def decode(cassette: Cassette, body: bytes, pieces: int = 0) -> list[StreamEvent]:
    """The events of `body` in the cassette's wire format."""
    decoder, framer = DECODERS[cassette.api]
    fold = Fold(model(cassette.api, cassette.provider), timestamp=1)
    reader = WireReader(decoder(fold), framer=framer, sniff=framer is not NdjsonFramer)
    events: list[StreamEvent] = []
    size = pieces or max(len(body), 1)
    for at in range(0, len(body), size):
        if reader.finished:
            return events
        events += reader.feed(body[at : at + size])
    return events if reader.finished else [*events, *reader.close()]


def runnable(events: Sequence[StreamEvent]) -> list[ToolCall]:
    """The calls an agent would run: those of an answer that ended well, and are whole."""
    last = ended(events)
    if not isinstance(last, StreamDone) or last.reason == "length":
        return []
    return [call for call in get_tool_calls(last.message) if call.invalid is None]


def check_order(events: Sequence[StreamEvent]) -> None:
    """A start, then blocks that open, grow and end under one index each, then the terminal event."""
    ended(events)
    opened: dict[int, str] = {}
    grown: dict[int, list[str]] = {}
    for place, event in enumerate(events[:-1]):
        if event.type == "start":
            assert place == 0
            continue
        kind, _, step = event.type.rpartition("_")
        if step == "start":
            assert event.index == len(opened)
            opened[event.index] = kind
            grown[event.index] = []
        elif step == "delta":
            assert opened[event.index] == kind
            grown[event.index].append(event.delta)
        else:
            assert opened.pop(event.index) == kind
            opened[event.index] = "ended"
    last = ended(events)
    if isinstance(last, StreamDone):
        assert set(opened.values()) <= {"ended"}
        assert len(last.message.content) == len(opened)


def test_every_recording_gives_well_ordered_events():
    """Blocks start, grow and end in order, each under its own index, and one terminal event is the last."""
    for cassette in recordings():
        check_order(decode(cassette, cassette.body, pieces=11))


@pytest.mark.requirement("BR-010", "BR-011", "BR-012", "BR-013", "BR-014")
def test_an_answer_cut_anywhere_never_runs_half_a_call():
    """
    Wherever the bytes end, there is one terminal event; an answer counts as complete only if what makes it complete
    was there; and every call that would run is one of the whole answer's, with all of its arguments.
    """
    for cassette in recordings():
        whole = runnable(decode(cassette, cassette.body))
        known = {(call.name, str(call.arguments)) for call in whole}
        dice = random.Random(cassette.id)
        length = len(cassette.body)
        cuts = {*range(max(0, length - 12), length), *(dice.randrange(length) for _ in range(24))}
        for cut in cuts:
            events = decode(cassette, cassette.body[:cut])
            check_order(events)
            calls = {(call.name, str(call.arguments)) for call in runnable(events)}
            assert calls <= known, (cassette.id, cut, calls)


RECORDINGS = recordings()


@settings(max_examples=400, deadline=None)
@given(
    cassette=st.sampled_from(RECORDINGS),
    place=st.floats(0, 1, exclude_max=True),
    damage=st.binary(min_size=1, max_size=12)
    | st.sampled_from([b"null", b"[", b"}", b'"', b"\n\n", b"\r", b"\xff\xfe"]),
    instead=st.integers(0, 40),
)
def test_damaged_bytes_are_an_outcome_not_an_exception(cassette: Cassette, place: float, damage: bytes, instead: int):
    """Some bytes are replaced by others: the decoder ends the answer one way or the other, in order."""
    at = int(place * len(cassette.body))
    body = cassette.body[:at] + damage + cassette.body[at + instead :]

    check_order(decode(cassette, body, pieces=64))


SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "choices",
                    "delta",
                    "content",
                    "message",
                    "error",
                    "usage",
                    "index",
                    "parts",
                    "candidates",
                    "item",
                    "output",
                    "functionCall",
                    "tool_calls",
                    "function",
                    "content_block",
                    "response",
                    "partialArgs",
                    "done",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(sorted(DECODERS)), documents=st.lists(SHAPES, min_size=1, max_size=4))
def test_json_of_any_shape_is_an_outcome_not_an_exception(name: str, documents: list[Any]):
    """Right JSON of the wrong shape: a list for an object, null for a text, a number for a name."""
    reader = WireReader(DECODERS[name][0](Fold(model(), timestamp=1)))
    events: list[StreamEvent] = []
    for document in documents:
        if not reader.finished:
            events += reader._told(document)
    check_order(events if reader.finished else [*events, *reader.close()])


HTML = b"<!doctype html><html><head><title>502 Bad Gateway</title></head><body>x</body></html>"
BODIES = {
    "nothing": b"",
    "white space": b" \n\n ",
    "garbage": bytes(range(256)) * 4,
    "an HTML page": HTML,
    "an error object": b'{"error": {"type": "overloaded_error", "message": "Overloaded"}}',
    "an error as a string": b'{"error": "model is loading"}',
    "half an object": b'{"choices": [{"message": {"content": "hel',
    "an empty object": b"{}",
    "an empty list": b"[]",
    "null": b"null",
    "comments": b": ping\n\n: ping\n\n",
    "a number": b"42",
}


@pytest.mark.parametrize("said", BODIES.values(), ids=list(BODIES))
@pytest.mark.parametrize("name", sorted(DECODERS))
def test_a_success_that_is_none_is_a_classified_error(name: str, said: bytes):
    """Status 200 and no answer in it: an error of a known class, and nothing to run."""
    cassette = Cassette("made", name, "p", "m", {}, 200, {}, said, {})

    last = ended(decode(cassette, said, pieces=3))

    assert last.type == "error"
    assert last.error is not None
    assert last.error.category in ("transient", "server", "unknown", "client")
    assert get_tool_calls(last.message) == ()
