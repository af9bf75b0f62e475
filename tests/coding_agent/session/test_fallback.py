"""Fallback: others are asked while nothing useful was said, and never after."""

import pytest

from coding_agent import client
from coding_agent.events import ProviderSwitched, RateLimitPaused, Settled
from coding_agent.session.fallback import Candidate, with_fallback
from coding_agent.session_supervisor import start_session
from lemon_agent import MessageEnd, MessageUpdate, model_runtime
from lemon_ai import AssistantMessage, Context, StreamDone, StreamError, StreamOptions, TextDelta, stream
from lemon_ai.testing import Call, Delay, Fail, Say, ScriptedModel, Truncate
from lemon_otp import self_pid

PLAIN = StreamOptions(max_retries=0)


async def models(*scripts) -> list[ScriptedModel]:
    made = [ScriptedModel(*turns, provider=f"maker_{number}") for number, turns in enumerate(scripts)]
    for model in made:
        await model.install()
    return made


async def events_of(model, candidates, told=None, options=PLAIN):
    told = [] if told is None else told
    stream_fn = with_fallback(candidates, stream, told.append)
    source = await stream_fn(model.model, Context(None, (), ()), options)
    events = [event async for event in source]
    await source.aclose()
    return events


async def session_on(host, model: ScriptedModel, **changes):
    session = await start_session(await host.options(model, **changes))
    await client.subscribe(session, self_pid())
    return session


def text(events) -> str:
    return "".join(event.delta for event in events if isinstance(event, TextDelta))


async def test_the_next_provider_answers_when_the_first_cannot(host):
    """An overloaded provider is left for the next; the reader sees one answer from its start, and who gave it."""
    first, second = await models([[Fail("overloaded")]], ["Hello."])
    told = []

    events = await events_of(first, (Candidate(second.model),), told)

    assert text(events) == "Hello."
    assert [event.type for event in events].count("start") == 1
    assert events[-1].message.provider == second.model.provider
    (switch,) = told
    assert (switch.from_provider, switch.to_provider) == (first.model.provider, second.model.provider)
    assert isinstance(switch, ProviderSwitched)


async def test_nothing_is_tried_again_once_something_useful_was_said(host):
    """After the first words the failure is the reader's, with what was said; nobody else is asked."""
    first, second = await models([[Say("Hel"), Truncate()]], ["Never."])

    events = await events_of(first, (Candidate(second.model),))

    assert text(events) == "Hel"
    assert isinstance(events[-1], StreamError)
    assert second.requests == []


async def test_blank_words_are_no_answer_yet(host):
    """A provider that sent only white space before it broke off is left like one that sent nothing."""
    first, second = await models([[Say(" \n"), Truncate()]], ["Hello."])

    assert text(await events_of(first, (Candidate(second.model),))) == "Hello."


async def test_a_tool_call_is_an_answer(host):
    """The beginning of a call commits to its provider."""
    first, second = await models([[Call("look", {}), Truncate()]], ["Never."])

    events = await events_of(first, (Candidate(second.model),))

    assert isinstance(events[-1], StreamError | StreamDone)
    assert second.requests == []


async def test_credentials_of_a_provider_are_tried_in_order(host):
    """A refused key gives way to the next one; a provider's key is never shown to another provider."""
    first, second = await models([[Fail("auth")], [Fail("auth")]], ["Hello."])
    candidates = (Candidate(first.model, ("key-a", "key-b")), Candidate(second.model))

    options = StreamOptions(max_retries=0, api_key="key-of-the-call")
    assert text(await events_of(first, candidates, options=options)) == "Hello."
    assert [request.options.api_key for request in first.requests] == ["key-a", "key-b"]
    assert [request.options.api_key for request in second.requests] == [None]


async def test_a_failure_of_the_provider_skips_its_other_credentials(host):
    """Another key does not help an overloaded server."""
    first, second = await models([[Fail("server")]], ["Hello."])

    await events_of(first, (Candidate(first.model, ("a", "b")), Candidate(second.model)))

    assert len(first.requests) == 1


@pytest.mark.parametrize("kind", ["client", "context", "refused"])
async def test_a_request_that_all_would_refuse_is_told_as_it_is(host, kind):
    """A bad request and a conversation that is too long are not carried from provider to provider."""
    first, second = await models([[Fail(kind)]], ["Never."])

    events = await events_of(first, (Candidate(second.model),))

    assert isinstance(events[-1], StreamError)
    assert second.requests == []


async def test_the_last_failure_is_told_when_nobody_is_left(host):
    """All fail: the reader gets the error of the last one asked."""
    first, second = await models([[Fail("overloaded")]], [[Fail("auth")]])

    events = await events_of(first, (Candidate(second.model),))

    assert isinstance(events[-1], StreamError)
    assert events[-1].message.provider == second.model.provider


async def test_what_failed_rests_unless_everything_does(host):
    """
    The next call, of whichever session, passes over a provider that rests; when all rest they are tried in order
    again. There is one table of what rests, the model router's, and no key can be read from it.
    """
    first, second = await models([[Fail("overloaded")], "First."], ["One.", [Fail("overloaded")]])

    assert text(await events_of(first, (Candidate(second.model),))) == "One."
    await events_of(first, (Candidate(second.model),))
    assert (len(first.requests), len(second.requests)) == (1, 2)
    assert text(await events_of(first, (Candidate(second.model),))) == "First."


async def test_a_refused_key_rests_in_the_routers_table_under_another_name(host):
    """What one session learned the next one need not find out; whoever looks into the router sees no key."""
    first, second = await models([[Fail("auth")]], ["One.", "Two."])
    keys = Candidate(first.model, api_keys=("sk-very-secret",))

    assert text(await events_of(first, (keys, Candidate(second.model)))) == "One."
    assert text(await events_of(first, (keys, Candidate(second.model)))) == "Two."
    assert len(first.requests) == 1
    ((provider, name),) = (await model_runtime.ModelRouter.cooldowns()).rests
    assert provider == first.model.provider
    assert "secret" not in name


@pytest.mark.requirement("BR-030")
async def test_a_long_wait_that_a_server_asks_for_is_told_and_not_slept_through(host):
    """429 with ten minutes to wait: one request, an event that says until when, and the end of the run."""
    primary, spare = await models([[Fail("rate_limit", retry_after_s=600)]], [[Fail("rate_limit", retry_after_s=900)]])
    session = await session_on(host, primary, fallback=(Candidate(spare.model),))

    events = await host.run(session, "hi")

    (paused,) = [event.event for event in events if isinstance(event.event, RateLimitPaused)]
    (switched,) = [event.event for event in events if isinstance(event.event, ProviderSwitched)]
    assert (paused.provider, paused.retry_after_ms) == (spare.model.provider, 900_000)
    assert paused.resume_at % 1000 == 0
    assert switched.to_provider == spare.model.provider
    assert events[-1].event.outcome == "error"
    assert len(primary.requests) == len(spare.requests) == 1


async def test_a_session_goes_on_with_another_provider(host):
    """The whole road: the answer stored is the spare's, and the run is completed."""
    primary, spare = await models([[Fail("auth")]], ["Hello."])
    session = await session_on(host, primary, fallback=(Candidate(spare.model),))

    events = await host.run(session, "hi")

    answers = [event.event.message for event in events if isinstance(event.event, MessageEnd)]
    assert isinstance(answers[-1], AssistantMessage)
    assert answers[-1].provider == spare.model.provider
    assert events[-1].event.outcome == "completed"


async def test_each_provider_is_asked_with_its_own_key(host):
    """The key of the model that failed goes to nobody else; the spare's is looked up when it is needed."""
    primary, spare = await models([[Fail("auth")]], ["Hello."])
    looked_up = []

    async def key(provider: str) -> str:
        looked_up.append(provider)
        return f"key of {provider}"

    session = await session_on(host, primary, fallback=(Candidate(spare.model),), get_api_key=key)

    await host.run(session, "hi")

    (first,), (second,) = primary.requests, spare.requests
    assert first.options.api_key == f"key of {primary.model.provider}"
    assert second.options.api_key == f"key of {spare.model.provider}"
    assert looked_up == [primary.model.provider, spare.model.provider]


async def test_an_abort_closes_whichever_call_is_under_way(host):
    """Aborted while the spare speaks: the run ends as aborted and nothing goes on."""
    primary, spare = await models([[Fail("auth")]], [[Say("Hel"), Delay(600_000)]])
    session = await session_on(host, primary, fallback=(Candidate(spare.model),))
    await client.prompt(session, "hi")
    await host.until(MessageUpdate)

    await client.abort(session)

    assert (await host.until(Settled))[-1].event.outcome == "aborted"
