"""Files that only this user can read."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from coding_agent.private_files import appending, replace_file


@pytest.fixture(autouse=True)
def careless_umask() -> Iterator[None]:
    """Privacy must not depend on the umask."""
    before = os.umask(0o000)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_that_is_appended_to_is_made_private_and_a_link_is_not_followed(tmp_path):
    """Whoever can put a link there cannot let us write elsewhere."""
    with appending(tmp_path / "state" / "log") as file:
        file.write(b"one\n")
    with appending(tmp_path / "state" / "log") as file:
        file.write(b"two\n")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")

    assert (tmp_path / "state" / "log").read_bytes() == b"one\ntwo\n"
    assert (mode_of(tmp_path / "state"), mode_of(tmp_path / "state" / "log")) == (0o700, 0o600)
    with pytest.raises(OSError), appending(tmp_path / "link"):
        pass


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_file_is_replaced_as_a_whole_with_the_mode_asked_for(tmp_path, mode):
    """The new file has all of the data and that mode, whatever the old one had; nothing else is left in the folder."""
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o666)

    replace_file(tmp_path / "file", b"new", mode=mode)

    assert (tmp_path / "file").read_bytes() == b"new"
    assert mode_of(tmp_path / "file") == mode
    assert os.listdir(tmp_path) == ["file"]


def test_where_a_file_cannot_be_replaced_the_old_one_stays_and_nothing_is_left(tmp_path):
    """A folder stands in the place: the error is raised and what was begun is removed."""
    (tmp_path / "place").mkdir()

    with pytest.raises(OSError):
        replace_file(tmp_path / "place", b"new")

    assert os.listdir(tmp_path) == ["place"]


def test_whoever_holds_the_lock_takes_away_what_one_who_was_killed_left(tmp_path):
    """Half a file of secrets is not left lying beside the whole one."""
    (tmp_path / ".file.new").write_bytes(b"half")

    replace_file(tmp_path / "file", b"whole", locked=True)

    assert os.listdir(tmp_path) == ["file"]
