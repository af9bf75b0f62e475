"""What a reason says."""

import pytest

from lemon_otp.exits import is_normal, is_orderly


@pytest.mark.parametrize("reason", ["normal", "shutdown", ("shutdown", "x"), ("shutdown", None)])
def test_orderly_reasons(reason: object) -> None:
    """What a supervisor takes for a planned end."""
    assert is_orderly(reason)


@pytest.mark.parametrize("reason", ["killed", "kill", "noproc", None, ("shutdown",), ["shutdown", 1], ValueError(), 0])
def test_other_reasons_are_failures(reason: object) -> None:
    """Everything else."""
    assert not is_orderly(reason)
    assert not is_normal(reason)


def test_values_with_strange_comparisons_are_no_reason_to_fail() -> None:
    """A reason may be anything, also something whose comparison raises."""

    class Strange:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("do not compare")

        __hash__ = None  # type: ignore[assignment]

    assert not is_orderly(Strange())
    assert not is_orderly((Strange(), 1))
    assert not is_normal(Strange())
