"""What decoding a streamed answer costs, against the official clients' own parsing of the same bytes in the same run.

The official side is their cheapest road: raw events, nothing accumulated. Ours ends with the whole message.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import httpx

from lemon_ai.fold import Fold
from lemon_ai.models.model import Model
from lemon_ai.providers.anthropic_decode import AnthropicDecoder
from lemon_ai.providers.openai_completions_decode import OpenAICompletionsDecoder
from lemon_ai.providers.wire import WireReader

DELTAS = 2_000
READ = 4_096
ROUNDS = 9
DECODE_LIMIT = 0.5
IMPORT_LIMIT = 0.3
FLAT_LIMIT = 1.5
WORDS = ("The ", "quick ", "brown ", "fox ", "jumps ", "over ", "the ", "lazy ", "dog, ", "and ", "so ", "on. ")

Row = dict[str, object]


def openai_stream(deltas: int) -> bytes:
    """Chat Completions: a role, `deltas` words, a reason, the usage, the mark."""
    shared = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt"}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**shared, "service_tier": "default", "choices": [choice], "usage": None}

    events = [chunk({"role": "assistant", "content": "", "refusal": None})]
    events += [chunk({"content": WORDS[at % len(WORDS)]}) for at in range(deltas)]
    events.append(chunk({}, "stop"))
    counted = {"prompt_tokens": 9, "completion_tokens": deltas, "total_tokens": 9 + deltas}
    events.append({**shared, "choices": [], "usage": counted})
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"


def anthropic_stream(deltas: int) -> bytes:
    """Messages: a start, one block of `deltas` words, a reason, a stop."""
    usage = {"input_tokens": 9, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [], "usage": usage}
    message |= {"stop_reason": None, "stop_sequence": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    events.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    events += [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORDS[at % len(WORDS)]}}
        for at in range(deltas)
    ]
    events.append({"type": "content_block_stop", "index": 0})
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": deltas}})
    events.append({"type": "message_stop"})
    return b"".join(b"event: %s\ndata: %s\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)


def arguments_stream(deltas: int) -> bytes:
    """Messages: one tool call whose arguments come in `deltas` pieces."""
    words = [json.dumps(WORDS[at % len(WORDS)])[1:-1] for at in range(deltas)]
    text = anthropic_stream(0).split(b"\n\n")
    tool = {"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}}
    begin = {"type": "content_block_start", "index": 0, "content_block": tool}
    pieces = ['{"path": "a.txt", "content": "', *words, '"}']
    events = [begin] + [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}
        for piece in pieces
    ]
    middle = [b"event: %s\ndata: %s" % (event["type"].encode(), json.dumps(event).encode()) for event in events]
    return b"\n\n".join([text[0], *middle, *text[2:]])


def _model(api: str) -> Model:
    return Model(id="m", api=api, provider="bench")


def decode(body: bytes, decoder: type[AnthropicDecoder | OpenAICompletionsDecoder]) -> int:
    """All of our road from bytes to the final message, read in pieces as a socket gives them; the events seen."""
    reader = WireReader(decoder(Fold(_model(decoder.__name__))))
    count = sum(len(reader.feed(body[at : at + READ])) for at in range(0, len(body), READ))
    return count + len(reader.close())


def _served(body: bytes, library: Any) -> Any:
    """A client of an HTTP library that answers everything with `body`, in pieces."""

    def pieces() -> Iterator[bytes]:
        yield from (body[at : at + READ] for at in range(0, len(body), READ))

    def answer(request: object) -> Any:
        return library.Response(200, headers={"content-type": "text/event-stream"}, content=pieces())

    return library.Client(transport=library.MockTransport(answer))


def _library_of(client: str) -> Any:
    """The HTTP library a client is built on: newer ones have moved to `httpx2`."""
    base = import_module(f"{client}._base_client")
    return getattr(base, "httpx2", None) or getattr(base, "httpx", httpx)


def official_openai(body: bytes) -> Callable[[], int]:
    """The `openai` client reading `body`, its request left out of the time."""
    import openai

    client = openai.OpenAI(api_key="k", base_url="http://bench/v1", http_client=_served(body, _library_of("openai")))
    stream = client.chat.completions.create(model="m", messages=[], stream=True)
    return lambda: sum(1 for _ in stream)


def official_anthropic(body: bytes) -> Callable[[], int]:
    """The `anthropic` client reading `body`, its request left out of the time."""
    import anthropic

    client = anthropic.Anthropic(
        api_key="k", base_url="http://bench", http_client=_served(body, _library_of("anthropic"))
    )
    stream = client.messages.create(model="m", max_tokens=9, messages=[], stream=True)
    return lambda: sum(1 for _ in stream)


def seconds(work: Callable[[], Any]) -> float:
    """How long `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def decoding_rows() -> Iterator[Row]:
    """Ours beside theirs, measured in turns so that a busy machine hurts both."""
    sides = (
        ("openai", openai_stream(DELTAS), OpenAICompletionsDecoder, official_openai),
        ("anthropic", anthropic_stream(DELTAS), AnthropicDecoder, official_anthropic),
    )
    for name, body, decoder, official in sides:
        decode(body, decoder)
        official(body)()
        pairs = [(seconds(partial(decode, body, decoder)), seconds(official(body))) for _ in range(ROUNDS)]
        ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        yield {
            "metric": f"ai: decode {DELTAS} deltas, {name} format",
            "value_us": round(ours * 1e6),
            "limit": f"{DECODE_LIMIT:g}x the {name} client on the same bytes",
            "limit_us": round(theirs * DECODE_LIMIT * 1e6),
            "ratio": round(ours / theirs, 3),
        }


def flat_rows() -> Iterator[Row]:
    """The cost of one delta in a long stream, against one in a short stream."""
    for name, make in (("text", anthropic_stream), ("tool arguments", arguments_stream)):
        each = {}
        for deltas, rounds in ((1_000, 15), (50_000, 3)):
            body = make(deltas)
            decode(body, AnthropicDecoder)
            each[deltas] = min(seconds(partial(decode, body, AnthropicDecoder)) for _ in range(rounds)) / deltas
        yield {
            "metric": f"ai: one delta of 50000, {name}",
            "value_us": round(each[50_000] * 1e6, 2),
            "limit": f"{FLAT_LIMIT:g}x one delta of 1000",
            "limit_us": round(each[1_000] * FLAT_LIMIT * 1e6, 2),
            "ratio": round(each[50_000] / each[1_000], 3),
        }


def import_rows() -> Iterator[Row]:
    """Importing this package, against importing the `openai` client."""

    def importing(module: str) -> float:
        code = f"import time; began = time.perf_counter(); import {module}; print(time.perf_counter() - began)"
        ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        return float(ran.stdout)

    for module in ("lemon_ai", "openai"):
        importing(module)
    pairs = [(importing("lemon_ai"), importing("openai")) for _ in range(ROUNDS)]
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    yield {
        "metric": "ai: import lemon_ai",
        "value_us": round(ours * 1e6),
        "limit": f"{IMPORT_LIMIT:g}x import openai",
        "limit_us": round(theirs * IMPORT_LIMIT * 1e6),
        "ratio": round(ours / theirs, 3),
    }


def rows() -> list[Row]:
    """All rows of this module."""
    return [*decoding_rows(), *flat_rows(), *import_rows()]


if __name__ == "__main__":
    for row in rows():
        print(json.dumps(row))
