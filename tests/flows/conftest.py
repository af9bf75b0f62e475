"""A machine of one's own for each test."""

import pytest

from tests.flows.hosts import Machine


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A home with an empty project; short, because socket paths must be."""
    return Machine(tmp_path_factory.mktemp("m"))
