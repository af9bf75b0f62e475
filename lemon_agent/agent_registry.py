"""Process. Finds an agent by who it is: its session, its role there, and a number.

Tree:  lemon_agent.supervisor / agent_registry, a stock registry with unique keys
Owns:  one entry an agent; it goes when the agent's process does, however that ends
"""

from typing import Any, Final, TypeAlias

from lemon_otp import ChildSpec, NotFound, Pid, Registry, Via, describe

AGENT_REGISTRY: Final = "agent_registry"

AgentKey: TypeAlias = tuple[str, str, int]
"""Session id, role, and a number from 0 up. A session's own agent is `(session_id, "main", 0)`."""


def child_spec() -> ChildSpec:
    """How the supervisor starts the registry."""
    return Registry.child_spec(name=AGENT_REGISTRY, keys="unique", id=AGENT_REGISTRY)


def via(key: AgentKey, metadata: Any = None) -> Via:
    """A name for a process that is about to start: `Agent.start_link(options, name=via(key))`.

    Raises:
        ValueError: The key is no such triple.
    """
    return Via(AGENT_REGISTRY, checked(key), metadata)


def register(key: AgentKey, metadata: Any = None) -> None:
    """Register the calling process under a key.

    Raises:
        AlreadyRegistered: Somebody has the key; says who.
        ValueError: The key is no such triple.
    """
    Registry.register(AGENT_REGISTRY, checked(key), metadata)


def unregister(key: AgentKey) -> None:
    """Give the calling process's key back. Does nothing when it has not got it."""
    Registry.unregister(AGENT_REGISTRY, key)


def lookup(key: AgentKey) -> Pid:
    """The agent of that key.

    Raises:
        NotFound: There is none.
    """
    return lookup_with_metadata(key)[0]


def lookup_with_metadata(key: AgentKey) -> tuple[Pid, Any]:
    """The agent of that key and what it said about itself when it registered. Raises as `lookup`."""
    found = Registry.lookup(AGENT_REGISTRY, key)
    if not found:
        raise NotFound(key)
    pid, metadata = found[0]
    return pid, metadata


def list_agents() -> list[tuple[AgentKey, Pid]]:
    """Every agent, in key order."""
    return sorted(((key, pid) for key, pid, _ in Registry.select(AGENT_REGISTRY)), key=lambda entry: entry[0])


def list_by_session(session_id: str) -> list[tuple[str, int, Pid]]:
    """Role, number and pid of each agent of a session."""
    return [(role, index, pid) for (session, role, index), pid in list_agents() if session == session_id]


def list_by_role(role: str) -> list[tuple[str, int, Pid]]:
    """Session, number and pid of each agent of a role."""
    return [(session, index, pid) for (session, named, index), pid in list_agents() if named == role]


def count() -> int:
    """How many agents there are."""
    return Registry.count(AGENT_REGISTRY)


def count_by_session(session_id: str) -> int:
    """How many agents a session has."""
    return len(list_by_session(session_id))


def checked(key: object) -> AgentKey:
    """`key`, when it is a session id, a role and a number from 0 up.

    Raises:
        ValueError: It is not.
    """
    match key:
        case (str() as session_id, str() as role, int() as index) if index >= 0 and not isinstance(index, bool):
            return session_id, role, index
        case _:
            raise ValueError(f"an agent's key is (session_id, role, index), not {describe(key)}")
