"""What a client is told of what a desk tells."""

from typing import Any

import pytest

from coding_agent.events import CompactionEnd, CompactionStart, QueueUpdate, SessionEvent, Settled
from coding_agent.hosting.desk_events import Ended, HookFailed, Opened
from coding_agent.hosting.dialogs import Asked, Closed, Question, Shown
from coding_agent.hosting.user_bash import BashOutput
from coding_agent.rpc.events import EventWriter
from lemon_agent import AgentEnd, AgentStart, ErrorEvent, LoopStateTransition


def told(writer: EventWriter, event: Any) -> list[dict[str, Any]]:
    wrapped = event if not hasattr(event, "type") or isinstance(event, Asked) else SessionEvent("s", event)
    return writer.messages(wrapped)


def types(writer: EventWriter, event: Any) -> list[str]:
    return [message["type"] for message in told(writer, event)]


def test_the_end_of_a_run_is_told_under_the_newer_name_too():
    """`agent_end` says that nothing is tried again; `settled` is followed by `agent_settled`."""
    writer = EventWriter()
    assert types(writer, AgentStart()) == ["agent_start"]
    (end,) = told(writer, AgentEnd((), "completed", None))
    assert (end["type"], end["willRetry"], end["messages"]) == ("agent_end", False, [])
    assert types(writer, Settled("completed")) == ["settled", "agent_settled"]


@pytest.mark.parametrize("cut", [ErrorEvent("broken"), Ended("s", "killed"), Opened("other", "new")])
def test_a_run_whose_end_never_came_gets_one(cut: Any):
    """A client that counts starts and ends is never left waiting: one start, one end."""
    writer = EventWriter()
    told(writer, AgentStart())
    assert types(writer, cut).count("agent_end") == 1
    assert types(writer, cut).count("agent_end") == 0


def test_automatic_compactions_have_their_older_names_as_well():
    """One that a person asked for is told once; the result stands in the end as one object, or the error."""
    writer = EventWriter()
    assert types(writer, CompactionStart("threshold", 10)) == ["compaction_start", "auto_compaction_start"]
    assert types(writer, CompactionStart("manual", 10)) == ["compaction_start"]
    new, old = told(writer, CompactionEnd("overflow", 10, "short", "first", "entry", 4))
    assert old["type"] == "auto_compaction_end"
    assert old["result"] == {
        "summary": "short", "firstKeptEntryId": "first", "tokensBefore": 10, "estimatedTokensAfter": 4,
    }  # fmt: skip
    assert (old["willRetry"], old["aborted"], "errorMessage" in new) == (True, False, False)
    (failed,) = told(writer, CompactionEnd("manual", 10, error_message="no", aborted=True))
    assert (failed["result"], failed["errorMessage"], failed["aborted"]) == (None, "no", True)


def test_how_the_loop_works_inside_is_not_told():
    """Events about states of the loop go to no client."""
    assert told(EventWriter(), LoopStateTransition(None, "idle")) == []


def test_queues_questions_output_and_failures_have_the_fields_of_the_protocol():
    """Each becomes one object."""
    writer = EventWriter()
    assert told(writer, QueueUpdate(("a",), ())) == [{"type": "queue_update", "steering": ["a"], "followUp": []}]
    question = Question("q1", "confirm", {"title": "T", "message": "M"}, 500)
    assert writer.messages(Asked(question)) == [
        {"type": "extension_ui_request", "id": "q1", "method": "confirm", "title": "T", "message": "M", "timeout": 500}
    ]
    assert writer.messages(Closed("q1", True)) == [{"type": "extension_ui_closed", "id": "q1", "answered": True}]
    (shown,) = writer.messages(Shown("setTitle", {"title": "T"}))
    assert (shown["method"], shown["title"]) == ("setTitle", "T")
    for given, stamp in (("b", {"id": "b"}), (0, {"id": 0}), (None, {})):  # the id as the client gave it
        assert writer.messages(BashOutput(given, "x")) == [{"type": "bash_execution_update", **stamp, "delta": "x"}]
    assert writer.messages(HookFailed("f", "input", "no")) == [
        {"type": "extension_error", "extensionPath": "f", "event": "input", "error": "no"}
    ]
