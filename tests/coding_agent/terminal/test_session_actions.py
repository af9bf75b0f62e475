"""Going on with another session: which is meant, and what the list says beside each."""

import time
from pathlib import Path

import pytest

from coding_agent.terminal.conversation import Conversation
from coding_agent.terminal.options import TerminalOptions
from coding_agent.terminal.session_actions import resume, session_note
from coding_agent.terminal.view import View
from lemon_otp.testing import settle
from tests.coding_agent.terminal.fakes import FakeChannel
from tests.coding_agent.terminal.test_conversation import Shown


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


@pytest.fixture
async def talk(runtime):
    channel = FakeChannel()
    channel.answers["get_state"] = {"sessionId": "here"}
    channel.answers["list_sessions"] = {
        "sessions": [
            {"id": "here", "path": "/s/here", "name": None},
            {"id": "abc1", "path": "/s/abc1", "name": "the fix"},
            {"id": "abc2", "path": "/s/abc2", "name": None},
        ]
    }
    talk = Conversation(channel, TerminalOptions(Path("/tmp")), Shown())
    await talk.open()
    return talk


@pytest.mark.parametrize(
    ("words", "path"), [("abc2", "/s/abc2"), ("the fix", "/s/abc1"), ("latest", "/s/abc1"), ("abc1", "/s/abc1")]
)
async def test_a_session_is_gone_on_with_by_its_id_its_name_or_as_the_latest(talk, words, path):
    """Without a question; the one that is looked at is not the latest other."""
    await resume(talk, words)
    assert {"type": "switch_session", "sessionPath": path} in talk.channel.sent


async def test_words_that_mean_none_or_several_are_said_or_asked_about(talk):
    """None is said; of several the person chooses."""
    await resume(talk, "nosuch")
    assert "there is no session nosuch" in talk.front.blocks[-1].text
    talk.begin(resume, talk, "abc")
    await settle()
    assert [option.value["id"] for option in talk.question.options] == ["abc1", "abc2"]
    assert "switch_session" not in talk.channel.types()
