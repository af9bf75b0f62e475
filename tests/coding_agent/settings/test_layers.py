"""Whatever a repository's settings say, it is a problem or stricter."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from coding_agent.errors import BadUsage
from coding_agent.settings.layers import JOINED, Layer, Origin, layer_of, merge, nested
from coding_agent.settings.schema import BY_KEY, FIELDS, GROUPS, tightens

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
LIKELY = st.sampled_from(
    [
        True,
        False,
        0,
        1,
        10**6,
        0.5,
        "strict",
        "net",
        "off",
        "plan",
        "ask",
        "edit",
        "full",
        "high",
        "all",
        "text",
        ["a"],
        [],
    ]
)
VALUES = st.dictionaries(st.sampled_from(sorted(BY_KEY)), LIKELY, max_size=8)
FILE = Path("/project/.lemon/settings.json")


def layer(values, kind):
    """What of these values a file may say."""
    found = {}
    for key, value in values.items():
        try:
            found.update(layer_of(nested([(key, value)]), Origin(kind, "f"), FILE, strict=True).values)
        except BadUsage:
            continue
    return Layer(Origin(kind, "f"), found, file=FILE)


@given(
    st.dictionaries(
        st.sampled_from([*sorted(GROUPS), "theme", "foo", "sandbox"]) | st.text(max_size=5), JSON, max_size=5
    )
)
def test_any_document_is_settings_problems_or_bad_usage(document):
    """Nothing else is ever raised; every name nobody knows is a problem."""
    try:
        found = layer_of(document, Origin("project", "f"), FILE, strict=True)
    except BadUsage:
        return
    assert set(found.values) <= set(BY_KEY)
    assert len(found.problems) >= len(found.unknown)
    merge([found], trusted=False)


@given(VALUES, VALUES)
def test_an_untrusted_project_can_only_tighten(own, theirs):
    """For every setting and every value: as it was, or stricter; rules of the person's never go away."""
    base = merge([layer(own, "user")], trusted=False)
    found = merge([layer(own, "user"), layer(theirs, "project")], trusted=False)
    for key, rule in BY_KEY.items():
        before, after = base.value(key), found.value(key)
        if key in JOINED:
            assert set(before) <= set(after)
            assert key != "permissions.allow" or before == after
        else:
            assert before == after or tightens(rule, after, before), key


@given(VALUES, VALUES)
def test_what_a_project_says_and_does_not_count_is_known_to_wait(own, theirs):
    """With trust it would come to something else, so the person is asked."""
    layers = [layer(own, "user"), layer(theirs, "project")]
    untrusted, trusted = merge(layers, trusted=False), merge(layers, trusted=True)
    differs = {key for key in BY_KEY if untrusted.value(key) != trusted.value(key)}
    waiting = {key for keys in untrusted.waiting.values() for key in keys}
    assert differs - {"permissions.mode"} <= waiting
    if "permissions.mode" in differs - waiting:  # it holds as a cap
        assert untrusted.mode_cap == trusted.value("permissions.mode")


def test_every_default_is_a_value_its_setting_can_have():
    """So that a file that says what holds anyway is no problem."""
    for each in FIELDS:
        if each.default not in (None, ()):
            assert layer_of(
                json.loads(json.dumps(nested([(each.key, each.default)]))), Origin("user"), FILE, strict=True
            ).values
