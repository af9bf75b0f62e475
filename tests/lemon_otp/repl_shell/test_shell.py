"""Lines over a connection, and what goes wrong with connections."""

import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lemon_otp import repl, run
from lemon_otp.process import current_runtime, self_pid, send
from lemon_otp.process import receive as receive_message
from lemon_otp.recorder import Recorder
from lemon_otp.repl.wire import VERSION
from lemon_otp.repl_shell import main as program
from lemon_otp.repl_shell.asking import Asker, Unreachable
from lemon_otp.repl_shell.drawing import PlainDrawing
from lemon_otp.repl_shell.shell import DONE, FAILED, USAGE, Shell, run_once
from tests.lemon_otp.repl.conftest import start_tree

LINES = [b'{"op":"hello","version":1}\n', b'{"op":"tree","id":1}\n', b'{"op":"cancel","id":1}\n', b"\n"]


class Served:
    """A tree that is served from a thread of this program."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ready = threading.Event()
        self.post: Callable[..., None] = lambda *_: None
        self.thread = threading.Thread(target=lambda: run(self.main), daemon=True)

    async def main(self) -> None:
        await start_tree()
        Recorder.start()
        await repl.serve(self.path)
        me, runtime = self_pid(), current_runtime()
        self.post = lambda work: runtime.post(send, me, work)
        self.ready.set()
        while (work := await receive_message(callable)) is not None:
            if work == self.leave:
                return
            work()

    def leave(self) -> None:
        """Ends the tree."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """The tree of the other tests, behind a socket."""
    tree = Served(tmp_path / "run" / "x.sock")
    tree.thread.start()
    assert tree.ready.wait(20)
    yield tree
    tree.post(tree.leave)
    tree.thread.join(20)
    assert not tree.thread.is_alive()


def shell(served: Served, **options: Any) -> tuple[Shell, io.StringIO]:
    out = io.StringIO()
    return Shell(Asker(served.path), PlainDrawing(out), out=out, **options), out


def test_a_line_is_answered_and_its_exit_code_says_how(served: Served) -> None:
    """0 answered, 1 refused by the host, 2 no command."""
    asked, out = shell(served)
    assert run_once(asked, "tree dynamic") == DONE
    assert "session[a1]" in out.getvalue()
    assert run_once(asked, "info nobody") == FAILED
    assert run_once(asked, "nonsense") == USAGE
    assert run_once(asked, "") == DONE
    assert run_once(asked, "top") == DONE
    assert run_once(asked, "watch the_keeper.items") == DONE
    assert run_once(asked, "help") == DONE
    assert "no process nobody" in out.getvalue()
    asked.asker.close()


def test_json_is_a_line_for_each_answer_that_no_terminal_obeys(served: Served) -> None:
    """Good and bad ones alike; control characters are escaped."""
    asked, out = shell(served, as_json=True)
    codes = [run_once(asked, line) for line in ("tree", "info nobody", "nonsense")]
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert codes == [DONE, FAILED, USAGE]
    assert [answer["ok"] for answer in answers] == [True, False, False]
    assert [answer.get("code") for answer in answers] == [None, "not_found", "usage"]
    assert out.getvalue().isascii()
    assert "\x1b" not in out.getvalue()
    asked.asker.close()


def test_what_can_do_anything_must_be_asked_for_on_both_sides(served: Served) -> None:
    """Here, and by the host."""
    careful, out = shell(served)
    assert run_once(careful, "eval 1") == USAGE
    bold, bold_out = shell(served, unsafe=True)
    assert run_once(bold, "eval 1") == FAILED
    assert "--unsafe" in out.getvalue()
    assert "--unsafe-repl" in bold_out.getvalue()
    careful.asker.close()
    bold.asker.close()


def test_completion_knows_the_processes_of_the_host(served: Served) -> None:
    """Asked anew now and then."""
    asked, _ = shell(served)
    assert [way.text for way in asked.completions("info sess")] == ["session[a1]", "session[a2]", "session[b]"]
    assert "eval" not in [way.text for way in asked.completions("e")]
    asked.asker.close()


def test_a_feed_ends_with_the_process_that_is_followed(served: Served) -> None:
    """A process that dies while it is shown is the feed's last word, with its reason."""
    with Asker(served.path) as asker, Asker(served.path) as other:
        feed = asker.follow("trace", target=asker.ask("info", target="keeper")["pid"])
        heard: list[dict[str, Any]] = []
        reader = threading.Thread(target=lambda: heard.extend(feed))
        reader.start()
        while not heard:  # it has begun when it hears of a message
            other.ask("send", target="keeper", message="x")
        other.ask("kill", target="keeper")
        reader.join()
    assert heard[-1]["end"]
    assert heard[-1]["text"] == "keeper ended: 'killed'"


def test_a_feed_that_is_left_can_be_followed_by_another_question(served: Served) -> None:
    """The connection goes on."""
    with Asker(served.path) as asker:
        feed = asker.follow("trace", target="keeper")
        other = Asker(served.path)
        first: list[dict[str, Any]] = []
        reader = threading.Thread(target=lambda: first.append(next(feed)))
        reader.start()
        while not first:
            other.ask("send", target="keeper", message="x")
        reader.join()
        feed.close()
        assert asker.ask("tree")["ok"]
        other.close()


def test_a_host_that_has_gone_is_said(served: Served) -> None:
    """At the next question, with a code for programs."""
    asked, out = shell(served)
    served.post(served.leave)
    served.thread.join(20)
    assert run_once(asked, "tree") == FAILED
    assert "has ended" in out.getvalue()
    asked.asker.close()


def test_nobody_behind_a_socket_is_said(tmp_path: Path) -> None:
    """Neither a file that is not there nor one that a killed host has left."""
    with pytest.raises(Unreachable, match="no host answers") as refused:
        Asker(tmp_path / "none.sock")
    assert refused.value.code == "dead"
    left = tmp_path / "left.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(left))
    with pytest.raises(Unreachable, match="no host answers"):
        Asker(left)


class Pretender:
    """Listens and says what it is told to, to one asker."""

    def __init__(self, path: Path, said: bytes) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen(1)
        self.said = said
        self.thread = threading.Thread(target=self.answer, daemon=True)
        self.thread.start()

    def answer(self) -> None:
        with self.socket, self.socket.accept()[0] as connection:
            connection.recv(1 << 16)
            connection.sendall(self.said)


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        (
            b'{"ok": false, "code": "version_skew", "version": 7, "error": "no"}\n',
            "version_skew",
            f"version 7 .* {VERSION}",
        ),
        (b'{"ok": false, "error": "unknown operation \'hello\'; there are: tree"}\n', "version_skew", "older version"),
        (b'{"ok": false, "code": "wrong_owner", "error": "another user"}\n', "wrong_owner", "refused: another user"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not_a_host", "no host"),
        (b"[1]\n", "not_a_host", "no host"),
        (b"[" * 60_000 + b"\n", "not_a_host", "no host"),
        (b"x" * 200_000, "not_a_host", "no host"),
        (b'{"ok": false, "code": "x", "error": "\\u001b[31m\\u202e"}\n', "x", r"refused: \\x1b\[31m\\u202e"),
        (b"", "not_a_host", "said nothing"),
    ],
)
def test_whoever_speaks_otherwise_is_named(tmp_path: Path, said: bytes, code: str, words: str) -> None:
    """An older or newer host, another user's, or something that is no host at all."""
    path = tmp_path / "x.sock"
    pretender = Pretender(path, said)
    with pytest.raises(Unreachable, match=words) as refused:
        Asker(path)
    assert refused.value.code == code
    pretender.thread.join()


def test_a_host_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    """Whoever listens but says nothing costs no more than the time allowed."""
    path = tmp_path / "x.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        bound.listen(1)
        with pytest.raises(Unreachable, match="did not answer") as refused:
            Asker(path, timeout_s=0.05)
    assert refused.value.code == "no_answer"


def test_the_program_does_one_command_and_says_how_it_went(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m lemon_otp.repl --attach SOCKET --once COMMAND`, on any tree."""
    attach = ["--attach", str(served.path), "--once"]
    assert program.main([*attach, "info the_keeper"]) == DONE
    assert program.main([*attach, "kill nobody", "--json"]) == FAILED
    assert program.main(["--attach", "/nowhere", "--once", "tree"]) == FAILED
    shown = capsys.readouterr()
    assert "the_keeper" in shown.out
    assert '"code": "not_found"' in shown.out
    assert "error: no host answers at /nowhere" in shown.err


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=st.lists(
        st.binary(max_size=200) | st.sampled_from([b'{"op":"hello","version":1}\n', b'{"op":"tree","id":1}\n'])
    )
)
def test_whatever_is_said_to_a_host_it_answers_in_json_and_goes_on(served: Served, said: list[bytes]) -> None:
    """Any bytes in any order: lines of JSON come back, or the end."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(served.path))
        with suppress(OSError):
            connection.sendall(b"".join(said))
            connection.shutdown(socket.SHUT_WR)
        heard = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    for line in heard.splitlines():
        assert "ok" in json.loads(line)
    with Asker(served.path) as asker:
        assert asker.ask("apps")["ok"]
