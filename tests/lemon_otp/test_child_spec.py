"""Child specifications refuse nonsense where it is written."""

from typing import Any

import pytest

from lemon_otp import BadChildSpec, ChildSpec


async def start() -> None:
    """Stands for a start function."""


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"restart": "sometimes"}, ("invalid_restart_type", "sometimes")),
        ({"shutdown": -1}, ("invalid_shutdown", -1)),
        ({"shutdown": True}, ("invalid_shutdown", True)),
        ({"shutdown": "soon"}, ("invalid_shutdown", "soon")),
        ({"kind": "boss"}, ("invalid_child_type", "boss")),
        ({"significant": 1}, ("invalid_significant", 1)),
        ({"start": "not callable"}, ("invalid_mfa", "not callable")),
    ],
)
def test_nonsense_is_refused_with_the_reason_the_beam_gives(fields: dict[str, Any], reason: tuple[str, Any]) -> None:
    """A bad field raises BadChildSpec in the constructor, with the BEAM's term as its reason."""
    with pytest.raises(BadChildSpec) as refused:
        ChildSpec(**{"id": "a", "start": start, **fields})
    assert refused.value.reason == reason


def test_the_message_says_what_was_expected() -> None:
    """Whoever reads the error learns which values there are."""
    with pytest.raises(BadChildSpec, match="permanent, transient, temporary"):
        ChildSpec("a", start, restart="always")  # type: ignore[arg-type]


@pytest.mark.parametrize("shutdown", [0, 0.5, 5, "brutal_kill", "infinity"])
def test_every_way_of_stopping_is_accepted(shutdown: Any) -> None:
    """Seconds from 0 on, brutal_kill and infinity are fine."""
    assert ChildSpec("a", start, shutdown=shutdown).shutdown == shutdown


def test_a_changed_spec_is_checked_again() -> None:
    """`replace` goes through the same checks and leaves the original alone."""
    spec = ChildSpec("a", start)
    assert spec.replace(id="b").id == "b"
    assert spec.id == "a"
    with pytest.raises(BadChildSpec):
        spec.replace(restart="never")
