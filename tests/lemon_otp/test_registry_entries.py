"""The tables of a registry, and patterns, without any process."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_otp import ANY
from lemon_otp.pid import Pid
from lemon_otp.registry_entries import DuplicateEntries, UniqueEntries, matches


@pytest.mark.parametrize(
    ("pattern", "value", "matching"),
    [
        (ANY, None, True),
        (1, 1, True),
        (1, 2, False),
        (("v", ANY), ("v", 1), True),
        (("v", ANY), ("w", 1), False),
        (("v", ANY), ["v", 1], False),
        (("v", ANY), ("v", 1, 2), False),
        ([ANY, ("a", ANY)], [0, ("a", 9)], True),
        ({"role": ANY}, {"role": "main", "more": 1}, True),
        ({"role": "main"}, {"other": 1}, False),
    ],
)
def test_a_pattern_is_compared_part_by_part(pattern: Any, value: Any, matching: bool) -> None:
    """ANY stands for anything; tuples and lists must agree in kind and length, dicts in the keys that are named."""
    assert matches(pattern, value) is matching


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "remove_match", "drop"]),
        st.integers(0, 3),
        st.sampled_from(["k1", "k2", ("k", 3)]),
        st.sampled_from([1, 2, ("v", 1)]),
    ),
    max_size=40,
)


@given(steps=STEPS, unique=st.booleans())
def test_entries_agree_with_a_plain_list(steps: Any, unique: bool) -> None:
    """After any steps both kinds hold what a list of (key, pid, value) would, and count it."""
    pids = [Pid(number, None) for number in range(4)]
    entries: UniqueEntries | DuplicateEntries = UniqueEntries() if unique else DuplicateEntries()
    model: list[tuple[Any, Pid, Any]] = []
    for what, number, key, value in steps:
        pid = pids[number]
        if what == "add":
            holder = next((other for a_key, other, _ in model if a_key == key), None) if unique else None
            assert entries.add(key, pid, value) is holder
            if holder is None:
                model.append((key, pid, value))
        elif what == "drop":
            dropped = entries.drop_process(pid)
            assert sorted(map(repr, dropped)) == sorted(repr(a_key) for a_key, other, _ in model if other is pid)
            model = [entry for entry in model if entry[1] is not pid]
        else:
            pattern = ANY if what == "remove" else value
            gone = [entry for entry in model if entry[0] == key and entry[1] is pid and matches(pattern, entry[2])]
            assert entries.remove(key, pid, pattern) == len(gone)
            model = [entry for entry in model if entry not in gone]
        assert sorted(map(repr, entries.all())) == sorted(map(repr, model))
        assert entries.size == len(model)
        for a_key in ("k1", "k2", ("k", 3)):
            assert entries.of_key(a_key) == [(pid, value) for key, pid, value in model if key == a_key]
        for a_pid in pids:
            keys = [key for key, pid, _ in model if pid is a_pid]
            assert sorted(map(repr, entries.keys_of(a_pid))) == sorted(map(repr, keys))


def test_a_value_is_changed_by_its_holder_only() -> None:
    """The new and the old value for the holder, None for anybody else and for an unknown key."""
    mine, other = Pid(1, None), Pid(2, None)
    entries = UniqueEntries()
    entries.add("k", mine, 1)
    assert entries.update("k", mine, lambda value: value + 1) == (2, 1)
    assert entries.update("k", other, lambda value: 9) is None
    assert entries.update("none", mine, lambda value: 9) is None
    assert entries.of_key("k") == [(mine, 2)]
