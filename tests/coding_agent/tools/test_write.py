"""The tool `write`: all of a file or nothing, and nobody's work undone."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coding_agent.tools import files
from coding_agent.tools.files import Fence
from coding_agent.tools.paths import PathGuard
from lemon_agent import AbortSignal, ToolError
from tests.coding_agent.tools.support import Bench, started, text_of

Put = Callable[[str, str | bytes], Path]


async def test_a_file_is_created_with_its_directories(bench: Bench) -> None:
    """And the number of bytes is told."""
    result = await bench.call("write", path="a/b/c.txt", content="h\u00e9llo\n")

    assert text_of(result) == "Successfully wrote 7 bytes to a/b/c.txt"
    assert (bench.folder / "a/b/c.txt").read_bytes() == "h\u00e9llo\n".encode()
    assert result.details["created"] is True


async def test_a_file_is_replaced_keeping_its_mode(bench: Bench, put: Put) -> None:
    """The details hold the diff for the screen."""
    path = put("f", "old\n")
    path.chmod(0o700)
    result = await bench.call("write", path="f", content="new\n")

    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o700
    assert result.details["diff"] == "@@ -1,1 +1,1 @@\n-old\n+new\n"


async def test_a_new_file_gets_the_modes_of_the_user(bench: Bench) -> None:
    """As the umask says, not as a private temporary file has them."""
    before = os.umask(0o027)
    try:
        await bench.call("write", path="f", content="")
    finally:
        os.umask(before)

    assert (bench.folder / "f").stat().st_mode & 0o777 == 0o640


async def test_arguments_are_named_when_they_are_missing(bench: Bench) -> None:
    """Each by itself; an empty file is fine."""
    assert await bench.refusal("write", content="x") == "Path is required"
    assert await bench.refusal("write", path="f") == "Content is required"
    assert await bench.refusal("write", path="f", content={"a": 1}) == "content must be a string"
    assert "lone surrogate" in await bench.refusal("write", path="f", content="\ud800")
    await bench.call("write", path="f", content="")
    assert (bench.folder / "f").read_bytes() == b""


async def test_what_cannot_be_written_is_said(bench: Bench, put: Put) -> None:
    """A directory, a pipe, a file where a directory would have to be."""
    put("file", "x")
    os.mkfifo(bench.folder / "pipe")

    assert await bench.refusal("write", path=".", content="x") == "Path is a directory, not a file: ."
    assert "named pipe" in await bench.refusal("write", path="pipe", content="x")
    assert "not a directory" in await bench.refusal("write", path="file/x", content="x")


async def test_a_change_by_somebody_else_is_not_overwritten_unseen(bench: Bench, put: Put) -> None:
    """A file that was read and then changed behind our back must be read again first."""
    path = put("f", "one")
    await bench.call("read", path="f")
    path.write_text("theirs, longer")

    assert "changed by somebody else" in await bench.refusal("write", path="f", content="ours")
    assert path.read_text() == "theirs, longer"

    await bench.call("read", path="f")
    await bench.call("write", path="f", content="ours")
    await bench.call("write", path="f", content="ours again")
    assert path.read_text() == "ours again"


async def test_a_full_disk_leaves_the_old_file(bench: Bench, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the new content cannot be written, the old is untouched and nothing else is left."""
    path = put("f", "old")

    def full(*_args: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_write_all", full)

    assert "No space left" in await bench.refusal("write", path="f", content="new")
    assert path.read_text() == "old"
    assert [entry.name for entry in bench.folder.iterdir()] == ["f"]


@pytest.mark.requirement("BR-079")
async def test_a_write_given_up_has_no_effect_later(bench: Bench, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the call is cancelled while its thread is busy, that thread does not write afterwards."""
    import threading

    path = put("f", "old")
    entered, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    write_all = files._write_all

    def slow(*args: Any) -> int:
        entered.set()
        go_on.wait(10)
        return write_all(*args)

    replace = files.replace

    def watched(*args: Any, **options: Any) -> Any:
        try:
            return replace(*args, **options)
        finally:
            ended.set()

    monkeypatch.setattr(files, "_write_all", slow)
    monkeypatch.setattr("coding_agent.tools.write.replace", watched)
    task = started(bench.call("write", path="f", content="late"))
    await asyncio.to_thread(entered.wait, 10)
    task.cancel()
    await asyncio.wait({task})
    go_on.set()
    await asyncio.to_thread(ended.wait, 10)

    assert path.read_text() == "old"
    assert [entry.name for entry in bench.folder.iterdir()] == ["f"]


async def test_aborted_before_it_began_nothing_is_written(bench: Bench) -> None:
    """The reason is `aborted`."""
    stop = AbortSignal()
    stop.abort()

    assert await bench.refusal("write", path="f", content="x", abort=stop) == "aborted"
    assert list(bench.folder.iterdir()) == []


def test_a_version_that_is_not_the_expected_one_is_not_replaced(folder: Path, put: Put) -> None:
    """Between reading and replacing somebody wrote: the replacement is refused."""
    path = put("f", "one")
    guard = PathGuard(folder)
    with guard.locate("f") as place:
        assert place.status is not None
        version = files.Version.of(place.status)
        path.write_text("two, theirs")
        with pytest.raises(ToolError, match="changed by somebody else meanwhile"):
            files.replace(place, [b"ours"], Fence(), expected=version)

    assert path.read_text() == "two, theirs"
    assert [entry.name for entry in folder.iterdir()] == ["f"]


NAMES = st.text(alphabet=st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(NAMES, min_size=1, max_size=3), content=st.text(max_size=50))
async def test_any_name_and_content_is_written_as_given_or_refused(
    bench: Bench, parts: list[str], content: str
) -> None:
    """A path of any names inside gets exactly the content; nothing appears outside."""
    path = "/".join(parts)
    outside = sorted(entry.name for entry in bench.folder.parent.iterdir())
    try:
        await bench.call("write", path=path, content=content)
    except ToolError:
        pass
    else:
        assert (bench.folder / path).read_bytes() == content.encode()
    assert sorted(entry.name for entry in bench.folder.parent.iterdir()) == outside


async def test_calls_about_one_file_in_one_batch_run_in_the_order_they_were_given(bench: Bench, put: Put) -> None:
    """Writes, edits and patches side by side: each sees what the one before has left, however the path is spelled."""
    put("old", "0\n")
    calls = [bench.call("write", path="new/f", content="a\n")]
    calls += [
        bench.call("edit", path=path, old_text=old, new_text=new)
        for path, old, new in (("new/f", "a", "b"), ("./new/f", "b", "c"), ("new/../new/f", "c", "d"))
    ]
    patch = "*** Begin Patch\n*** Update File: new/f\n@@\n-d\n+e\n*** Update File: old\n@@\n-1\n+2\n*** End Patch"
    calls += [bench.call("write", path="old", content="1\n"), bench.call("patch", patch_text=patch)]
    calls += [bench.call("edit", path=str(bench.folder / "old"), old_text="2", new_text="3")]
    await asyncio.gather(*calls)

    assert (bench.folder / "new/f").read_text() == "e\n"
    assert (bench.folder / "old").read_text() == "3\n"


async def test_an_aborted_call_lets_the_next_one_about_its_file_go_on(bench: Bench) -> None:
    """Whether it was at work or waiting for its turn."""
    first, second, third = (started(bench.call("write", path="f", content=each)) for each in "123")
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait({first, second, third})

    assert second.cancelled()
    assert (bench.folder / "f").read_text() == "3"
