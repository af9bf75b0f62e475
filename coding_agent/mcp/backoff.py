"""Pure. When a server that was lost, or never answered, is tried again."""

from typing import Final

FIRST_S: Final = 1.0
LONGEST_S: Final = 60.0
ATTEMPTS_MAX: Final = 6
"""So many attempts in a row without an answer, and nobody tries again by itself."""
STEADY_S: Final = 60.0
"""A connection that lasted so long counts as a good one: what follows begins anew."""


def delay_s(failures: int) -> float | None:
    """Seconds until the next attempt after so many failures in a row; None: there is none."""
    if failures >= ATTEMPTS_MAX:
        return None
    return float(min(LONGEST_S, FIRST_S * 4 ** max(0, failures - 1)))
