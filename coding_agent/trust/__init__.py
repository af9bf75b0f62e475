"""Does the person trust a project? What in it waits for that, what they said, and what has changed since."""

from coding_agent.trust.check import Trust, check_trust, decide
from coding_agent.trust.found import Needs

__all__ = ["Needs", "Trust", "check_trust", "decide"]
