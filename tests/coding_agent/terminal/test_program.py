"""The real program on a real pseudo terminal, with a scripted model."""

import signal
import struct
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import pexpect
import pytest

from tests.coding_agent.terminal import pty_screen
from tests.coding_agent.terminal.pty_screen import Pty, messages

pytestmark = pytest.mark.xdist_group("terminal")


def picture(path: Path) -> Path:
    """A picture of one white pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\xff\xff\xff")) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return path


def quit_of(pty: Pty) -> int:
    pty.send("\x03")
    pty.send("\x04")
    return pty.finish()


def test_a_prompt_a_tool_that_is_asked_about_and_an_answer(lemon, home):
    """A whole turn: the question shows the call, y lets it run, its output and the answer are there and stored."""
    pty = lemon()
    pty.send('@tool bash {"command": "echo one-$((40+2))"}\\\r@turn\\\r@text It is **done**.\r')
    pty.wait_for("or Enter; Esc is no")
    assert "echo one-$((40+2))" in pty.text()
    pty.send("y")
    pty.wait_for("It is done.")
    screen = pty.wait_for("ready · scripted/echo")

    assert "✓ bash echo one-$((40+2))" in screen
    assert "one-42" in screen
    assert quit_of(pty) == 0
    assert pty.modes_left_on() == set()
    assert [each["toolName"] for each in messages(home, "toolResult")] == ["bash"]


def test_what_is_said_while_the_model_works_steers_it_or_follows(lemon, home):
    """Enter says it at the next chance, Alt+Enter when the run would end; both wait in sight until then."""
    pty = lemon("--permission-mode", "full")
    pty.send('@tool bash {"command": "sleep 2"}\\\r@turn\\\r@text first answer\r')
    pty.wait_for("● bash sleep 2")
    pty.send("also this\r")
    pty.wait_for("next: also this")
    pty.send("and afterwards that\x1b\r")
    pty.wait_for("then: and afterwards that")
    pty.wait_gone("then: and afterwards that")
    pty.wait_for("› and afterwards that")
    pty.wait_for("ready")
    quit_of(pty)

    said = [each["content"] if isinstance(each["content"], str) else each["content"][0]["text"]
            for each in messages(home, "user")]  # fmt: skip
    assert said[1:] == ["also this", "and afterwards that"]


def test_esc_stops_a_run_and_the_next_prompt_works(lemon, home):
    """What was being done ends, is stored as stopped, and the conversation goes on."""
    pty = lemon("--permission-mode", "full")
    pty.send('@tool bash {"command": "sleep 100"}\r')
    pty.wait_for("● bash sleep 100")
    pty.send("\x1b")
    pty.wait_for("stopped")
    pty.send("still there?\r")
    pty.wait_for("› still there?")
    pty.until(lambda screen: screen.count("still there?") == 2 and "ready" in screen, "the echo")

    assert quit_of(pty) == 0


def test_esc_gives_back_what_had_waited_for_the_model(lemon, home):
    """Before what is being written; it can be changed, sent or left."""
    pty = lemon("--permission-mode", "full")
    pty.send('@tool bash {"command": "sleep 100"}\r')
    pty.wait_for("● bash sleep 100")
    pty.send("look here\r")
    pty.wait_for("next: look here")
    pty.send("and then there\x1b\r")
    pty.wait_for("then: and then there")
    pty.send("half written")
    pty.wait_for("› half written")
    pty.send("\x1b")
    pty.wait_for("stopped")
    pty.wait_for("› look here\n  and then there\n  half written")
    pty.wait_for("ready")
    assert "next:" not in pty.text()
    pty.send("\x03")
    pty.wait_gone("half written")

    assert quit_of(pty) == 0
    assert len(messages(home, "user")) == 1


def test_commands_of_the_users_own_run_with_and_without_the_model_being_told(lemon, home):
    """! runs a command whose output goes with the next prompt, !! one that the model never hears of."""
    pty = lemon()
    pty.send("!echo told-$((1+1))\r")
    pty.wait_for("\n$ echo told-$((1+1))\n  told-2")
    pty.send("!!echo kept-$((1+2))\r")
    pty.wait_for("\n$ echo kept-$((1+2))  not told to the model\n  kept-3")
    pty.send("!sleep 100\r")
    pty.wait_for("running your command")
    pty.send("\x1b")
    pty.wait_for("cancelled")
    pty.send("hello\r")
    pty.until(lambda screen: screen.count("hello") == 2 and "ready" in screen, "the echo")
    quit_of(pty)

    kept = {each["command"]: bool(each.get("excludeFromContext")) for each in messages(home, "bashExecution")}
    assert kept["echo told-$((1+1))"] is False
    assert kept["echo kept-$((1+2))"] is True


def test_slash_commands_ask_show_and_change(lemon, home):
    """Names, labels, levels, modes, budgets, what was used, what there is: each asks the host and says what it did."""
    pty = lemon(rows=70)
    templates = home / ".config" / "lemon" / "prompts"
    templates.mkdir(parents=True)
    (templates / "greet.md").write_text("---\ndescription: be friendly\n---\nSay hello to $1.\n")
    pty.send("first words\r")
    pty.until(lambda screen: screen.count("first words") == 2 and "ready" in screen, "the echo")
    for typed, seen in (
        ("/name a good name\r", "a good name"),
        ("/label here\r", "labelled: here"),
        ("/cost\r", "Used so far"),
        ("/session\r", "This session"),
        ("/budget 200k $1.50\r", "0.000 of $1.500"),
        ("/permissions plan\r", "permission mode: plan"),
        ("/mcp\r", "no MCP server is set up"),
        ("/queue\r", "nothing waits"),
        ("/model demo\r", "scripted/demo answers from now on"),
        ("/export out.md\r", "out.md"),
        ("/export out.html\r", "out.html"),
        ("/reload\r", "read again: 1 templates, skills and commands"),
        ("/greet you\r", "Say hello to you."),
        ("/help\r", "/greet"),
    ):
        pty.send(typed)
        pty.wait_for(seen)
    pty.wait_for("plan mode")
    pty.send("\x10")
    pty.until(lambda screen: "answers from now on" in screen.rpartition("be friendly")[2], "the next model")
    pty.send("\x1b[Z")
    pty.wait_for("this model thinks in one way only")
    pty.send("/tools\r")
    pty.wait_for("Which tools has the model?")
    pty.send("\r")
    pty.wait_for("☐")
    pty.send("\x1b")
    pty.wait_gone("Which tools has the model?")
    assert quit_of(pty) == 0

    assert "first words" in (home / "project" / "out.md").read_text()
    assert "first words" in (home / "project" / "out.html").read_text()


def test_one_goes_to_other_places_and_other_sessions(lemon, home):
    """Tree, fork, clone, new, resume and rewind: a choice, and then the screen shows where one is."""
    pty = lemon(rows=50)
    for words in ("alpha", "beta"):
        pty.send(f"{words}\r")
        pty.until(lambda screen, words=words: screen.count(words) == 2 and "ready" in screen, words)
    pty.send("/fork\r")
    pty.wait_for("Before which prompt?")
    pty.send("\r")
    pty.wait_for("a new session that begins as the other did")
    pty.wait_for("› beta\nready")
    pty.send("\x03gamma\r")
    pty.until(lambda screen: screen.count("gamma") == 2 and "ready" in screen, "gamma")

    pty.send("/tree\r")
    pty.wait_for("Where to go on?")
    pty.send("alpha")
    pty.wait_for("alpha\n")
    pty.send("\r")
    pty.wait_for("Summarize the branch that is left?")
    pty.send("\r")
    pty.wait_for("another place of the conversation")

    pty.send("\x03/new\r")
    pty.wait_for("• a new session")
    pty.send("/resume\r")
    pty.wait_for("Which session?")
    pty.send("\r")
    pty.wait_for("another session")
    pty.send("\x03/rewind\r")
    pty.until(lambda screen: "Back to before which prompt?" in screen or "no earlier prompt" in screen, "a choice")
    pty.send("\x1b")

    assert quit_of(pty) == 0


def test_files_and_conversation_are_taken_back(lemon, home):
    """/rewind shows what would change, asks, does it, and gives the prompt back to be said again."""
    pty = lemon("--permission-mode", "full", rows=50)
    notes = home / "project" / "notes.txt"
    notes.write_text("before\n")
    pty.send('@tool read {"path": "notes.txt"}\\\r@tool write {"path": "notes.txt", "content": "after"}\r')
    pty.wait_for("+after")
    pty.wait_for("ready")
    assert notes.read_text() == "after"
    pty.send("/rewind\r")
    pty.wait_for("Back to before which prompt?")
    pty.send("\r")
    pty.wait_for("What is taken back?")
    pty.send("\r")
    pty.wait_for("Go back?")
    assert "notes.txt" in pty.text().rpartition("Going back would")[2]
    pty.send("y")
    pty.wait_for("taken back: 1 changes")
    pty.until(lambda screen: '› @tool read {"path"' in screen.rpartition("─")[2], "the prompt in the editor")
    quit_of(pty)

    assert notes.read_text() == "before\n"


def test_a_picture_whose_path_is_pasted_goes_along(lemon, home):
    """The path becomes a word in the line, and the picture goes with the prompt."""
    path = picture(home / "white pixel.png")
    pty = lemon()
    pty.send("what is this? ")
    pty.paste(f"'{path}'")
    pty.wait_for("[picture #1: white pixel.png]")
    pty.send("\r")
    pty.wait_for("[1 picture]")
    pty.wait_for("ready")
    quit_of(pty)

    (message,) = messages(home, "user")
    assert [block["type"] for block in message["content"]] == ["text", "image"]
    assert message["content"][0]["text"] == "what is this?"


def test_what_was_typed_is_there_the_next_time_and_for_nobody_else(lemon, home):
    """Up brings back what was typed in an earlier start; the file can be read by its owner only."""
    pty = lemon()
    pty.send("remember me\r")
    pty.until(lambda screen: screen.count("remember me") == 2 and "ready" in screen, "the echo")
    assert quit_of(pty) == 0
    history = home / ".local" / "state" / "lemon" / "history"
    assert history.stat().st_mode & 0o777 == 0o600

    again = lemon("--continue")
    again.until(lambda screen: screen.count("remember me") == 2, "the conversation from before")
    again.send("\x1b[A")
    again.wait_for("› remember me\nready")
    quit_of(again)


def test_ctrl_z_gives_the_shell_its_terminal_and_fg_comes_back(home):
    """Suspended, the program has no mode on and the shell works; continued, it is drawn and takes keys again."""
    (home / "project").mkdir()
    bash = pty_screen.start(["bash", "--norc", "--noprofile", "-i"], home, cwd=home / "project", rows=30, PS1="shell> ")
    try:
        bash.wait_for("shell>")
        bash.send(f"{sys.executable} -m coding_agent --model scripted/echo\r")
        bash.wait_for("ready · scripted/echo")
        bash.send("kept draft")
        bash.wait_for("› kept draft")
        bash.send("\x1a")
        bash.until(lambda screen: "Stopped" in screen and screen.rstrip().endswith("shell>"), "the shell")
        assert bash.modes_left_on() <= {"2004"}  # the shell's own
        bash.send("echo in-$((1+1))-between\r")
        bash.wait_for("in-2-between")
        bash.send("fg\r")
        bash.until(lambda screen: "› kept draft" in screen.rpartition("in-2-between")[2], "the draft")
        bash.send(" and more")
        bash.wait_for("› kept draft and more")
        bash.send("\x03\x04")
        bash.until(lambda screen: screen.rstrip().endswith("shell>"), "the shell")
    finally:
        bash.close()


def test_a_terminal_that_goes_away_ends_the_program_and_what_was_said_is_kept(lemon, home):
    """The window is closed in the middle of a run: the run is aborted and stored, and the program ends."""
    pty = lemon("--permission-mode", "full")
    pty.send('@tool bash {"command": "sleep 100"}\r')
    pty.wait_for("● bash sleep 100")
    pid = pty.child.pid
    with suppress(pexpect.ExceptionPexpect):  # it gives up waiting sooner than we do
        pty.child.close(force=False)
    pty_screen.wait_for_end(pid)

    assert [each["role"] for each in (*messages(home, "user"), *messages(home, "toolResult"))] == ["user", "toolResult"]


def test_sigterm_ends_the_program_in_order(lemon, home):
    """Asked to end, it aborts what runs, stores it, gives the terminal back and says so with its exit code."""
    pty = lemon()
    pty.child.kill(signal.SIGTERM)

    assert pty.finish() == 143
    assert pty.modes_left_on() == set()


def test_without_its_libraries_the_terminal_is_plain_lines_and_says_so(home, tmp_path):
    """None of them is there: a conversation all the same, commands and choices too, and a line with what to install."""
    for name in ("prompt_toolkit", "rich", "wcwidth", "markdown_it", "pygments"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name}', name='{name}')\n")
    pty = pty_screen.program(home, PYTHONPATH=f"{tmp_path}:{pty_screen.ROOT}")
    try:
        pty.wait_for("pip install 'lemon-agents[terminal]'")
        pty.send("@text **one**, and more\n")
        pty.wait_for("\n**one**, and more")
        pty.send("/session\n")
        pty.wait_for("scripted/echo")
        pty.send("/thinking\n")
        pty.wait_for("an empty line is none")
        pty.send("1\n/quit\n")
        assert pty.finish() == 0
    finally:
        pty.close()


def test_a_dumb_terminal_gets_a_conversation_in_lines(home):
    """TERM=dumb: a prompt, a question, an answer and the end, without one escape sequence."""
    pty = pty_screen.program(home, TERM="dumb")
    try:
        pty.wait_for(">")
        pty.send('@tool bash {"command": "echo plain-$((2+2))"}\n')
        pty.wait_for("an empty line is none")
        pty.send("y\n")
        pty.wait_for("plain-4")
        pty.send("/quit\n")
        assert pty.finish() == 0
        assert b"\x1b" not in pty.raw
    finally:
        pty.close()


EXTENSION = """
def extension(lemon):
    @lemon.register_shortcut("alt+n", description="Leaves a note.")
    async def note(session):
        await session.send_message("note", "for the model")
        return "noted"

    @lemon.register_message_renderer("note")
    def show(message):
        return "a **note** in `code`"
"""


def test_an_extension_has_a_key_and_its_say_in_how_it_looks(lemon, home):
    """The key runs it, its message is drawn as it wants, in the colours of the person's theme; /help lists the key."""
    (home / "note.py").write_text(EXTENSION)
    themes = home / ".config" / "lemon" / "themes"
    themes.mkdir(parents=True)
    (themes / "mine.json").write_text('{"colors": {"code": "magenta"}}')
    pty = lemon("-e", str(home / "note.py"), "--theme", "mine")
    pty.send("\x1bn")
    screen = pty.wait_for("a note in code")
    pty.wait_for("noted")
    line = next(row for row, text in enumerate(screen.splitlines()) if "a note in code" in text)
    assert pty.screen.buffer[line][pty.screen.display[line].index("code")].fg == "magenta"
    pty.send("/help\r")
    pty.wait_for("Leaves a note.")
    assert quit_of(pty) == 0
