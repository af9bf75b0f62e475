"""The files real programs wrote: read, appended to, read again."""

import json
import shutil

import pytest

from coding_agent.storage import copying
from coding_agent.storage.session_manager import SessionManager
from tests.coding_agent.storage.support import HEADER, PI, chain, entry, said, user, write

FILES = sorted(PI.glob("*.jsonl"))


def test_there_are_samples():
    """
    The shared samples are where they belong.
    """
    assert [path.name for path in FILES] == [
        "v1-compaction-index.jsonl",
        "v1-large-session.jsonl",
        "v2-hook-message.jsonl",
        "v3-all-entry-types.jsonl",
    ]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def copy(request, tmp_path):
    path = tmp_path / request.param.name
    shutil.copyfile(request.param, path)
    return path


def objects(path):
    return [json.loads(raw) for raw in path.read_bytes().split(b"\n") if raw.strip()]


@pytest.mark.requirement("SESS-11")
def test_reading_changes_nothing(copy):
    """
    A file is never rewritten merely to be read, and nothing is put beside it for good.
    """
    before = copy.read_bytes()
    with SessionManager.open(copy) as manager:
        manager.build_context()
        manager.branch()
        assert manager.report.clean()
    assert copy.read_bytes() == before
    assert [found.name for found in copy.parent.iterdir()] == [copy.name]


@pytest.mark.requirement("SESS-11", "PERS-4")
def test_appending_keeps_every_entry_and_the_context(copy):
    """
    Format 3 stays byte for byte; older formats become format 3 entry by entry, with the original beside as .bak.
    """
    before, original = objects(copy), copy.read_bytes()
    with SessionManager.open(copy) as manager:
        context = manager.build_context(repaired=False).messages
        ids = list(manager.tree.ids)
        manager.append_message(user("appended"))
    after = objects(copy)

    if before[0].get("version") == 3:
        assert copy.read_bytes().startswith(original)
        assert not copy.with_name(copy.name + ".bak").exists()
    else:
        assert copy.with_name(copy.name + ".bak").read_bytes() == original
        assert after[0] == {**before[0], "version": 3}
        for old, new in zip(before[1:], after[1:-1], strict=True):
            added = set(new) - set(old)
            assert added <= {"id", "parentId", "firstKeptEntryId"}
            assert {key: new[key] for key in old if key in new and key != "message"} == {
                key: old[key] for key in old if key in new and key != "message"
            }
    with SessionManager.open(copy, read_only=True) as again:
        assert again.report.version == 3
        assert list(again.tree.ids)[:-1] == ids
        assert again.build_context(repaired=False).messages[:-1] == context
        assert said(again.build_context().messages)[-1] == "appended"
        assert again.report.clean()


@pytest.mark.requirement("SESS-11")
def test_an_older_file_has_the_same_ids_each_time_it_is_read(copy):
    """
    An entry named today is found tomorrow, though the file is not rewritten in between.
    """
    with SessionManager.open(copy, read_only=True) as one, SessionManager.open(copy, read_only=True) as other:
        assert one.tree.ids == other.tree.ids
        assert len(set(one.tree.ids)) == len(one.tree)


def test_a_fork_holds_the_same_conversation(copy, tmp_path):
    """
    Whatever the format, a clone's context is the original's.
    """
    with SessionManager.open(copy, read_only=True) as manager:
        made = copying.clone(manager.log, session_dir=tmp_path / "new")
        context = manager.build_context()
    with SessionManager.open(made.path) as cloned:
        assert cloned.build_context().messages == context.messages
        assert cloned.report.clean()


def test_the_text_of_numbers_survives_a_rewrite(tmp_path):
    """
    The large file has prices such as 0.000009; they are written as they were.
    """
    copy = tmp_path / "s.jsonl"
    shutil.copyfile(PI / "v1-large-session.jsonl", copy)
    with SessionManager.open(copy) as manager:
        manager.append_message(user("x"))
    old = [raw for raw in copy.with_name("s.jsonl.bak").read_bytes().split(b"\n") if raw]
    new = copy.read_bytes().split(b"\n")

    assert b'"input":0.000009,' in copy.read_bytes()
    assert all(line.startswith(before[:-1]) for before, line in zip(old, new, strict=False))


def test_an_id_used_twice_in_an_old_file_leads_its_children_to_the_right_one(tmp_path):
    """
    A rewrite gives the second entry of an id a name of its own; what is appended by the same write hangs on that one
    and not on the first.
    """
    path = write(tmp_path / "s.jsonl", *chain("one"), entry("e1", None, "two"), header={**HEADER, "version": 2})
    with SessionManager.open(path) as manager:
        manager.append_label("e1~2", "here")
        manager.append_message(user("three"))
    with SessionManager.open(path) as manager:
        assert said(manager.build_context().messages) == ["two", "three"]
        assert manager.labels == {"e1~2": "here"}
        assert manager.report.clean()
