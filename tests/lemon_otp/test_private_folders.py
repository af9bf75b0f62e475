"""Folders that only this user can enter, and what is made in them."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lemon_otp import make_private
from lemon_otp.repl import bind_private
from lemon_otp.repl_shell.prompt import private_history


@pytest.fixture(autouse=True)
def careless_umask() -> Iterator[None]:
    """Privacy must not depend on the umask."""
    before = os.umask(0o000)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _socket_in(folder: Path) -> None:
    bind_private(folder / "x.sock").close()


def _history_in(folder: Path) -> None:
    private_history(folder / "history")


@pytest.mark.parametrize("make", [make_private, _socket_in, _history_in])
def test_every_folder_that_is_made_on_the_way_is_private_and_those_that_were_there_stay_as_they_are(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """Parents that are missing get mode 0700 too, not the mode that the system gives by default."""
    (tmp_path / "there").mkdir(mode=0o755)

    make(tmp_path / "there" / "a" / "b" / "c")

    assert mode_of(tmp_path / "there") == 0o755
    assert [mode_of(tmp_path / "there" / name) for name in ("a", "a/b", "a/b/c")] == [0o700] * 3


def test_a_folder_cannot_be_made_where_a_file_is(tmp_path: Path) -> None:
    """What is there and is no folder is said, not taken for one."""
    (tmp_path / "file").touch()

    with pytest.raises(FileExistsError):
        make_private(tmp_path / "file")


def test_the_history_of_the_shell_is_for_this_user_alone(tmp_path: Path) -> None:
    """Its lines may hold what was sent to processes."""
    assert mode_of(Path(private_history(tmp_path / "state" / "history"))) == 0o600
