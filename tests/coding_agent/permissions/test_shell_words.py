"""One word of a command is what bash makes of it."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coding_agent.permissions.shell_words import NotOneWord, word

PIECES = (
    "a", "b", "'", '"', "\\", "$'", '$"', "\\n", "\\x41", "\\101", "\\'", '\\"', "$", "$x", "${x}", "$(echo q)",
    "`echo q`",
    "*", "?", "{a,b}", "~", " ", "-", "=", ":", "é", "\\$", "\\\\", "!", "#",
)  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("git", "git"),
        ("r''m", "rm"),
        ("\"r\"'m'", "rm"),
        ("\\rm", "rm"),
        ("$'\\x72\\155'", "rm"),
        ('$"rm"', "rm"),
        ('"a\\b"', "a\\b"),
        ('"a\\"b"', 'a"b'),
        ("a#b", "a#b"),
        ("a$", "a$"),
        ("''", ""),
    ],
)
def test_quotes_and_escapes_are_taken_off(raw, text):
    """What the program gets is known, however it is written."""
    assert word(raw).text == text


@pytest.mark.parametrize("raw", ["$x", '"$x"', "${x}", "$(x)", "`x`", "a*", "a?", "[ab]", "{a,b}", "~/x", "<(x)", "$@"])
def test_what_shows_only_when_it_runs_is_open(raw):
    """Nothing is guessed about expansions."""
    assert word(raw).text is None


@pytest.mark.parametrize("raw", ["a b", "a;b", "a&", "a|b", "a\nb", "(a)", "a>b", "'a", '"a', "a\\"])
def test_what_bash_would_not_read_as_one_word_is_refused(raw):
    """A word ends where bash ends it."""
    with pytest.raises(NotOneWord):
        word(raw)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7), min_size=20, max_size=20))
def test_every_known_word_is_what_bash_says(drawn):
    """Any string of quotes, escapes and letters that is called known, is passed by bash exactly so."""
    known = []
    for pieces in drawn:
        raw = "".join(pieces)
        try:
            text = word(raw).text
        except NotOneWord:
            continue
        if text is not None and not raw.startswith("#"):
            known.append((raw, text))
    script = "\n".join(f"printf '%s\\0' {raw}" for raw, _ in known)

    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=20, check=False)

    assert done.stdout.split(b"\0")[:-1] == [text.encode() for _, text in known]
