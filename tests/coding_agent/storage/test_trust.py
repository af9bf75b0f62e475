"""Whose words a tool result holds is not forgotten on disk."""

import json

import pytest

from coding_agent.storage.session_manager import SessionManager
from lemon_ai import AssistantMessage, TextContent, ToolCall, ToolResultMessage

CALL = AssistantMessage((ToolCall("c1", "look", {}),), "test", "test", "test", stop_reason="tool_use", timestamp=1)


@pytest.mark.requirement("TRUST-9", "TRUST-1")
@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
def test_trust_survives_saving_and_opening(tmp_path, trust):
    """A result is as trusted after opening as before saving; only `untrusted` is written down."""
    result = ToolResultMessage("c1", "look", (TextContent("seen"),), trust=trust, timestamp=2)
    with SessionManager.create("/p", path=tmp_path / "s.jsonl") as session:
        session.append_message(CALL)
        session.append_message(result)

    with SessionManager.open(tmp_path / "s.jsonl", read_only=True) as session:
        stored = session.build_context().messages[-1]
    line = json.loads((tmp_path / "s.jsonl").read_text().splitlines()[-1])

    assert stored.trust == trust
    assert line["message"].get("trust") == (trust if trust == "untrusted" else None)


@pytest.mark.requirement("TRUST-9")
def test_a_result_stored_without_trust_is_trusted(tmp_path):
    """Files of other programs say nothing about trust."""
    with SessionManager.create("/p", path=tmp_path / "s.jsonl") as session:
        session.append_message(CALL)
        session.append_message(ToolResultMessage("c1", "look", (TextContent("seen"),), timestamp=2))

    with SessionManager.open(tmp_path / "s.jsonl", read_only=True) as session:
        assert session.build_context().messages[-1].trust == "trusted"
