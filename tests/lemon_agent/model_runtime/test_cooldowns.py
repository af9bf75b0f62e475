"""How long credentials rest, and whose turn it is."""

import pytest

from lemon_agent.model_runtime.cooldowns import Cooldowns, rest_ms
from lemon_agent.model_runtime.credentials import Sources
from lemon_agent.model_runtime.routing import (
    Facts,
    Pins,
    Profile,
    Rotation,
    Routing,
    decision,
    plan,
    preview,
    provider_status,
    selected,
)

KEY = ("anthropic", "env:A")


@pytest.mark.parametrize(
    ("failure", "rests"),
    [
        ("rate_limit", [15_000, 30_000, 60_000, 120_000, 240_000, 300_000, 300_000]),
        ("auth", [300_000, 600_000, 1_200_000, 2_400_000, 3_600_000, 3_600_000]),
        ("other", [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]),
    ],
)
def test_a_credential_rests_longer_with_each_failure_in_a_row(failure, rests):
    """Twice as long each time, up to the limit of its kind."""
    assert [rest_ms(failure, count) for count in range(1, len(rests) + 1)] == rests
    assert rest_ms(failure, 10_000) == rests[-1]


def test_what_a_provider_asks_for_in_a_rate_limit_is_taken_at_its_word():
    """Longer or shorter than ours; for other failures ours holds."""
    assert rest_ms("rate_limit", 5, 700) == 700
    assert rest_ms("rate_limit", 1, 900_000) == 900_000
    assert rest_ms("other", 1, 900_000) == 2_000


def test_a_success_clears_the_table_for_its_credential():
    """The next failure begins at the beginning; other credentials are not touched."""
    cooldowns = Cooldowns().failed(KEY, "auth", now_s=0).failed(("x", "y"), "other", now_s=0)
    assert cooldowns.resting(KEY, 299)
    assert not cooldowns.resting(KEY, 301)
    cleared = cooldowns.succeeded(KEY)
    assert not cleared.resting(KEY, 0)
    assert cleared.resting(("x", "y"), 1)
    assert cleared.succeeded(KEY) is cleared
    assert cleared.failed(KEY, "auth", now_s=0).rests[KEY].failures == 1


def test_the_first_fresh_credential_is_chosen_and_the_first_when_none_is():
    """Nothing is ever refused because everything rests."""
    cooldowns = Cooldowns().failed(("p", "a"), "other", now_s=0)
    assert cooldowns.choose("p", ["a", "b"], 1) == "b"
    assert cooldowns.choose("p", ["a"], 1) == "a"
    assert cooldowns.choose("p", [], 1) is None
    assert cooldowns.swept(10_000).rests == {}


def test_credentials_come_from_the_pool_first_and_then_from_the_usual_places():
    """References that lead nowhere are skipped; the environment goes before the settings, they before a secret."""
    secrets = {"work": "w-key", "groq_api_key": "secret-key"}.get
    sources = Sources(
        pools={"groq": ["secret:work", "env:SPARE", "env:MISSING", "secret:none", "work"]},
        plain={"groq": "plain-key", "mistral": "m-key"},
        secrets=secrets,
        environ={"SPARE": "s-key", "GROQ_API_KEY": "env-key"},
    )
    assert [(c.ref, c.value) for c in sources.credentials("groq")] == [
        ("secret:work", "w-key"),
        ("env:SPARE", "s-key"),
        ("work", "w-key"),
        ("default", "env-key"),
    ]
    assert [(c.ref, c.value) for c in sources.credentials("mistral")] == [("default", "m-key")]
    assert sources.credentials("xai") == ()
    resting = Cooldowns().failed(("groq", "secret:work"), "auth", now_s=0)
    assert sources.choose("groq", resting, 1).ref == "env:SPARE"
    assert sources.choose("xai", resting, 1) is None
    assert "w-key" not in repr(sources.credentials("groq")) + repr(sources)


FACTS = Facts(
    known=frozenset("abcdefg"),
    configured=frozenset("ab"),
    credential_ready=frozenset("bcg"),
    circuit_open=frozenset("c"),
    resting=frozenset("d"),
)


def order(*args, **options):
    return [candidate.provider for candidate in plan(*args, **options)]


def test_a_plan_lists_each_provider_once_in_the_order_of_where_it_comes_from():
    """Primary, profile, distribution by weight and name, pools, global; demoted ones last, none dropped."""
    profile = Profile(fallback_providers=("b", "c"), distribution={"d": 1, "f": 5, "e": 5}, pools={"fast": ("g", "b")})
    routing = Routing(fallback_providers=("h", "a"))
    candidates = plan("a", FACTS, profile=profile, routing=routing)
    assert [c.provider for c in candidates] == ["a", "b", "e", "f", "g", "h", "c", "d"]
    by_name = {c.provider: c for c in candidates}
    assert by_name["a"].role == "primary"
    assert by_name["g"].pool == "fast"
    assert by_name["c"].demotions == ("circuit_open",)
    assert by_name["d"].demotions == ("resting",)
    assert not by_name["h"].known
    assert (by_name["b"].configured, by_name["b"].credential_ready, by_name["b"].selectable) == (True, True, True)
    assert selected(candidates).provider == "b"


def test_explicit_fallbacks_replace_all_others():
    """Who names fallbacks for a call gets those and no more, even none."""
    profile = Profile(fallback_providers=("b",))
    assert order("a", FACTS, explicit_fallbacks=["g"], profile=profile) == ["a", "g"]
    assert order("a", FACTS, explicit_fallbacks=[], profile=profile) == ["a"]
    assert order("a", FACTS, profile=profile, routing=Routing(enabled=False)) == ["a"]


@pytest.mark.parametrize(
    ("primary", "routing", "result"),
    [
        ("b", Routing(), "selected_primary"),
        ("a", Routing(fallback_providers=("g",)), "selected_fallback"),
        ("a", Routing(), "no_ready_provider"),
        ("a", Routing(require_credentials=False), "selected_primary"),
        ("b", Routing(enabled=False), "routing_disabled"),
    ],
)
def test_a_plan_comes_to_a_decision(primary, routing, result):
    """And the report on it has names and counts only."""
    candidates = plan(primary, FACTS, routing=routing)
    assert decision(candidates, routing) == result
    report = preview(candidates, routing)
    assert report["decision"] == result
    assert set(report) == {
        "decision", "selected", "candidates", "selectable", "credential_ready", "demoted", "order",
    }  # fmt: skip


def test_the_status_of_providers_is_told_in_booleans():
    """Nothing else could leak."""
    status = provider_status(["b", "z"], FACTS)
    assert status["b"] == {
        "known": True, "configured": True, "credential_ready": True, "circuit_open": False, "resting": False,
    }  # fmt: skip
    assert set(status["z"].values()) == {False}


def test_a_rotating_pool_gives_each_session_a_place_and_keeps_it():
    """New sessions take turns, a known one stays, calls without a session move on; claims go after a week."""
    rotation = Rotation()
    members = ("a", "b", "c")
    firsts = []
    for session in ("s1", "s2", "s1", None, None, "s2"):
        rotation, tried = rotation.order("pool", members, "round_robin", session, 0)
        assert sorted(tried) == list(members)
        firsts.append(tried[0])
    assert firsts == ["a", "b", "a", "c", "a", "b"]
    same, tried = rotation.order("pool", members, "priority", "s9", 0)
    assert (same, tried) == (rotation, members)
    assert rotation.swept(6 * 86_400).claims.keys() == rotation.claims.keys()
    assert rotation.swept(8 * 86_400).claims == {}


def test_a_pinned_session_stays_for_a_week():
    """Sessions without a name are not pinned."""
    pins = Pins().pin("s", "groq", "default", 0).pin(None, "x", "y", 0).pin("global", "x", "y", 0)
    assert pins.of("s", 100) == ("groq", "default")
    assert pins.of("s", 8 * 86_400) is None
    assert pins.of(None, 0) is None
    assert len(pins.pinned) == 1
    assert pins.swept(8 * 86_400).pinned == {}
