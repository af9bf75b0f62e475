"""doctor: what it finds on machines that are well and on machines that are not; no secret is shown."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from coding_agent.doctor import hosts, software, surroundings
from coding_agent.doctor.command import CHECKS, examine, lines, to_json
from coding_agent.doctor.finding import Finding, Place
from tests.coding_agent.models.local_fakes import OLLAMA, serving
from tests.flows.hosts import Machine

ROOT = Path(__file__).resolve().parents[3]
KEY = "sk-ant-api03-0123456789abcdefghij"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, {"LEMON_LOCAL_SERVERS": "off"})


def report(machine: Machine, *arguments: str, code: int = 0) -> list[dict]:
    done = machine.run("doctor", "--json", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] == (code == 0)
    return found["findings"]


def of(findings: list[dict], area: str, level: str | None = None) -> list[dict]:
    return [one for one in findings if one["area"] == area and level in (None, one["level"])]


def test_on_a_machine_that_is_well_nothing_fails_and_every_check_says_something(machine):
    """Exit code 0; what the checks look at is there by name."""
    machine.extra_env["ANTHROPIC_API_KEY"] = KEY
    findings = report(machine)
    areas = {one["area"] for one in findings}
    assert set(CHECKS) - areas == {"programs"}  # which has a finding for each program
    assert {"git", "rg", "bash"} <= areas
    assert of(findings, "model", "ok")[0]["facts"]["model"] == "anthropic/claude-sonnet-4-5"
    assert of(findings, "model")[0]["facts"]["why"] == "variable ANTHROPIC_API_KEY"
    assert of(findings, "python", "ok")[0]["facts"]["version"].startswith("3.")
    assert all(one["mend"] for one in findings if one["level"] != "ok")


def test_what_the_program_makes_itself_is_as_it_should_be(machine):
    """After a session and a login in a fresh home there is no warning about folders or files, whatever the umask."""
    machine.extra_env["LEMON_SESSION_DIR"] = str(machine.home / "state" / "of" / "lemon")
    previous = os.umask(0)
    try:
        machine.run("-p", "hello", "--model", "scripted/echo")
        machine.run("login", "groq", stdin="gsk-groq-secret-key\n")
    finally:
        os.umask(previous)
    findings = report(machine)
    assert not of(findings, "folders", "warn")
    assert not of(findings, "credentials", "warn")


def test_no_key_is_shown_wherever_it_is(machine):
    """Variables, the stored file and models.json: the places are named, the values are not."""
    machine.extra_env |= {"ANTHROPIC_API_KEY": KEY, "XAI_API_KEY": "short"}
    machine.run("login", "groq", stdin="gsk-groq-secret-key\n")
    folder = machine.home / ".config" / "lemon"
    (folder / "models.json").write_text(json.dumps({"providers": {"mine": {"apiKey": "literal-secret"}}}))
    done, human = machine.run("doctor", "--json"), machine.run("doctor")
    assert set(of(json.loads(done.stdout)["findings"], "credentials")[0]["facts"]["providers"]) == {
        "anthropic", "groq", "mine", "xai",
    }  # fmt: skip
    for secret in (KEY, KEY[:12], "groq-secret", "literal-secret", "short"):
        assert secret not in done.stdout + done.stderr + human.stdout + human.stderr


def test_without_a_key_or_a_server_it_says_how_to_get_one(machine):
    """Warnings, not failures: the scripted model still shows how the program works."""
    findings = report(machine)
    assert "login" in of(findings, "credentials", "warn")[0]["mend"]
    assert of(findings, "model", "warn")[0]["facts"]["model"] == "scripted/demo"


@pytest.mark.parametrize(
    ("file", "area"), [("auth.json", "credentials"), ("models.json", "models.json"), ("settings.json", "settings")]
)
def test_a_broken_file_fails_with_its_name_and_exit_code_1(machine, file, area):
    """Each of the three files a person may edit; nothing of it is printed, and it is left as it is."""
    path = machine.home / ".config" / "lemon" / file
    path.parent.mkdir(parents=True)
    path.write_text('{"openai": {"key": "sk-half-a-key')
    (found, *_) = of(report(machine, code=1), area, "fail")
    assert str(path) in found["said"]
    assert "sk-half" not in json.dumps(found)
    assert path.read_text() == '{"openai": {"key": "sk-half-a-key'


def test_files_that_others_can_read_are_found(machine):
    """Credentials (which are made private at once), sessions, the log."""
    machine.run("login", "groq", stdin="gsk-groq-secret-key\n")
    path = machine.home / ".config" / "lemon" / "auth.json"
    path.chmod(0o644)
    machine.session_dir.mkdir()
    machine.session_dir.chmod(0o755)
    (machine.home / "host.log").write_text("x")
    (machine.home / "host.log").chmod(0o644)
    findings = report(machine)
    assert "mode 0644" in of(findings, "credentials", "warn")[0]["said"]
    assert f"chmod 700 {machine.session_dir}" in [one["mend"] for one in of(findings, "folders", "warn")]
    assert f"chmod 600 {machine.home / 'host.log'}" in [one["mend"] for one in of(findings, "folders", "warn")]
    assert not of(report(machine), "credentials", "warn")


def test_a_folder_that_is_none_fails(machine):
    """Sessions could not be stored."""
    machine.session_dir.write_text("")
    assert "is not a folder" in of(report(machine, code=1), "folders", "fail")[0]["said"]


def test_an_entry_that_is_no_use_is_named(machine):
    """What another program wrote that this one cannot use."""
    path = machine.home / ".config" / "lemon" / "auth.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"openai": {"type": "oauth", "access": "a"}}))
    assert "the entry of openai (oauth)" in of(report(machine), "credentials", "warn")[-1]["said"]


def test_local_servers_are_shown_with_their_models_and_contexts(machine):
    """And a warning where Ollama would cut conversations short in silence."""
    machine.extra_env["LEMON_LOCAL_SERVERS"] = "30"
    with serving(OLLAMA) as fake:
        machine.extra_env["OLLAMA_HOST"] = f"127.0.0.1:{fake.port}"
        findings = report(machine)
    assert "small (16384 tokens)" in of(findings, "local servers", "ok")[0]["said"]
    assert "seeing" in of(findings, "local servers", "warn")[0]["said"]
    assert of(findings, "model", "ok")[0]["facts"]["model"] == "ollama/loaded"


def test_a_running_host_is_counted_and_a_dead_ones_socket_is_named(machine):
    """A socket nobody listens at, of a process that is gone, can be removed; it is not removed for the person."""
    machine.runtime_dir.mkdir(0o700)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(30)
    stale, silent = machine.runtime_dir / f"host-{gone.pid}.sock", machine.runtime_dir / f"host-{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(str(stale))
        other.bind(str(silent))
    found = of(report(machine), "hosts")
    assert {one["mend"] for one in found if one["level"] == "warn"} == {
        f"rm {stale}",
        f"see what it does; kill -TERM {os.getpid()} ends it well",
    }
    assert found[-1]["said"] == "none runs"
    assert stale.exists()


@pytest.mark.xdist_group("terminal")
def test_at_a_terminal_its_size_and_kind_are_looked_at(machine):
    """A dumb and narrow one is warned about, and the lines are for people."""
    child = pexpect.spawn(
        sys.executable, ["-m", "coding_agent", "doctor"], env={**machine.env(), "TERM": "dumb"},
        cwd=str(machine.project), encoding="utf-8", timeout=30, dimensions=(20, 30),
    )  # fmt: skip
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    shown = " ".join(child.before.split())
    assert "TERM says that it can do nothing" in shown
    assert "30 columns are few" in shown
    assert "to look at" in shown


def test_bad_usage_is_one_line(machine):
    """Exit code 2."""
    for arguments in (("--nope",), ("--cwd", "/nowhere")):
        done = machine.run("doctor", *arguments)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def test_a_check_that_breaks_is_a_finding_itself(tmp_path):
    """The others still run, and no secret of the error is shown."""

    def breaks(_):
        raise RuntimeError(f"with {KEY}")

    found = examine(Place({}, tmp_path), {"first": breaks, "python": software.python})
    assert [(one.area, one.level) for one in found] == [("first", "fail"), ("python", "ok")]
    assert KEY not in found[0].said


@pytest.mark.parametrize(
    ("free", "level"), [(10 * 1024**3, "ok"), (500 * 1024**2, "warn"), (10 * 1024**2, "fail"), (0, "fail")]
)
def test_how_much_room_is_enough(free, level):
    """A gigabyte is; below 64 megabytes nothing can be stored with confidence."""
    assert surroundings.room(Path("/x"), free).level == level


def test_what_is_not_installed_is_named_with_what_it_is_for(monkeypatch, tmp_path):
    """A missing requirement fails; the missing terminal warns with the command that brings it; the rest is told."""
    monkeypatch.setattr(software, "is_there", lambda module: module not in ("attrs", "rich", "acp"))
    place = Place({"PATH": str(tmp_path)}, tmp_path)
    found = {(one.area, one.level): one for one in examine(place, {"a": software.packages, "b": software.extras})}
    assert found["packages", "fail"].mend == "pip install attrs"
    assert found["extras", "warn"].mend == "pip install 'lemon-agents[terminal]'"
    assert "acp (editors" in found["extras", "ok"].said
    missing = examine(place, {"programs": software.programs})
    assert [(one.area, one.level) for one in missing] == [("git", "warn"), ("rg", "warn"), ("bash", "warn")]


def test_every_extra_of_the_package_is_known():
    """What `pyproject.toml` offers, but for what only developers need."""
    import tomllib

    offered = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(software.EXTRAS) == set(offered["optional-dependencies"]) - {"dev", "bench"}
    named = {requirement.split(">")[0].split("[")[0] for requirement in offered["dependencies"]}
    assert set(software.REQUIRED) <= named


def test_lines_for_people_wrap_and_say_what_to_do():
    """The remedy stands below what it mends; a summary closes."""
    found = [Finding("a", "ok", "fine"), Finding("longer", "warn", "words " * 30, "do this")]
    shown = lines(found, width=60)
    assert shown[0] == "ok    a       fine"
    assert all(len(line) <= 60 for line in shown)
    assert shown[-2].strip() == "-> do this"
    assert shown[-1] == "0 failed, 1 to look at"
    assert lines([]) == ["all is well"]
    assert to_json(found)["counts"] == {"ok": 1, "warn": 1, "fail": 0}


def test_a_process_is_alive_or_not():
    """Zero and negative ids name no host."""
    assert hosts.is_alive(os.getpid())
    assert not hosts.is_alive(0)
    assert not hosts.is_alive(-1)
