"""The tool that shows what files were like, and puts them back."""

import pytest

from coding_agent.checkpoints.checkpoint_tool import checkpoint_tool
from coding_agent.checkpoints.guarded_tools import Checkpoints, with_checkpoints
from coding_agent.checkpoints.store import CheckpointStore
from coding_agent.tools import Workspace, default_tools
from lemon_agent import AgentTool, AgentToolResult, ToolError


class Desk:
    """A folder, its tools under watch, and the tool that goes back."""

    def __init__(self, folder, kept) -> None:
        self.folder = folder
        self.workspace = Workspace(folder)
        checkpoints = Checkpoints()
        checkpoints.store = CheckpointStore(kept)
        tools = with_checkpoints(default_tools(str(folder), workspace=self.workspace), self.workspace, checkpoints)
        tools = (*tools, checkpoint_tool(self.workspace, checkpoints))
        self.tools: dict[str, AgentTool] = {tool.name: tool for tool in tools}

    async def call(self, name: str, **params) -> AgentToolResult:
        return await self.tools[name].execute("t", params, None, None)

    async def id_of(self, name: str, **params) -> str:
        return (await self.call(name, **params)).details["checkpoint_id"]


@pytest.fixture
async def desk(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    made = Desk(folder, tmp_path / "session" / "checkpoints")
    yield made
    await made.workspace.aclose()


def said(result: AgentToolResult) -> str:
    return result.content[0].text


async def test_the_checkpoints_are_listed_newest_first(desk):
    """Each with its id, the tool and the files; none where nothing was changed."""
    assert said(await desk.call("checkpoint", action="list")) == "No checkpoints."
    first = await desk.id_of("write", path="a.txt", content="one")
    second = await desk.id_of("write", path="b/c.txt", content="two")
    lines = said(await desk.call("checkpoint", action="list")).splitlines()
    assert [line.split()[0] for line in lines] == [second, first]
    assert "before write: b/c.txt" in lines[0]


async def test_a_file_is_as_it_was_before_the_call_and_can_be_worked_with(desk):
    """The difference is shown first; what came to be is deleted; the file may be edited without reading it again."""
    (desk.folder / "a.txt").write_text("one\n")
    await desk.call("read", path="a.txt")
    changed = await desk.id_of("edit", path="a.txt", old_text="one", new_text="two")
    made = await desk.id_of("write", path="new.txt", content="x")
    shown = said(await desk.call("checkpoint", action="diff", checkpoint_id=changed))
    assert "-two" in shown.replace(" ", "").replace("1", "")
    assert "restore a.txt" in shown
    assert (desk.folder / "a.txt").read_text() == "two\n"
    await desk.call("checkpoint", action="restore", checkpoint_id=changed)
    await desk.call("checkpoint", action="restore", checkpoint_id=made)
    assert (desk.folder / "a.txt").read_text() == "one\n"
    assert not (desk.folder / "new.txt").exists()
    await desk.call("edit", path="a.txt", old_text="one", new_text="three")


async def test_only_the_files_that_are_named_are_put_back(desk):
    """Of a call that changed several; one that is none of them is refused."""
    patch = "*** Begin Patch\n*** Add File: a\n+a\n*** Add File: b\n+b\n*** End Patch"
    made = await desk.id_of("patch", patch_text=patch)
    await desk.call("checkpoint", action="restore", checkpoint_id=made, paths=["a"])
    assert [path.name for path in desk.folder.iterdir()] == ["b"]
    with pytest.raises(ToolError, match="path_not_in_checkpoint: c is none of a, b"):
        await desk.call("checkpoint", action="restore", checkpoint_id=made, paths=["c"])


async def test_what_somebody_else_changed_since_stays(desk):
    """It is named, and nothing is done."""
    made = await desk.id_of("write", path="a.txt", content="one")
    (desk.folder / "a.txt").write_text("mine")
    with pytest.raises(ToolError, match=r"left alone: a\.txt: it was changed by somebody else"):
        await desk.call("checkpoint", action="restore", checkpoint_id=made)
    assert (desk.folder / "a.txt").read_text() == "mine"


async def test_what_rules_keep_from_being_read_is_not_shown(desk):
    """The difference says what would be done, without the words of the file."""
    made = await desk.id_of("write", path=".env", content="KEY=secret")
    desk.workspace.conceals = lambda tool, shown, real: lambda file, file_real: file == ".env"
    shown = said(await desk.call("checkpoint", action="diff", checkpoint_id=made))
    assert "may not be shown" in shown
    assert "secret" not in shown


async def test_what_cannot_be_meant_says_why(desk):
    """No such checkpoint, one of a command, one that was deleted, no action."""
    made = await desk.id_of("write", path="a.txt", content="one")
    await desk.call("bash", command="echo x > by-command")
    await desk.call("checkpoint", action="delete", checkpoint_id=made)
    command = "c00000002"
    for params, words in (
        ({"action": "diff", "checkpoint_id": made}, "no checkpoint"),
        ({"action": "restore", "checkpoint_id": command}, "not_filesystem_checkpoint"),
        ({"action": "restore"}, "checkpoint_id is required"),
        ({"action": "undo"}, "Unknown action"),
        ({}, "action is required"),
    ):
        with pytest.raises(ToolError, match=words):
            await desk.call("checkpoint", **params)
