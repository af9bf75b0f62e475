"""`sessions export` as a real program: what leaves the machine and what does not."""

from pathlib import Path

import pytest

from tests.flows.hosts import Machine

STORED = "correct-horse-battery"
SET = "staple-of-a-variable"


@pytest.mark.requirement("BR-183")
def test_credentials_of_the_person_are_in_no_export_for_people(tmp_path: Path):
    """Stored ones and those in variables, whatever they look like; copies for programs are copies."""
    machine = Machine(tmp_path, {"GROQ_API_KEY": SET})
    assert machine.run("login", "xai", stdin=f"{STORED}\n").returncode == 0
    machine.run("-p", f"@text I see {STORED} and {SET}.", "--model", "scripted/echo")
    (file,) = map(str, machine.session_files())
    for form in ("--html", "--markdown"):
        text = machine.run("sessions", "export", form, file).stdout
        assert "I see [redacted] and [redacted]." in text
        assert STORED not in text
        assert SET not in text
    assert STORED in machine.run("sessions", "export", "--format", "jsonl", file).stdout


def test_an_export_goes_into_a_new_file_only(tmp_path: Path):
    """`-o` names it; one that is there is an error and stays as it is."""
    machine = Machine(tmp_path)
    machine.run("-p", "hello", "--model", "scripted/echo")
    (file,) = map(str, machine.session_files())
    done = machine.run("sessions", "export", "--html", "-o", "page.html", file)
    assert (done.returncode, done.stdout) == (0, "")
    page = (machine.project / "page.html").read_text()
    assert (machine.project / "page.html").stat().st_mode & 0o777 == 0o600
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert machine.run("sessions", "export", "--markdown", "-o", "page.html", file).returncode == 2
    assert (machine.project / "page.html").read_text() == page
    assert machine.run("sessions", "export", "--html", "--markdown", file).returncode == 2
