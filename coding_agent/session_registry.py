"""All sessions of this program, by id. Entries vanish with their process.

Tree: coding_agent.supervisor / session_registry, a stock `Registry` with unique keys
"""

from collections.abc import Mapping
from typing import Any, Final

from lemon_otp import Pid, Registry, Via, whereis

NAME: Final = "session_registry"


def via(session_id: str) -> Via:
    """An address that reaches whichever process runs the session at the moment of sending."""
    return Via(NAME, session_id)


def lookup(session_id: str) -> Pid | None:
    """The process that runs the session, or None."""
    return None if whereis(NAME) is None else Registry.whereis(NAME, session_id)


def list_ids() -> list[str]:
    """The ids of all sessions that run, sorted; empty while the registry itself is down."""
    return sorted(_entries())


def metadata(session_id: str) -> Mapping[str, Any] | None:
    """What the session said of itself when it registered, such as its `cwd`."""
    return _entries().get(session_id)


def _entries() -> dict[str, Any]:
    if whereis(NAME) is None:
        return {}
    return {key: value for key, _, value in Registry.select(NAME)}
