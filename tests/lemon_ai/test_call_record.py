"""What a model call says of itself by telemetry."""

from typing import Any

import pytest

from lemon_ai import (
    AiError,
    CircuitBreaker,
    Context,
    ProviderError,
    StreamOptions,
    UserMessage,
    complete,
    new_context,
    stream,
)
from lemon_ai.testing import Delay, Fail, Say, ScriptedModel
from lemon_otp import StreamFailed, TaskSupervisor, exit_signal, telemetry
from lemon_otp.testing import settle

HELLO: Context = new_context(messages=[UserMessage("a secret sk-abcdefghijklmnop0123")])
EVENTS = (("lemon_ai", "model_call", "start"), ("lemon_ai", "model_call", "stop"))


def listened() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    heard: list[tuple[str, dict[str, Any], dict[str, Any]]] = []

    def handler(event: Any, measured: Any, metadata: Any, _: Any) -> None:
        heard.append((event[2], dict(measured), dict(metadata)))

    telemetry.attach_many("test", EVENTS, handler)
    return heard


@pytest.mark.requirement("TEL-12")
async def test_a_call_says_once_that_it_begins_and_how_it_ended(ai: Any) -> None:
    """Provider, model, time, tokens and the stop reason; not a word of the conversation."""
    heard = listened()
    scripted = ScriptedModel("Hello you.")
    await complete(await scripted.install(), HELLO)

    [start, stop] = heard
    assert (start[0], stop[0]) == ("start", "stop")
    assert start[2]["call_id"] == stop[2]["call_id"]
    assert (stop[2]["provider"], stop[2]["model"], stop[2]["stop_reason"]) == ("scripted", "test", "stop")
    assert stop[1]["duration_s"] >= stop[1]["first_s"] >= 0
    assert stop[1]["output_tokens"] > 0
    assert "sk-abc" not in repr(heard)
    assert "Hello you" not in repr(heard)


@pytest.mark.parametrize("way", ["failed", "canceled", "killed", "refused"])
async def test_a_call_that_does_not_come_to_its_end_says_so_once(ai: Any, way: str) -> None:
    """A failure has its category; what was given up is aborted; one that was never admitted ends as well."""
    heard = listened()
    turn = [Fail("auth")] if way == "failed" else [Say("Hel"), Delay(60_000), Say("lo")]
    model = await ScriptedModel(*(["Fine."] if way == "refused" else []), turn).install()
    if way in ("failed", "refused"):
        if way == "refused":
            await complete(model, HELLO)
            for _ in range(20):
                CircuitBreaker.record_failure("scripted", "down")
            heard.clear()
        with pytest.raises(AiError):
            await complete(model, HELLO)
    else:
        running = await stream(model, HELLO)
        await settle()
        if way == "canceled":
            running.cancel("canceled")
        else:
            exit_signal((await TaskSupervisor.children("stream_task_supervisor"))[0], "kill")
        with pytest.raises(StreamFailed):
            await running.result()
        await settle()

    assert [what for what, _, _ in heard] == ["start", "stop"]
    stop = heard[1][2]
    assert stop["stop_reason"] == ("error" if way in ("failed", "refused") else "aborted")
    assert (stop["failure"] is None) == (way in ("canceled", "killed"))


async def test_a_handler_can_send_headers_along(ai: Any) -> None:
    """What a handler of the start puts into `headers` is among the headers of the request, above the caller's own."""

    def handler(event: Any, measured: Any, metadata: Any, _: Any) -> None:
        metadata["headers"]["traceparent"] = "00-abc-def-01"

    telemetry.attach("carrier", EVENTS[0], handler)
    scripted = ScriptedModel("Hello.")
    await complete(await scripted.install(), HELLO, StreamOptions(headers={"x-mine": "1", "traceparent": "old"}))

    assert dict(scripted.requests[0].options.headers) == {"x-mine": "1", "traceparent": "00-abc-def-01"}


async def test_without_handlers_a_call_is_as_it_was(ai: Any) -> None:
    """Nobody listens: the same answer, no header is added, and a failing call still raises its own error."""
    scripted = ScriptedModel("Hello.", [Fail("auth")])
    model = await scripted.install()
    await complete(model, HELLO)
    with pytest.raises(ProviderError):
        await complete(model, HELLO)
    assert dict(scripted.requests[0].options.headers) == {}
