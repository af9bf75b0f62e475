"""What a person gets wrong is one clear line, the right exit code, no traceback, and nothing stored is changed."""

import json
import socket
import subprocess
import sys
import threading

import pytest


def refused(done, code: int, *words: str) -> None:
    lines = done.stderr.strip().splitlines()
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    assert [word for word in words if word not in lines[0]] == []


def test_an_unknown_model_is_named_with_close_ones(machine):
    """The line says what was asked for and how a model is written."""
    refused(machine.run("-q", "-p", "hi", "--model", "openai/gpt-5.1x"), 2, "gpt-5.1x", "openai/gpt-5.1")


def test_a_missing_key_names_its_variable(machine):
    """The line says which variable to set, and how to store a key instead; nothing is stored of the prompt."""
    refused(machine.run("-q", "-p", "hi", "--model", "anthropic/claude-sonnet-4-5"), 1, "ANTHROPIC_API_KEY")
    refused(machine.run("-q", "-p", "hi", "--model", "anthropic/claude-sonnet-4-5"), 1, "`login anthropic` stores one")
    assert machine.session_files() == []


@pytest.mark.parametrize("command", ["sessions", "models", "config", "trust", "mcp"])
def test_a_command_that_is_named_alone_shows_what_there_is(machine, command):
    """The usual one of its commands is meant, with its flags."""
    shown = {"config": "show", "trust": "show"}.get(command, "list")
    alone, whole = machine.run(command), machine.run(command, shown)
    assert (alone.returncode, alone.stdout) == (whole.returncode, whole.stdout)
    assert machine.run(command, "--json").stdout.lstrip()[:1] in ("{", "[")


def test_a_mistyped_flag_is_named_with_the_one_that_was_meant(machine):
    """With a prompt and without one."""
    refused(machine.run("--thme", "light", "-p", "hi"), 2, "did you mean --theme?")
    refused(machine.run("--verson"), 2, "did you mean --version?")


def test_an_unreachable_server_is_named(machine):
    """The line says where nobody answered."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    refused(machine.run("-q", "-p", "hi", "--model", "openai/any", "--base-url", address), 1, address.split("/")[2])


def test_a_refused_key_is_said_and_not_shown(machine):
    """A server that answers 401: the line says that the key was refused; the key itself stays out of it."""
    machine.extra_env["OPENAI_API_KEY"] = "sk-very-secret-key-123456"
    body = b'{"error": {"message": "Incorrect API key provided: sk-very-secret-key-123456"}}'
    head = f"HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with answering(head.encode() + body) as address:
        done = machine.run("-q", "-p", "hi", "--model", "openai/gpt-5.1", "--base-url", address)

    refused(done, 1, "401")
    assert "sk-very-secret" not in done.stderr


@pytest.mark.parametrize("kind", ["missing", "file", "unreadable"])
def test_a_working_folder_that_cannot_be_used_is_named(machine, kind, monkeypatch):
    """The line names the folder and the flag to give another with."""
    folder = machine.home / "elsewhere"
    if kind == "file":
        folder.write_text("")
    refused(machine.run("-q", "-p", "hi", "--cwd", str(folder)), 2, str(folder), "--cwd")


@pytest.mark.parametrize("address", ["http://[::bad", "http://a\nb/v1", "ftp://x", "nonsense"])
def test_an_address_that_is_none_is_named(machine, address):
    """With and without a model."""
    refused(machine.run("-q", "-p", "hi", "--base-url", address), 2, "--model")
    assert machine.run("-q", "-p", "hi", "--base-url", address, "--model", "openai/x").stderr.startswith("error: ")


def test_a_runtime_folder_too_long_for_a_socket_is_done_without(machine):
    """One of the user's own choice is warned of; a long one of the system gives way to a short one."""
    long = machine.home / ("d" * 150)
    machine.extra_env["LEMON_RUNTIME_DIR"] = str(long)
    done = machine.run("-p", "hi", "--model", "scripted/echo")
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert done.stderr.startswith("warning: `tree` will not find this host")
    assert len(done.stderr.splitlines()) == 1
    machine.extra_env |= {"LEMON_RUNTIME_DIR": "", "XDG_RUNTIME_DIR": str(long)}
    done = machine.run("-p", "hi", "--model", "scripted/echo")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "")


@pytest.mark.parametrize("arguments", [("-p", "hi"), ("-p", "hi", "--json"), ("--help",), ("models", "--help")])
def test_an_output_that_cannot_be_written_is_said(machine, arguments):
    """A full disk behind standard output: one line, exit 1; a closed one takes nothing and says nothing."""
    model = [] if "models" in arguments else ["--model", "scripted/echo"]
    command = [sys.executable, "-m", "coding_agent", *arguments, *model]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=machine.project, env=machine.env(), stdin=subprocess.DEVNULL,
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["error: the output cannot be written: [Errno 28] No space left on device"]
    closed = ["sh", "-c", '"$@" <&- >&-', "sh", *command]
    done = subprocess.run(
        closed, cwd=machine.project, env=machine.env(), stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_output_cannot_show_is_escaped(machine):
    """ASCII for a terminal, a lone surrogate from bytes that are no UTF-8; JSON is valid UTF-8 in any locale."""
    machine.extra_env["PYTHONIOENCODING"] = "ascii"
    done = machine.run("-p", "h\u00e9 \U0001f600", "--model", "scripted/echo")
    assert (done.returncode, done.stdout, done.stderr) == (0, "h\\xe9 \\U0001f600\n", "")
    for encoding in ("ascii", "utf-8:strict", "utf-8:surrogateescape"):
        machine.extra_env["PYTHONIOENCODING"] = encoding
        prompt = b"h\xff \xf0\x9f\x98\x80"
        done = subprocess.run(
            [sys.executable, "-m", "coding_agent", "-p", prompt, "--model", "scripted/echo", "--json"],
            cwd=machine.project, env=machine.env(), stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        said = [json.loads(line.decode()) for line in done.stdout.splitlines()]
        assert [line["message"]["content"] for line in said if line["type"] == "message_end"]


def test_a_working_folder_that_was_removed_is_said(machine):
    """By somebody else, while the shell stood in it."""
    folder = machine.home / "gone"
    folder.mkdir()
    command = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(folder), sys.executable, "-m", "coding_agent"]
    done = subprocess.run(
        [*command, "-p", "hi"],
        env=machine.env(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    refused(done, 2, "--cwd")


def test_no_prompt_is_no_job(machine):
    """Without a prompt the line says how to give one."""
    refused(machine.run(stdin=""), 2, "-p")


@pytest.mark.parametrize(
    ("words", "near"), [(["sesions", "list"], "sessions"), (["atach"], "attach"), (["help"], "--help")]
)
def test_a_mistyped_command_is_not_said_to_a_model(machine, words, near):
    """The line names the command that was meant, and how to say the word to the model all the same."""
    refused(machine.run(*words), 2, f"did you mean {near}?")
    assert machine.session_files() == []
    echo = ("--model", "scripted/echo", "--quiet")
    for sent in ([*echo, "-p", words[0]], [words[0], "-p", *echo], [*echo, "--", words[0]], ["read it", *echo]):
        assert machine.run(*sent).returncode == 0


@pytest.mark.parametrize(
    ("piped", "said"),
    [
        (b"\xff\xfe words", "\ufffd words"),
        (b"x" * (10 * 1024 * 1024 + 1), "put it into a file"),
    ],
    ids=["no text", "too much"],
)
def test_whatever_is_piped_in_is_text_or_refused(machine, piped, said):
    """Bytes that are no UTF-8 are shown as what they are; what no prompt should hold is refused."""
    done = subprocess.run(
        [sys.executable, "-m", "coding_agent", "--model", "scripted/echo", "--quiet", "-p", "say it"],
        cwd=machine.project, env=machine.env(), input=piped, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert said in (done.stdout + done.stderr).decode()
    assert done.returncode in (0, 2)
    assert b"Traceback" not in done.stderr


def test_nothing_to_continue_is_said(machine):
    """`--continue` in a folder without sessions makes none."""
    refused(machine.run("-c", "-p", "hi", "--model", "scripted/echo"), 2, "--continue")
    assert machine.session_files() == []


@pytest.mark.parametrize(
    "content", [b"", b"not a session\n", b'{"type":"message"}\n', b"\0" * 300], ids=["empty", "text", "headless", "nul"]
)
def test_a_file_that_is_no_session_is_named_and_left_alone(machine, content):
    """The line names the file; the file is byte for byte what it was, and no new session is made."""
    file = machine.home / "broken.jsonl"
    file.write_bytes(content)

    refused(machine.run("-q", "--session", str(file), "-p", "hi", "--model", "scripted/echo"), 1, str(file))

    assert file.read_bytes() == content
    assert machine.session_files() == []


def test_a_session_in_use_is_not_written_by_a_second_host(machine):
    """While one host has the session open, another is told who has it."""
    host = machine.start("--json", "-p", "@delay 20000", "--model", "scripted/echo")
    host.wait_for("message_end")
    (file,) = machine.session_files()

    done = machine.run("-q", "--session", str(file), "-p", "me too", "--model", "scripted/echo")
    host.process.terminate()
    host.finish()

    refused(done, 1, "in use", str(host.process.pid))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--nonsense",),
        ("-c", "--session", "x", "-p", "hi"),
        ("--partials", "-p", "hi"),
        ("--thinking", "hard", "-p", "hi"),
    ],
)
def test_flags_that_make_no_sense_are_refused(machine, arguments):
    """The line says which flag is wrong."""
    refused(machine.run(*arguments), 2, arguments[0].lstrip("-") if arguments[0] != "-c" else "--session")


class answering:  # noqa: N801 - reads like a phrase
    """A server on loopback that gives every connection the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    def __enter__(self) -> str:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as request:
                headers = [line.lower() for line in iter(request.readline, b"\r\n")]
                sizes = [int(line.split(b":")[1]) for line in headers if line.startswith(b"content-length:")]
                request.read(sum(sizes))
                connection.sendall(self.answer)

    def __exit__(self, *error: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(timeout=5)


@pytest.mark.requirement("PERS-10")
def test_what_cannot_be_stored_is_said_once_and_at_the_end(machine):
    """The prompts are answered; one line says why nothing is stored, one at the end what was lost by it."""
    machine.session_dir.parent.mkdir(parents=True, exist_ok=True)
    machine.session_dir.write_text("no folder")

    done = machine.run("-p", "one", "two", "three", "--model", "scripted/echo")

    assert (done.returncode, done.stdout) == (0, "three\n")
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 2
    assert "Not a directory" in warnings[0]
    assert "7 entries of this session could not be stored" in warnings[1]
