"""Pure. Where a run can be, and where it can go from there."""

from collections import deque
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

from lemon_agent.errors import InvalidTransition

LoopState: TypeAlias = Literal[
    "initializing",
    "await_model",
    "normalizing_response",
    "executing_tools",
    "awaiting_tool_results",
    "recovering_provider_error",
    "compressing_context",
    "finalizing",
    "aborted",
]

STATES: Final[frozenset[str]] = frozenset(get_args(LoopState))

TRANSITIONS: Final[Mapping[LoopState | None, tuple[LoopState, ...]]] = {
    None: ("initializing",),
    "initializing": ("await_model",),
    "await_model": ("normalizing_response", "aborted", "recovering_provider_error"),
    "normalizing_response": ("await_model", "executing_tools", "recovering_provider_error", "finalizing", "aborted"),
    "executing_tools": ("awaiting_tool_results", "aborted"),
    "awaiting_tool_results": ("await_model", "finalizing", "aborted"),
    "recovering_provider_error": ("finalizing",),
    "compressing_context": ("await_model", "recovering_provider_error"),
    "finalizing": (),
    "aborted": (),
}
"""From a state, the states that may follow. `compressing_context` is there for hosts that compact inside a run."""

FINAL: Final[frozenset[str]] = frozenset({"finalizing", "aborted"})


def step(state: LoopState | None, to: LoopState) -> LoopState:
    """`to`, when the table has the edge.

    Raises:
        InvalidTransition: Either state is unknown or the edge is not in the table.
    """
    if to in TRANSITIONS.get(state, ()):
        return to
    if to not in STATES or (state is not None and state not in STATES):
        raise InvalidTransition("unknown_loop_state", state, to)
    raise InvalidTransition("invalid_loop_state_transition", state, to)


def route(state: LoopState | None, to: LoopState) -> tuple[LoopState, ...]:
    """The states to pass through from `state` to `to`, `to` last; empty when already there or when there is no way."""
    waiting: deque[tuple[LoopState | None, tuple[LoopState, ...]]] = deque([(state, ())])
    seen: set[LoopState | None] = {state}
    while waiting:
        place, passed = waiting.popleft()
        if place == to:
            return passed
        for following in TRANSITIONS[place]:
            if following not in seen:
                seen.add(following)
                waiting.append((following, (*passed, following)))
    return ()
