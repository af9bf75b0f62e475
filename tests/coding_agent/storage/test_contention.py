"""Two hosts and one session file."""

import json
import os
import signal
import subprocess
import sys

import pytest

from coding_agent.errors import SessionLocked
from coding_agent.storage import lock
from coding_agent.storage.session_manager import SessionManager
from tests.coding_agent.storage.support import chain, disk_texts, said, user, write

HOLDER = """
import os, sys
from coding_agent.storage.session_manager import SessionManager
from lemon_ai import UserMessage
manager = SessionManager.open(sys.argv[1])
manager.append_message(UserMessage("theirs", 1))
print(os.getpid(), flush=True)
sys.stdin.readline()
manager.close()
"""

CONTENDER = """
import sys
from coding_agent.errors import SessionLocked
from coding_agent.storage.session_manager import SessionManager
from lemon_ai import UserMessage
sys.stdin.readline()
won = refused = 0
while won < 10:
    try:
        manager = SessionManager.open(sys.argv[1], fsync="none")
    except SessionLocked as error:
        assert error.holder_pid != 0
        refused += 1
        continue
    with manager:
        for number in range(5):
            manager.append_message(UserMessage(f"{sys.argv[2]} {won * 5 + number}", 1))
    won += 1
print(won, refused)
"""


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "s.jsonl", *chain("a"))


@pytest.fixture
def holder(path):
    started = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert int(started.stdout.readline()) == started.pid
    yield started
    started.kill()
    started.communicate()


@pytest.mark.requirement("BR-056", "BR-057")
def test_the_second_host_is_refused_and_told_who_has_the_session(path, holder):
    """
    The error names the process; reading is still possible; nothing of the session is touched.
    """
    before = path.read_bytes()
    with pytest.raises(SessionLocked, match=f"process {holder.pid}") as refused:
        SessionManager.open(path)

    assert refused.value.holder_pid == holder.pid
    assert refused.value.holder_host == os.uname().nodename
    assert path.read_bytes() == before
    with SessionManager.open(path, read_only=True) as reading:
        assert said(reading.build_context().messages) == ["a", "theirs"]


def test_a_host_that_ends_leaves_the_session_free_and_no_lock_file(path, holder):
    """
    After a clean end there is the session and nothing else.
    """
    holder.communicate("\n")
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    with SessionManager.open(path) as manager:
        assert manager.report.stale_lock is None


@pytest.mark.requirement("BR-057")
def test_the_lock_of_a_killed_host_is_taken_over_and_reported(path, holder):
    """
    kill -9 leaves a note; the next host sees that nobody is behind it any more.
    """
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert lock.read_note(path)["pid"] == holder.pid

    with SessionManager.open(path) as manager:
        assert manager.report.stale_lock == holder.pid
        manager.append_message(user("ours"))
    assert disk_texts(path) == ["a", "theirs", "ours"]
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_note_nobody_can_read_is_no_obstacle(path):
    """
    The note is only for people; the lock is what counts.
    """
    lock.note_path(path).write_bytes(b"\xff garbage")
    with SessionManager.open(path) as manager:
        manager.append_message(user("b"))
        with pytest.raises(SessionLocked):
            SessionManager.open(path)


def test_one_process_is_as_strict_with_itself(path):
    """
    Two managers of one host are two writers.
    """
    with SessionManager.open(path):
        with pytest.raises(SessionLocked) as refused:
            SessionManager.open(path)
        assert refused.value.holder_pid == os.getpid()
    SessionManager.open(path).close()


@pytest.mark.requirement("BR-054", "BR-056", "BR-057")
def test_hosts_that_race_for_a_session_write_it_one_after_the_other(path):
    """
    Four processes open, append and close as fast as they can: one total order, every line whole, nothing lost, and each
    block of five messages in one piece.
    """
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", CONTENDER, str(path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in "wxyz"
    ]
    for racer in racers:
        racer.stdin.write("\n")
        racer.stdin.flush()
    outcomes = [racer.communicate(timeout=60)[0].split() for racer in racers]

    assert [outcome[0] for outcome in outcomes] == ["10"] * 4
    texts = disk_texts(path)[1:]
    assert sorted(texts) == sorted(f"{name} {number}" for name in "wxyz" for number in range(50))
    blocks = [texts[at : at + 5] for at in range(0, len(texts), 5)]
    assert all(len({text[0] for text in block}) == 1 for block in blocks)
    for name in "wxyz":
        assert [text for text in texts if text[0] == name] == [f"{name} {number}" for number in range(50)]
    with SessionManager.open(path) as manager:
        assert said(manager.build_context().messages) == ["a", *texts]
        assert manager.report.clean()
        ids = [json.loads(raw).get("id") for raw in path.read_bytes().split(b"\n")[:-1]]
        assert len(set(ids)) == len(ids)
