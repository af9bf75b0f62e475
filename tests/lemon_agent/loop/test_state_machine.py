"""The table of the loop's states."""

from itertools import product

import pytest

from lemon_agent.errors import InvalidTransition
from lemon_agent.loop.state_machine import FINAL, STATES, TRANSITIONS, route, step
from tests.loop_states import PAGE, page

ALLOWED = {
    (None, "initializing"),
    ("initializing", "await_model"),
    ("await_model", "normalizing_response"),
    ("await_model", "aborted"),
    ("await_model", "recovering_provider_error"),
    ("normalizing_response", "await_model"),
    ("normalizing_response", "executing_tools"),
    ("normalizing_response", "recovering_provider_error"),
    ("normalizing_response", "finalizing"),
    ("normalizing_response", "aborted"),
    ("executing_tools", "awaiting_tool_results"),
    ("executing_tools", "aborted"),
    ("awaiting_tool_results", "await_model"),
    ("awaiting_tool_results", "finalizing"),
    ("awaiting_tool_results", "aborted"),
    ("recovering_provider_error", "finalizing"),
    ("compressing_context", "await_model"),
    ("compressing_context", "recovering_provider_error"),
}


@pytest.mark.parametrize(("state", "to"), [*product([None, *sorted(STATES)], sorted(STATES))])
def test_an_edge_is_allowed_exactly_when_the_table_has_it(state, to):
    """Every pair of states: the listed ones pass, all others are told as an invalid transition."""
    if (state, to) in ALLOWED:
        assert step(state, to) == to
    else:
        with pytest.raises(InvalidTransition) as caught:
            step(state, to)
        assert caught.value.kind == "invalid_loop_state_transition"
        assert (caught.value.from_state, caught.value.to_state) == (state, to)


@pytest.mark.parametrize(("state", "to"), [("await_model", "lunch"), ("lunch", "await_model")])
def test_an_unknown_state_is_told_as_such(state, to):
    """A name that is none of the states is a mistake of another kind."""
    with pytest.raises(InvalidTransition) as caught:
        step(state, to)
    assert caught.value.kind == "unknown_loop_state"
    assert "lunch" in str(caught.value)


@pytest.mark.parametrize("state", [None, *sorted(STATES - FINAL)])
def test_from_every_state_there_is_a_way_to_the_end(state):
    """The way found takes only allowed edges and ends where it should."""
    way = route(state, "finalizing")
    assert way[-1] == "finalizing"
    for before, after in zip((state, *way), way, strict=False):
        assert after in TRANSITIONS[before]


def test_there_is_no_way_out_of_a_final_state():
    """A run that has ended goes nowhere; being there already is no way either."""
    assert route("aborted", "finalizing") == ()
    assert route("finalizing", "finalizing") == ()


def test_the_page_draws_the_table():
    """What the documentation shows is what the loop does: `python -m tests.loop_states --write`."""
    assert PAGE.read_text(encoding="utf-8") == page()
