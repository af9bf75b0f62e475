"""auth.json: its shape, its privacy, and what happens to it when many write it or somebody is killed."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coding_agent.credentials.credential_file import CredentialFile, credential_path
from coding_agent.errors import BadCredentialFile

ROOT = Path(__file__).resolve().parents[3]
KEY = {"type": "api_key", "key": "k-1"}


@pytest.fixture
def file(tmp_path: Path) -> CredentialFile:
    return CredentialFile(tmp_path / "config" / "auth.json")


def stored(file: CredentialFile) -> dict:
    return json.loads(file.path.read_text())


def test_where_the_file_is():
    """The variable, then the folder for settings, then the home."""
    assert credential_path({"HOME": "/h"}) == Path("/h/.config/lemon/auth.json")
    assert credential_path({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}) == Path("/c/lemon/auth.json")
    assert credential_path({"HOME": "/h", "LEMON_AUTH_FILE": "/x/a.json"}) == Path("/x/a.json")


def test_an_entry_is_kept_in_the_shape_people_have(file):
    """A provider's name with hyphens, `type` and `key`; read under the name the package uses."""
    file.put("github_copilot", KEY)
    assert stored(file) == {"github-copilot": KEY}
    assert file.read()["github_copilot"].kind == "api_key"


def test_what_the_program_does_not_know_stays(file):
    """Other providers, other members, other types, the spelling of names."""
    file.path.parent.mkdir()
    others = {"my_own": {"type": "sso", "x": [1]}, "anthropic": {"type": "oauth", "access": "a", "more": 1}, "odd": 7}
    file.path.write_text(json.dumps(others))
    file.put("my-own", KEY)
    file.put("openai", KEY)
    assert stored(file) == others | {"my_own": KEY, "openai": KEY}
    assert file.remove("Anthropic") is True
    assert file.remove("anthropic") is False
    assert "anthropic" not in stored(file)


def test_only_its_owner_can_read_it(file):
    """0600 from its first moment on, in a folder of 0700; one that others may read is mended when it is read."""
    previous = os.umask(0)
    try:
        file.put("openai", KEY)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(f"{file.path}.lock").stat().st_mode) == 0o600
    file.path.chmod(0o644)
    file.read()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


@pytest.mark.parametrize("torn", ['{"openai": {"type": "api_key", "key": "sk-half', "[]", "\xff", "nul\0"])
def test_a_file_that_is_torn_is_named_and_never_written_over(file, torn):
    """The message shows nothing of what is in it; both reading and writing refuse, and every byte stays."""
    file.path.parent.mkdir()
    file.path.write_bytes(torn.encode("latin-1"))
    for attempt in (file.read, lambda: file.put("openai", KEY), lambda: file.remove("openai")):
        with pytest.raises(BadCredentialFile) as bad:
            attempt()
        assert str(file.path) in str(bad.value)
        assert "sk-half" not in str(bad.value)
    assert file.path.read_bytes() == torn.encode("latin-1")


def test_an_empty_file_and_no_file_hold_nothing(file):
    """Both are a fresh start."""
    assert file.read() == {}
    file.path.parent.mkdir()
    file.path.touch(0o600)
    assert file.read() == {}
    file.put("openai", KEY)
    assert stored(file) == {"openai": KEY}


def test_a_link_is_followed(file, tmp_path):
    """Whoever keeps settings elsewhere and links to them keeps the link."""
    real = tmp_path / "dotfiles.json"
    file.path.parent.mkdir()
    file.path.symlink_to(real)
    file.put("openai", KEY)
    assert file.path.is_symlink()
    assert json.loads(real.read_text()) == {"openai": KEY}


def test_what_is_no_file_is_refused_at_once(file):
    """A folder or a pipe does not make the program wait."""
    file.path.parent.mkdir()
    os.mkfifo(file.path)
    with pytest.raises(BadCredentialFile):
        file.read()


def test_what_somebody_left_who_was_killed_does_no_harm(file):
    """A half-written new file is not the file, and the next change removes it."""
    file.put("openai", KEY)
    left = file.path.with_name(".auth.json.new")
    left.write_text('{"openai": {"ty')
    file.put("groq", KEY)
    assert set(stored(file)) == {"openai", "groq"}
    assert not left.exists()


WRITER = """
import sys
from pathlib import Path
from coding_agent.credentials.credential_file import CredentialFile
file, who = CredentialFile(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
for number in range(int(sys.argv[3])):
    file.put(f"{who}-{number}", {"type": "api_key", "key": "x" * 2000})
"""


def writer(file: CredentialFile, who: str, times: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(file.path), who, str(times)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_several_programs_that_write_at_one_time_lose_nothing(file):
    """Each reads under the lock what the others wrote."""
    writers = [writer(file, who, 12) for who in ("a", "b", "c")]
    assert [one.wait(60) for one in writers] == [0, 0, 0]
    for one in writers:
        one.stdout.close()
    assert len(stored(file)) == 36


def test_a_writer_that_is_killed_leaves_a_whole_file_and_no_lock(file):
    """SIGKILL in the middle of writing, five times: what is there can always be read and written."""
    file.put("openai", KEY)
    for round_ in range(5):
        one = writer(file, f"w{round_}", 100_000)
        assert one.stdout.readline() == "ready\n"
        while f"w{round_}-0" not in file.path.read_text():
            time.sleep(0.001)  # until it writes; how far it comes after that is the point
        one.send_signal(signal.SIGKILL)
        one.wait(30)
        one.stdout.close()
        assert file.read()["openai"].data == KEY
    file.put("groq", KEY)
    assert stored(file)["groq"] == KEY


def test_the_sandbox_of_the_tools_hides_the_file():
    """What runs in it finds neither ours nor pi's."""
    from coding_agent.sandbox import secrets_of

    hidden = secrets_of(Path("/h"))
    assert str(credential_path({"HOME": "/h"}).parent) in hidden
    assert "/h/.pi/agent/auth.json" in hidden
