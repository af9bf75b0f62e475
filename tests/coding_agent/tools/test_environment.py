"""What of our environment a program gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.tools.environment import child_environment, holds_secret


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "DB_PASSWORD",
        "PGPASS",
        "aws_secret_access_key",
        "X_CREDENTIALS",
        "NPM_AUTH",
        "COOKIE",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    """Whatever the vendor."""
    assert holds_secret(name, "x")


@pytest.mark.parametrize("name", ["PATH", "HOME", "SSH_AUTH_SOCK", "GIT_AUTHOR_NAME", "COMPASS_DIR", "LANG"])
def test_ordinary_names_are_not_taken_for_secrets(name: str) -> None:
    """Though parts of words may look like one."""
    assert not holds_secret(name, "x")


def test_programs_are_told_that_nobody_is_there() -> None:
    """No pager, no editor, no prompt."""
    environment = child_environment({"PAGER": "less", "EDITOR": "vi", "TERM": "xterm"})

    assert environment["PAGER"] == "cat"
    assert environment["EDITOR"] == "true"
    assert environment["TERM"] == "dumb"
    assert environment["GIT_TERMINAL_PROMPT"] == "0"


@given(own=st.dictionaries(st.text("ABCDEFKYTO_", min_size=1, max_size=12), st.text(max_size=8), max_size=8))
def test_nothing_unknown_is_passed(own: dict[str, str]) -> None:
    """Only what is on the list, whatever else there is."""
    known = set(child_environment({}))

    assert {name for name in child_environment(own) if name not in known} <= {"CC", "CI"}
