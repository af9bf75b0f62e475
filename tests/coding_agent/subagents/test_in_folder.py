"""A subagent that works in a folder below its parent's."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.errors import BadUsage
from coding_agent.subagents.child_options import folder_below
from coding_agent.subagents.in_folder import LOOKS_HERE, TAKES_PATH, InFolder, in_folder
from lemon_agent import AgentTool, text_result

PATCH = """*** Begin Patch
*** Add File: new.txt
+*** Add File: a line that only looks like one
*** Update File: /etc/hosts
*** Move to: there/old.txt
*** End Patch"""


def tool(name: str) -> AgentTool:
    return AgentTool(name, "", {"type": "object"}, lambda *_: text_result("x"))


@pytest.mark.parametrize(
    ("name", "given", "seen"),
    [
        ("read", {"path": "a.txt", "limit": 3}, {"path": "sub/a.txt", "limit": 3}),
        ("read", {"path": "/a.txt"}, {"path": "/a.txt"}),
        ("read", {"path": "~/a"}, {"path": "~/a"}),
        ("read", {"path": ""}, {"path": ""}),
        ("find", {"pattern": "*"}, {"pattern": "*", "path": "sub"}),
        ("grep", {"pattern": "x", "path": "."}, {"pattern": "x", "path": "sub"}),
        ("multiedit", {"path": "a.txt", "edits": []}, {"path": "sub/a.txt", "edits": []}),
        ("glob", {"pattern": "*", "path": "b"}, {"pattern": "*", "path": "sub/b"}),
        ("bash", {"command": "make"}, {"command": "cd sub && {\nmake\n}"}),
        ("process", {"action": "list"}, {"action": "list"}),
        ("web_download", {"url": "https://x.org/a/b.zip?c"}, {"url": "https://x.org/a/b.zip?c", "path": "sub/b.zip"}),
        ("todo", {"path": "x"}, {"path": "x"}),
    ],
)
def test_what_a_tool_is_called_with_is_said_from_where_the_parent_works(name, given, seen):
    """Relative paths and commands; nothing else is touched."""
    before = dict(given)
    assert InFolder(name, "sub")(given) == seen
    assert given == before


def test_the_files_of_a_patch_are_below_the_folder_and_its_lines_are_as_they_were():
    """Only the lines that name files are rewritten."""
    changed = InFolder("patch", "sub")({"patch_text": PATCH})["patch_text"].splitlines()
    assert changed[1:5] == [
        "*** Add File: sub/new.txt",
        "+*** Add File: a line that only looks like one",
        "*** Update File: /etc/hosts",
        "*** Move to: sub/there/old.txt",
    ]


def test_a_subagent_of_a_subagent_is_further_down():
    """Each folder is said from the one above."""
    inner = in_folder(in_folder(tool("read"), "a"), "b")
    assert inner.prepare_arguments({"path": "c"}) == {"path": "a/b/c"}
    shimmed = AgentTool("read", "", {"type": "object"}, tool("x").execute, prepare_arguments=lambda _: {"path": "old"})
    assert in_folder(shimmed, "a").prepare_arguments({"file": "old"}) == {"path": "a/old"}


PARAMS = st.none() | st.integers() | st.text() | st.dictionaries(st.text(), st.none() | st.text())


@given(st.sampled_from(sorted(TAKES_PATH | LOOKS_HERE | {"patch", "bash"})), PARAMS)
def test_whatever_a_model_says_is_left_to_the_tool_to_refuse(name, params):
    """Nothing raises, and no relative path comes out that does not begin in the folder."""
    seen = InFolder(name, "sub")(params)
    if name in TAKES_PATH and isinstance(seen, dict) and (path := seen.get("path")):
        assert path.startswith(("/", "~")) or PurePosixPath(path).parts[0] == "sub"


def test_a_folder_elsewhere_is_refused(tmp_path):
    """Above, beside, through a link, a file, none at all; the parent's own is no other folder."""
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    (tmp_path / "beside").mkdir()
    (home / "link").symlink_to(tmp_path / "beside")
    (home / "file").touch()
    assert folder_below(home, "sub") == "sub"
    assert folder_below(home, str(home / "sub")) == "sub"
    assert folder_below(home, ".") is None
    for wanted in ("..", "../beside", "link", "file", "none", "/", "sub/../.."):
        with pytest.raises(BadUsage, match="cwd: "):
            folder_below(home, wanted)
