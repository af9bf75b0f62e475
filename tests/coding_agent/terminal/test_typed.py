"""What is typed and pasted, and what it means."""

from pathlib import Path

import pytest

from coding_agent.terminal import actions
from coding_agent.terminal.history import PrivateHistory
from coding_agent.terminal.paste import Pasted
from coding_agent.terminal.slash import BY_NAME, COMMANDS, Typed, budget_of, understood
from tests.coding_agent.terminal.test_program import picture


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("hello", Typed("prompt", "hello")),
        ("  ", Typed("nothing")),
        ("/model gpt", Typed("command", "gpt", "model")),
        ("/exit", Typed("command", "", "quit")),
        ("/review this", Typed("prompt", "/review this")),
        ("/tmp/x is a file", Typed("prompt", "/tmp/x is a file")),
        ("!ls -la", Typed("shell", "ls -la")),
        ("!!ls", Typed("quiet_shell", "ls")),
        ("!", Typed("nothing")),
        ("!!", Typed("nothing")),
    ],
)
def test_a_line_is_a_prompt_a_command_or_for_the_shell(line, meant):
    """A slash before a word that is not ours goes to the host: templates, skills, extensions, or plain text."""
    assert understood(line) == meant


def test_every_command_does_something():
    """What is offered after a slash is what there is, no more and no less."""
    assert set(actions.ACTIONS) == set(BY_NAME)
    assert len(BY_NAME) == len(COMMANDS)


@pytest.mark.parametrize(
    ("words", "budget"),
    [("200k $1.5", (200_000, 1.5)), ("$2", (None, 2.0)), ("1.5m", (1_500_000, None)), ("900", (900, None))],
)
def test_a_budget_is_tokens_a_cost_or_both(words, budget):
    """In any order, with k and m."""
    assert budget_of(words) == budget


def test_a_budget_that_is_neither_is_refused():
    """Something else says so."""
    with pytest.raises(ValueError, match="could not convert"):
        budget_of("lots")


def test_short_text_is_pasted_as_it_is_without_what_would_steer():
    """Carriage returns are newlines, escape sequences nothing."""
    assert Pasted().paste("one\rtwo\x1b[31m", Path("/")) == "one\ntwo"


def test_long_text_is_a_word_in_the_line_and_whole_when_sent(tmp_path):
    """Two pastes are two words; a word whose paste was taken away is only words."""
    pasted = Pasted()
    long, wide = "\n".join("abc" * 2 for _ in range(50)), "x" * 5_000
    line = f"see {pasted.paste(long, tmp_path)} and {pasted.paste(wide, tmp_path)}"

    assert line == "see [pasted 50 lines #1] and [pasted 5,000 characters #2]"
    assert pasted.unfolded(line) == f"see {long} and {wide}"
    assert pasted.unfolded("[pasted 3 lines #9]") == "[pasted 3 lines #9]"


@pytest.mark.parametrize("form", ["{path}", "'{path}'", "{escaped}", "file://{quoted}", "{path}\n{path}"])
def test_paths_of_pictures_become_pictures(tmp_path, form):
    """As terminals give them when a file is dropped: bare, quoted, escaped, as an address, several."""
    path = picture(tmp_path / "a b.png")
    text = form.format(path=path, escaped=str(path).replace(" ", "\\ "), quoted=str(path).replace(" ", "%20"))
    if form == "{path}\n{path}":
        text = f"'{path}'\n'{path}'"
    pasted = Pasted()
    line = pasted.paste(text, tmp_path)

    assert "[picture #1: a b.png]" in line
    assert pasted.pictures_of(line)[0].mime_type == "image/png"
    assert pasted.unfolded(f"look {line}") in ("look", "look  ")


def test_text_that_only_speaks_of_a_picture_stays_text(tmp_path):
    """A file that is none, is no picture, or a sentence with a name in it is pasted as it is."""
    (tmp_path / "not.png").write_text("text")
    for text in ("missing.png", "not.png", "see not.png for more"):
        assert Pasted().paste(text, tmp_path) == text


def test_history_is_private_keeps_lines_whole_and_survives_what_it_cannot_read(tmp_path):
    """Entries of several lines come back as one; a broken line is passed over; nobody else may read the file."""
    path = tmp_path / "state" / "history"
    history = PrivateHistory(path)
    history.store_string("one\ntwo \u2028")
    with path.open("a") as file:
        file.write("not json\n{}\n")
    history.store_string("last")

    assert list(PrivateHistory(path).load_history_strings()) == ["last", "one\ntwo \u2028"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_history_that_cannot_be_kept_is_no_reason_to_stop(tmp_path):
    """A folder that cannot be written, or a link put in its place: nothing is followed, nothing raised."""
    target = tmp_path / "target"
    (tmp_path / "history").symlink_to(target)
    PrivateHistory(tmp_path / "history").store_string("secret")

    assert not target.exists()
