"""The telemetry that this package listens to."""

from coding_agent import event_names
from tests import telemetry_catalogue


def test_every_event_that_is_listened_to_is_said_somewhere() -> None:
    """A name that nobody says would be waited for in vain; each has one constant."""
    named = [value for name, value in vars(event_names).items() if name.isupper() and isinstance(value[0], str)]
    assert len(named) > 20
    assert {".".join(event) for event in named} <= set(telemetry_catalogue.MEANING)
    assert len(named) == len(set(named))
