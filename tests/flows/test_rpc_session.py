"""A client written for pi holds a whole session with a real child process, over its standard streams."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.hosts import Machine
from tests.flows.rpc_clients import RpcClient, text_of

SLOW = '@tool bash {"command": "echo begun; sleep 30"}\n@turn\n@text done'


@pytest.fixture
def client(machine: Machine) -> Iterator[RpcClient]:
    """A client of a host that asks nobody."""
    client = RpcClient(machine, "--permission-mode", "full")
    yield client
    client.kill()


def test_a_pi_client_holds_a_whole_session(client: RpcClient, machine: Machine):
    """
    Prompt, steer, follow up, abort, bash, names, tree, fork, compact, export, new session, resume: with the commands,
    the fields and the events a client of pi knows.
    """
    state = client.ask("get_state")
    assert state["isStreaming"] is False
    assert state["messageCount"] == 0
    assert state["model"]["provider"] == "scripted"
    assert (state["steeringMode"], state["followUpMode"]) == ("one-at-a-time", "one-at-a-time")

    # A prompt: accepted at once, then events.
    end = client.run("first words")
    assert [message["role"] for message in end["messages"]] == ["user", "assistant"]
    types = [message["type"] for message in client.seen]
    order = ["agent_start", "turn_start", "message_start", "message_end", "message_update", "turn_end", "agent_end"]
    places = [types.index(kind) for kind in order]
    assert places == sorted(places)
    update = next(message for message in client.seen if message["type"] == "message_update")
    assert update["message"]["role"] == "assistant"
    assert "contentIndex" in update["assistantMessageEvent"]
    assert client.ask("get_last_assistant_text") == {"text": "first words"}

    # Steering and following up while a tool runs; a prompt without saying how is refused.
    wait = "while [ ! -e go ]; do sleep 0.02; done"
    client.ask("prompt", message=f'@tool bash {{"command": "{wait}"}}\n@turn\n@text tool done')
    client.event("tool_execution_start")
    assert "steer" in client.refused("prompt", message="too early")
    client.ask("steer", message="look left")
    client.ask("prompt", message="and then this", streamingBehavior="followUp")
    assert client.ask("get_state")["pendingMessageCount"] == 2
    (machine.project / "go").touch()
    end = client.event("agent_end")
    client.event("agent_settled")
    said = [text_of(message) for message in end["messages"] if message["role"] == "user"]
    assert said[1:] == ["look left", "and then this"]

    # Aborting a tool; the partial work is stored, one end is told.
    client.ask("prompt", message=SLOW)
    client.event("tool_execution_update")
    client.ask("abort")
    assert client.ask("get_state")["isStreaming"] is False

    # The user's own command, with the next prompt.
    before = len(client.seen)
    done = client.ask("bash", command="echo from the user; exit 3")
    assert (done["output"].strip(), done["exitCode"], done["cancelled"]) == ("from the user", 3, False)
    kinds = {message["type"] for message in client.seen[before:]}
    assert kinds <= {"bash_execution_update", "response", "agent_end", "settled", "agent_settled", "message_end",
                     "message_start", "turn_end", "save_point", "tool_execution_end"}  # fmt: skip
    assert "bashExecution" in [message["role"] for message in client.ask("get_messages")["messages"]]

    # Names, labels, tree.
    client.ask("set_session_name", name="a good session")
    assert client.ask("get_state")["sessionName"] == "a good session"
    assert "name" in client.refused("set_session_name", name="  ")
    forks = client.ask("get_fork_messages")["messages"]
    assert forks[0]["text"] == "first words"
    tree = client.ask("get_tree")
    assert tree["leafId"] == client.ask("get_entries")["leafId"]
    assert len(tree["tree"]) == 1
    client.ask("set_label", entryId=forks[0]["entryId"], label="start")
    entries = client.ask("get_entries")["entries"]
    since = client.ask("get_entries", since=entries[-2]["id"])["entries"]
    assert [entry["id"] for entry in since] == [entries[-1]["id"]]
    assert "no-such-entry" in client.refused("get_entries", since="no-such-entry")

    # Fork before the second prompt of the user; the old session stays as it is.
    old = client.ask("get_state")
    again = client.ask("fork", entryId=forks[1]["entryId"])
    assert again == {"text": forks[1]["text"], "cancelled": False}
    forked = client.ask("get_state")
    assert forked["sessionId"] != old["sessionId"]
    assert forked["messageCount"] == 2
    header = json.loads(Path(forked["sessionFile"]).read_text().splitlines()[0])
    assert header["parentSession"] == old["sessionFile"]

    # Compacting.
    for number in range(4):
        client.run(f"more words, number {number}: " + "x" * 400)
    compacted = client.ask("compact", customInstructions="keep the numbers")
    assert compacted["summary"]
    assert compacted["tokensBefore"] > 0
    assert set(compacted) >= {"firstKeptEntryId", "details", "estimatedTokensAfter"}
    kinds_seen = [message["type"] for message in client.seen]
    assert kinds_seen.index("compaction_start") < kinds_seen.index("compaction_end")

    # Totals and exports.
    stats = client.ask("get_session_stats")
    assert stats["userMessages"] == 5
    assert stats["tokens"]["total"] > 0
    assert stats["contextUsage"]["contextWindow"] > 0
    exported = client.ask("export_html", outputPath="out.html")
    assert Path(exported["path"]).read_text().lstrip().lower().startswith("<!doctype html")
    assert Path(client.ask("export_markdown", outputPath="out.md")["path"]).exists()

    # A new session, and back to the first one.
    assert client.ask("new_session") == {"cancelled": False}
    assert client.ask("get_state")["messageCount"] == 0
    assert client.ask("switch_session", sessionPath=old["sessionFile"]) == {"cancelled": False}
    back = client.ask("get_state")
    assert (back["sessionId"], back["sessionName"]) == (old["sessionId"], "a good session")
    assert back["messageCount"] == old["messageCount"]
    assert client.run("and on")["messages"]
    assert client.finish() == (0, "")

    # A later start goes on with it.
    later = RpcClient(machine, "--continue")
    try:
        assert later.ask("get_state")["sessionId"] == old["sessionId"]
        assert later.ask("get_last_assistant_text") == {"text": "and on"}
        assert later.ask("clone") == {"cancelled": False}
        assert later.ask("get_state")["sessionId"] != old["sessionId"]
    finally:
        later.kill()


def test_models_levels_and_modes_can_be_looked_at_and_changed(client: RpcClient):
    """What there is to choose is listed, a choice is answered and shows in the state."""
    models = client.ask("get_available_models")["models"]
    assert {"echo", "demo"} <= {model["id"] for model in models}
    chosen = client.ask("set_model", provider="scripted", modelId="demo")
    assert (chosen["provider"], chosen["id"]) == ("scripted", "demo")
    assert client.ask("get_state")["model"]["id"] == "demo"
    assert "Model not found" in client.refused("set_model", provider="scripted", modelId="none-of-that-name")
    assert client.ask("cycle_model")["model"]["id"] != "demo"
    levels = client.ask("get_available_thinking_levels")["levels"]
    client.ask("set_thinking_level", level=levels[-1])
    assert client.ask("get_state")["thinkingLevel"] == levels[-1]
    assert "level" in client.refused("set_thinking_level", level="enormous")
    client.ask("set_steering_mode", mode="all")
    client.ask("set_follow_up_mode", mode="all")
    client.ask("set_auto_compaction", enabled=False)
    client.ask("set_auto_retry", enabled=False)
    state = client.ask("get_state")
    assert (state["steeringMode"], state["followUpMode"]) == ("all", "all")
    assert (state["autoCompactionEnabled"], state["autoRetryEnabled"]) == (False, False)
    assert "mode" in client.refused("set_steering_mode", mode="some")


def test_tools_permissions_budget_and_files_can_be_asked_for(client: RpcClient, machine: Machine):
    """The commands of our own that the terminal stands on."""
    (machine.project / "notes").mkdir()
    (machine.project / "notes" / "plan.md").write_text("x")
    assert client.ask("hello", version=1, client="test")["cwd"] == str(machine.project)
    tools = client.ask("get_tools")["tools"]
    assert all(tool["active"] for tool in tools)
    client.ask("set_active_tools", names=["read", "ls"])
    assert [tool["name"] for tool in client.ask("get_tools")["tools"] if tool["active"]] == ["read", "ls"]
    assert "no such tools" in client.refused("set_active_tools", names=["fly"])
    assert client.ask("get_permissions")["mode"] == "full"
    client.ask("set_permission_mode", mode="plan")
    assert client.ask("get_permissions")["mode"] == "plan"
    client.ask("set_budget", maxTokens=1000, maxCost=0.5)
    assert client.ask("get_budget") == {"maxTokens": 1000, "maxCost": 0.5, "usedTokens": 0, "usedCost": 0.0}
    client.ask("set_budget", maxTokens=None)
    assert client.ask("get_budget")["maxTokens"] is None
    assert client.ask("complete_files", prefix="notes/pl")["paths"] == ["notes/plan.md"]
    assert client.ask("get_trust") == {"trusted": False, "pending": []}
    assert client.ask("get_mcp")["servers"] == []
    assert isinstance(client.ask("get_settings")["settings"], dict)
    assert client.ask("get_commands") == {"commands": []}
    client.run("something to list")
    (listed,) = client.ask("list_sessions", cwd=str(machine.project))["sessions"]
    assert (listed["firstMessage"], listed["messageCount"], listed["live"]) == ("something to list", 2, True)


def test_going_elsewhere_in_the_tree_gives_the_words_back(client: RpcClient):
    """`navigate_tree` to words of the user goes before them and returns them; `rewind` shows what it would do."""
    client.run("one")
    client.run("two")
    second = client.ask("get_fork_messages")["messages"][1]
    went = client.ask("navigate_tree", entryId=second["entryId"])
    assert (went["editorText"], went["cancelled"]) == ("two", False)
    assert client.ask("get_state")["messageCount"] == 2
    first = client.ask("get_fork_messages")["messages"][0]
    shown = client.ask("rewind", entryId=first["entryId"], what="both", preview=True)
    assert (shown["changes"], shown["editorText"]) == ([], "one")
    assert client.ask("get_state")["messageCount"] == 2
    client.ask("rewind", entryId=first["entryId"], what="chat")
    assert client.ask("get_state")["messageCount"] == 0


def test_a_file_the_agent_wrote_goes_back_with_rewind(client: RpcClient, machine: Machine):
    """`rewind` with `code` takes the files of the working folder back to an entry."""
    client.run("before")
    client.run('@tool write {"path": "made.txt", "content": "by the agent"}\n@turn\n@text written')
    assert (machine.project / "made.txt").read_text() == "by the agent"
    second = client.ask("get_fork_messages")["messages"][1]
    done = client.ask("rewind", entryId=second["entryId"], what="code")
    assert done["conflicts"] == []
    assert re.search(r"delete made\.txt", done["changes"][0])
    assert not (machine.project / "made.txt").exists()


def test_the_lean_form_leaves_the_growing_message_out(machine: Machine):
    """With `--rpc-deltas` an update has its part alone; `message_end` has the whole message."""
    client = RpcClient(machine, "--rpc-deltas")
    try:
        client.run("a few words to stream")
        updates = [message for message in client.seen if message["type"] == "message_update"]
        assert updates
        assert all("message" not in update for update in updates)
        assert all("partial" not in update["assistantMessageEvent"] for update in updates)
        deltas = [update["assistantMessageEvent"].get("delta", "") for update in updates]
        assert "".join(deltas) == "a few words to stream"
    finally:
        client.kill()


def test_a_prompt_that_no_key_can_answer_is_refused_at_once(machine: Machine):
    """The response says what is missing and how to mend it; nothing was begun."""
    client = RpcClient(machine, model="anthropic/claude-sonnet-4-5")
    try:
        assert "ANTHROPIC_API_KEY" in client.refused("prompt", message="hello")
        assert client.ask("get_state")["messageCount"] == 0
    finally:
        client.kill()
