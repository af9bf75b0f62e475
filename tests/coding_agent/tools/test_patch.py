"""The tool `patch`: many files, all or none."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coding_agent.tools import files
from coding_agent.tools.patch_format import BadPatch, changes_of, parse
from lemon_agent import ToolError
from tests.coding_agent.tools.support import Bench, text_of

Put = Callable[[str, str | bytes], Path]


def patch(*lines: str) -> str:
    """The lines between the two that every patch has."""
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


async def test_files_are_added_updated_moved_and_deleted(bench: Bench, put: Put) -> None:
    """In one call, with a line for each and the numbers."""
    put("keep.py", "def a():\n    return 1\n\ndef b():\n    return 1\n")
    put("old.txt", "one\ntwo\n").chmod(0o750)
    put("gone.txt", "x\ny\n")
    result = await bench.call(
        "patch",
        patch_text=patch(
            "*** Add File: sub/new.txt", "+hello", "+world",
            "*** Update File: keep.py", "@@ def b():", "-    return 1", "+    return 2",
            "*** Update File: old.txt", "*** Move to: moved/new.txt", "@@", " one", "-two", "+2",
            "*** Delete File: gone.txt",
        ),
    )  # fmt: skip

    assert snapshot(bench.folder) == {
        "keep.py": b"def a():\n    return 1\n\ndef b():\n    return 2\n",
        "moved/new.txt": b"one\n2\n",
        "sub/new.txt": b"hello\nworld\n",
    }
    assert (bench.folder / "moved/new.txt").stat().st_mode & 0o777 == 0o750
    assert result.details["changed"] == ["A sub/new.txt", "M keep.py", "R old.txt -> moved/new.txt", "D gone.txt"]
    assert (result.details["additions"], result.details["removals"]) == (4, 4)
    assert text_of(result).startswith("Patch applied: 4 files, 4 additions, 4 removals.")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["*** Update File: none", "@@", "-a", "+b"], "File not found: none"),
        (["*** Update File: f", "@@", "-zzz", "+b"], "Context not found in f"),
        (["*** Update File: f", "@@ nowhere", "-a", "+b"], "no line 'nowhere'"),
        (["*** Add File: f", "+x"], "exists already"),
        (["*** Delete File: none"], "File not found: none"),
        (["*** Update File: f", "*** Move to: g", "@@", "-a", "+b"], "Cannot move to g"),
        (["*** Delete File: f", "*** Delete File: f"], "more than one operation"),
        (["*** Add File: ../x", "+x"], "outside the workspace"),
        (["*** Add File: a//b", "+x"], "'//'"),
        (["*** Delete File: link"], "symbolic link"),
        (["*** Delete File: ."], "directory"),
        (["*** Update File: bin", "@@", "-a", "+b"], "binary"),
        (["*** Update File: f"], "changes nothing"),
        (["*** Update File: f", "@@", "a"], "must begin with"),
        (["*** Add File: n", "x"], "must begin with '\\+'"),
        (["nonsense"], "must begin with"),
        ([], "holds no operation"),
    ],
)
async def test_when_one_part_does_not_fit_nothing_is_changed(
    bench: Bench, put: Put, lines: list[str], reason: str
) -> None:
    """A good operation stands before each bad one, and is not made either."""
    put("f", "a\nb\n")
    put("g", "g\n")
    put("bin", b"\0")
    (bench.folder / "link").symlink_to("g")
    before = snapshot(bench.folder)
    good = ["*** Add File: good.txt", "+fine"] if lines else []
    with pytest.raises(ToolError, match=reason):
        await bench.call("patch", patch_text=patch(*good, *lines))

    assert snapshot(bench.folder) == before


async def test_a_write_that_fails_in_the_middle_is_undone(
    bench: Bench, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four operations the last one fails for the disk; the other three are taken back, modes included."""
    put("f", "a\n").chmod(0o700)
    put("d", "d\n").chmod(0o640)
    put("g", "g\n")
    before = snapshot(bench.folder)
    replace = files.replace

    def failing(place: Any, *args: Any, **options: Any) -> Any:
        if place.name == "g" and args[0] == [b"G\n"]:
            raise ToolError("No space left on the disk")
        return replace(place, *args, **options)

    monkeypatch.setattr("coding_agent.tools.patch_files.replace", failing)
    text = patch(
        "*** Add File: new/x", "+x", "*** Update File: f", "@@", "-a", "+A", "*** Delete File: d",
        "*** Update File: g", "@@", "-g", "+G",
    )  # fmt: skip
    with pytest.raises(ToolError, match="No space left"):
        await bench.call("patch", patch_text=text)

    assert snapshot(bench.folder) == before
    assert (bench.folder / "f").stat().st_mode & 0o777 == 0o700
    assert (bench.folder / "d").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
async def test_line_endings_and_a_missing_last_one_are_kept(bench: Bench, put: Put, ending: str, last: bool) -> None:
    """Also with a byte order mark, and lines with blanks at their ends that the patch has not."""
    path = put("f", ("\ufeffa  " + ending + "b" + ending + "c" + (ending if last else "")).encode())
    await bench.call("patch", patch_text=patch("*** Update File: f", "@@", " a", "-b", "+B", "+B2", "-c", "+C"))

    assert path.read_bytes().decode() == "\ufeffa  " + ending.join(["", "B", "B2", "C"]) + (ending if last else "")


async def test_lines_without_context_are_added_at_the_end(bench: Bench, put: Put) -> None:
    """Also to an empty file, and after an anchor in the middle."""
    put("f", "a\nb\n")
    put("empty", "")
    await bench.call(
        "patch",
        patch_text=patch(
            "*** Update File: f", "@@ a", "+after a", "@@", "+end", "*** Update File: empty", "@@", "+first",
        ),
    )  # fmt: skip

    assert snapshot(bench.folder) == {"empty": b"first\n", "f": b"a\nafter a\nb\nend\n"}


async def test_a_patch_in_a_fence_and_with_crlf_is_read(bench: Bench) -> None:
    """As models write them."""
    await bench.call("patch", patch_text="```\n" + patch("*** Add File: a", "+x").replace("\n", "\r\n") + "\n```")

    assert (bench.folder / "a").read_bytes() == b"x\n"


async def test_locked_files_are_taken_in_one_order(bench: Bench, put: Put) -> None:
    """Two patches over the same two files named the other way round both end."""
    import asyncio

    put("a", "1\n1\n")
    put("b", "1\n1\n")
    one = patch("*** Update File: a", "@@", "-1", "+2", "*** Update File: b", "@@", "-1", "+2")
    two = patch("*** Update File: b", "@@", "-1", "+3", "*** Update File: a", "@@", "-1", "+3")
    await asyncio.wait_for(
        asyncio.gather(bench.call("patch", patch_text=one), bench.call("patch", patch_text=two)), timeout=10
    )

    assert sorted(snapshot(bench.folder)["a"].split()) == [b"2", b"3"]


async def test_an_empty_line_is_context_like_any_other(bench: Bench, put: Put) -> None:
    """Written as a space it places what is added; an empty line between hunks says nothing."""
    put("f", "x\n\ny\n")
    await bench.call("patch", patch_text=patch("*** Update File: f", "@@", "+a", " ", "", "@@", "-y", "+z", ""))

    assert snapshot(bench.folder) == {"f": b"x\na\n\nz\n"}


LINE = st.text(alphabet=st.sampled_from("ab {}\u00e9"), max_size=6)


@given(lines=st.lists(LINE, max_size=12), new=st.lists(LINE, max_size=12), data=st.data())
def test_a_patch_made_from_two_texts_leads_from_one_to_the_other(
    lines: list[str], new: list[str], data: st.DataObject
) -> None:
    """For any two versions of a file, the patch of their difference with full context applies and gives the second."""
    import difflib

    body = []
    for kind, low, high, low_new, high_new in difflib.SequenceMatcher(None, lines, new, autojunk=False).get_opcodes():
        if kind == "equal":
            body += [f" {line}" for line in lines[low:high]]
        else:
            body += [f"-{line}" for line in lines[low:high]] + [f"+{line}" for line in new[low_new:high_new]]
    text = "".join(f"{line}\n" for line in lines)
    if not any(line.startswith(("+", "-")) for line in body):
        return
    (operation,) = parse(patch("*** Update File: f", "@@", *body))
    for change in reversed(changes_of(text, operation.hunks, "f")):
        text = text[: change.start] + change.new + text[change.end :]

    assert text == "".join(f"{line}\n" for line in new)


@given(st.text(alphabet=st.sampled_from("*+-@ \n") | st.sampled_from("abc"), max_size=80))
def test_any_text_is_a_patch_or_refused(text: str) -> None:
    """Never another error."""
    for body in (text, patch(*text.split("\n")), patch("*** Update File: f", *text.split("\n"))):
        try:
            operations = parse(body)
            for operation in operations:
                changes_of("a\nb\n", operation.hunks, "f")
        except BadPatch:
            continue


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.text(max_size=12))
async def test_any_path_is_inside_or_refused(bench: Bench, path: str) -> None:
    """Nothing appears outside of the working directory."""
    outside = sorted(os.listdir(bench.folder.parent))
    with suppress(ToolError):
        await bench.call("patch", patch_text=patch(f"*** Add File: {path}", "+x"))
    assert sorted(os.listdir(bench.folder.parent)) == outside
