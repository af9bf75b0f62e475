"""Which of its parent's tools a subagent has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.errors import BadUsage
from coding_agent.subagents.tool_policy import DANGEROUS, PROFILES, ToolPolicy, read_policy

TOOLS = ("read", "write", "bash", "grep", "web_fetch", "web_search", "browser", "mcp__x__y", "task", "todo")


def left(given: object) -> list[str]:
    policy = read_policy(given)
    assert policy is not None
    return [name for name in TOOLS if policy.has(name)]


@pytest.mark.parametrize(
    ("given", "has"),
    [
        ({}, list(TOOLS)),
        ({"profile": "full_access"}, list(TOOLS)),
        ({"profile": "read_only"}, ["read", "grep", "todo"]),
        ({"profile": "leaf_worker"}, [name for name in TOOLS if name != "task"]),
        ({"profile": "no_external"}, ["read", "write", "bash", "grep", "task", "todo"]),
        ({"profile": "safe_mode"}, [name for name in TOOLS if name not in DANGEROUS]),
        ({"profile": "minimal_core", "deny": ["bash"]}, ["read", "write", "grep", "todo"]),
        ({"allow": ["read", "bash"]}, ["read", "bash"]),
        ({"allow": "all", "blocked_tools": ["web_*"]}, [name for name in TOOLS if not name.startswith("web_")]),
        ({"profile": "read_only", "allow": ["read", "bash"]}, ["read"]),
        ({"allow": ["read"], "deny": ["read"]}, []),
        ({"allow": []}, []),
    ],
)
def test_a_tool_is_had_that_is_allowed_and_not_denied(given, has):
    """A profile, and what is said besides; both only take away, and denying wins."""
    assert left(given) == has


@pytest.mark.parametrize("profile", ["safe_mode", "subagent_restricted", "read_only"])
def test_whoever_may_not_change_files_unasked_puts_none_back(profile):
    """The tool `checkpoint` restores files, which no question about `write` would stand before."""
    assert not PROFILES[profile].has("checkpoint")


def test_what_must_be_approved_is_named_or_the_profiles():
    """`approvals` adds single tools and takes single ones away."""
    named = read_policy({"require_approval": ["bash"], "approvals": {"write": "always", "bash": "never"}})
    assert named == ToolPolicy(require_approval=frozenset({"write"}))
    assert "edit" in read_policy({"profile": "subagent_restricted"}).require_approval
    assert read_policy(None) is None


@pytest.mark.parametrize(
    "given",
    [
        "read_only",
        {"profile": "godmode"},
        {"profile": []},
        {"allow": "some"},
        {"deny": [1]},
        {"deny": "bash"},
        {"approvals": {"bash": "sometimes"}},
        {"approvals": ["bash"]},
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(given):
    """Rather than taken for one that allows more."""
    with pytest.raises(BadUsage, match="tool_policy"):
        read_policy(given)


@given(
    st.sampled_from(sorted(PROFILES)),
    st.lists(st.sampled_from(TOOLS)),
    st.lists(st.sampled_from(TOOLS)),
    st.lists(st.sampled_from(TOOLS)),
)
def test_more_words_never_allow_more(profile, allow, deny, blocked):
    """Whatever is added to a profile, the tools are among those of the profile alone."""
    assert set(left({"profile": profile, "allow": allow, "deny": deny, "blocked_tools": blocked})) <= set(
        left({"profile": profile})
    )
