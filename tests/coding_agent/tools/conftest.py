"""What the tests of the tools share: a real working directory, and a look at the machine's processes."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from coding_agent.tools import Workspace, default_tools
from tests.coding_agent.tools.support import Bench


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The working directory, with nothing in it and something beside it."""
    made = tmp_path / "work"
    made.mkdir()
    (tmp_path / "outside.txt").write_text("outside\n")
    return made


@pytest.fixture
async def bench(folder: Path) -> AsyncIterator[Bench]:
    """All tools on the working directory; at the end everything they started is gone."""
    workspace = Workspace(folder)
    made = Bench(folder, workspace, {tool.name: tool for tool in default_tools(str(folder), workspace=workspace)})
    yield made
    await workspace.aclose()
    assert made.survivors() == []


@pytest.fixture
def put(folder: Path) -> Callable[[str, str | bytes], Path]:
    """Writes a file into the working directory."""

    def write(name: str, content: str | bytes) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
