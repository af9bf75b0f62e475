"""The live tree of a running host, seen from another terminal."""

import importlib
import json
import re
import stat
from pathlib import Path

import pytest

from tests.flows.hosts import Machine

ROOT = Path(__file__).resolve().parents[2]
MAP = ROOT / "docs" / "architecture.md"
BUSY = '@tool bash {"command": "sleep 600"}'
HEX = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture
def busy_host(machine: Machine):
    """A host in the middle of a tool call."""
    host = machine.start("--json", "-p", BUSY, "--model", "scripted/echo")
    host.wait_for("tool_execution_start")
    yield host
    host.process.terminate()
    host.finish()


def nodes(tree: list[dict[str, object]]):
    for node in tree:
        yield node
        yield from nodes(node["children"])


@pytest.mark.requirement("TREE-1", "TREE-5", "REG-1")
def test_the_tree_shows_ids_modules_states_and_the_running_tool(machine, busy_host):
    """Every node's id is the last part of its module's path or names a stock process; the tool that runs is named."""
    done = machine.run("tree", "--json")
    tree = json.loads(done.stdout)["tree"]
    by_id = {node["id"]: node for node in nodes(tree)}

    assert [node["id"] for node in tree][:3] == [
        "lemon_ai.supervisor",
        "lemon_agent.supervisor",
        "coding_agent.supervisor",
    ]
    assert [child["id"] for child in by_id["lemon_agent.supervisor"]["children"]][:5] == [
        "table_owner", "agent_registry", "subagent_supervisor", "loop_task_supervisor", "tool_task_supervisor",
    ]  # fmt: skip
    assert [child["id"] for child in by_id["coding_agent.supervisor"]["children"]][:2] == [
        "session_registry",
        "session_supervisor",
    ]
    (tool,) = by_id["tool_task_supervisor"]["children"]
    assert (tool["facts"]["tool"], tool["facts"]["argument"]) == ("bash", "sleep 600")
    for node in nodes(tree):
        assert importlib.import_module(str(node["module"]))


def test_the_map_shows_the_tree_of_a_running_host(machine, busy_host):
    """`docs/architecture.md` holds what `tree` prints, ids made equal. LEMON_WRITE_DOCS=1 pastes it anew."""
    import os

    printed = normal(machine.run("tree").stdout)
    text = MAP.read_text()
    begin, end = "<!-- tree:begin -->\n", "<!-- tree:end -->"
    pasted = f"{begin}```text\n{printed}```\n{end}"
    if os.environ.get("LEMON_WRITE_DOCS"):
        MAP.write_text(text[: text.index(begin)] + pasted + text[text.index(end) + len(end) :])

    assert pasted in MAP.read_text()


def normal(printed: str) -> str:
    """Session ids made equal and columns closed up; the lines of the tree stay where they are."""
    lines = [HEX.sub("01999999-…", line).rstrip() for line in printed.splitlines()[1:]]
    return "\n".join(re.sub(r"(?<=[^ │├└─]) {2,}", "  ", line) for line in lines) + "\n"


def test_only_this_user_can_reach_the_socket(machine, busy_host):
    """The socket has mode 0600 and lies in a folder of mode 0700."""
    (path,) = machine.runtime_dir.iterdir()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(machine.runtime_dir.stat().st_mode) == 0o700


def test_without_a_host_the_command_says_so(machine):
    """Exit code 1 and a line that says how to start one; a socket left by a killed host is no host."""
    killed = machine.start("--json", "-p", BUSY, "--model", "scripted/echo")
    killed.wait_for("tool_execution_start")
    killed.process.kill()
    killed.finish()

    done = machine.run("tree")

    assert done.returncode == 1
    assert done.stdout == ""
    assert "no host is running" in done.stderr


@pytest.mark.parametrize("counting", [True, False])
def test_the_series_of_a_host_that_counts_can_be_read(machine, counting):
    """With `--metrics` the series are Prometheus text; without it the host says how to have them."""
    flags = ("--metrics",) if counting else ()
    host = machine.start("--json", *flags, "-p", BUSY, "--model", "scripted/echo")
    host.wait_for("tool_execution_start")

    done = machine.run("metrics")
    host.process.terminate()
    host.finish()

    if counting:
        assert 'lemon_tool_calls_total{tool="bash"} 1.0' in done.stdout
    else:
        assert (done.returncode, done.stdout) == (1, "")
        assert "--metrics" in done.stderr
