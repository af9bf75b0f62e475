"""The tool `ls`."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lemon_agent import ToolError
from tests.coding_agent.tools.support import Bench, text_of

Put = Callable[[str, str | bytes], Path]


@pytest.fixture
def tree(put: Put, folder: Path) -> Path:
    """A directory with one of each."""
    for name in ("b.txt", "A.txt", ".hidden", "sub/inner.txt", "Zdir/deep/x"):
        put(name, "12345")
    (folder / "link").symlink_to("b.txt")
    os.mkfifo(folder / "pipe")
    return folder


async def test_directories_come_first_then_names_without_regard_to_capitals(bench: Bench, tree: Path) -> None:
    """Each with its mark; names with a dot only when asked for."""
    text = await bench.text("ls")

    assert text == ".:\nd sub/\nd Zdir/\n- A.txt\n- b.txt\nl link -> b.txt\n? pipe\n\n6 entries"
    assert "- .hidden" in await bench.text("ls", all=True)


async def test_deeper_entries_come_after_all_above(bench: Bench, tree: Path) -> None:
    """By depth, then by directory."""
    lines = (await bench.text("ls", recursive=True)).split("\n")

    assert lines[7:10] == ["- sub/inner.txt", "d Zdir/deep/", "- Zdir/deep/x"]
    assert "Zdir/deep/x" not in await bench.text("ls", recursive=True, max_depth=2)


async def test_the_long_form_has_mode_size_and_time(bench: Bench, tree: Path) -> None:
    """On one line each."""
    (tree / "b.txt").chmod(0o640)
    os.utime(tree / "b.txt", (0, 0))
    line = next(line for line in (await bench.text("ls", long=True)).split("\n") if line.endswith(" b.txt"))

    assert line.split()[1:3] == ["-rw-r-----", "5"]
    assert "1970-01-01" in line or "1969-12-31" in line


async def test_the_number_of_entries_is_limited(bench: Bench, put: Put) -> None:
    """With the true number in the footer and the details."""
    for number in range(12):
        put(f"{number:02}", "")
    result = await bench.call("ls", max_entries=5)

    assert text_of(result).endswith("[5 of 12 entries; the limit is 5 or 50000 bytes.]")
    assert result.details == {
        "path": ".",
        "total_entries": 12,
        "shown_entries": 5,
        "truncated": True,
        "recursive": False,
    }


async def test_a_file_lists_itself(bench: Bench, tree: Path) -> None:
    """As the one entry."""
    assert (await bench.text("ls", path="b.txt")).split("\n")[1] == "- b.txt"


async def test_what_cannot_be_listed_is_said(bench: Bench) -> None:
    """Missing, outside, senseless."""
    with pytest.raises(ToolError, match="Path not found: none"):
        await bench.call("ls", path="none")
    with pytest.raises(ToolError, match="outside the workspace"):
        await bench.call("ls", path="..")
    with pytest.raises(ToolError, match="max_entries must be at least 1"):
        await bench.call("ls", max_entries=0)
    assert await bench.text("ls") == ".:\n\n0 entries"


async def test_names_that_no_terminal_should_see_are_escaped(bench: Bench, folder: Path) -> None:
    """Control characters, bytes that are no UTF-8, and invisible letters."""
    for name in (b"a\x1b[31m", b"b\nc", b"d\xff", "e\u200b".encode()):
        (folder / os.fsdecode(name)).write_bytes(b"")
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(folder / "s"))
    sock.close()
    text = await bench.text("ls")

    assert text.split("\n")[1:6] == [r"- a\x1b[31m", r"- b\nc", r"- d\xff", r"- e\u200b", "? s"]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(
        st.binary(min_size=1, max_size=12).filter(
            lambda name: not set(name) & set(b"/\0") and name not in (b".", b"..")
        ),
        max_size=5,
    ),
    flags=st.fixed_dictionaries({"all": st.booleans(), "long": st.booleans(), "recursive": st.booleans()}),
)
async def test_any_names_are_listed_a_line_each(bench: Bench, names: list[bytes], flags: dict[str, bool]) -> None:
    """Whatever bytes they are made of, the answer is text, with as many lines as it says."""
    for name in names:
        (bench.folder / os.fsdecode(name)).write_bytes(b"")
    result = await bench.call("ls", **flags)
    text_of(result).encode()

    assert text_of(result).split("\n\n")[0].count("\n") == result.details["shown_entries"]
