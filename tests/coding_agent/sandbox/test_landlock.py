"""The sandbox without bubblewrap: what programs can still do once they have given up the rest."""

import asyncio
import os
import platform
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.errors import BadUsage
from coding_agent.sandbox import bubblewrap, landlock
from coding_agent.sandbox.landlock import LandlockedKeeper, readable
from coding_agent.tools import Workspace, bash_tool, find_tool, grep_tool
from coding_agent.tools.child import ChildNotStarted
from coding_agent.tools.keeper import Program
from tests.coding_agent.tools.support import Bench


@pytest.fixture
def no_bwrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "unavailable", lambda: "the program bwrap is not installed (package bubblewrap)")


def bench_in(folder: Path, *, network: bool = False, hidden: tuple[str, ...] = ()) -> Bench:
    keeper = LandlockedKeeper(os.path.realpath(folder), network=network, hidden=hidden)
    workspace = Workspace(folder, keeper=keeper)
    tools = [make(str(folder), workspace=workspace) for make in (bash_tool, find_tool, grep_tool)]
    return Bench(folder, workspace, {tool.name: tool for tool in tools})


@pytest.fixture
async def bench(tmp_path: Path):
    (tmp_path / "work").mkdir()
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "home/.ssh/id").write_text("the key")
    (tmp_path / "home/.netrc").write_text("the password")
    (tmp_path / "home/plain").write_text("plain words")
    (tmp_path / "home/link").symlink_to(".ssh")
    assert landlock.unavailable("strict") is None, "this kernel has no Landlock: the test needs one that has"
    made = bench_in(tmp_path / "work", hidden=(f"{tmp_path}/home/.ssh", f"{tmp_path}/home/.netrc"))
    yield made
    await made.workspace.keeper.aclose()


async def test_programs_write_in_the_workspace_and_nowhere_else(bench: Bench, tmp_path: Path) -> None:
    """Not by any call that changes something outside: create, write, append, truncate, remove, rename, link, mkdir."""
    (tmp_path / "kept").write_text("kept")
    attempts = f"""cd {tmp_path}; echo x > new; echo x >> kept; : > kept; rm kept; mv kept work/; ln kept work/hard
        mkdir d; mknod p p; ln -s a b; truncate -s 0 kept; cp /etc/hostname {tmp_path}/copy; python3 -c '
import os
for work in (lambda: os.truncate("kept", 0), lambda: os.rename("kept", "other"), lambda: os.unlink("kept")):
    try: work()
    except OSError as error: print(error.strerror)'"""
    await bench.call("bash", command=attempts)
    text = await bench.text("bash", command="echo in > a && mkdir d && mv a d/b && ln d/b c && cat c; rm -r d; mktemp")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "kept", "work"]
    assert (tmp_path / "kept").read_text() == "kept"
    assert text.splitlines()[0] == "in"
    assert str(bench.workspace.keeper.home) in text
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["c"]


async def test_secrets_cannot_be_read_and_the_rest_can(bench: Bench, tmp_path: Path) -> None:
    """By no name that leads to them; and no other program's environment can, though it is the same user's."""
    home = tmp_path / "home"
    text = await bench.text(
        "bash", command=f"cd {home}; cat .ssh/id .netrc link/id ./../home/.netrc; cat plain; echo; ls -A"
    )
    assert "the key" not in text
    assert "the password" not in text
    assert "plain words" in text
    assert ".netrc" in text.split()  # its name is no secret here
    own = await bench.text("bash", command=f"cat /proc/{os.getpid()}/environ; cat /proc/self/environ | tr '\\0' '\\n'")
    assert "PYTEST_CURRENT_TEST" not in own
    assert "PATH=" in own


async def test_there_is_no_network_unless_asked_for(bench: Bench, tmp_path: Path) -> None:
    """Strict: no socket of any family can be made, in any program; pairs of sockets can. With network all can."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    script = f"""import socket
for family, kind in ((2, 1), (2, 2), (10, 1), (1, 1), (16, 3), (17, 3)):
    try: socket.socket(family, kind); print(family, kind, "made")
    except OSError as error: print(family, kind, error.strerror)
socket.socketpair(); print("a pair")
try: socket.create_connection(("127.0.0.1", {port}), 2); print("reached")
except OSError as error: print("unreachable")"""
    command = f"python3 - <<'END'\n{script}\nEND\n(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached"
    strict = await bench.text("bash", command=command)
    assert "made" not in strict
    assert "a pair" in strict
    assert "reached" not in strict.replace("unreachable", "")

    open_bench = bench_in(tmp_path / "work", network=True)
    text = await open_bench.text("bash", command=command)
    assert text.count("reached") == 2
    await open_bench.workspace.keeper.aclose()
    server.close()


async def test_tools_work_as_they_do_outside(bench: Bench) -> None:
    """Exit codes, pseudo terminals, long commands, searches, devices, missing programs, kills."""
    (bench.folder / "f.txt").write_text("needle\n")
    assert "code 3" in await bench.text("bash", command="exit 3")
    assert "tty" in await bench.text("bash", command="tty; test -t 1 && echo tty", pty=True)
    assert await bench.text("bash", command=f": {'x' * 120_000}\necho long > /dev/null; echo fine") == "fine"
    assert "f.txt:1: needle" in await bench.text("grep", pattern="needle")
    assert "f.txt" in await bench.text("find", pattern="*.txt")
    timed = await bench.call("bash", command="sleep 600 & sleep 600", timeout=0.5)
    assert timed.details["timed_out"]
    assert bench.survivors() == []
    with pytest.raises(ChildNotStarted):
        await bench.workspace.keeper.start(Program(argv=("no-such-program",), env={"PATH": "/bin"}), lambda _data: None)


async def test_what_runs_cannot_have_back_what_it_gave_up(bench: Bench, tmp_path: Path) -> None:
    """Neither a child, nor a program with a set-user-id bit, nor another sandbox inside."""
    out = tmp_path / "out"
    command = f"sudo -n touch {out}; bwrap --bind / / touch {out}; setsid bash -c 'touch {out}'; unshare -r touch {out}"
    await bench.call("bash", command=command)
    assert not out.exists()


async def test_it_stands_in_for_bubblewrap_and_says_what_it_is_not(no_bwrap: None, tmp_path: Path) -> None:
    """The person is told when the host starts; where there is neither, nothing is started and both reasons are said."""
    keeper = bubblewrap.sandboxed_keeper(str(tmp_path), "strict")
    assert isinstance(keeper, LandlockedKeeper)
    told = bubblewrap.notice("strict")
    assert told is not None
    assert "git hooks" in told


@pytest.mark.usefixtures("no_bwrap")
def test_where_there_is_neither_nothing_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An old kernel, or a machine whose calls are not known where there must be no network."""
    monkeypatch.setattr(landlock, "version", lambda: 0)
    with pytest.raises(BadUsage, match=r"bubblewrap.*no Landlock"):
        bubblewrap.sandboxed_keeper(str(tmp_path), "strict")
    monkeypatch.setattr(landlock, "version", lambda: 1)
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    assert landlock.unavailable("net") is None
    with pytest.raises(BadUsage, match="vax"):
        bubblewrap.sandboxed_keeper(str(tmp_path), "strict")


names = st.sampled_from(["a", "b", ".ssh", "c"])


@given(st.lists(st.lists(names, min_size=1, max_size=3).map("/".join), max_size=6), st.data())
def test_what_is_given_never_holds_what_is_hidden_and_holds_everything_else(
    tmp_path_factory: pytest.TempPathFactory, paths: list[str], data: st.DataObject
) -> None:
    """Whatever the tree and whatever of it is hidden."""
    root = tmp_path_factory.mktemp("tree")
    for path in paths:
        (root / path).mkdir(parents=True, exist_ok=True)
    everything = sorted(str(path) for path in root.rglob("*"))
    hidden = data.draw(st.lists(st.sampled_from(everything), max_size=3)) if everything else []
    given_, listed = readable([*hidden, "/no/such/path"])

    def inside(path: str, folders: list[str]) -> bool:
        return any(path == each or path.startswith(each.rstrip("/") + "/") for each in folders)

    for path in everything:
        leads_on = any(each.startswith(f"{path}/") for each in hidden)
        assert inside(path, given_) is not (inside(path, hidden) or leads_on), path
    assert listed == (["/"] if hidden else [])
