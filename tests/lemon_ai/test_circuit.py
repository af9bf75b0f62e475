"""The circuit as a table, and the counts that drive it."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from lemon_ai import BreakerPolicy, Circuit
from lemon_ai.circuit import CHANGES, TRANSITIONS, Signal, State, step

POLICY = BreakerPolicy(failure_threshold=3, recovery_timeout_ms=1_000, probes=2, probe_timeout_ms=60_000)


def opened(at_s: float = 0.0) -> Circuit:
    circuit = Circuit(POLICY)
    for _ in range(3):
        circuit = circuit.record_failure("boom", at_s)
    return circuit


def test_every_pair_of_state_and_signal_is_listed_or_a_bug() -> None:
    """The table is the rule: what is not in it cannot happen."""
    for state, signal in product(get_args(State), get_args(Signal)):
        if (state, signal) in TRANSITIONS:
            assert step(state, signal) in get_args(State)
            assert signal in CHANGES
        else:
            with pytest.raises(KeyError):
                step(state, signal)


def test_failures_in_a_row_open_it_and_a_success_starts_the_count_anew() -> None:
    """Only failures that follow each other count."""
    circuit = Circuit(POLICY).record_failure("a", 0).record_failure("b", 0).record_success(0).record_failure("c", 0)
    assert (circuit.state, circuit.failure_count) == ("closed", 1)
    assert opened().state == "open"
    assert opened().last_failure_reason == "boom"
    assert opened().signal == "tripped"


def test_an_open_circuit_refuses_until_it_cooled_down() -> None:
    """A late failure starts the wait again; a late success changes nothing."""
    circuit = opened()
    assert circuit.admit(0.5)[1] is False
    assert circuit.time_until_recovery_ms(0.4) == 600
    assert circuit.record_success(0.5).state == "open"
    late = circuit.record_failure("late", 0.9)
    assert late.at(1.5).state == "open"
    assert late.at(1.9).state == "half_open"


def test_half_open_lets_two_probes_through_and_closes_when_both_succeed() -> None:
    """A third one is refused until a probe has ended."""
    circuit, first = opened().admit(1.0)
    circuit, second = circuit.admit(1.0)
    circuit, third = circuit.admit(1.0)
    assert (first, second, third, circuit.state) == (True, True, False, "half_open")
    circuit = circuit.record_success(1.1, probe=True)
    assert circuit.state == "half_open"
    circuit = circuit.record_success(1.2, probe=True)
    assert (circuit.state, circuit.signal, circuit.failure_count) == ("closed", "probes_passed", 0)


def test_one_failure_opens_it_again() -> None:
    """Half open forgives nothing."""
    circuit, _ = opened().admit(1.0)
    circuit = circuit.record_failure("still", 1.1, probe=True)
    assert (circuit.state, circuit.signal) == ("open", "probe_failed")
    assert circuit.at(2.0).state == "open"
    assert circuit.at(2.2).state == "half_open"


def test_a_probe_that_says_nothing_gives_its_place_back() -> None:
    """Whether it reported nothing, or was never heard of again."""
    circuit = opened()
    for _ in range(2):
        circuit, _ = circuit.admit(1.0)
    assert circuit.admit(1.1)[1] is False
    assert circuit.forget_probe(1.1).admit(1.1)[1] is True
    assert circuit.admit(62.0)[1] is True
