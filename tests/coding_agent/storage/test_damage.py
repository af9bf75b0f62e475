"""Files as crashes, bad disks, other programs and people leave them: all are loaded or refused in so many words."""

import errno
import os
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coding_agent.errors import (
    NotASession,
    SessionError,
    SessionFileChanged,
    SessionReadOnly,
    SessionTooLarge,
    SessionWriteFailed,
    UnsupportedVersion,
)
from coding_agent.storage.session_manager import SessionManager
from tests.coding_agent.storage.support import FaultyFiles, chain, disk_texts, entry, line, said, user, write


def texts(path, **options):
    with SessionManager.open(path, read_only=True, **options) as manager:
        return said(manager.build_context().messages)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "s.jsonl"


# The end of the file.


@pytest.mark.requirement("PERS-8")
@pytest.mark.parametrize("left", [1, 20, 60, 110])
def test_a_torn_last_line_is_passed_over_and_cut_off_by_the_next_append(path, left):
    """
    A crash in the middle of a write loses that line only. Reading does not touch the file; the next append repairs it.
    """
    whole = line(entry("torn", "e2", "never acknowledged"))
    write(path, *chain("a", "b"), whole[:left])
    before = path.read_bytes()

    with SessionManager.open(path) as manager:
        assert said(manager.build_context().messages) == ["a", "b"]
        assert manager.report.torn_tail.length == left
        assert path.read_bytes() == before
        manager.append_message(user("c"))
    assert disk_texts(path) == ["a", "b", "c"]
    assert texts(path) == ["a", "b", "c"]


@pytest.mark.requirement("PERS-8")
def test_a_last_line_that_only_misses_its_line_end_is_kept(path):
    """
    The entry is whole: it is loaded, and the next append gives it its line end.
    """
    write(path, *chain("a"), line(entry("e2", "e1", "b"))[:-1])
    with SessionManager.open(path) as manager:
        assert said(manager.build_context().messages) == ["a", "b"]
        manager.append_message(user("c"))
    assert disk_texts(path) == ["a", "b", "c"]


@pytest.mark.requirement("BR-053")
def test_a_record_whose_first_write_stopped_half_way_is_loaded_once(path):
    """
    Half of a record, then the same record whole: one entry, listed and reachable.
    """
    record = line(entry("e2", "e1", "b"))
    write(path, *chain("a"), record[:50] + b"\n", record, record)

    with SessionManager.open(path, read_only=True) as manager:
        assert said(manager.build_context().messages) == ["a", "b"]
        assert [bad.number for bad in manager.report.bad_lines] == [3]
        assert manager.report.problems.repeated == ["e2"]


def test_a_torn_line_another_program_wrote_on_is_read_to_its_end(path):
    """
    A program that does not know about torn lines appends its record right behind one: it is found.
    """
    write(path, *chain("a"), line(entry("torn", "e1", "x"))[:70] + line(entry("e2", "e1", "b")))
    assert texts(path) == ["a", "b"]


# The middle of the file.


@pytest.mark.requirement("BR-048")
def test_a_run_of_zero_bytes_does_not_cut_the_conversation(path):
    """
    Everything behind it is loaded, on the same branch; the line is reported.
    """
    write(path, *chain("a", "b"), b"\0" * 300 + b"\n", entry("e4", "lost", "d"), entry("e5", "e4", "e"))

    with SessionManager.open(path, read_only=True) as manager:
        assert said(manager.build_context().messages) == ["a", "b", "d", "e"]
        (bad,) = manager.report.bad_lines
        assert (bad.number, bad.reason) == (4, "only zero bytes")
        assert manager.report.problems.missing_parents == {"e4": "e2"}


@pytest.mark.requirement("BR-051")
def test_two_records_on_one_line_keep_the_chain(path):
    """
    Both are recovered and the entry that hangs on the second finds its parent.
    """
    glued = line(entry("e2", "e1", "b}{"))[:-1] + line(entry("e3", "e2", "c"))
    write(path, *chain("a"), glued, entry("e4", "e3", "d"))

    with SessionManager.open(path, read_only=True) as manager:
        assert said(manager.build_context().messages) == ["a", "b}{", "c", "d"]
        assert manager.report.bad_lines[0].recovered == 2
        assert manager.report.problems.missing_parents == {}


@pytest.mark.requirement("BR-057")
def test_two_writers_that_made_the_same_id_lose_nothing(path):
    """
    Both entries are there, the conversation goes on from the later one, and appending works.
    """
    write(path, *chain("a"), entry("x", "e1", "mine"), entry("x", "e1", "theirs"), entry("e9", "x", "next"))

    with SessionManager.open(path) as manager:
        assert said(manager.build_context().messages) == ["a", "theirs", "next"]
        assert said(manager.build_context("x~2").messages) == ["a", "theirs"]
        assert said(manager.build_context(manager.children("e1")[0]).messages) == ["a", "mine"]
        manager.append_message(user("after"))
    assert texts(path) == ["a", "theirs", "next", "after"]


def test_bad_lines_stay_in_the_file_byte_for_byte(path):
    """
    Appending to a damaged file adds lines and changes none.
    """
    junk = b"not json\n\n  \n{\xff\xfe}\n[1,2]\n" + b"\0" * 10 + b"\n"
    write(path, *chain("a"), junk, entry("e2", "e1", "b"))
    before = path.read_bytes()

    with SessionManager.open(path) as manager:
        manager.append_message(user("c"))
    assert path.read_bytes().startswith(before)
    assert texts(path) == ["a", "b", "c"]


def test_bad_lines_survive_being_written_anew(path):
    """
    A damaged file of format 1 keeps its bad lines in their places when it becomes format 3.
    """
    body = [{"type": "message", "timestamp": "t", "message": {"role": "user", "content": text}} for text in ("a", "b")]
    header = {"type": "session", "id": "s", "timestamp": "t", "cwd": "/p", "unknown": 1.50}
    write(path, body[0], b"not json\n", body[1], header=header)

    with SessionManager.open(path) as manager:
        manager.append_message(user("c"))
        lines = path.read_bytes().split(b"\n")
    assert lines[2] == b"not json"
    assert b'"unknown": 1.5' in lines[0]
    assert texts(path) == ["a", "b", "c"]


@pytest.mark.requirement("SESS-11")
def test_unknown_types_and_members_survive_byte_for_byte(path):
    """
    Being opened, appended to and forked changes no byte of an entry this program does not know.
    """
    odd = b'{"type":"x_future", "id":"f","parentId":"e1","n":[1,2.0,1.10,0.000009], "s":"\\u00e9\xe2\x80\xa8"}\n'
    write(path, *chain("a"), odd, entry("e2", "f", "b", extra={"k": 1.0}))

    with SessionManager.open(path) as manager:
        manager.append_message(user("c"))
    assert odd in path.read_bytes()
    assert texts(path) == ["a", "b", "c"]


def test_parents_in_a_circle_and_a_leaf_in_it_are_survived(path):
    """
    The walk ends, the circle is reported, and the session can be gone on with.
    """
    write(
        path, entry("a", "b", "a"), entry("b", "a", "b"), {"type": "leaf", "id": "l", "parentId": "b", "targetId": "a"}
    )

    with SessionManager.open(path) as manager:
        assert said(manager.build_context().messages) == ["b", "a"]
        assert manager.report.problems.cycles
        manager.append_message(user("c"))
    assert texts(path) == ["b", "a", "c"]


def test_line_ends_of_another_system_and_a_byte_order_mark_do_no_harm(path):
    """
    CRLF and a BOM are what editors make of a file.
    """
    write(path, *chain("a", "b\u2028c"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))

    with SessionManager.open(path) as manager:
        assert said(manager.build_context().messages) == ["a", "b\u2028c"]
        manager.append_message(user("d"))
    assert texts(path) == ["a", "b\u2028c", "d"]


def test_text_that_is_not_utf8_is_still_a_message(path):
    """
    The bad bytes are shown as U+FFFD and stay as they are in the file.
    """
    raw = line(entry("e2", "e1", "caf?")).replace(b"caf?", b"caf\xe9")
    write(path, *chain("a"), raw, entry("e3", "e2", "c"))

    with SessionManager.open(path) as manager:
        assert said(manager.build_context().messages) == ["a", "caf\ufffd", "c"]
        manager.append_message(user("d"))
    assert raw in path.read_bytes()


def test_half_a_surrogate_pair_comes_back(path):
    """
    A model may say half a character; the file stays UTF-8.
    """
    with SessionManager.create("/p", path=path) as manager:
        manager.append_message(user("a\ud800b"))
    path.read_bytes().decode("utf-8")
    assert texts(path) == ["a\ud800b"]


def test_times_before_1970_and_beyond_reason_are_survived(path):
    """
    A clock that was wrong is no reason to lose a message, and the file keeps what it said.
    """
    odd = entry("e1", None, "a", timestamp=-5) | {"message": {"role": "user", "content": "a", "timestamp": -86_400_000}}
    huge = entry("e2", "e1", "b", timestamp=10**30) | {"message": {"role": "user", "content": "b", "timestamp": 10**30}}
    summary = {
        "type": "branch_summary",
        "id": "e3",
        "parentId": "e2",
        "timestamp": "never",
        "fromId": "e1",
        "summary": "s",
    }
    write(path, odd, huge, summary, header={"type": "session", "version": 3, "id": "s", "timestamp": -1})

    with SessionManager.open(path) as manager:
        assert said(manager.build_context().messages) == ["a", "b", "s"]
        manager.append_message(user("c", at=-1))
    assert b"-86400000" in path.read_bytes()
    assert b'"timestamp":-1' in path.read_bytes()


def test_a_line_of_fifty_megabytes_is_a_message_like_any_other(path):
    """
    What stands before and behind it is loaded too, and appending works.
    """
    write(path, *chain("a"), entry("big", "e1", "x" * (50 << 20)), entry("e2", "big", "b"))

    with SessionManager.open(path) as manager:
        words = said(manager.build_context().messages)
        manager.append_message(user("c"))
    assert [len(text) for text in words] == [1, 50 << 20, 1]
    assert disk_texts(path)[-1] == "c"


# What is no session at all.


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty_file"),
        (b"\n\n", "invalid_header"),
        (b"nonsense\n", "invalid_header"),
        (b"\0" * 1000, "invalid_header"),
        (line({"type": "message", "id": "a"}), "invalid_header"),
        (line({"type": "session", "id": 7}), "invalid_header"),
        (line({"type": "session"}), "invalid_header"),
        (b'{"type":"session","id":"s"', "invalid_header"),
    ],
)
def test_what_is_no_session_is_refused_and_left_alone(path, content, reason):
    """
    The error says why; the file keeps its bytes, and no lock is left.
    """
    path.write_bytes(content)
    with pytest.raises(NotASession) as failure:
        SessionManager.open(path)

    assert failure.value.reason == reason
    assert path.read_bytes() == content
    assert [found.name for found in path.parent.iterdir()] == ["s.jsonl"]


def test_a_folder_and_a_pipe_are_refused_at_once(tmp_path):
    """
    Opening a pipe would wait for its writer for ever.
    """
    os.mkfifo(tmp_path / "pipe.jsonl")
    for odd in (tmp_path, tmp_path / "pipe.jsonl"):
        with pytest.raises(NotASession) as failure:
            SessionManager.open(odd)
        assert failure.value.reason == "not_a_file"


def test_format_4_is_refused_politely(path):
    """
    A newer program's file is named as such and not touched.
    """
    path.write_bytes(line({"kind": "header", "version": 4, "id": "s", "createdAt": 1, "cwd": "/p"}))
    before = path.read_bytes()
    with pytest.raises(UnsupportedVersion, match="newer") as failure:
        SessionManager.open(path)
    assert failure.value.version == 4
    assert path.read_bytes() == before


def test_a_newer_version_of_the_known_form_opens_for_reading(path):
    """
    What can be understood is shown; nothing is appended or repaired.
    """
    write(path, *chain("a"), b'{"torn', header={"type": "session", "version": 7, "id": "s", "cwd": "/p"})
    before = path.read_bytes()

    with SessionManager.open(path) as manager:
        assert said(manager.build_context().messages) == ["a"]
        with pytest.raises(SessionReadOnly, match="format 7"):
            manager.append_message(user("b"))
        with SessionManager.open(path) as other:
            assert other.report.read_only
    assert path.read_bytes() == before


@pytest.mark.requirement("BR-060")
def test_a_file_beyond_the_limit_is_refused_before_it_is_read(path):
    """
    A log of terabytes is refused at once and in words, not by running out of memory.
    """
    write(path, *chain("a"))
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    files = FaultyFiles()

    with pytest.raises(SessionTooLarge, match="1099511627776"):
        SessionManager.open(path, files=files)
    assert files.bytes_read == 0


@pytest.mark.requirement("BR-060", "BR-059")
def test_memory_follows_the_living_part_and_not_the_file(path):
    """
    A long session that was compacted on the way costs memory for its skeleton and what is still in the context.
    """
    with path.open("wb") as file:
        file.write(line({"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/p"}))
        parent = None
        for number in range(3000):
            data = entry(f"e{number}", parent, "x" * 5000)
            if number % 100 == 99:
                data = {
                    "type": "compaction",
                    "id": f"e{number}",
                    "parentId": parent,
                    "timestamp": "t",
                    "summary": "s",
                    "retainedTail": [],
                }
            file.write(line(data))
            parent = f"e{number}"
    tracemalloc.start()
    with SessionManager.open(path, read_only=True) as manager:
        context = manager.build_context()
        _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(context.messages) == 1
    assert path.stat().st_size > 14_000_000
    assert peak < 6_000_000


# What happens to a file while it is open.


@pytest.mark.requirement("BR-054", "BR-055")
def test_what_another_program_appends_meanwhile_survives_and_is_told(path):
    """
    Its entries are a branch beside ours: neither side's words are lost, and the report says there were some.
    """
    write(path, *chain("a"))
    with SessionManager.open(path) as manager:
        with path.open("ab") as other:
            other.write(line(entry("o1", "e1", "theirs")) + line(entry("o2", "o1", "theirs too")))
        manager.append_message(user("ours"))

        assert said(manager.build_context().messages) == ["a", "ours"]
        assert said(manager.build_context("o2").messages) == ["a", "theirs", "theirs too"]
        assert manager.report.foreign_entries == 2
    assert disk_texts(path) == ["a", "theirs", "theirs too", "ours"]
    assert texts(path) == ["a", "ours"]


def test_what_another_program_is_just_writing_is_not_cut_off(path):
    """
    Half a line of somebody else's stays; ours begins on a line of its own.
    """
    write(path, *chain("a"))
    with SessionManager.open(path) as manager:
        with path.open("ab") as other:
            other.write(b'{"type":"message","id":"o1"')
        manager.append_message(user("ours"))
    assert b'{"type":"message","id":"o1"\n{"type":"message"' in path.read_bytes()
    assert texts(path) == ["a", "ours"]


@pytest.mark.requirement("BR-055")
@pytest.mark.parametrize("change", ["replaced", "truncated", "removed"])
def test_a_file_changed_under_us_is_told_and_everything_goes_into_a_new_one(path, change):
    """
    Nothing is written into what is not our file any more. Each append says so; after a rescue the conversation is
    whole in a new file, and what stands in the old place is untouched.
    """
    write(path, *chain("a", "b"))
    with SessionManager.open(path) as manager:
        manager.append_message(user("c"))
        if change == "replaced":
            other = write(path.with_name("other"), *chain("z"))
            other.replace(path)
        elif change == "truncated":
            os.truncate(path, 150)
        else:
            path.unlink()
        left = path.read_bytes() if path.exists() else None
        for waiting, text in enumerate(("d", "e"), 1):
            with pytest.raises(SessionFileChanged) as failure:
                manager.append_message(user(text))
            assert (failure.value.change, failure.value.unsaved) == (change, waiting)

        rescued = manager.rescue(path.parent / "new")
        manager.append_message(user("f"))
        assert manager.path == rescued
        assert said(manager.build_context().messages) == ["a", "b", "c", "d", "e", "f"]
        assert (path.read_bytes() if path.exists() else None) == left
    assert texts(rescued) == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.requirement("BR-055")
@pytest.mark.parametrize("foreign", [b"", line(entry("zzz", None)) * 40], ids=["emptied", "overwritten"])
def test_what_is_no_message_is_rescued_too_and_holds_the_conversation_together(path, foreign):
    """
    Model, level, labels, name, words of extensions: all of it stands in the new file, each in its place, so that what
    was said before and after is one conversation; what stands in the old file now is nobody's here.
    """
    write(path, *chain("a", "b"))
    with SessionManager.open(path) as manager:
        manager.append_model_change("openai", "gpt-5")
        manager.append_message(user("c"))
        manager.append_custom_message("note", "told")
        said_last = manager.append_message(user("d"))
        manager.append_label(said_last, "here")
        manager.append_session_name("mine")
        manager.append_thinking_level_change("high")
        manager.append_message(user("e"))
        before = manager.build_context()
        path.write_bytes(foreign)
        rescued = manager.rescue(path.parent / "new")
        manager.append_message(user("g"))
        held = manager.build_context()
    with SessionManager.open(rescued) as manager:
        after = manager.build_context()

        assert after == held
        assert after.messages[:-1] == before.messages
        assert said(after.messages)[:6] == ["a", "b", "c", "told", "d", "e"]
        assert (after.model, after.thinking_level) == ("openai/gpt-5", "high")
        assert (manager.labels, manager.name) == ({said_last: "here"}, "mine")
        assert manager.report.clean()


def test_no_other_session_notices_what_happens_to_one(tmp_path):
    """
    One session's broken file is that session's trouble.
    """
    with SessionManager.create("/p", tmp_path) as one, SessionManager.create("/p", tmp_path) as other:
        one.append_message(user("a"))
        one.path.unlink()
        with pytest.raises(SessionWriteFailed):
            one.append_message(user("b"))
        other.append_message(user("x"))
        assert disk_texts(other.path) == ["x"]
        one.rescue(tmp_path)


# A real full disk and a real folder without write permission.


def test_a_disk_that_really_is_full(tmp_path):
    """
    A file system of 64 kB: the appends that do not fit wait, and are written when room is made. Where this process may
    not mount one, a limit on the size of its files stands in for it.
    """
    script = """
import os, resource, signal, subprocess, sys
from pathlib import Path
from coding_agent.errors import SessionWriteFailed
from coding_agent.storage.session_manager import SessionManager
from lemon_ai import UserMessage
folder = Path(sys.argv[1])
command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
mounted = subprocess.run(command, capture_output=True).returncode == 0
try:
    if mounted:
        ballast = folder / "ballast"
        ballast.write_bytes(bytes(48 << 10))
        make_room = ballast.unlink
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, resource.RLIM_INFINITY))
        make_room = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    manager = SessionManager.create("/p", folder)
    failures = 0
    for number in range(40):
        try:
            manager.append_message(UserMessage(f"{number} " + "x" * 600, 1))
        except SessionWriteFailed:
            failures += 1
    assert failures and manager.unsaved == failures, (failures, manager.unsaved)
    make_room()
    manager.append_message(UserMessage("40 end", 1))
    manager.close()
    with SessionManager.open(manager.path, read_only=True) as again:
        numbers = [int(m.content.split()[0]) for m in again.build_context().messages]
    assert numbers == list(range(41)), numbers
    assert again.report.clean()
    print("mounted" if mounted else "limited", failures)
finally:
    if mounted:
        subprocess.run(["umount", folder], check=True)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_folder_that_really_cannot_be_written(tmp_path):
    """
    Another user's folder: a new session says it is not saved, an old one opens for reading.
    """
    folder = tmp_path / "--p--"
    folder.mkdir()
    write(folder / "old.jsonl", *chain("a"))
    script = """
import os, sys
from pathlib import Path
from coding_agent.errors import SessionReadOnly, SessionWriteFailed
from coding_agent.storage.session_manager import SessionManager
from lemon_ai import UserMessage
folder = Path(sys.argv[1])
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
with SessionManager.open(folder / "--p--" / "old.jsonl") as old:
    try:
        old.append_message(UserMessage("b", 1))
    except SessionReadOnly as error:
        print(error)
new = SessionManager.create("/p", folder)
try:
    new.append_message(UserMessage("b", 1))
except SessionWriteFailed as error:
    print(error)
"""
    for one in (folder / "old.jsonl", folder, tmp_path):
        one.chmod(0o444 if one.is_file() else 0o555)
    for parent in tmp_path.parents:
        if parent.is_relative_to(Path(tempfile.gettempdir())) and parent != Path(tempfile.gettempdir()):
            parent.chmod(0o755)
    try:
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60)
    finally:
        for one in (tmp_path, folder):
            one.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Permission denied") == 2
    assert disk_texts(folder / "old.jsonl") == ["a"]
    assert [found.name for found in folder.iterdir()] == ["old.jsonl"]


# Anything at all.


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_is_done_to_a_file_it_loads_or_is_refused(tmp_path_factory, data):
    """
    Lines taken out, doubled, cut, swapped, overwritten: a typed error or a tree that can be walked and appended to, and
    an append changes nothing that stood there whole.
    """
    lines = [
        line(one) for one in ({"type": "session", "version": 3, "id": "s", "cwd": "/p"}, *chain("a", "b", "c", "d"))
    ]
    lines.append(line({"type": "leaf", "id": "l", "parentId": "e4", "targetId": "e2"}))
    raw = bytearray(b"".join(data.draw(st.lists(st.sampled_from(lines), max_size=8)) or lines))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, max(0, len(raw))))
        raw[at : at + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=6))
    path = tmp_path_factory.mktemp("fuzz") / "s.jsonl"
    path.write_bytes(raw)

    try:
        manager = SessionManager.open(path)
    except SessionError:
        assert path.read_bytes() == raw
        return
    with manager:
        before = said(manager.build_context().messages)
        manager.tree.find_cycles()
        torn = manager.report.torn_tail
        kept = bytes(raw) if torn is None or not torn.length else bytes(raw[: torn.offset])
        migrated = manager.report.version < 3
        if manager.report.read_only is None:
            manager.append_message(user("appended"))
            assert migrated or path.read_bytes().startswith(kept)
    if manager.report.read_only is None:
        assert texts(path) == [*before, "appended"]


def test_errno_of_a_failed_write_is_told_in_words(tmp_path):
    """
    The message a person sees names what the system said.
    """
    files = FaultyFiles()
    with SessionManager.create("/p", tmp_path, files=files) as manager:
        manager.append_message(user("a"))
        files.failing["write"] = errno.EDQUOT
        with pytest.raises(SessionWriteFailed, match="quota"):
            manager.append_message(user("b"))
        files.failing.clear()
