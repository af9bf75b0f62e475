"""The sandbox: what stands on its command line, and, where there is one, what programs in it can do."""

import asyncio
import shutil

import pytest

from coding_agent.errors import BadUsage
from coding_agent.sandbox import bubblewrap, landlock
from coding_agent.tools import Workspace, default_tools
from tests.coding_agent.tools.support import call, text_of


@pytest.fixture
def fresh(monkeypatch):
    """Availability is tried anew, and there is nothing to fall back to."""
    monkeypatch.setattr(landlock, "version", lambda: 0)
    bubblewrap.unavailable.cache_clear()
    yield
    bubblewrap.unavailable.cache_clear()


def test_the_workspace_alone_can_be_written_and_secrets_are_hidden(tmp_path):
    """Order counts: everything read-only first, then what is empty, then what is written, then what is not."""
    home, root = tmp_path / "home", tmp_path / "work"
    (home / ".ssh").mkdir(parents=True)
    (home / ".netrc").write_text("x")
    (root / ".git" / "hooks").mkdir(parents=True)

    line = bubblewrap.arguments("/usr/bin/bwrap", str(root), "strict", home=home, shared=("/shared",))
    text = " ".join(line)

    assert line[0] == "/usr/bin/bwrap"
    assert line[-3:] == ["--chdir", str(root), "--"]
    assert f"--tmpfs {home}/.ssh" in text
    assert f"--ro-bind /dev/null {home}/.netrc" in text
    order = ["--ro-bind / /", "--tmpfs /tmp", f"--bind {root} {root}", f"--ro-bind {root}/.git/hooks"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert "--bind /shared /shared" in text
    assert "--die-with-parent" in line
    assert "--unshare-net" in line
    assert "--unshare-net" not in bubblewrap.arguments("bwrap", str(root), "net", home=home)


def test_who_asks_for_a_sandbox_that_is_not_there_is_told(fresh, monkeypatch, tmp_path):
    """Nothing runs without it; the text says what is missing."""
    monkeypatch.setattr(shutil, "which", lambda name: None)

    with pytest.raises(BadUsage, match="bubblewrap"):
        bubblewrap.sandboxed_keeper(str(tmp_path), "strict")


def test_a_bwrap_that_does_not_work_is_no_sandbox(fresh, monkeypatch, tmp_path):
    """A kernel may forbid it: it is tried, and what it said is told."""
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'no namespaces for you' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(broken))

    with pytest.raises(BadUsage, match="no namespaces for you"):
        bubblewrap.sandboxed_keeper(str(tmp_path), "strict")


def test_what_tries_the_sandbox_sees_no_secrets(fresh, monkeypatch, tmp_path):
    """No program that is started sees our environment, not even the one that only shows whether bwrap works."""
    spy = tmp_path / "bwrap"
    spy.write_text(f"#!/bin/sh\nenv > {tmp_path}/seen\n")
    spy.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(spy))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")

    assert bubblewrap.unavailable() is None

    seen = (tmp_path / "seen").read_text()
    assert "PATH=" in seen
    assert "canary" not in seen
    assert "ANTHROPIC_API_KEY" not in seen


async def test_what_a_command_can_do_inside(fresh, tmp_path):
    """Where the sandbox works: writes stay in the workspace, the network is away. Where it does not: nothing starts."""
    work = tmp_path / "work"
    work.mkdir()
    if bubblewrap.unavailable() is not None:
        with pytest.raises(BadUsage, match="not available"):
            bubblewrap.sandboxed_keeper(str(work), "strict")
        return
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    keeper = bubblewrap.sandboxed_keeper(str(work), "strict")
    workspace = Workspace(work, keeper=keeper)
    tools = {tool.name: tool for tool in default_tools(str(work), workspace=workspace)}
    reach = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached || echo unreachable"

    said = text_of(await call(tools["bash"], command=f"touch in; touch {tmp_path}/out; {reach}; echo pid $$"))
    long = text_of(await call(tools["bash"], command=f": {'x' * 120_000}\necho long"))
    found = text_of(await call(tools["find"], pattern="in"))

    assert (work / "in").exists()
    assert not (tmp_path / "out").exists()
    assert "unreachable" in said
    assert long.strip() == "long"
    assert "in" in found
    server.close()
    await keeper.aclose()
