"""The benches are run by hand; that they can be is shown here."""

import importlib
import pkgutil

import pytest

import benches

OF_PEERS = {"agent_peers", "otp_peers"}
"""Run by a Python of their own, which has the other libraries."""
MODULES = sorted(module.name for module in pkgutil.iter_modules(benches.__path__))


@pytest.mark.parametrize("name", [name for name in MODULES if name not in OF_PEERS | {"__main__"}])
def test_a_bench_finds_what_it_measures(name: str) -> None:
    """What it imports is there: nothing of the product was renamed away under it."""
    assert importlib.import_module(f"benches.{name}").__doc__
