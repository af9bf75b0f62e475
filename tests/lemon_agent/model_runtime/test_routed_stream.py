"""Going on to another credential or provider while nothing has been said, over a table the whole host shares."""

import pytest

from lemon_agent.model_runtime.credentials import Sources
from lemon_agent.model_runtime.model_router import MODEL_ROUTER, ModelRouter
from lemon_agent.model_runtime.routed_stream import RoutedStream
from lemon_agent.testing import Pause, ScriptedAgent, answers, assert_well_formed, terminal, until
from lemon_ai import (
    AuthFailed,
    BadRequest,
    Fold,
    Model,
    RateLimited,
    ServerFailed,
    StreamOptions,
    get_text,
)
from lemon_otp import exit_signal, telemetry, whereis
from lemon_otp.testing import settle

FIRST = Model(id="first", api="told", provider="first")
SECOND = Model(id="second", api="told", provider="second")


def failure(kind, **more):
    return kind(provider="first", message="no", **more)


class Providers:
    """Answers by provider and key: a text, or a failure, at once or after the start."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    async def __call__(self, model, context, options):
        self.asked.append((model.provider, options.api_key))
        answer = self.answers[model.provider]
        if isinstance(answer, dict):
            answer = answer[options.api_key]
        return self._play(model, answer)

    async def _play(self, model, answer):
        fold = Fold(model)
        early, late = answer if isinstance(answer, tuple) else (None, answer)
        for event in fold.start():
            yield event
        if early is not None:
            for event in fold.text(early):
                yield event
        if isinstance(late, Exception):
            for event in fold.fail("error", late):
                yield event
            return
        for event in (*fold.text(late), *fold.done("stop")):
            yield event


async def run(providers, *, pools=None, **options):
    sources = Sources(pools=pools or {}, environ={}, secrets={"k1": "1", "k2": "2"}.get)
    routed = RoutedStream((SECOND,), sources, providers)
    agent = await ScriptedAgent.start(model=FIRST, stream_fn=routed, **options)
    return agent, await agent.run("hi")


async def test_a_provider_that_fails_before_it_says_anything_gives_way_to_the_next(tree):
    """The answer is the second's, the first rests, and telemetry says what happened."""
    told = []
    telemetry.attach("t", ("lemon_agent", "model_runtime", "fallback"), lambda *event: told.append(event[2]))
    providers = Providers(first=failure(ServerFailed), second="hello from the second")
    _, events = await run(providers)
    assert get_text(answers(events)[0]) == "hello from the second"
    assert answers(events)[0].provider == "second"
    assert_well_formed(events)
    cooldowns = await ModelRouter.cooldowns()
    assert cooldowns.rests[("first", "default")].failure == "other"
    assert told == [{"from_provider": "first", "to_provider": "second", "category": "server"}]


async def test_a_refused_credential_gives_way_to_the_next_of_its_provider(tree):
    """Both keys of the first provider are tried before another provider is asked."""
    providers = Providers(first={"1": failure(AuthFailed), "2": "hello"}, second="never")
    agent, events = await run(providers, pools={"first": ["k1", "k2"]})
    assert get_text(answers(events)[0]) == "hello"
    assert providers.asked == [("first", "1"), ("first", "2")]
    await agent.run("again")
    assert providers.asked[2:] == [("first", "2")]


async def test_a_session_stays_with_what_answered_it(clocked_tree, fake_clock):
    """After a fallback the session is pinned, even when what failed has recovered; other sessions are not."""
    providers = Providers(first=failure(ServerFailed), second="hello")
    agent, _ = await run(providers, session_id="s1")
    providers.answers["first"] = "recovered"
    await fake_clock.advance(3600)
    await agent.run("again")
    assert providers.asked[-1][0] == "second"
    _, events = await run(providers, session_id="s2")
    assert get_text(answers(events)[0]) == "recovered"


async def test_a_rate_limit_rests_as_long_as_the_provider_asked(clocked_tree, fake_clock):
    """Until then the provider is tried last, afterwards first again."""
    providers = Providers(first=failure(RateLimited, retry_after_s=30), second="hello")
    await run(providers)
    providers.answers["first"] = "back"
    asked = len(providers.asked)
    await run(providers)
    assert providers.asked[asked:] == [("second", None)]
    await fake_clock.advance(31)
    _, events = await run(providers)
    assert get_text(answers(events)[0]) == "back"


@pytest.mark.parametrize("kind", [BadRequest])
async def test_a_request_everybody_would_refuse_is_told_as_it_is(tree, kind):
    """No other provider is bothered, and nothing is held against the credential."""
    providers = Providers(first=failure(kind), second="never")
    _, events = await run(providers)
    assert terminal(events).outcome == "error"
    assert providers.asked == [("first", None)]
    assert (await ModelRouter.cooldowns()).rests == {}


async def test_when_nobody_answers_the_last_failure_is_told(tree):
    """The run ends with an error that names it."""
    providers = Providers(first=failure(ServerFailed), second=failure(ServerFailed))
    _, events = await run(providers)
    assert terminal(events).outcome == "error"
    assert answers(events)[0].error_message == "no"
    assert_well_formed(events)


async def test_once_something_was_said_there_is_no_going_on_elsewhere(tree):
    """A failure in the middle of an answer is that answer's end."""
    providers = Providers(first=("half an answer", failure(ServerFailed)), second="never")
    _, events = await run(providers)
    assert get_text(answers(events)[0]) == "half an answer"
    assert answers(events)[0].stop_reason == "error"
    assert providers.asked == [("first", None)]


async def test_a_key_of_the_call_goes_before_those_of_the_sources(tree):
    """What the caller passes is used for its own provider, and for no other."""
    providers = Providers(first=failure(ServerFailed), second="hello")
    await run(providers, stream_options=StreamOptions(api_key="mine"))
    assert providers.asked == [("first", "mine"), ("second", None)]


async def test_a_router_that_starts_anew_holds_nothing_against_anybody(tree):
    """Killed in between: the next call tries the first provider again."""
    providers = Providers(first=failure(ServerFailed), second="hello")
    await run(providers)
    exit_signal(whereis(MODEL_ROUTER), "kill")
    await settle()
    assert (await ModelRouter.cooldowns()).rests == {}
    await run(providers)
    assert providers.asked[2][0] == "first"


async def test_an_abort_reaches_the_provider_through_the_route(tree):
    """The stream under way is closed, whichever provider it is."""
    from lemon_agent import Agent, MessageUpdate
    from lemon_agent.testing import ScriptedModel

    model = ScriptedModel([["...", Pause()]])
    agent = await ScriptedAgent.start(model=FIRST, stream_fn=RoutedStream((SECOND,), Sources(environ={}), model))
    await Agent.prompt(agent.pid, "hi")
    await until(MessageUpdate)
    Agent.abort(agent.pid)
    assert terminal(await agent.events()).outcome == "aborted"
    await settle()
    assert model.given_up == 1


async def test_a_pool_takes_turns_through_the_router(tree):
    """Sessions get places one after the other and keep them."""
    members = ("a", "b")
    assert await ModelRouter.order("pool", members, "round_robin", "s1") == ("a", "b")
    assert await ModelRouter.order("pool", members, "round_robin", "s2") == ("b", "a")
    assert await ModelRouter.order("pool", members, "round_robin", "s1") == ("a", "b")


async def test_what_no_longer_matters_is_swept_every_hour(clocked_tree, fake_clock):
    """Rests that ended long ago are forgotten."""
    ModelRouter.failed(("p", "r"), "other")
    await settle()
    assert len((await ModelRouter.cooldowns()).rests) == 1
    await fake_clock.advance(2 * 3600 + 10)
    assert (await ModelRouter.cooldowns()).rests == {}
