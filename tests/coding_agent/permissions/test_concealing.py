"""What a rule keeps from being read stays out of searches above it too."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coding_agent.permissions.gate import PermissionGate
from coding_agent.permissions.policy import Policy
from coding_agent.permissions.rules import parse_rule
from coding_agent.tools import Workspace, find_tool, grep_tool, ls_tool
from tests.coding_agent.tools.support import Bench


def bench_with(folder: Path, *rules: tuple[str, str], mode: str = "full", ripgrep: str | None = "rg") -> Bench:
    """The searching tools, under these rules."""
    workspace = Workspace(folder)
    PermissionGate(Policy(mode, tuple(parse_rule(text, kind) for kind, text in rules))).watch(workspace)
    tools = [make(str(folder), workspace=workspace) for make in (find_tool, ls_tool)]
    tools.append(grep_tool(str(folder), workspace=workspace, ripgrep=ripgrep))
    return Bench(folder, workspace, {tool.name: tool for tool in tools})


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (".env", "src/a.py", "src/.env", "keys/one.pem", "keys/deep/two.pem"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"needle in {name}\nmore of {name}\n")
    return tmp_path


@pytest.mark.parametrize("ripgrep", ["rg", None])
@pytest.mark.parametrize("kind", ["deny", "ask"])
async def test_grep_shows_no_line_of_a_file_that_may_not_be_read(tree: Path, kind: str, ripgrep: str | None) -> None:
    """
    With ripgrep or without, from above or from the folder beside it; lines beside a match are kept back too, what is
    kept back does not count towards the limit, and the model is told that there is more.
    """
    assert ripgrep is None or shutil.which(ripgrep)
    bench = bench_with(tree, (kind, "read(.env)"), (kind, "read(keys)"), ripgrep=ripgrep)
    for params in ({}, {"path": "src"}, {"context_lines": 1}, {"max_results": 1}, {"glob": "*"}, {"pattern": "more"}):
        text = await bench.text("grep", **{"pattern": "needle", **params})
        assert "src/a.py:" in text, params
        assert ".env" not in text, params
        assert "pem" not in text, params
        assert "permission rules" in text
    found = await bench.call("grep", pattern="needle")
    assert found.details["files_not_shown"] == 4
    assert found.details["matches"] == 1
    assert "No matches found." in await bench.text("grep", pattern="in .env")
    await bench.workspace.aclose()


async def test_a_folder_that_may_not_be_read_is_not_listed_from_above(tree: Path) -> None:
    """find and ls show that it is there, which is no more than its neighbours say, and nothing of what is in it."""
    bench = bench_with(tree, ("deny", "read(keys)"))
    assert sorted((await bench.text("find", pattern="*")).split()) == ["keys/", "src/", "src/a.py"]
    listed = await bench.text("ls", recursive=True, all=True)
    assert "d keys/" in listed
    assert "pem" not in listed
    assert "deep" not in listed
    assert await bench.text("find", pattern="*.pem") == "No files found matching the pattern."


async def test_what_was_allowed_for_the_folder_itself_is_shown(tree: Path) -> None:
    """A rule that asks about `keys` has asked when a search in `keys` runs; what is in it is not kept back again."""
    bench = bench_with(tree, ("ask", "read(keys)"))
    assert "keys/one.pem:1:" in await bench.text("grep", pattern="needle", path="keys")
    assert "one.pem" in await bench.text("ls", path="keys")
    await bench.workspace.aclose()


async def test_rules_about_other_tools_keep_nothing_back(tree: Path) -> None:
    """Nor do rules that allow."""
    bench = bench_with(tree, ("deny", "write(keys/**)"), ("allow", "read(src/**)"), ("deny", "bash(cat *)"))
    assert "Found 5 matches." in await bench.text("grep", pattern="needle")
    assert bench.workspace.concealed("grep", bench.workspace.guard.locate(".")) is None
    await bench.workspace.aclose()


NAMES = st.sampled_from(["a", "b", ".env", "x.pem", "ä", "sp ace", "[odd]"])


@settings(max_examples=25, deadline=None)
@given(
    paths=st.sets(st.lists(NAMES, min_size=1, max_size=3).map("/".join), min_size=1, max_size=8),
    patterns=st.lists(st.sampled_from(["a", "*.pem", ".env", "a/b", "b/**", "/nowhere", "**/x.pem"]), max_size=3),
)
async def test_grep_never_shows_more_than_read_would(
    tmp_path_factory: pytest.TempPathFactory, paths: set[str], patterns: list[str]
) -> None:
    """Whatever the tree and the rules: a file whose reading the policy denies is in no answer, every other one is."""
    from coding_agent.permissions.actions import tool_use

    root = tmp_path_factory.mktemp("tree")
    written = []
    for path in sorted(paths):
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("needle\n")
            written.append(path)
        except OSError:  # a file stands where a folder would be needed, or the other way round
            continue
    policy = Policy("full", tuple(parse_rule(f"read({pattern})", "deny") for pattern in patterns))
    workspace = Workspace(root)
    PermissionGate(policy).watch(workspace)
    bench = Bench(root, workspace, {"grep": grep_tool(str(root), workspace=workspace)})
    text = await bench.text("grep", pattern="needle", max_results=1000)
    shown = {line.partition(":1:")[0] for line in text.splitlines() if ":1:" in line}
    readable = {
        path
        for path in written
        if policy.judge(tool_use("read", {"path": path}, workspace.guard).actions).verdict == "allow"
    }
    assert shown == readable
    await workspace.aclose()
