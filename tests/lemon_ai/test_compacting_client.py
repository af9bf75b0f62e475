"""A conversation that is too long is cut and sent again, before anything was shown."""

from __future__ import annotations

from typing import Any

import pytest

from lemon_ai import (
    CallDispatcher,
    CircuitBreaker,
    CompactingClient,
    CompactionFailed,
    CompactionPolicy,
    Context,
    ContextOverflow,
    Message,
    StreamStart,
    TextDelta,
    UserMessage,
    complete,
    get_text,
)
from lemon_ai.testing import Fail, Say, ScriptedModel, check_events
from lemon_otp import StreamFailed, telemetry
from lemon_otp.testing import settle

LONG = Context(None, [UserMessage(f"m{n}") for n in range(20)])
OVERFLOW = Fail("context")


async def scripted(*turns: Any) -> ScriptedModel:
    model = ScriptedModel(*turns)
    await model.install()
    return model


def heard() -> list[tuple[str, int, Any]]:
    """What the client says by telemetry from now on: event, attempt, reason."""
    told: list[tuple[str, int, Any]] = []
    names = ("request_started", "compaction_retry", "request_succeeded", "request_failed")

    def note(event: Any, measurements: Any, metadata: Any, config: Any = None) -> None:
        told.append((event[-1], measurements["attempt"], metadata["reason"]))

    telemetry.attach_many("client", [("lemon_ai", "compacting_client", name) for name in names], note)
    return told


async def test_a_conversation_that_is_too_long_is_cut_and_sent_again(ai: Any) -> None:
    """The reader sees one start and the answer; it was one call to the dispatcher."""
    model = await scripted(OVERFLOW, "short enough")
    told = heard()
    admitted: list[Any] = []
    telemetry.attach("d", ("lemon_ai", "dispatcher", "dispatch"), lambda *facts: admitted.append(facts))
    running = await CompactingClient.stream(model.model, LONG)
    events = [event async for event in running.events()]
    check_events(events)
    assert sum(isinstance(event, StreamStart) for event in events) == 1
    assert get_text(await running.result()) == "short enough"
    assert [len(request.context.messages) for request in model.requests] == [20, 6]
    assert len(admitted) == 1
    assert [name for name, *_ in told] == ["request_started", "compaction_retry", "request_succeeded"]


async def test_each_further_cut_keeps_less_until_it_gives_up(ai: Any) -> None:
    """Four, two and one of the last messages; then the error says why and what the provider said."""
    model = await scripted(*[OVERFLOW] * 4)
    told = heard()
    with pytest.raises(CompactionFailed) as failed:
        await CompactingClient.complete(model.model, LONG)
    assert [len(request.context.messages) for request in model.requests] == [20, 6, 4, 3]
    assert (failed.value.reason, failed.value.attempts) == ("attempts_exhausted", 3)
    assert isinstance(failed.value.original, ContextOverflow)
    assert failed.value.failover_action == "fail"
    assert told[-1] == ("request_failed", 3, "attempts_exhausted")
    await settle()
    assert not any((await CallDispatcher.get_state()).active.values())
    circuit = await CircuitBreaker.get_state("scripted")
    assert circuit is not None
    assert circuit.failure_count == 0


async def test_a_short_conversation_that_is_too_long_fails_at_once(ai: Any) -> None:
    """There is nothing to leave out; it is sent once."""
    model = await scripted(OVERFLOW)
    with pytest.raises(CompactionFailed) as failed:
        await CompactingClient.complete(model.model, Context(None, [UserMessage("one long message")]))
    assert failed.value.reason == "insufficient_messages"
    assert len(model.requests) == 1


async def test_after_content_nothing_is_sent_again(ai: Any) -> None:
    """What was shown stays, and the failure is the provider's own."""
    model = await scripted([Say("Half an"), OVERFLOW])
    running = await CompactingClient.stream(model.model, LONG)
    events = [event async for event in running.events()]
    assert any(isinstance(event, TextDelta) for event in events)
    with pytest.raises(StreamFailed) as failed:
        await running.result()
    assert type(failed.value.reason) is ContextOverflow
    assert len(model.requests) == 1


async def test_a_passing_failure_goes_on_with_the_cut_conversation(ai: Any) -> None:
    """Retry and cut work together: what was cut is not sent whole again."""

    async def no_wait(seconds: float) -> None:
        return None

    model = await scripted(OVERFLOW, Fail("overloaded"), "done")
    answer = await CompactingClient.complete(model.model, LONG, {"retry_sleep": no_wait})
    assert get_text(answer) == "done"
    assert [len(request.context.messages) for request in model.requests] == [20, 6, 6]


async def test_a_summary_is_asked_for_and_a_failing_one_is_done_without(ai: Any) -> None:
    """The summariser gets exactly what is left out."""
    got: list[tuple[Message, ...]] = []

    async def summarize(messages: tuple[Message, ...]) -> str:
        got.append(messages)
        return "They counted to fifteen."

    async def failing(messages: tuple[Message, ...]) -> str:
        raise RuntimeError("no model for that")

    model = await scripted(OVERFLOW, "one", OVERFLOW, "two")
    await CompactingClient.complete(
        model.model, LONG, policy=CompactionPolicy(strategy="summarization", summarize=summarize)
    )
    assert got == [LONG.messages[1:16]]
    assert str(model.requests[1].context.messages[1].content).endswith("They counted to fifteen.")

    await CompactingClient.complete(
        model.model, LONG, policy=CompactionPolicy(strategy="summarization", summarize=failing)
    )
    assert str(model.requests[3].context.messages[1].content).endswith("context window]")


async def test_switched_off_it_is_a_plain_call(ai: Any) -> None:
    """As `complete` is: the overflow comes out as it is."""
    model = await scripted(OVERFLOW, OVERFLOW)
    with pytest.raises(ContextOverflow) as plain:
        await CompactingClient.complete(model.model, LONG, policy=CompactionPolicy(enabled=False))
    assert type(plain.value) is ContextOverflow
    with pytest.raises(ContextOverflow):
        await complete(model.model, LONG)
