"""What became of a tool call, whatever the tool gave or raised."""

from typing import Any, NoReturn

import pytest
from attrs import define, field

from lemon_agent import ToolError
from lemon_agent.errors import REASON_MAX, WORDS_MAX
from lemon_agent.loop import tool_outcome as outcomes
from lemon_agent.tools import error_text
from lemon_otp import ProcessExit

SECRET = "canary-0123456789"


def trap(*_: Any) -> NoReturn:
    raise AssertionError(f"code of the value ran: {SECRET}")


class Own:
    __repr__ = __str__ = trap  # type: ignore[assignment]

    def __init__(self) -> None:
        self.token = SECRET


class OwnError(Exception):
    __repr__ = __str__ = trap  # type: ignore[assignment]


@define
class Account:
    name: str
    token: str = field(repr=False, default=SECRET)


def text_of(outcome: outcomes.ToolOutcome) -> str:
    return "".join(block.text for block in outcome.result.content)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (outcomes.interpret(Own()), "Unexpected tool result: <Own>"),
        (outcomes.interpret(Account("mine")), "Unexpected tool result: Account(name='mine')"),
        (outcomes.interpret(("error", Own())), "<Own>"),
        (outcomes.caught(ToolError(Account("mine"))), "Account(name='mine')"),
        (outcomes.caught(ProcessExit(Own())), "exit: <Own>"),
        (outcomes.caught(OwnError(SECRET)), "OwnError"),
        (outcomes.caught(ValueError("boom")), "boom"),
        (outcomes.caught(ValueError()), "ValueError"),
        (outcomes.hook_raised(OwnError(SECRET)), "OwnError"),
        (outcomes.crashed(Own()), "Tool task crashed: <Own>"),
        (outcomes.crashed("killed"), "Tool task crashed: killed"),
        (outcomes.not_started(OwnError(SECRET)), "Tool task failed to start: <OwnError>"),
    ],
    ids=map(str, range(12)),
)
def test_the_model_is_told_no_more_than_a_value_shows_of_itself(outcome: outcomes.ToolOutcome, text: str) -> None:
    """No code of a value runs for it; an error whose `str` fails is told by its class."""
    assert text_of(outcome) == text


def test_what_is_told_is_bounded() -> None:
    """A tool that raises or returns a hundred megabytes does not send them to the model."""
    huge = "x" * 100_000_000
    assert len(text_of(outcomes.caught(ValueError(huge)))) == WORDS_MAX
    assert len(text_of(outcomes.interpret([huge]))) <= REASON_MAX + 30
    assert len(error_text({"a": huge})) <= REASON_MAX
    assert len(str(ToolError({"a": huge}))) <= REASON_MAX
