"""The tool `find`."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lemon_agent import ToolError
from tests.coding_agent.tools.support import Bench

Put = Callable[[str, str | bytes], Path]


@pytest.fixture
def tree(put: Put, folder: Path) -> Path:
    """Some files."""
    for name in (
        "README.md",
        "src/main.py",
        "src/util/io.py",
        "src/util/Main.txt",
        ".hidden/x.py",
        "node_modules/m.py",
    ):
        put(name, "")
    put(".gitignore", "node_modules/\n")
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"pattern": "*.py"}, ["node_modules/m.py", "src/main.py", "src/util/io.py"]),
        ({"pattern": "*.py", "hidden": True}, [".hidden/x.py", "node_modules/m.py", "src/main.py", "src/util/io.py"]),
        ({"pattern": "*.py", "respect_gitignore": True}, ["src/main.py", "src/util/io.py"]),
        ({"pattern": "main"}, ["src/main.py", "src/util/Main.txt"]),
        ({"pattern": "Main"}, ["src/util/Main.txt"]),
        ({"pattern": "src/*.py"}, ["src/main.py"]),
        ({"pattern": "src/**/*.py"}, ["src/main.py", "src/util/io.py"]),
        ({"pattern": "{main,io}.py"}, ["src/main.py", "src/util/io.py"]),
        ({"pattern": "*", "type": "directory"}, ["empty/", "node_modules/", "src/", "src/util/"]),
        ({"pattern": "*", "max_depth": 1}, ["README.md", "empty/", "node_modules/", "src/"]),
        ({"pattern": "*.py", "path": "src"}, ["src/main.py", "src/util/io.py"]),
        ({"pattern": "[im]*.py", "path": "src/util"}, ["src/util/io.py"]),
        ({"pattern": "zzz"}, []),
    ],
)
async def test_names_are_found(bench: Bench, tree: Path, params: dict[str, object], expected: list[str]) -> None:
    """By glob or part of a name, sorted, relative to the working directory."""
    result = await bench.call("find", **params)

    assert result.details["files"] == expected
    assert result.details["count"] == len(expected)
    if not expected:
        assert await bench.text("find", **params) == "No files found matching the pattern."


async def test_only_so_many_are_shown(bench: Bench, put: Put) -> None:
    """The first ones in order, with a note."""
    for number in range(20):
        put(f"f{number:02}", "")
    result = await bench.call("find", pattern="f*", max_results=3)

    assert result.details == {"count": 3, "truncated": True, "max_results": 3, "files": ["f00", "f01", "f02"]}


async def test_links_are_shown_but_not_followed(bench: Bench, folder: Path) -> None:
    """A link out of the workspace, and one that would go round for ever."""
    (folder / "out").symlink_to(folder.parent)
    (folder / "round").symlink_to(".")
    result = await bench.call("find", pattern="*")

    assert result.details["files"] == ["out", "round"]
    assert (await bench.call("find", pattern="*", type="file")).details["files"] == []


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"pattern": ""}, "Pattern is required"),
        ({"pattern": "[a"}, "not closed"),
        ({"pattern": "{a"}, "not closed"),
        ({"pattern": "x", "type": "socket"}, "type must be one of"),
        ({"pattern": "x", "max_depth": 0}, "at least 1"),
        ({"pattern": "x", "path": "none"}, "Path not found: none"),
        ({"pattern": "x", "path": "README.md"}, "not a directory"),
        ({"pattern": "x", "path": "/etc"}, "outside the workspace"),
    ],
)
async def test_what_makes_no_sense_is_said(bench: Bench, tree: Path, params: dict[str, object], reason: str) -> None:
    """Each with its reason."""
    with pytest.raises(ToolError, match=reason):
        await bench.call("find", **params)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(
        st.binary(min_size=1, max_size=12).filter(
            lambda name: not set(name) & set(b"/\0") and name not in (b".", b"..")
        ),
        max_size=5,
    ),
    pattern=st.text(min_size=1, max_size=8),
)
async def test_any_name_and_any_pattern(bench: Bench, names: list[bytes], pattern: str) -> None:
    """An answer in plain lines, one a file, or a ToolError."""
    for name in names:
        (bench.folder / os.fsdecode(name)).write_bytes(b"")
    try:
        result = await bench.call("find", pattern=pattern, hidden=True)
    except ToolError:
        return
    text = await bench.text("find", pattern=pattern, hidden=True)
    text.encode()
    if result.details["count"]:
        assert text.split("\n\n")[0].count("\n") + 1 == result.details["count"]
