"""The terminal on a real pseudo terminal, with a host that is none."""

import re
import signal

import pytest

pytestmark = pytest.mark.xdist_group("terminal")


def test_a_conversation_is_drawn_block_by_block(scene):
    """A prompt, thinking, tools with their output and their diff, and an answer in Markdown, in the order they came."""
    pty = scene("tour", rows=60, columns=100)
    pty.send("look at this\r")
    pty.wait_for("left as it is")
    screen = pty.wait_for("ready")

    order = [
        "› look at this", "∴ thought", "✓ bash pytest -q", "✓ edit src/main.py +1 -1", "+    print('hello, world')",
        "What I found", " 1. fold long text", "paste.py       130", "  def fold(text: str)", "▌ Anything else",
    ]  # fmt: skip
    places = [screen.find(each) for each in order]
    assert -1 not in places, screen
    assert places == sorted(places)
    assert "20 lines above" in screen


def test_a_finished_block_is_printed_once_however_often_the_tail_is_redrawn(scene):
    """What is certain goes into the scrollback, a single time; only what can still change is drawn again."""
    pty = scene("long", rows=24)
    pty.send("say a lot\r")
    pty.wait_for("THE-END")
    pty.wait_for("ready")

    assert pty.scrollback().count("word") == 4000


def test_thinking_and_the_output_of_tools_are_folded_until_asked_for(scene):
    """Ctrl-T shows what was thought and Ctrl-O all a tool printed, of what is on the screen too; again folds them."""
    pty = scene("tour", rows=70, columns=100)
    pty.send("look\r")
    pty.wait_for("left as it is")
    assert "I should look at the files" not in pty.text()

    pty.send("\x14")
    pty.wait_for("I should look at the files")
    pty.send("\x0f")
    pty.wait_for("tests/test_3.py")
    pty.send("\x14\x0f")
    pty.wait_gone("I should look at the files")


def test_permission_is_given_by_a_key_that_was_pressed_after_the_question_could_be_read(scene):
    """The whole call is on the screen, and y, a and n answer; keys typed before go where they were meant to go."""
    pty = scene("asks")
    pty.send("go\r")
    pty.send("yes, and then")
    pty.wait_for("command: rm -rf build")
    pty.wait_for("y, a, n, or Enter")
    assert "yes, and then" in pty.text()
    pty.paste(" yes\ny")
    pty.wait_for("and then yes\n  y")
    pty.wait_for("y, a, n, or Enter")

    pty.send("y")
    pty.wait_gone("May this be done?")
    pty.send("\x03\x04")
    pty.finish()
    assert "'value': 'Allow once'" in pty.said()


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("a", "'value': 'Always allow bash(rm *)'"),
        ("n", "'value': 'Deny'"),
        ("\r", "'value': 'Deny'"),
        ("\x1b", "'value': 'Deny'"),
    ],
)
def test_each_answer_to_a_question_for_permission_has_its_key(scene, keys, answer):
    """a stores the rule that is shown, n refuses; Enter takes what is marked, which is no; so does Esc."""
    pty = scene("asks")
    pty.send("go\r")
    pty.wait_for("y, a, n, or Enter")
    pty.send(keys)
    pty.wait_gone("May this be done?")
    pty.send("\x04")
    pty.finish()

    assert answer in pty.said()


def test_what_extensions_ask_is_asked_one_after_the_other(scene):
    """A choice, a yes or no, a line and a text, each with its own answer; widgets and status are in sight."""
    pty = scene("dialogs", rows=30)
    pty.send("go\r")
    screen = pty.until(lambda screen: "a select" in screen and "Enter · Esc" in screen, "the choice")
    assert "a widget line" in screen
    assert "a status" in screen
    pty.send("gre\r")
    pty.until(lambda screen: "really?" in screen and "Enter · Esc" in screen, "the yes or no")
    pty.send("y")
    pty.until(lambda screen: "a placeholder" in screen and "Enter answers" in screen, "the line")
    pty.send("my line\r")
    pty.until(lambda screen: "some text" in screen and "Enter answers" in screen, "the text")
    pty.send(" and more\x0asecond\r")
    pty.wait_for("ready")
    pty.send("\x04")
    pty.finish()

    said = pty.said()
    assert "'value': 'green'" in said
    assert "'confirmed': True" in said
    assert "'value': 'my line'" in said
    assert "'value': 'some text and more\\nsecond'" in said


def test_nothing_that_is_shown_can_steer_the_terminal(scene):
    """Escape sequences in answers, tool names, output, titles and status lines are seen, and sent to no terminal."""
    pty = scene("hostile", columns=100, rows=40)
    pty.send("go\r")
    pty.wait_for("ice")
    screen = pty.wait_for("st\\x1b[2J")

    assert "\\x1b[31mtext" in screen
    assert "\\u{202e}back" in screen
    assert "out\\x1b[2Jput" in screen
    ours = {b"\x1b[2J"} if b"\x1b[2J\x1b[H" in pty.raw else set()
    for sequence in {b"\x1b[2J", b"\x1b[31mtext", b"\x1b]52", b"\x1b[5n", "\u202e".encode(), b"\x1b]0;"} - ours:
        assert sequence not in pty.raw
    titles = [part.split(b"\x07")[0] for part in pty.raw.split(b"\x1b]2;")[1:]]
    assert titles
    assert all(b"\x1b" not in title and b"\x9c" not in title.replace(b"\xc2\x9c", b"\x9c") for title in titles)


def test_esc_stops_the_model_and_the_line_says_what_runs_and_waits(scene):
    """While something runs its name, the time and what waits are shown; Esc asks for the end."""
    pty = scene("hangs")
    pty.send("go\r")
    pty.wait_for("● bash make test")
    pty.wait_for("  step 8 of 9")
    screen = pty.wait_for("2 waiting")
    assert "step 1 of 9" not in screen
    assert "next: look at the tests too" in screen
    assert "then: then commit" in screen
    pty.until(lambda screen: re.search(r"working  \d+s · Esc stops", screen) is not None, "the time it takes")

    pty.send("\x1b")
    pty.wait_for("stopped")
    pty.wait_for("ready")


@pytest.mark.requirement("BR-165")
@pytest.mark.parametrize("end", ["ctrl-d", "ctrl-c", "sigterm", "sighup", "sigint", "crash"])
def test_every_mode_is_off_after_every_end(scene, end):
    """However the program ends, after a resize too, the terminal is as it was: what was switched on is off again."""
    pty = scene("hangs")
    pty.resize(70, 20)
    pty.send("go\r")
    pty.wait_for("● bash make test")
    if end == "ctrl-d":
        pty.send("\x04")
    elif end in ("ctrl-c", "sigint"):
        pty.send("\x03") if end == "ctrl-c" else pty.child.kill(signal.SIGINT)
        pty.wait_for("Ctrl-C again quits")
        pty.send("\x03") if end == "ctrl-c" else pty.child.kill(signal.SIGINT)
    elif end == "crash":
        pty.send("/crash\r")
    else:
        pty.child.kill(getattr(signal, end.upper()))
    pty.finish()

    assert pty.modes_left_on() == set()
    assert b"\x1b[23;0t" in pty.raw
    assert pty.raw.rstrip().endswith((b"\x1b[?25h",)) or b"\x1b[?25h" in pty.raw[-400:]


def test_an_empty_line_needs_ctrl_c_twice_and_a_written_one_is_emptied(scene):
    """Ctrl-C empties what is written; on an empty line it says what a second one does, and that does it."""
    pty = scene("tour")
    pty.send("something")
    pty.wait_for("› something")
    pty.send("\x03")
    pty.wait_gone("› something")
    pty.send("\x03")
    pty.wait_for("Ctrl-C again quits")
    pty.send("\x03")

    assert pty.finish() == 0


def test_lines_are_added_by_backslash_ctrl_j_alt_enter_and_shift_enter(scene):
    """Enter sends; a backslash before it, and each of the other keys, begins a new line."""
    pty = scene("tour", rows=40)
    pty.send("one\\\rtwo\x0athree")
    pty.send("\x1b\r")
    pty.send("four\x1b[13;2ufive")
    pty.wait_for("five")
    assert "› one\n  two\n  three\n  four\n  five" in pty.text()
    pty.send("\r")
    pty.wait_for("What I found")

    assert "› one\n  two\n  three\n  four\n  five" in pty.scrollback()


@pytest.mark.requirement("BR-166")
def test_a_word_is_deleted_across_a_narrow_no_break_space(scene):
    """Alt+Backspace goes over a narrow no-break space without harm."""
    pty = scene("tour")
    pty.send("one\u202ftwo")
    pty.wait_for("two")
    pty.send("\x1b\x7f")
    pty.wait_gone("two")
    pty.send("\x1b\x7f")
    pty.wait_gone("one")
    pty.send("three")
    pty.wait_for("› three")


def test_long_text_is_pasted_as_a_word_and_sent_whole(scene):
    """A paste of many lines does not fill the editor, and its newlines send nothing."""
    pty = scene("tour", rows=60)
    pty.send("see ")
    pty.paste("\n".join(f"line {number}" for number in range(90)))
    pty.wait_for("› see [pasted 90 lines #1]")
    pty.send("\r")
    pty.wait_for("What I found")

    assert "line 38" in pty.scrollback()
    assert "50 more lines (Ctrl-O shows them)" in pty.scrollback()
    assert "line 89" not in pty.scrollback()
    pty.send("\x0f")
    pty.until(lambda _screen: "line 89" in pty.scrollback(), "all of it")


def test_commands_and_files_are_completed(scene):
    """A slash offers commands, those of the host too; an @ offers files, and Enter takes what is marked."""
    pty = scene("tour")
    pty.send("/re")
    screen = pty.wait_for("/review")
    assert "/resume" in screen
    pty.send("\x03see @")
    pty.wait_for("src/main.py")
    pty.send("\t\t\r")
    pty.wait_for("› see @src/main.py")


def test_a_choice_is_narrowed_down_by_typing(scene):
    """A list of the terminal's own takes keys at once: words narrow it down, Enter chooses, Esc does not."""
    pty = scene("tour")
    pty.send("/model\r")
    pty.wait_for("Who answers?")
    pty.send("scri demo")
    pty.wait_gone("scripted/script")
    pty.send("\r")
    pty.wait_for("scripted/demo answers from now on")
    pty.send("/model\r")
    pty.wait_for("Who answers?")
    pty.send("\x1b")
    pty.wait_gone("Who answers?")


@pytest.mark.parametrize(("columns", "rows"), [(20, 8), (12, 5), (200, 6)])
def test_a_small_terminal_shows_what_fits(scene, columns, rows):
    """However narrow or low, it works: no message about a window that is too small, no crash."""
    pty = scene("tour", columns=columns, rows=rows)
    pty.send("go on\r")
    pty.until(
        lambda _screen: ("left as" in pty.scrollback() and "scripted" in pty.text()) or "ready" in pty.text(), "the end"
    )
    pty.send("/model\r")
    pty.wait_for("Who")
    pty.send("\x1b\x04")

    assert pty.finish() == 0
    assert "too small" not in pty.scrollback()


def test_a_storm_of_resizes_ends_in_a_clean_screen(scene):
    """While the size changes nothing is drawn for sizes that are gone; then the end of the conversation, once."""
    pty = scene("tour", rows=40, columns=100)
    pty.send("look\r")
    pty.wait_for("left as it is")
    for step in range(60):
        pty.resize(30 + step % 50, 20 + step % 20)
        pty.pump()
    pty.resize(60, 40)
    pty.until(lambda screen: "▌ Anything else is left as it is." in screen and "─" * 60 in screen, "the last size")
    screen = pty.wait_for("ready")

    assert screen.count("▌ Anything else") == 1
    assert screen.count("ready ·") == 1


@pytest.mark.parametrize(("arguments", "env"), [((), {"NO_COLOR": "1"}), (("--no-colour",), {})])
def test_without_colour_no_colour_is_sent(scene, arguments, env):
    """NO_COLOR and --no-colour leave bold and faint and take every colour away, from what is printed and redrawn."""
    pty = scene("tour", *arguments, rows=60, **env)
    pty.send("look\r")
    pty.wait_for("left as it is")
    pty.send("\x04")
    pty.finish()
    codes = {int(code) for found in re.findall(rb"\x1b\[([\d;]*)m", pty.raw) for code in found.split(b";") if code}

    assert codes <= {0, 1, 2, 3, 4, 7, 22, 23, 24, 27}


def test_a_terminal_that_can_do_nothing_gets_plain_lines(home):
    """TERM=dumb: no escape sequence at all, and prompts, questions and the end work."""
    import sys

    from tests.coding_agent.terminal import pty_screen

    argv = [sys.executable, "-m", "tests.coding_agent.terminal.show_host", "asks"]
    pty = pty_screen.start(argv, home, TERM="dumb")
    try:
        pty.wait_for(">")
        pty.send("go\n")
        pty.wait_for("an empty line is none")
        pty.send("y\n")
        pty.send("\x04")
        pty.finish()
        assert "'value': 'Allow once'" in pty.said()
        assert b"\x1b" not in pty.raw
    finally:
        pty.close()
