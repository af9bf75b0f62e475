"""`stream` and `complete`: the whole road of one model call, its retries and its endings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from lemon_ai import (
    AuthFailed,
    CallCanceled,
    CallDispatcher,
    CircuitBreaker,
    Context,
    Fold,
    MissingCredential,
    Model,
    ProviderError,
    ProviderRegistry,
    ProviderRequest,
    ProviderUnavailable,
    QuotaExhausted,
    RateLimited,
    ServerFailed,
    StreamCanceled,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamOptions,
    TextDelta,
    UnknownApi,
    UnknownModel,
    UserMessage,
    complete,
    get_text,
    new_context,
    stream,
)
from lemon_ai.testing import Call, Crash, Delay, Fail, Say, ScriptedModel, Truncate, check_events
from lemon_otp import TaskSupervisor, exit_signal, receive, self_pid, send, sleep_s, spawn, telemetry, whereis
from lemon_otp.testing import FakeClock, settle

HELLO = new_context(messages=[UserMessage("hello")])


async def scripted(*turns: Any, **more: Any) -> ScriptedModel:
    model = ScriptedModel(*turns, **more)
    await model.install()
    return model


def options(waits: list[float] | None = None, **more: Any) -> StreamOptions:
    """Options that write down waits between tries instead of waiting."""

    async def no_wait(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    return StreamOptions(retry_sleep=no_wait, **more)


async def all_events(model: Model, context: Context = HELLO, given: Any = None) -> list[StreamEvent]:
    running = await stream(model, context, given)
    return [event async for event in running.events()]


async def nothing_left() -> bool:
    """No worker runs and no slot is held."""
    await settle()
    workers = await TaskSupervisor.children("stream_task_supervisor")
    active = (await CallDispatcher.get_state()).active
    return not workers and not any(active.values())


async def test_a_call_is_told_as_events_and_gives_its_message(ai: Any) -> None:
    """Events in order, the terminal one last; `result` answers as often as it is asked; nothing is left behind."""
    model = await scripted("Hello there")
    running = await stream(model.model, HELLO)
    events = [event async for event in running.events()]
    check_events(events)
    assert get_text(await running.result()) == "Hello there"
    assert await running.result() is events[-1].message
    assert await nothing_left()


async def test_complete_gives_the_whole_message(ai: Any) -> None:
    """By model or by name, with options as a mapping, unknown ones dropped."""
    assert get_text(await complete("scripted/echo", HELLO, {"temperature": 0.5, "no_such_option": 1})) == "hello"


async def test_what_cannot_be_served_is_refused_before_admission(ai: Any) -> None:
    """No slot is taken and no event of the dispatcher is told."""
    told: list[Any] = []
    telemetry.attach("t", ("lemon_ai", "dispatcher", "dispatch"), lambda *facts: told.append(facts))
    with pytest.raises(UnknownApi, match="no_such_api"):
        await stream(Model(id="x", api="no_such_api", provider="p"), HELLO)
    with pytest.raises(UnknownModel, match="scripted/echo"):
        await stream("scripted/ecko", HELLO)
    assert told == []


@pytest.mark.requirement("AI-7")
async def test_a_passing_failure_before_any_content_is_tried_again(ai: Any) -> None:
    """The reader sees one start and the answer; the waits grow; the provider counts it as one success."""
    model = await scripted(Fail("overloaded"), Fail("server"), "at last")
    waits: list[float] = []
    events = await all_events(model.model, HELLO, options(waits))
    check_events(events)
    assert get_text(events[-1].message) == "at last"
    assert len(waits) == 2
    assert 0.2 < waits[0] <= 0.4 < waits[1] <= 0.8
    circuit = await CircuitBreaker.get_state("scripted")
    assert circuit is not None
    assert circuit.failure_count == 0


async def test_after_the_last_try_the_failure_is_the_last_event(ai: Any) -> None:
    """Four tries in all; the circuit counts one failure."""
    model = await scripted(*[Fail("overloaded")] * 9)
    events = await all_events(model.model, HELLO, options([]))
    assert isinstance(events[-1], StreamError)
    assert isinstance(events[-1].error, ProviderUnavailable)
    assert len(model.requests) == 4
    await settle()
    circuit = await CircuitBreaker.get_state("scripted")
    assert circuit is not None
    assert circuit.failure_count == 1
    assert await nothing_left()


async def test_nothing_is_tried_again_after_content(ai: Any) -> None:
    """A failure in the middle keeps what was said and ends the call."""
    model = await scripted([Say("Half"), Fail("overloaded")], "never")
    events = await all_events(model.model, HELLO, options([]))
    assert isinstance(events[-1], StreamError)
    assert get_text(events[-1].message) == "Half"
    assert model.remaining == 1


@pytest.mark.parametrize("kind", ["auth", "client", "context", "quota", "refused"])
async def test_what_will_not_pass_is_not_tried_again(ai: Any, kind: Any) -> None:
    """The key, the request, the length, the plan's limit, a refusal."""
    model = await scripted(Fail(kind), "never")
    with pytest.raises(ProviderError) as failed:
        await complete(model.model, HELLO, options([]))
    assert failed.value.category in ("auth", "client", "context_length", "rate_limit")
    assert model.remaining == 1


async def test_a_wait_the_provider_asks_for_is_honoured(ai: Any) -> None:
    """As a lower bound, with a second on top."""
    model = await scripted(Fail("rate_limit", retry_after_s=5.0), "ok")
    waits: list[float] = []
    await complete(model.model, HELLO, options(waits))
    assert waits == [6.0]


@pytest.mark.requirement("BR-026")
async def test_a_wait_of_days_comes_out_at_once(ai: Any) -> None:
    """The call ends with the error that says so and carries the seconds; nobody sleeps."""
    model = await scripted(Fail("rate_limit", retry_after_s=1_382_400.0), "never")
    waits: list[float] = []
    with pytest.raises(RateLimited, match="16 days") as failed:
        await complete(model.model, HELLO, options(waits))
    assert (failed.value.retry_after_s, waits) == (1_382_400.0, [])
    model = await scripted(Fail("quota", retry_after_s=3.0), "never")
    with pytest.raises(QuotaExhausted):
        await complete(model.model, HELLO, options(waits))


@pytest.mark.requirement("BR-027")
async def test_an_endless_429_is_tried_a_handful_of_times_in_ten_seconds(clocked_ai: FakeClock) -> None:
    """Gaps grow; the total in ten seconds is single-digit."""
    model = await scripted(*[Fail("rate_limit")] * 50)
    task = spawn(_complete_quietly, model.model)
    await clocked_ai.advance(10.0)
    assert not task.alive
    assert len(model.requests) == 4


@pytest.mark.requirement("BR-028")
async def test_a_run_with_hours_left_survives_a_provider_that_is_busy_for_minutes(clocked_ai: FakeClock) -> None:
    """Eleven quick 429 answers, then an answer: with an hour for the call it comes; the bucket is everybody's."""
    model = await scripted(*[Fail("rate_limit")] * 11, "at last")
    running = await stream(model.model, HELLO, {"retry_budget_ms": 3_600_000, "stream_timeout": None})
    await clocked_ai.advance(900.0)
    assert get_text(await running.result()) == "at last"
    assert len(model.requests) == 12
    assert whereis("rate_limiter[scripted]") is not None


async def _complete_quietly(model: Model) -> None:
    with pytest.raises(ProviderError):
        await complete(model, HELLO)


async def test_canceling_a_wait_between_tries_ends_it_at_once(clocked_ai: FakeClock) -> None:
    """No try follows a cancel."""
    model = await scripted(Fail("rate_limit", retry_after_s=30.0), "never")
    running = await stream(model.model, HELLO)
    await settle()
    running.cancel("user_abort")
    await settle()
    await clocked_ai.advance(120.0)
    assert model.remaining == 1
    assert await nothing_left()


async def test_retries_are_told_by_telemetry_and_not_as_events(ai: Any) -> None:
    """Attempt, wait and category."""
    told: list[Any] = []
    telemetry.attach(
        "t", ("lemon_ai", "retry_helper", "retry"), lambda event, counts, facts, *_: told.append((counts, facts))
    )
    model = await scripted(Fail("overloaded"), "ok")
    await complete(model.model, HELLO, options([]))
    ((counts, facts),) = told
    assert counts["attempt"] == 1
    assert (facts["provider"], facts["category"]) == ("scripted", "transient")


@pytest.mark.requirement("BR-012", "BR-010")
async def test_complete_never_returns_half_an_answer(ai: Any) -> None:
    """A truncated stream raises, with what was said in `partial`; a call that was cut cannot run."""
    model = await scripted([Say("Half"), Call("bash", '{"cmd": "rm -'), Truncate()])
    with pytest.raises(ProviderError) as failed:
        await complete(model.model, HELLO)
    partial = failed.value.partial
    assert partial is not None
    assert get_text(partial) == "Half"
    assert partial.content[1].invalid == '{"cmd": "rm -'


@pytest.mark.requirement("AI-4")
async def test_a_worker_that_crashes_ends_the_stream_as_an_error(ai: Any) -> None:
    """A bug in a provider is an error with its name in it, and what was said stays; the circuit counts it."""
    model = await scripted([Say("So far"), Crash("a bug")])
    events = await all_events(model.model)
    last = events[-1]
    assert isinstance(last, StreamError)
    assert last.message.error_message == "Streaming task crashed: RuntimeError: a bug"
    assert get_text(last.message) == "So far"
    assert await nothing_left()
    circuit = await CircuitBreaker.get_state("scripted")
    assert circuit is not None
    assert circuit.failure_count == 1


@pytest.mark.requirement("AI-4")
async def test_a_worker_that_is_killed_ends_the_stream_as_an_error(ai: Any) -> None:
    """However it ends."""
    model = await scripted([Say("So far"), Delay(60_000)])
    running = await stream(model.model, HELLO)
    await settle()
    (worker,) = await TaskSupervisor.children("stream_task_supervisor")
    exit_signal(worker, "kill")
    events = [event async for event in running.events()]
    assert isinstance(events[-1], StreamError)
    assert "crashed" in str(events[-1].error)
    assert await nothing_left()


class Silent:
    """A provider that ends without a terminal event."""

    api: ClassVar[str] = "silent"

    async def stream(self, request: ProviderRequest) -> AsyncIterator[StreamEvent]:
        for event in Fold(request.model).text("only this"):
            yield event


async def test_a_provider_that_just_ends_is_an_error(ai: Any) -> None:
    """Even a normal end without a terminal event is one."""
    await ProviderRegistry.register("silent", Silent())
    events = await all_events(Model(id="s", api="silent", provider="p"))
    assert isinstance(events[-1], StreamError)
    assert get_text(events[-1].message) == "only this"


@pytest.mark.requirement("AI-4")
async def test_the_owners_death_cancels_the_worker(ai: Any) -> None:
    """And nothing is left of the call."""
    model = await scripted([Say("x"), Delay(60_000), Say("y")])

    async def owner(parent: Any) -> None:
        send(parent, await stream(model.model, HELLO))
        await sleep_s(1000)

    pid = spawn(owner, self_pid())
    running = await receive()
    exit_signal(pid, "kill")
    await settle()
    assert running.done
    assert await nothing_left()


async def test_a_cancel_is_the_last_event_and_keeps_what_was_buffered(ai: Any) -> None:
    """Readers get what was said, then the cancel; the worker is gone."""
    model = await scripted([Say("one two"), Delay(60_000), Say("three")])
    running = await stream(model.model, HELLO)
    await settle()
    running.cancel("user_abort")
    events = [event async for event in running.events()]
    assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == "one two"
    assert events[-1] == StreamCanceled("user_abort")
    assert await nothing_left()


async def test_cancelling_complete_cancels_the_call(ai: Any) -> None:
    """A timeout around `complete` leaves nothing running."""
    model = await scripted([Delay(60_000), Say("late")])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await complete(model.model, HELLO)
    assert await nothing_left()


async def test_a_stream_canceled_under_complete_raises(ai: Any) -> None:
    """Its own timeout, for one."""
    model = await scripted([Delay(60_000), Say("late")])
    with pytest.raises(CallCanceled, match="timeout"):
        await complete(model.model, HELLO, {"stream_timeout": 20})
    assert await nothing_left()


async def test_a_failure_without_the_provider_is_the_last_event_too(ai: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing key names the variable; the circuit does not mind."""
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    model = Model(id="x", api="openai_completions", provider="groq", base_url="https://api.groq.com/openai/v1")
    events = await all_events(model)
    last = events[-1]
    assert isinstance(last, StreamError)
    assert isinstance(last.error, MissingCredential)
    assert "GROQ_API_KEY" in str(last.error)
    assert last.message.error_message == str(last.error)
    await settle()
    circuit = await CircuitBreaker.get_state("groq")
    assert circuit is not None
    assert circuit.failure_count == 0


@pytest.mark.requirement("AI-8")
async def test_the_callers_key_is_in_no_message(ai: Any) -> None:
    """Whatever a provider says back."""
    model = await scripted(Fail("auth", message="the key my-secret-key is not valid"))
    with pytest.raises(AuthFailed) as failed:
        await complete(model.model, HELLO, {"api_key": "my-secret-key"})
    assert "my-secret-key" not in str(failed.value)
    assert failed.value.partial is not None
    assert "my-secret-key" not in str(failed.value.partial.error_message)


async def test_a_reader_far_behind_loses_deltas_but_not_the_end(ai: Any) -> None:
    """The queue is bounded; the terminal event and the whole message always arrive."""
    text = "word " * 20_000
    model = await scripted(text)
    running = await stream(model.model, HELLO)
    message = await running.result()
    assert get_text(message) == text
    events = [event async for event in running.events()]
    assert isinstance(events[-1], StreamDone)
    assert len(events) <= 10_001
    assert running.stats().dropped > 0


async def test_a_reader_that_keeps_up_loses_nothing(ai: Any) -> None:
    """However long the answer."""
    text = "word " * 20_000
    model = await scripted(text)
    events = await all_events(model.model)
    assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == text


async def test_the_breaker_is_per_provider_and_refuses_before_sending(ai: Any) -> None:
    """After five failed calls the next one is refused and never reaches the provider."""
    model = await scripted(*[Fail("server")] * 10)
    for _ in range(5):
        with pytest.raises(ServerFailed):
            await complete(model.model, HELLO, options([], max_retries=0))
        await settle()
    before = len(model.requests)
    with pytest.raises(Exception, match="failed several times"):
        await complete(model.model, HELLO)
    assert len(model.requests) == before == 5
