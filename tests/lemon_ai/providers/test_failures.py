"""Every wire against a server that misbehaves, and the table of outcomes in docs/reference/provider-failures.md."""

from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve, frozen

from lemon_ai.errors import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    ProviderError,
    ProviderUnavailable,
    ProviderUnreachable,
    QuotaExhausted,
    RateLimited,
    ServerFailed,
    StreamTruncated,
)
from lemon_ai.events import StreamDone, StreamError, StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.messages import get_text, get_tool_calls
from lemon_ai.providers.ollama import OllamaProvider
from lemon_ai.retry_helper import is_retryable
from lemon_ai.testing import HttpProviderContract, collect
from tests.lemon_ai.chaos_server import SSE, Answer, ChaosServer, answer, dripped, error_answer
from tests.lemon_ai.providers import test_contract
from tests.lemon_ai.providers.test_openai_completions import TestContract as CompletionsContract
from tests.lemon_ai.providers.wires import model

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "provider-failures.md"
WIRES: dict[str, HttpProviderContract] = {
    "Anthropic": test_contract.TestAnthropic(),
    "Anthropic on Vertex": test_contract.TestAnthropicOnVertex(),
    "Anthropic on Bedrock": test_contract.TestAnthropicOnBedrock(),
    "Chat Completions": CompletionsContract(),
    "Chat Completions on Azure": test_contract.TestAzureCompletions(),
    "Responses": test_contract.TestOpenAIResponses(),
    "Responses on Azure": test_contract.TestAzureResponses(),
    "Codex": test_contract.TestCodex(),
    "Gemini": test_contract.TestGoogle(),
    "Gemini on Vertex": test_contract.TestVertex(),
    "Gemini CLI": test_contract.TestGeminiCli(),
    "Mistral": test_contract.TestMistral(),
    "Ollama": test_contract.TestOllama(),
    "Bedrock Converse": test_contract.TestBedrock(),
}
SILENCE_MS = 150


@frozen
class Bodies:
    """An answer whole, and the first part of one."""

    whole: bytes
    half: bytes


@frozen
class Misdeed:
    """What a server does, and how the call ends.

    Attributes:
        does: In words.
        plan: The same, for the server.
        ends: The text of a whole answer, or the class of the failure.
        also: Another class of the same category, for wires that cannot tell.
    """

    does: str
    plan: Callable[[Bodies], Answer]
    ends: str | type[ProviderError]
    also: type[ProviderError] | None = None


def _error(status: int, message: str, *, kind: str = "", hint: str | None = None) -> Callable[[Bodies], Answer]:
    told = {"message": message} | ({"type": kind, "code": kind} if kind else {})
    return lambda bodies: error_answer(status, {"error": told}, {"retry-after": hint} if hint else None)


MISDEEDS = (
    Misdeed("drips the answer byte by byte", lambda bodies: Answer(dripped(bodies.whole)), "Hello world"),
    Misdeed(
        "sends pieces of seven bytes with pauses",
        lambda b: Answer(dripped(b.whole, size=7, pause_s=0.001)),
        "Hello world",
    ),
    Misdeed(
        "calls the stream application/json",
        lambda b: answer(b.whole, headers={"content-type": "application/json"}),
        "Hello world",
    ),
    Misdeed("names no content type", lambda b: answer(b.whole, headers={}), "Hello world"),
    Misdeed(
        "adds retry-after to a success", lambda b: answer(b.whole, headers={**SSE, "retry-after": "60"}), "Hello world"
    ),
    Misdeed("ends the body by closing", lambda b: Answer((b.whole,), framing="close"), "Hello world"),
    Misdeed(
        "promises more bytes than the whole answer has",
        lambda b: Answer((b.whole, "close"), framing="length", length=99_999),
        "Hello world",
    ),
    Misdeed("ends in the middle, in good order", lambda b: answer(b.half), StreamTruncated),
    Misdeed("resets the connection in the middle", lambda b: Answer((b.half, 0.02, "reset")), StreamTruncated),
    Misdeed("closes in the middle of a chunked body", lambda b: Answer((b.half, "close")), StreamTruncated),
    Misdeed(
        "promises more bytes and closes in the middle",
        lambda b: Answer((b.half, "close"), framing="length", length=99_999),
        StreamTruncated,
    ),
    Misdeed("falls silent in the middle", lambda b: Answer((b.half, "stall")), ProviderUnreachable),
    Misdeed("falls silent before the first byte", lambda b: Answer(("stall",), raw=b""), ProviderUnreachable),
    Misdeed("closes without an answer", lambda b: Answer(("close",), raw=b""), ProviderUnreachable),
    Misdeed("speaks no HTTP", lambda b: Answer(("close",), raw=b"SSH-2.0-OpenSSH_9.2\r\n"), ProviderUnreachable),
    Misdeed("succeeds with an empty body", lambda b: answer(b""), StreamTruncated, ProviderUnavailable),
    Misdeed("succeeds with garbage", lambda b: answer(b"\x00\x01\xff" * 100), StreamTruncated, ProviderUnavailable),
    Misdeed(
        "claims gzip and sends none",
        lambda b: answer(b"not gzip", headers={**SSE, "content-encoding": "gzip"}),
        StreamTruncated,
    ),
    Misdeed(
        "succeeds with an HTML page",
        lambda b: answer(b"<!doctype html><title>Login</title>"),
        ProviderUnavailable,
        StreamTruncated,
    ),
    Misdeed(
        "succeeds with an error object",
        lambda b: answer(b'{"error": {"message": "Overloaded", "type": "overloaded_error"}}'),
        ProviderUnavailable,
    ),
    Misdeed("answers 400", _error(400, "temperature is out of range", kind="invalid_request_error"), BadRequest),
    Misdeed(
        "answers 400: the prompt is too long", _error(400, "prompt is too long: 9 tokens > 8 maximum"), ContextOverflow
    ),
    Misdeed(
        "answers 400 with a body cut short",
        lambda b: Answer((b'{"error": {"mess', "close"), 400, framing="length", length=500),
        BadRequest,
    ),
    Misdeed("answers 401", _error(401, "invalid key"), AuthFailed),
    Misdeed("answers 404", _error(404, "no such model"), BadRequest),
    Misdeed("answers 429 and asks for 7 s", _error(429, "slow down", hint="7"), RateLimited),
    Misdeed(
        "answers 429: the plan is used up",
        _error(429, "You exceeded your quota", kind="insufficient_quota"),
        QuotaExhausted,
    ),
    Misdeed(
        "answers 500 with an HTML page", lambda b: answer(b"<html><title>Oops</title></html>", status=500), ServerFailed
    ),
    Misdeed("answers 503", _error(503, "try again later"), ProviderUnavailable),
    Misdeed("answers 529", _error(529, "Overloaded", kind="overloaded_error"), ProviderUnavailable),
    Misdeed("redirects", lambda b: error_answer(308, {}, {"location": "https://elsewhere.example/"}), BadRequest),
)


async def outcome(wire: HttpProviderContract, plan: Answer) -> StreamEvent:
    """How a call ends; a failure before its first event as the event a caller of `stream` sees."""
    async with ChaosServer(plan) as server:
        options = evolve(wire.options(), timeout_ms=SILENCE_MS)
        async with wire.case("text") as (provider, request):
            asked = evolve(request, model=evolve(request.model, base_url=server.url), options=options)
            try:
                last = (await collect(provider, asked))[-1]
            except ProviderError as error:
                last = Fold(model()).fail("error", error)[-1]
        await server.until(lambda: server.open_connections == 0)
    return last


@pytest.mark.parametrize("misdeed", MISDEEDS, ids=lambda misdeed: misdeed.does)
@pytest.mark.parametrize("name", WIRES)
async def test_whatever_a_server_does_a_call_ends_as_the_table_says(name: str, misdeed: Misdeed):
    """A whole answer or a failure of the one class, on every wire; the socket is closed, and no half call can run."""
    wire = WIRES[name]
    bodies = Bodies(wire.wire("text")[2], wire.wire("truncated")[2])

    last = await outcome(wire, misdeed.plan(bodies))

    if isinstance(misdeed.ends, str):
        assert isinstance(last, StreamDone), last
        assert get_text(last.message) == misdeed.ends
        return
    assert isinstance(last, StreamError), last
    assert type(last.error) in (misdeed.ends, misdeed.also), last.error
    assert last.error.category == misdeed.ends.category
    assert all(call.invalid is not None for call in get_tool_calls(last.message)) or isinstance(
        wire.provider(), OllamaProvider
    )


def table() -> str:
    """The table, from the list the tests run through."""
    rows = ["| the server … | the call ends with | category | tried again before any content |", "|---|---|---|---|"]
    for misdeed in MISDEEDS:
        if isinstance(misdeed.ends, str):
            rows.append(f"| {misdeed.does} | the whole answer | | |")
            continue
        names = " or ".join(f"`{kind.__name__}`" for kind in (misdeed.ends, misdeed.also) if kind is not None)
        statuses = [int(word.strip(":")) for word in misdeed.does.split() if word.strip(":").isdigit()]
        status = next((number for number in statuses if number >= 300), None)
        again = is_retryable(misdeed.ends(provider="p", message="m", status=status))
        rows.append(f"| {misdeed.does} | {names} | {misdeed.ends.category} | {'yes' if again else 'no'} |")
    return "\n".join(rows)


def test_the_page_holds_this_table():
    """What is documented is what was tested; `python -m tests.lemon_ai.providers.test_failures` prints it."""
    assert table() in PAGE.read_text(encoding="utf-8")


if __name__ == "__main__":
    print(table())
