"""How large values are, whatever they would say themselves."""

from typing import Any, NoReturn

import pytest
from attrs import frozen

from lemon_otp.sizes import size_estimate


def trap(*_: Any) -> NoReturn:
    raise AssertionError("code of the value ran")


class Trapped:
    """Whatever is asked of it in the usual way is a mistake."""

    __sizeof__ = __getattr__ = __getattribute__ = __len__ = __iter__ = __eq__ = __hash__ = trap  # type: ignore[assignment]
    __class__ = property(trap)  # type: ignore[assignment]

    def __init__(self) -> None:
        object.__getattribute__(self, "__dict__")["text"] = "x" * 10_000


@frozen
class Point:
    text: str


def test_a_value_that_holds_itself_has_an_end() -> None:
    """However deep it is."""
    loop: list[Any] = []
    loop.append(loop)
    assert size_estimate(loop) > 0


def test_sizes_count_what_is_shared_once_and_stop_somewhere() -> None:
    """An estimate, bounded in work."""
    text = "x" * 1000
    assert 1000 < size_estimate([text, text]) < 1500
    assert size_estimate([object() for _ in range(1_000_000)]) > 0


@pytest.mark.requirement("BR-130")
def test_no_code_of_a_value_is_run_to_measure_it() -> None:
    """Not its `__sizeof__`, not its attributes' properties, not its idea of its own class."""
    assert 10_000 < size_estimate(Trapped()) < 12_000
    assert 10_000 < size_estimate({"held": [Point("x" * 10_000)]}) < 12_000
