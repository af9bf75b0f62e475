"""Edge. Which release of this program runs."""

from typing import Final

DISTRIBUTION: Final = "lemon-agents"
UNKNOWN: Final = "0"


def release() -> str:
    """Its version; "0" where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return UNKNOWN
