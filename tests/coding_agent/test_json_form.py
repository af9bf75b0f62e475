"""Plain values as camelCase JSON."""

import json

from coding_agent import client
from coding_agent.events import CompactionEnd, SavePoint, ToolsUpdate
from coding_agent.json_form import camel, to_json


def test_names_become_camel_case():
    """Single words stay as they are."""
    assert [camel("reason"), camel("tool_call_id")] == ["reason", "toolCallId"]


def test_notices_become_objects_of_their_fields():
    """Tuples are lists; class-level tags are no fields."""
    assert to_json(SavePoint(had_pending_mutations=True)) == {"hadPendingMutations": True}
    assert to_json(ToolsUpdate(("a", "b"))) == {"activeTools": ["a", "b"]}
    assert to_json(CompactionEnd("manual", 10))["compactionEntryId"] is None


async def test_a_session_state_is_json(host):
    """Processes are shown by their text, sets as sorted lists."""
    state = to_json(await client.get_state(await host.session()))

    assert json.loads(json.dumps(state))["agentAlive"] is True
    assert state["pendingToolCalls"] == []
    assert state["agent"].startswith("<pid")
