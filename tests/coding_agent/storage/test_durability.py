"""The order in which bytes are written and forced to the disk, and what happens when the disk does not take them."""

import errno

import pytest

from coding_agent.errors import SessionReadOnly, SessionWriteFailed
from coding_agent.storage.session_manager import SessionManager
from tests.coding_agent.storage.support import PI, FaultyFiles, disk_texts, said, user


@pytest.fixture
def files():
    return FaultyFiles()


def created(tmp_path, files, fsync="turn"):
    return SessionManager.create("/p", tmp_path, files=files, fsync=fsync)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("none", ["write", "write", "write"]),
        ("turn", ["sync_folder", "write", "write", "fsync", "write", "fsync"]),
        ("entry", ["sync_folder", "write", "fsync", "write", "fsync", "write", "fsync"]),
    ],
)
def test_each_append_is_one_write_and_the_policy_says_when_it_is_forced(tmp_path, files, policy, expected):
    """
    One write a line, whole; never forced, forced at the end of a turn, or forced with each entry.
    """
    manager = created(tmp_path, files, policy)
    manager.append_message(user("a"))
    manager.append_message(user("b"))
    manager.turn_end()
    manager.turn_end()
    manager.append_message(user("c"))
    manager.close()

    assert [asked.split()[0] for asked in files.log if not asked.startswith("open")] == expected


def test_an_entry_is_with_the_system_before_the_append_returns(tmp_path, files):
    """
    Another reader sees the line as soon as the append has returned, without a flush in between.
    """
    with created(tmp_path, files, "none") as manager:
        for text in ("a", "b", "c"):
            manager.append_message(user(text))
            assert disk_texts(manager.path)[-1] == text


@pytest.mark.requirement("PERS-10", "PERS-5")
def test_what_a_full_disk_does_not_take_waits_in_order_and_is_written_later(tmp_path, files):
    """
    Each failing append is reported and kept; when there is room again all are written once, in order, by the next one.
    """
    with created(tmp_path, files) as manager:
        manager.append_message(user("a"))
        files.room = 0
        for waiting, text in enumerate(("b", "c"), 1):
            with pytest.raises(SessionWriteFailed) as failure:
                manager.append_message(user(text))
            assert failure.value.unsaved == waiting == manager.unsaved
            assert failure.value.entry_id == manager.leaf_id
        assert said(manager.build_context().messages) == ["a", "b", "c"]
        assert disk_texts(manager.path) == ["a"]

        files.room = None
        manager.append_message(user("d"))
        assert manager.unsaved == 0
        assert disk_texts(manager.path) == ["a", "b", "c", "d"]

    with SessionManager.open(manager.path, read_only=True) as again:
        assert said(again.build_context().messages) == ["a", "b", "c", "d"]
        assert again.report.clean()


@pytest.mark.requirement("PERS-8")
def test_a_line_that_only_half_fits_leaves_nothing_behind(tmp_path, files):
    """
    A short write is taken back, so that a reader in between sees whole lines only.
    """
    with created(tmp_path, files) as manager:
        manager.append_message(user("a"))
        size = manager.path.stat().st_size
        files.room = 40
        with pytest.raises(SessionWriteFailed, match="No space"):
            manager.append_message(user("b"))
        assert manager.path.stat().st_size == size
        files.room = None
        manager.flush()
    assert disk_texts(manager.path) == ["a", "b"]


@pytest.mark.requirement("PERS-8")
def test_a_half_written_line_that_cannot_be_taken_back_is_cut_off_later(tmp_path, files):
    """
    Even when the disk refuses that as well, the next append finds the torn line and cuts it off first.
    """
    with created(tmp_path, files) as manager:
        manager.append_message(user("a"))
        files.room, files.failing["truncate"] = 40, errno.EIO
        with pytest.raises(SessionWriteFailed):
            manager.append_message(user("b"))
        files.room = None
        files.failing.clear()
        manager.append_message(user("c"))

    assert disk_texts(manager.path) == ["a", "b", "c"]


@pytest.mark.parametrize("room", [0, 10, 150])
def test_a_new_session_that_does_not_fit_leaves_no_file(tmp_path, files, room):
    """
    A disk that is full from the start gets no empty session; the entries wait.
    """
    with created(tmp_path, files) as manager:
        files.room = room
        with pytest.raises(SessionWriteFailed):
            manager.append_message(user("a"))
        assert not manager.path.exists()
        assert list(manager.path.parent.iterdir()) == []
        files.room = None
        manager.append_message(user("b"))
    assert disk_texts(manager.path) == ["a", "b"]


def test_a_disk_that_cannot_be_forced_is_reported_and_nothing_is_written_twice(tmp_path, files):
    """
    The line is with the system, so it is not written again; the failure is told.
    """
    with created(tmp_path, files, "entry") as manager:
        manager.append_message(user("a"))
        files.failing["fsync"] = errno.EIO
        with pytest.raises(SessionWriteFailed) as failure:
            manager.append_message(user("b"))
        assert failure.value.unsaved == 0
        with pytest.raises(SessionWriteFailed):
            manager.turn_end()
        files.failing.clear()
        manager.append_message(user("c"))
        manager.turn_end()
    assert disk_texts(manager.path) == ["a", "b", "c"]


def test_closing_with_something_unsaved_says_so_and_gives_up_the_lock(tmp_path, files):
    """
    The last chance to hear that something is lost.
    """
    manager = created(tmp_path, files)
    manager.append_message(user("a"))
    files.room = 0
    with pytest.raises(SessionWriteFailed):
        manager.append_message(user("b"))
    with pytest.raises(SessionWriteFailed):
        manager.close()
    with SessionManager.open(manager.path) as again:
        assert said(again.build_context().messages) == ["a"]


@pytest.mark.requirement("SESS-11")
@pytest.mark.parametrize("operation", ["write", "replace", "fsync", "open"])
def test_a_file_of_an_older_format_is_whole_whatever_fails_while_it_is_written_anew(tmp_path, files, operation):
    """
    The old file stays until the new one is complete and on the disk; then the entry that waited is written too.
    """
    path = tmp_path / "v1.jsonl"
    original = (PI / "v1-compaction-index.jsonl").read_bytes()
    path.write_bytes(original)
    with SessionManager.open(path, files=files) as manager:
        files.failing[operation] = errno.EIO
        with pytest.raises(SessionWriteFailed):
            manager.append_message(user("new"))
        assert path.read_bytes() == original
        assert [found.name for found in tmp_path.iterdir() if ".tmp." in found.name] == []
        files.failing.clear()
        manager.append_message(user("newer"))

    backups = sorted(found.name for found in tmp_path.iterdir() if ".bak" in found.name)
    assert (tmp_path / backups[0]).read_bytes() == original
    with SessionManager.open(path, read_only=True) as again:
        assert said(again.build_context().messages) == ["s", "two", "2", "three", "new", "newer"]
        assert again.report.version == 3


def test_the_order_of_writing_anew_is_write_force_backup_rename(tmp_path, files):
    """
    Nothing is renamed over the old file before the new one is on the disk.
    """
    path = tmp_path / "v2.jsonl"
    path.write_bytes((PI / "v2-hook-message.jsonl").read_bytes())
    with SessionManager.open(path, files=files) as manager:
        files.log.clear()
        manager.append_message(user("new"))
    asked = [entry.split()[0] for entry in files.log]

    assert asked[0] == "open"
    assert asked.index("fsync") < asked.index("replace")
    assert "write" in asked[: asked.index("fsync")]
    assert asked[asked.index("replace") :].count("write") == 1


def test_a_session_that_cannot_be_written_says_why_and_can_be_read(tmp_path):
    """
    A refused open for writing is no refused open for reading.
    """

    class ReadOnlyFiles(FaultyFiles):
        def open(self, path, flags, mode=0o600):
            if flags & 3:
                raise OSError(errno.EROFS, "Read-only file system")
            return super().open(path, flags, mode)

    with created(tmp_path, FaultyFiles()) as manager:
        manager.append_message(user("a"))
    with SessionManager.open(manager.path, files=ReadOnlyFiles()) as again:
        assert said(again.build_context().messages) == ["a"]
        with pytest.raises(SessionReadOnly, match="Read-only file system"):
            again.append_message(user("b"))
        assert said(again.build_context().messages) == ["a"]
