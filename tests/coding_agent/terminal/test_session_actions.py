"""What the list of sessions says beside each."""

import time

import pytest

from coding_agent.terminal.session_actions import session_note
from coding_agent.terminal.view import View


@pytest.fixture
def in_utc(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("session", "note"),
    [
        ({"updated": 1_796_042_615_518, "messageCount": 2, "live": True}, "2026-11-30 12:43 · 2 messages · live"),
        ({"updated": 0, "messageCount": 0}, "1970-01-01 00:00"),
        ({"messageCount": 7}, "7 messages"),
        ({"messageCount": 7, "cwd": "/p/one", "live": True, "id": "a"}, "7 messages · here"),
        ({"messageCount": 7, "cwd": "/p/two", "live": True}, "7 messages · in two · live"),
        ({"cwd": "/"}, "in /"),
        ({}, ""),
    ],
)
def test_a_session_is_told_by_when_it_was_written_and_how_much_was_said(in_utc, session, note):
    """The time is a date a person reads, not the milliseconds of the protocol; what is not known is left out."""
    assert session_note(session, View(cwd="/p/one", session_id="a")) == note
