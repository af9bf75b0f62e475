"""Whose words a tool result holds is not forgotten on disk."""

import json

import pytest

from coding_agent.storage.session_manager import SessionManager
from lemon_ai import TextContent, ToolResultMessage


@pytest.mark.requirement("TRUST-9", "TRUST-1")
@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
def test_trust_survives_saving_and_opening(tmp_path, trust):
    """A result is as trusted after opening as before saving; only `untrusted` is written down."""
    result = ToolResultMessage("c1", "look", (TextContent("seen"),), trust=trust, timestamp=1)
    with SessionManager.create("/p", path=tmp_path / "s.jsonl") as session:
        session.append_message(result)

    with SessionManager.open(tmp_path / "s.jsonl", read_only=True) as session:
        (entry,) = session.branch()
    line = json.loads((tmp_path / "s.jsonl").read_text().splitlines()[1])

    assert entry.message.trust == trust
    assert line["message"].get("trust") == (trust if trust == "untrusted" else None)


@pytest.mark.requirement("TRUST-9")
def test_a_result_stored_without_trust_is_trusted(tmp_path):
    """Files of other programs say nothing about trust."""
    with SessionManager.create("/p", path=tmp_path / "s.jsonl") as session:
        session.append_message(ToolResultMessage("c1", "look", (TextContent("seen"),), timestamp=1))

    with SessionManager.open(tmp_path / "s.jsonl", read_only=True) as session:
        assert session.branch()[0].message.trust == "trusted"
