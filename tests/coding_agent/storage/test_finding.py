"""Which session a word means."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.errors import NoSuchSession
from coding_agent.storage.finding import find_session, meant
from coding_agent.storage.session_manager import SessionManager
from tests.coding_agent.storage.support import user

HERE = Path("/p")


@pytest.fixture
def sessions(tmp_path):
    """Three sessions by their ids, two of them alike at the beginning and of one folder."""
    made = {}
    for session_id, cwd in (("abc1", "/p"), ("abc2", "/p"), ("xyz", "/elsewhere")):
        with SessionManager.create(cwd, tmp_path, session_id=session_id) as manager:
            manager.append_message(user("hello"))
            made[session_id] = manager.path
    return made


def test_a_session_is_meant_by_its_id_and_by_how_it_begins(sessions, tmp_path):
    """Of any folder, as long as no other begins so."""
    assert find_session("abc1", tmp_path, HERE) == sessions["abc1"]
    assert find_session("x", tmp_path, HERE) == sessions["xyz"]


def test_a_word_that_may_mean_several_is_refused_with_their_ids(sessions, tmp_path):
    """None is chosen; the text names them."""
    with pytest.raises(NoSuchSession, match=r"ab may be abc\d, abc\d"):
        find_session("ab", tmp_path, HERE)


def test_a_word_that_means_none_is_refused_with_where_was_looked(tmp_path):
    """And with the command that shows what there is."""
    with pytest.raises(NoSuchSession, match=r"no session zz in .*sessions list"):
        find_session("zz", tmp_path, HERE)
    with pytest.raises(NoSuchSession, match="no session for /p yet"):
        find_session("latest", tmp_path, HERE)


def test_the_latest_is_the_one_of_this_folder_that_was_written_last(sessions, tmp_path):
    """One of another folder does not count, however new it is."""
    with sessions["abc1"].open("a") as file:
        file.write("")
    import os

    os.utime(sessions["abc2"], ns=(1, 1))
    os.utime(sessions["abc1"], ns=(2, 2))
    assert find_session("latest", tmp_path, HERE) == sessions["abc1"]


def test_what_looks_like_a_path_is_one_there_or_not(tmp_path, monkeypatch):
    """So is the name of a file that is there, whatever sessions are called."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latest").touch()
    assert find_session("none.jsonl", tmp_path, HERE) == tmp_path / "none.jsonl"
    assert find_session("sub/none", tmp_path, HERE) == tmp_path / "sub/none"
    assert find_session("latest", tmp_path, HERE) == tmp_path / "latest"


@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=3), st.none() | st.text("ab", max_size=2))), st.text("ab"))
def test_an_exact_one_hides_those_that_only_begin_so(every, wanted):
    """Whoever is meant has that id or name, or else every one begins with the word; nothing else is ever meant."""
    found = meant(wanted, every, lambda one: one[0], lambda one: one[1])
    exact = [one for one in every if wanted in one]
    assert found == (exact or [one for one in every if wanted and one[0].startswith(wanted)])
