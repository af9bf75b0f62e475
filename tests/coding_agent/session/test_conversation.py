"""What a session process does with its file while others wait for nothing."""

import errno
import threading

from coding_agent import client
from coding_agent.events import SavePoint, StorageFailed
from coding_agent.storage.files import OsFiles
from lemon_agent import MessageUpdate, TurnEnd
from lemon_otp import exit_signal, mailbox_length, self_pid
from lemon_otp.testing import settle


class SlowDisk:
    """Takes its time over the first thing it is asked to force, and may refuse it then."""

    def __init__(self, monkeypatch, refusal: OSError | None = None) -> None:
        self.asked, self.let_go = threading.Event(), threading.Event()
        self.refusal = refusal
        self.threads = []
        monkeypatch.setattr(OsFiles, "fsync", self.fsync)

    def fsync(self, fd: int) -> None:
        self.threads.append(threading.current_thread())
        if not self.asked.is_set():
            self.asked.set()
            assert self.let_go.wait(20)
            if self.refusal is not None:
                raise self.refusal


async def answered_once(host):
    """A session that forces turns to the disk, with its file made and its settings in it."""
    session = await host.session("At first.", "An answer.", fsync="turn")
    await host.run(session, "hi")
    return session


async def test_while_the_disk_takes_its_time_over_a_turn_everybody_else_goes_on(host, monkeypatch):
    """The event loop does not wait: another session answers. The turn's save point is told when it is on the disk."""
    slow = await answered_once(host)
    disk = SlowDisk(monkeypatch)
    await client.prompt(slow, "hi")
    told = await host.until(TurnEnd)
    await settle()
    waiting = mailbox_length(self_pid())
    assert any(isinstance(event.event, MessageUpdate) for event in told)
    assert not any(isinstance(event.event, SavePoint) for event in told)

    quick = await host.session("Quickly.", fsync="none")
    seen = await host.run(quick, "hi")
    assert waiting == 0
    assert {event.session_id for event in seen} == {(await client.get_state(quick)).session_id}
    assert disk.asked.is_set()

    disk.let_go.set()
    rest = await host.until_settled()
    assert isinstance(rest[0].event, SavePoint)
    assert disk.threads[0] is not threading.main_thread()


async def test_a_disk_that_refuses_a_turn_is_told_of_once_and_the_run_ends(host, monkeypatch):
    """What the thread hears from the disk, the subscribers hear."""
    session = await answered_once(host)
    disk = SlowDisk(monkeypatch, OSError(errno.EIO, "Input/output error"))
    disk.let_go.set()
    events = [event.event for event in await host.run(session, "hi")]
    [failure] = [event for event in events if isinstance(event, StorageFailed)]
    assert "Input/output error" in failure.message


async def test_a_session_that_is_killed_while_the_disk_takes_its_time_ends_at_once(host, monkeypatch):
    """Its file is closed with it; the thread is let go by the disk, not by the session."""
    session = await answered_once(host)
    disk = SlowDisk(monkeypatch)
    await client.prompt(session, "hi")
    await host.until(TurnEnd)
    await settle()
    assert disk.asked.wait(20)
    exit_signal(session, "kill")
    await settle()
    assert not session.alive
    disk.let_go.set()
