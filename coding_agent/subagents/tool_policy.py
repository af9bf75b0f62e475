"""Pure. Which of its parent's tools a subagent has, and which of them it must ask about each time.

A policy only ever takes away: a tool that is not among the parent's does not come back by being named, and what the
parent's permissions forbid stays forbidden.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from attrs import evolve, frozen

from coding_agent.errors import BadUsage
from coding_agent.tool_kinds import CHANGES_FILES, LOOKS_AT_FILES

DANGEROUS: Final = CHANGES_FILES | {
    "checkpoint", "bash", "process", "execute_code", "web_download", "browser", "task", "agent",
}  # fmt: skip
"""Tools that change something or run something."""
OUTSIDE: Final = ("web_*", "browser", "mcp__*")
"""Tools that work with other machines; a star stands for the rest of a name."""
READING: Final = LOOKS_AT_FILES | {"todo"}


@frozen
class ToolPolicy:
    """What a subagent may use.

    Attributes:
        allow: The only tools it has; None leaves all.
        deny: Tools it has not, whatever `allow` says; a `*` at the end stands for the rest of a name.
        require_approval: Tools that a person must allow at each call, also where the mode lets them run.
    """

    allow: frozenset[str] | None = None
    deny: frozenset[str] = frozenset()
    require_approval: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Does the subagent have this tool of its parent's?"""
        denied = any(name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in self.deny)
        return not denied and (self.allow is None or name in self.allow)


PROFILES: Final[Mapping[str, ToolPolicy]] = {
    "full_access": ToolPolicy(),
    "orchestrator": ToolPolicy(),
    "custom": ToolPolicy(),
    "leaf_worker": ToolPolicy(deny=frozenset({"task", "agent"})),
    "minimal_core": ToolPolicy(allow=READING | CHANGES_FILES | {"bash"}),
    "read_only": ToolPolicy(allow=READING),
    "safe_mode": ToolPolicy(deny=DANGEROUS),
    "subagent_restricted": ToolPolicy(deny=DANGEROUS - CHANGES_FILES, require_approval=CHANGES_FILES),
    "no_external": ToolPolicy(deny=frozenset(OUTSIDE)),
}

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "run: which of the tools it has, and which need a person's yes at each call; never more than here",
    "properties": {
        "profile": {"type": "string", "enum": sorted(PROFILES)},
        "allow": {
            "anyOf": [{"type": "string", "enum": ["all"]}, {"type": "array", "items": {"type": "string"}}],
        },
        "deny": {"type": "array", "items": {"type": "string"}},
        "blocked_tools": {"type": "array", "items": {"type": "string"}, "description": "as deny"},
        "require_approval": {"type": "array", "items": {"type": "string"}},
        "approvals": {
            "type": "object",
            "additionalProperties": {"enum": ["always", "never"]},
            "description": "always: as require_approval; never: not for this one, though the profile says so",
        },
    },
    "additionalProperties": False,
}


def read_policy(given: Any) -> ToolPolicy | None:
    """The policy of a call; None where none was given.

    Raises:
        BadUsage: It cannot be meant; the text says what of it.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise BadUsage("tool_policy must be an object")
    profile = given.get("profile", "custom")
    base = PROFILES.get(profile) if isinstance(profile, str) else None
    if base is None:
        raise BadUsage(f"tool_policy: there is no profile {profile}; there are {', '.join(sorted(PROFILES))}")
    allow = None if given.get("allow") in (None, "all") else _names(given, "allow")
    approvals = given.get("approvals") or {}
    if not isinstance(approvals, Mapping) or any(each not in ("always", "never") for each in approvals.values()):
        raise BadUsage("tool_policy: approvals must say always or never for each tool")
    asked = base.require_approval | _names(given, "require_approval")
    asked |= {name for name, when in approvals.items() if when == "always"}
    return evolve(
        base,
        allow=base.allow if allow is None else allow if base.allow is None else allow & base.allow,
        deny=base.deny | _names(given, "deny") | _names(given, "blocked_tools"),
        require_approval=asked - {name for name, when in approvals.items() if when == "never"},
    )


def _names(given: Mapping[str, Any], key: str) -> frozenset[str]:
    found = given.get(key) or ()
    if not isinstance(found, Collection) or isinstance(found, str) or not all(isinstance(one, str) for one in found):
        raise BadUsage(f"tool_policy: {key} must be a list of names")
    return frozenset(found)
