"""The fixtures of `tests.coding_agent.conftest`, and what its readers use."""

from tests.coding_agent.conftest import Host, kinds

__all__ = ["Host", "kinds"]
