import inspect
from pathlib import Path

import pytest

from coding_agent import errors
from coding_agent.errors import (
    CodingAgentError,
    CompactionError,
    EntryNotFound,
    NoHeadroom,
    NotASession,
    SessionClosed,
    SessionError,
    SessionFileChanged,
    SessionLocked,
    SessionReadOnly,
    SessionTooLarge,
    SessionWriteFailed,
    UnsupportedVersion,
)

PATH = Path("/s.jsonl")


def test_the_tree_in_the_docstring_is_the_tree():
    """
    Every error of the package is drawn, under its base, and nothing else is.
    """
    drawn = {}
    stack = []
    for line in errors.__doc__.splitlines()[2:]:
        name = line.lstrip("│├└─ ").split(" ")[0]
        if not name:
            continue
        depth = (len(line) - len(line.lstrip("│├└─ "))) // 4
        drawn[name] = stack[depth - 1] if depth else "SpeaksForItself"
        stack[depth:] = [name]
    real = {
        name: cls.__base__.__name__
        for name, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, CodingAgentError)
    }
    assert drawn == real


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SessionError(PATH), "/s.jsonl: Something about one session file."),
        (NotASession(PATH, "empty_file"), "/s.jsonl: empty file"),
        (NotASession(PATH, "unreadable", "no"), "/s.jsonl: no"),
        (UnsupportedVersion(PATH, 4), "session format 4 is newer"),
        (SessionTooLarge(PATH, 9, 8), "9 bytes are more than the 8 allowed"),
        (SessionLocked(PATH), "in use by another process;"),
        (SessionLocked(PATH, 7, "host"), "in use by process 7 on host;"),
        (SessionReadOnly(PATH), "read-only: opened for reading only"),
        (SessionClosed(PATH), "The manager of this session was closed."),
        (SessionWriteFailed(PATH, "e", 2, "No space left on device"), "not saved: No space left on device (2 waiting"),
        (SessionFileChanged(PATH, "e", 2, change="removed"), "the file was removed by somebody else; 2 entries wait"),
        (EntryNotFound(PATH, "x"), "no entry x"),
        (NoHeadroom((("tools", 3), ("system prompt", 2)), 4), "tools 3, system prompt 2 tokens, and only 4 fit"),
    ],
)
def test_an_error_says_what_is_wrong_and_where(error, text):
    """
    The text is for a person; what a program needs is an attribute.
    """
    assert text in str(error)


def test_bases_group_what_is_handled_together():
    """
    One base for the package, one for a session's file, one for a compaction.
    """
    assert issubclass(SessionFileChanged, SessionWriteFailed)
    assert issubclass(SessionWriteFailed, SessionError)
    assert issubclass(NoHeadroom, CompactionError)
    assert SessionFileChanged(PATH).change == "replaced"
