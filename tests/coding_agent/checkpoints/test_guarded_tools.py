"""Tools under watch: what was there is kept before it is changed, and not one byte more than promised is."""

import asyncio
import itertools
import os
from pathlib import Path

import pytest
from attrs import define

from coding_agent.checkpoints import snapshot, store
from coding_agent.checkpoints.guarded_tools import Checkpoints, with_checkpoints
from coding_agent.checkpoints.plan import Moment
from coding_agent.checkpoints.restore import plan_rewind, rewind_files
from coding_agent.checkpoints.store import CheckpointStore
from coding_agent.tools import Workspace, default_tools
from lemon_agent import AgentTool, AgentToolResult, ToolError


@define
class Desk:
    """A folder, its tools under watch, and where checkpoints go."""

    folder: Path
    workspace: Workspace
    store: CheckpointStore
    tools: dict[str, AgentTool]
    calls: int = 0

    async def call(self, name: str, **params) -> AgentToolResult:
        self.calls += 1
        return await self.tools[name].execute(f"t{self.calls}", params, None, None)

    def back(self, at_ms: int = 0):
        """Undo everything since."""
        todo = plan_rewind(self.store, self.workspace.guard, Moment(at_ms))
        return rewind_files(self.store, self.workspace.guard, todo)


@pytest.fixture
async def desk(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    workspace = Workspace(folder)
    checkpoints = Checkpoints()
    checkpoints.store = CheckpointStore(tmp_path / "session" / "checkpoints")
    tools = with_checkpoints(default_tools(str(folder), workspace=workspace), workspace, checkpoints)
    yield Desk(folder, workspace, checkpoints.store, {tool.name: tool for tool in tools})
    await workspace.aclose()


async def test_write_edit_and_patch_can_be_undone(desk):
    """Contents, absence and modes come back; the results name their checkpoints."""
    script = desk.folder / "run.sh"
    script.write_text("one\ntwo\n")
    script.chmod(0o750)
    (desk.folder / "old.txt").write_text("old\n")

    await desk.call("read", path="run.sh")
    edited = await desk.call("edit", path="run.sh", old_text="one", new_text="ONE")
    written = await desk.call("write", path="deep/new.txt", content="new")
    patch = "*** Begin Patch\n*** Update File: run.sh\n-two\n+TWO\n"
    patch += "*** Delete File: old.txt\n*** Add File: p\n+p\n*** End Patch"
    patched = await desk.call("patch", patch_text=patch)

    ids = [result.details["checkpoint_id"] for result in (edited, written, patched)]
    assert ids == sorted(set(ids))
    assert edited.details["checkpoint_kind"] == "filesystem"
    outcome = desk.back()
    assert outcome.failed == ()
    assert script.read_text() == "one\ntwo\n"
    assert script.stat().st_mode & 0o777 == 0o750
    assert (desk.folder / "old.txt").read_text() == "old\n"
    assert not (desk.folder / "deep/new.txt").exists()
    assert not (desk.folder / "p").exists()


async def test_what_is_kept_is_private_and_stored_once(desk, tmp_path):
    """Folders 0700, files 0600, equal contents share a file, nothing lands in the workspace."""
    for name in "abc":
        (desk.folder / name).write_text("same")
        await desk.call("write", path=name, content=f"other {name}")

    kept = [path for path in desk.store.folder.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in desk.store.folder.rglob("*") if path.is_dir()} == {0o700}
    assert len(list(desk.store.blobs.glob("*/*"))) == 1
    assert sorted(path.name for path in desk.folder.iterdir()) == ["a", "b", "c"]


async def test_foreign_edits_are_left_alone_and_named(desk):
    """Somebody edits a file after the agent did: going back does not touch it, and says so; the others go back."""
    (desk.folder / "mine").write_text("mine")
    (desk.folder / "ours").write_text("ours")
    await desk.call("write", path="mine", content="agent")
    await desk.call("write", path="ours", content="agent")
    (desk.folder / "mine").write_text("mine again")

    outcome = desk.back()

    assert [(step.path, why) for step, why in outcome.failed] == [
        (str(desk.folder / "mine"), "it was changed by somebody else, or by a command, since the agent changed it")
    ]
    assert (desk.folder / "mine").read_text() == "mine again"
    assert (desk.folder / "ours").read_text() == "ours"


async def test_a_link_put_where_a_file_was_is_not_followed(desk, tmp_path):
    """Going back writes nothing through links, neither the file's nor a folder's."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "f").write_text("agent")
    (desk.folder / "d").mkdir()
    await desk.call("write", path="d/f", content="agent")
    await desk.call("write", path="f", content="agent")
    (desk.folder / "d/f").unlink()
    (desk.folder / "d").rmdir()
    (desk.folder / "d").symlink_to(victim)
    (desk.folder / "f").unlink()
    (desk.folder / "f").symlink_to(victim / "f")

    outcome = desk.back()

    assert {why for _, why in outcome.failed} == {"something else stands there now"}
    assert (victim / "f").read_text() == "agent"


async def test_without_a_checkpoint_nothing_is_changed(desk, monkeypatch):
    """A full disk, or a file too large to keep: the tool does not run, and says why."""
    (desk.folder / "f").write_text("before")

    def full(path, data, **_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(store, "replace_file", full)
        with pytest.raises(ToolError, match=r"Nothing was changed.*No space left"):
            await desk.call("write", path="f", content="after")
    monkeypatch.setattr(snapshot, "FILE_BYTES_MAX", 3)
    with pytest.raises(ToolError, match="file_too_large"):
        await desk.call("write", path="f", content="after")

    assert (desk.folder / "f").read_text() == "before"


async def test_a_call_that_changes_nothing_leaves_no_checkpoint(desk):
    """Refused calls and paths that lead nowhere are not worth remembering."""
    (desk.folder / "f").write_text("before")
    for params in (
        {"path": "f", "old_text": "absent", "new_text": "x"},
        {"path": "../x", "old_text": "a", "new_text": ""},
    ):
        with pytest.raises(ToolError):
            await desk.call("edit", **params)

    assert desk.store.all() == []


async def test_what_was_there_is_kept_even_when_the_call_is_killed(desk):
    """The checkpoint is on disk before the tool begins."""
    (desk.folder / "f").write_text("before")

    async def half(_id, _params, _signal=None, _on_update=None):
        (desk.folder / "f").write_text("half")
        raise asyncio.CancelledError

    checkpoints = Checkpoints()
    checkpoints.store = desk.store
    (tool,) = with_checkpoints([AgentTool("write", "w", {"type": "object"}, half)], desk.workspace, checkpoints)
    with pytest.raises(asyncio.CancelledError):
        await tool.execute("t", {"path": "f"}, None, None)

    (kept,) = desk.store.all()
    assert desk.store.get(kept.files[0].before.sha) == b"before"
    assert kept.files[0].after is None, "nobody knows who wrote what is there now"


async def test_what_a_command_changed_is_said(desk):
    """New and changed files, and folders that lost some; what was changed before is not."""
    for name in ("kept", "changed", "d/removed"):
        (desk.folder / name).parent.mkdir(exist_ok=True)
        (desk.folder / name).write_text("x")
        os.utime(desk.folder / name, (1, 1))
    await asyncio.sleep(0.02)  # the kernel's clock for files is coarse, and no clock of ours moves it

    result = await desk.call(
        "bash", command="echo y > changed; echo z > 'new file'; rm d/removed; touch -d @5 new\\ file"
    )
    quiet = await desk.call("bash", command="cat kept")

    assert sorted(result.details["changed_files"]) == ["changed", "d/", "new file"]
    assert result.details["changed_files_complete"] is True
    assert "changed_files" not in quiet.details
    assert [each.tool for each in desk.store.all()] == ["bash"]


async def test_calls_on_one_file_at_once_run_in_order_and_are_undone_together(desk):
    """All of them succeed, the last one counts, and what was there first comes back."""
    (desk.folder / "f").write_text("first")
    calls = [desk.call("write", path="f", content=f"number {number}") for number in range(8)]
    done = await asyncio.gather(*calls)
    assert all(isinstance(result, AgentToolResult) for result in done)
    assert (desk.folder / "f").read_text() == "number 7"
    states = [each.files[0] for each in desk.store.all()]
    assert all(one.after == other.before for one, other in itertools.pairwise(states))

    outcome = desk.back()

    assert outcome.failed == ()
    assert (desk.folder / "f").read_text() == "first"


async def test_old_checkpoints_go_when_they_take_too_much_room(tmp_path):
    """The newest stay; until when the others are gone is written down."""
    kept = CheckpointStore(tmp_path / "c", bytes_max=50_000)
    from coding_agent.checkpoints.records import FileChange, FileState

    for number in range(20):
        sha = kept.put(bytes([number]) * 10_000)
        begun = kept.begin("files", f"t{number}", "write")
        kept.save(begun.with_files((FileChange("/f", FileState(sha, 0o644, 10_000)),), kept.next_settled()))
        kept.prune()

    left = kept.all()
    assert 1 <= len(left) <= 5
    assert left[-1].tool_call_id == "t19"
    assert len(list(kept.blobs.glob("*/*"))) == len(left)
    assert kept.pruned_until_ms() > 0
    assert CheckpointStore(tmp_path / "c").begin("files", "t", "write").id == "c00000021"
