"""What `.gitignore` files say, judged by git itself."""

import os
import shutil
import subprocess
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coding_agent.tools.ignore import Rules, parsed
from coding_agent.tools.walk import walk

NAMES = [
    "a.py",
    "b.log",
    "keep.log",
    "build",
    "d/a.py",
    "d/b.log",
    "d/e/x.txt",
    "d/build/y",
    "f/e/x.txt",
    "t.tmp~",
    "d e/z",
]
LINES = st.sampled_from(
    [
        *("*.log", "!keep.log", "build/", "/build", "d/", "/d/e", "**/e", "d/**", "!d/a.py", "x.txt", "e/x.txt"),
        *("*.tmp~", "# c", "", "\\#x", "d e/", "*", "!*/", "[ab].*", "?.py", "f/*/x.txt", "a.py\r"),
    ]
)


def ours(folder: Path) -> list[str]:
    """The files that our walk gives."""
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        entries = walk(
            root,
            lambda: None,
            rules=Rules.above(root, ""),
            skip=lambda path, name, is_dir, rules: name == ".git" or rules.ignored(path, name, is_dir),
        )
        return sorted(path for path, _name, kind, _depth, _directory in entries if kind == "file")
    finally:
        os.close(root)


def gits(folder: Path) -> list[str]:
    """The files that git would add."""
    answer = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return sorted(name for name in answer.stdout.split("\0") if name)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(top=st.lists(LINES, max_size=5), below=st.lists(LINES, max_size=3))
def test_what_git_ignores_is_ignored(tmp_path: Path, top: list[str], below: list[str]) -> None:
    """For any rules at the top and in a directory, seen from the top and from the directory."""
    folder = tmp_path / "tree"
    shutil.rmtree(folder, ignore_errors=True)
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if name != "build":
            (folder / name).write_text("")
    (folder / ".gitignore").write_text("\n".join(top), newline="")
    (folder / "d/.gitignore").write_text("\n".join(below), newline="")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)

    expected = gits(folder)
    assert ours(folder) == expected
    if any(name.startswith("d/") for name in expected):
        assert ours(folder / "d") == [name.removeprefix("d/") for name in expected if name.startswith("d/")]


def test_a_repository_inside_has_rules_of_its_own(tmp_path: Path) -> None:
    """The outer rules end where another `.git` begins."""
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "inner/.git").mkdir(parents=True)
    (tmp_path / "inner/x.log").write_text("")
    (tmp_path / "y.log").write_text("")

    assert ours(tmp_path) == [".gitignore", "inner/x.log"]


def test_a_line_that_cannot_be_read_leaves_the_others_standing() -> None:
    """As git does it."""
    rules = parsed("*.log\n!\n///\n/a/**b\n")

    assert rules is not None
    assert rules.says("x.log", "x.log", False) is True
