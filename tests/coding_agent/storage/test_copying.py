import errno
import json

import pytest

from coding_agent.errors import BadUsage, EntryNotFound
from coding_agent.storage import copying
from coding_agent.storage.session_manager import SessionManager
from tests.coding_agent.storage.support import PI, FaultyFiles, answer, chain, disk_texts, entry, said, user, write


@pytest.fixture
def manager(tmp_path):
    with SessionManager.create("/p", tmp_path / "old", metadata={"k": 1}) as made:
        made.append_message(user("a"))
        made.append_message(answer("b"))
        made.append_message(user("c"))
        made.append_message(answer("d"))
        yield made


def ids(manager):
    return [entry.id for entry in manager.branch()]


def test_a_fork_in_front_of_words_of_the_user_gives_them_back(manager, tmp_path):
    """
    The branch up to there is copied with its ids, the words go to the editor, and the parent is named.
    """
    made = copying.fork(manager.log, ids(manager)[2], session_dir=tmp_path / "new", cwd="/other")

    assert made.editor_text == "c"
    with SessionManager.open(made.path) as forked:
        assert ids(forked) == ids(manager)[:2]
        assert forked.header.parent_session == str(manager.path)
        assert forked.header.cwd == "/other"
        assert forked.header.data["metadata"] == {"k": 1}
        assert forked.session_id not in (manager.session_id, "")


def test_a_fork_at_an_entry_keeps_it(manager, tmp_path):
    """
    Any entry will do.
    """
    made = copying.fork(manager.log, ids(manager)[1], "at", session_dir=tmp_path)
    assert disk_texts(made.path) == ["a", "b"]
    assert made.editor_text == ""


def test_a_fork_without_an_entry_takes_all_branches(manager, tmp_path):
    """
    The whole tree, its leaf where it was.
    """
    manager.set_leaf(ids(manager)[0])
    manager.append_message(answer("other"))
    made = copying.fork(manager.log, session_dir=tmp_path)

    with SessionManager.open(made.path) as forked:
        assert len(forked.tree) == len(manager.tree)
        assert forked.leaf_id == manager.leaf_id
        assert forked.path.read_bytes().split(b"\n")[1:] == manager.path.read_bytes().split(b"\n")[1:]


def test_a_clone_is_the_current_branch(manager, tmp_path):
    """
    Other branches stay behind; labels put on from elsewhere come along.
    """
    first, second = ids(manager)[:2]
    manager.append_label(first, "begin")
    manager.set_leaf(second)
    made = copying.clone(manager.log, session_dir=tmp_path)

    with SessionManager.open(made.path) as cloned:
        assert disk_texts(cloned.path) == ["a", "b"]
        assert cloned.labels == {first: "begin"}


@pytest.mark.requirement("BR-062")
def test_what_is_said_in_a_fork_is_said_in_the_fork_only(manager, tmp_path):
    """
    The parent's file keeps its bytes.
    """
    before = manager.path.read_bytes()
    made = copying.clone(manager.log, session_dir=tmp_path)
    with SessionManager.open(made.path) as forked:
        forked.append_message(user("only here"))

    assert manager.path.read_bytes() == before
    assert disk_texts(forked.path)[-1] == "only here"


def test_a_fork_that_makes_no_sense_makes_nothing(manager, tmp_path):
    """
    An unknown entry, and `before` an answer.
    """
    with pytest.raises(EntryNotFound):
        copying.fork(manager.log, "gone", session_dir=tmp_path / "new")
    with pytest.raises(BadUsage, match="at it"):
        copying.fork(manager.log, ids(manager)[1], session_dir=tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("operation", ["write", "fsync", "replace"])
def test_a_fork_that_cannot_be_written_leaves_nothing(manager, tmp_path, operation):
    """
    It is there whole or not at all.
    """
    files = FaultyFiles()
    files.failing[operation] = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        copying.clone(manager.log, session_dir=tmp_path / "new", files=files)
    assert [found for found in (tmp_path / "new").rglob("*") if found.is_file()] == []


def test_a_fork_of_an_older_format_is_of_the_present_one(tmp_path):
    """
    A file of format 1 is not touched by forking it; the fork has ids, and the pointer of its compaction is right.
    """
    with SessionManager.open(PI / "v1-compaction-index.jsonl", read_only=True) as old:
        made = copying.clone(old.log, session_dir=tmp_path)
        context = old.build_context()

    with SessionManager.open(made.path) as forked:
        assert forked.report.version == 3
        assert forked.build_context() == context
        assert forked.header.data["modelId"] == "claude-sonnet-4-5"


def test_a_fork_of_a_damaged_file_is_a_sound_one(tmp_path):
    """
    Entries whose parent or id had to be bent are written as the tree has them.
    """
    path = write(
        tmp_path / "s.jsonl",
        *chain("a"),
        b"\0\0\n",
        entry("e3", "lost", "c"),
        entry("e3", "e1", "d"),
        entry("e4", "e3", "e"),
    )
    with SessionManager.open(path, read_only=True) as damaged:
        made = copying.fork(damaged.log, session_dir=tmp_path / "new")
        words = said(damaged.build_context().messages)
    with SessionManager.open(made.path) as sound:
        assert said(sound.build_context().messages) == words == ["a", "d", "e"]
        assert sound.report.clean()
        stored = [json.loads(raw) for raw in made.path.read_bytes().split(b"\n")[:-1]]
        assert [data.get("parentId") for data in stored[1:]] == [None, "e1", "e1", "e3~2"]
