import os

import pytest

from coding_agent.storage import listing
from coding_agent.storage.listing import children_of, list_sessions, read_summary
from coding_agent.storage.locations import default_session_dir, encode_cwd, file_for, folder_for
from coding_agent.storage.session_manager import SessionManager
from tests.coding_agent.storage.support import PI, line, user, write


def header(number, **members):
    stamp = f"2026-01-02T03:04:{number:02d}.000Z"
    return {"type": "session", "version": 3, "id": f"s{number}", "timestamp": stamp, "cwd": "/p", **members}


def test_sessions_are_listed_newest_first_and_other_files_are_passed_over(tmp_path):
    """
    By the time in the header, from the folder itself and the folders in it; what is no session is not an error.
    """
    inner = tmp_path / "--p--"
    inner.mkdir()
    for number, folder in ((1, inner), (3, tmp_path), (2, inner)):
        write(folder / f"{number}.jsonl", header=header(number))
    (inner / "bad.jsonl").write_bytes(b"\xff\xfe nonsense\n")
    (inner / "empty.jsonl").write_bytes(b"")
    (inner / "note.txt").write_bytes(line(header(9)))
    (inner / "folder.jsonl").mkdir()
    os.mkfifo(inner / "pipe.jsonl")

    assert [found.id for found in list_sessions(tmp_path)] == ["s3", "s2", "s1"]
    assert list_sessions(tmp_path / "no") == []


def test_the_working_folder_is_what_the_header_says(tmp_path):
    """
    Folder names cannot be read back, so they are not.
    """
    write(tmp_path / "1.jsonl", header=header(1, cwd="/a-b/c"))
    write(tmp_path / "2.jsonl", header=header(2, cwd="/a/b-c"))
    assert [found.id for found in list_sessions(tmp_path, "/a/b-c")] == ["s2"]


def test_a_summary_tells_what_header_and_file_say():
    """
    Old headers lack members; times may be milliseconds.
    """
    found = read_summary(PI / "v1-compaction-index.jsonl")
    assert (found.id, found.cwd, found.version, found.parent_session) == ("s1", "/p", 1, None)
    assert found.created_ms == 1767323040000
    assert found.to_json()["size"] == (PI / "v1-compaction-index.jsonl").stat().st_size


@pytest.mark.parametrize(
    ("stamp", "created"), [(1767323040000, 1767323040000), (-5, -5), ("2026-01-02T03:04:00Z", 1767323040000)]
)
def test_times_in_headers_come_in_several_forms(tmp_path, stamp, created):
    """
    ISO text and milliseconds are both in use.
    """
    path = write(tmp_path / "1.jsonl", header=header(1, timestamp=stamp))
    assert read_summary(path).created_ms == created
    odd = write(tmp_path / "2.jsonl", header=header(2, timestamp="yesterday", cwd=None))
    assert read_summary(odd).created_ms == odd.stat().st_mtime_ns // 1_000_000


def test_lineage_can_be_followed_from_a_parent_to_its_children(tmp_path):
    """
    A child names the file of its parent.
    """
    parent = write(tmp_path / "1.jsonl", header=header(1))
    write(tmp_path / "2.jsonl", header=header(2, parentSession=str(parent)))
    write(tmp_path / "3.jsonl", header=header(3, parentSession="/else"))
    assert [found.id for found in children_of(tmp_path, parent)] == ["s2"]


@pytest.mark.requirement("BR-059")
def test_listing_reads_headers_only(tmp_path, monkeypatch):
    """
    However large the sessions are, a listing reads a block of each.
    """
    for number in range(50):
        write(tmp_path / f"{number}.jsonl", b"x" * 100_000, header=header(number))
    read = 0
    system_read = os.read

    def counting(fd, length):
        nonlocal read
        data = system_read(fd, length)
        read += len(data)
        return data

    monkeypatch.setattr(listing.os, "read", counting)
    assert len(list_sessions(tmp_path)) == 50
    assert read <= 50 * 512


def test_a_header_longer_than_a_block_is_read_whole(tmp_path):
    """
    A deep working folder makes a long header; a first line without end is no header.
    """
    path = write(tmp_path / "1.jsonl", header=header(1, cwd="/d" * 2000))
    assert read_summary(path).cwd == "/d" * 2000
    (tmp_path / "2.jsonl").write_bytes(b"x" * (2 << 20))
    assert read_summary(tmp_path / "2.jsonl") is None


@pytest.mark.requirement("BR-059")
def test_children_are_in_files_of_their_own(tmp_path):
    """
    Opening a parent costs what the parent said, whatever its four hundred children said.
    """
    with SessionManager.create("/p", tmp_path) as parent:
        parent.append_message(user("parent"))
    for number in range(400):
        path = tmp_path / "children" / f"{number}.jsonl"
        with SessionManager.create("/p", path=path, parent_session=parent.path, fsync="none") as child:
            child.append_message(user("child " + "x" * 10_000))
    with SessionManager.open(parent.path) as again:
        assert again.report.size < 1000
    assert len(children_of(tmp_path, parent.path)) == 400


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        ("/home/me/x", "--home-me-x--"),
        ("C:\\work\\x", "--C--work-x--"),
        ("/", "----"),
        ("rel/a", "--rel-a--"),
        ("/a b", "--a b--"),
        ("/a\0b", "--a-b--"),
        ("/a\ud800b", "--a-b--"),
        ("/a\udcffb", "--a\udcffb--"),
    ],
)
def test_a_working_folder_names_its_folder(cwd, name):
    """
    One leading separator goes, the others become hyphens, and so does what a damaged header may say and no name holds.
    """
    assert encode_cwd(cwd) == name


def test_a_very_deep_working_folder_still_makes_a_name_a_file_system_takes(tmp_path):
    """
    255 bytes are the limit nearly everywhere.
    """
    folder = folder_for(tmp_path, "/ä" * 500)
    folder.mkdir()
    assert file_for(tmp_path, "/p", "2026-01-02T03:04:05.678Z", "../x").name == "2026-01-02T03-04-05-678Z_.._x.jsonl"


def test_the_place_of_sessions_can_be_set(tmp_path):
    """
    A variable of ours wins over the user's folder for state.
    """
    assert default_session_dir({"LEMON_SESSION_DIR": "/s", "HOME": "/h"}).as_posix() == "/s"
    assert default_session_dir({"XDG_STATE_HOME": "/state", "HOME": "/h"}).as_posix() == "/state/lemon/sessions"
    assert default_session_dir({"HOME": "/h"}).as_posix() == "/h/.local/state/lemon/sessions"
