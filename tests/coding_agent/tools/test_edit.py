"""The tool `edit` on real files."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lemon_agent import AbortSignal, ToolError
from tests.coding_agent.tools.support import Bench, text_of

Put = Callable[[str, str | bytes], Path]


async def test_an_edit_is_made_and_shown(bench: Bench, put: Put) -> None:
    """The result has a line that says so and the diff with four lines around; details name the first line."""
    put("f.txt", "".join(f"{number}\n" for number in range(1, 21)))
    result = await bench.call("edit", path="f.txt", old_text="10\n", new_text="ten\n")

    assert text_of(result).startswith("Successfully replaced the text in f.txt.\n@@ -6,9 +6,9 @@\n 6\n")
    assert "-10\n+ten\n" in result.details["diff"]
    assert result.details["first_changed_line"] == 10


@pytest.mark.requirement("BR-086")
@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
async def test_a_file_with_crlf_keeps_it(bench: Bench, put: Put, encoding: str) -> None:
    """Lines named with LF are found, in old encodings too, and the file keeps its endings and its encoding."""
    path = put("f", "a\r\nb\r\n中文测试\r\n".encode(encoding))
    await bench.call("edit", path="f", old_text="a\nb", new_text="x\ny")
    assert path.read_bytes() == "x\r\ny\r\n中文测试\r\n".encode(encoding)

    await bench.call("edit", path="f", old_text="y\n中文", new_text="z\n汉字")
    assert path.read_bytes() == "x\r\nz\r\n汉字测试\r\n".encode(encoding)


@pytest.mark.requirement("BR-087")
async def test_crlf_in_the_arguments_is_no_hindrance(bench: Bench, put: Put) -> None:
    """With a byte order mark and CRLF in file and arguments; both are kept."""
    path = put("f", b"\xef\xbb\xbfa\r\nb\r\nc\r\n")
    await bench.call("edit", path="f", old_text="a\r\nb", new_text="a\r\nB")

    assert path.read_bytes() == b"\xef\xbb\xbfa\r\nB\r\nc\r\n"


@pytest.mark.requirement("BR-088")
async def test_only_the_edited_bytes_change(bench: Bench, put: Put) -> None:
    """Mixed line endings and a byte order mark stay where they are, and the first line can be matched."""
    path = put("f", b"\xef\xbb\xbfa\r\nb\nc\r\n")
    await bench.call("edit", path="f", old_text="b", new_text="B")
    assert path.read_bytes() == b"\xef\xbb\xbfa\r\nB\nc\r\n"

    await bench.call("edit", path="f", old_text="a\nB\n", new_text="1\n2\n")
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\nc\r\n"


@pytest.mark.requirement("BR-093")
async def test_a_loose_match_in_a_file_that_changed_is_refused(bench: Bench, put: Put) -> None:
    """Read, reformatted behind our back, then edited with the old text: nothing happens, and the reason is told."""
    path = put("f.py", "x=1\ny = 'a'\n")
    await bench.call("read", path="f.py")
    path.write_text("x  = 1\ny   =   'a'\n")

    assert "has changed since it was read" in await bench.refusal("edit", path="f.py", old_text="y = 'a'", new_text="y")
    assert path.read_text() == "x  = 1\ny   =   'a'\n"


@pytest.mark.requirement("BR-093")
async def test_a_loose_match_is_reported_with_its_lines(bench: Bench, put: Put) -> None:
    """The model learns that its text was not exactly there."""
    put("f", "1\na   b\n2\n")
    result = await bench.call("edit", path="f", old_text="a b", new_text="c")

    assert "stood in line 2" in text_of(result)
    assert result.details["loose"] == [[2, 2]]


async def test_several_edits_are_made_together_or_not_at_all(bench: Bench, put: Put) -> None:
    """When the last one does not fit, the file is as it was."""
    path = put("f", "a\nb\nc\n")
    both = [{"old_text": "a", "new_text": "1"}, {"old_text": "zzz", "new_text": "2"}]
    assert "edits[1]" in await bench.refusal("edit", path="f", edits=both)
    assert path.read_text() == "a\nb\nc\n"

    both[1]["old_text"] = "c"
    await bench.call("edit", path="f", edits=both)
    assert path.read_text() == "1\nb\n2\n"


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"old_text": "a"}, "new_text is required"),
        ({"new_text": "a"}, "old_text is required"),
        ({"old_text": "", "new_text": "a"}, "old_text is empty"),
        ({"old_text": "x", "new_text": "y"}, "Found 2 occurrences"),
        ({"old_text": "nope", "new_text": "y"}, "Could not find the exact text"),
        ({"old_text": "1x", "new_text": "1x"}, "No changes made"),
        ({"old_text": "1x", "new_text": "y", "edits": [{"old_text": "a", "new_text": "b"}]}, "not both"),
        ({"edits": [{"old_text": "a"}]}, r"edits\[0\]\.new_text is required"),
        ({"edits": ["a"]}, "list of objects"),
        ({"old_text": "1x", "new_text": "\ud800"}, "has no"),
    ],
)
async def test_what_does_not_fit_is_said(bench: Bench, put: Put, params: dict[str, object], reason: str) -> None:
    """Each refusal has its own words, and the file stays."""
    path = put("f", "1x\n2x\n")
    with pytest.raises(ToolError, match=reason):
        await bench.call("edit", path="f", **params)

    assert path.read_text() == "1x\n2x\n"


async def test_what_cannot_be_edited_is_said(bench: Bench, put: Put) -> None:
    """Missing, a directory, binary, or a character that the encoding has not."""
    put("bin", b"a\0b")
    put("latin", "caf\u00e9 cr\u00e8me\n".encode("cp1252"))
    arguments = {"old_text": "a", "new_text": "b"}

    assert await bench.refusal("edit", path="none", **arguments) == "File not found: none"
    assert await bench.refusal("edit", path=".", **arguments) == "Path is a directory, not a file: ."
    assert "binary file" in await bench.refusal("edit", path="bin", **arguments)
    assert "cp1252" in await bench.refusal("edit", path="latin", old_text="caf", new_text="\u4e2d")
    assert await bench.refusal("edit", path="", **arguments) == "Path is required"


async def test_mode_and_hard_links_are_kept(bench: Bench, put: Put) -> None:
    """An executable stays one; a file with two names keeps both."""
    path = put("run.sh", "echo a\n")
    path.chmod(0o750)
    other = bench.folder / "other.sh"
    os.link(path, other)
    await bench.call("edit", path="run.sh", old_text="a", new_text="bb")

    assert path.stat().st_mode & 0o777 == 0o750
    assert other.read_text() == "echo bb\n"

    other.unlink()
    await bench.call("edit", path="run.sh", old_text="bb", new_text="c")
    assert path.stat().st_mode & 0o777 == 0o750
    assert path.read_text() == "echo c\n"


async def test_a_link_inside_is_edited_where_it_leads(bench: Bench, put: Put) -> None:
    """The link stays a link."""
    path = put("real", "a\n")
    (bench.folder / "link").symlink_to("real")
    await bench.call("edit", path="link", old_text="a", new_text="b")

    assert (bench.folder / "link").is_symlink()
    assert path.read_text() == "b\n"


async def test_edits_of_one_file_at_once_do_not_undo_each_other(bench: Bench, put: Put) -> None:
    """Twenty calls side by side, each for a line of its own."""
    path = put("f", "".join(f"line {number:02}\n" for number in range(20)))
    await asyncio.gather(
        *(
            bench.call("edit", path="f", old_text=f"line {number:02}", new_text=f"new {number:02}")
            for number in range(20)
        )
    )

    assert path.read_text() == "".join(f"new {number:02}\n" for number in range(20))


@pytest.mark.requirement("BR-058")
async def test_the_record_of_an_edit_is_small_for_a_large_file(bench: Bench, put: Put) -> None:
    """One byte at the end of a line of twenty megabytes: text and details stay in the kilobytes."""
    path = put("f", b"x" * 20_000_000 + b"END")
    result = await bench.call("edit", path="f", old_text="END", new_text="end")

    assert len(repr(result)) < 10_000
    assert "xend" in result.details["diff"]
    assert path.stat().st_size == 20_000_003


async def test_an_aborted_edit_changes_nothing(bench: Bench, put: Put) -> None:
    """With the signal given nothing is read or written; and no temporary file is left by any edit."""
    path = put("f", "a")
    stop = AbortSignal()
    stop.abort()
    assert await bench.refusal("edit", path="f", old_text="a", new_text="b", abort=stop) == "Operation aborted"

    assert path.read_text() == "a"
    await bench.call("edit", path="f", old_text="a", new_text="b")
    assert [entry.name for entry in bench.folder.iterdir()] == ["f"]


CONTENT = st.text(alphabet=st.sampled_from("ab \n\r\t\u00e9\u4e2d\U0001f600'\u2019\u200b"), max_size=60)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=CONTENT, old=CONTENT, new=CONTENT, mark=st.booleans(), every=st.booleans())
async def test_any_content_and_any_edit(
    bench: Bench, content: str, old: str, new: str, mark: bool, every: bool
) -> None:
    """The edit is refused and nothing changed, or exactly the named text was replaced; never anything else."""
    path = bench.folder / "f"
    data = (b"\xef\xbb\xbf" if mark else b"") + content.encode()
    path.write_bytes(data)
    try:
        result = await bench.call("edit", path="f", old_text=old, new_text=new, replace_all=every)
    except ToolError:
        assert path.read_bytes() == data
        return
    after = path.read_bytes()
    assert after.startswith(b"\xef\xbb\xbf") == mark
    if not result.details["loose"] and "\r" not in content + old + new and "\\u{" not in old:
        assert after == data[: 3 * mark] + content.replace(old, new).encode()
