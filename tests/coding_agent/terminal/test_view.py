"""What is known of a conversation from its events."""

import pytest

from coding_agent.terminal.blocks import Asked, Notice, Prose, Summary, Thought, ToolRan, UserSaid
from coding_agent.terminal.view import View
from coding_agent.terminal.view_messages import history_blocks
from tests.coding_agent.terminal.fakes import assistant, delta, question, user_said


def told(*events, view: View | None = None, now_s: float = 0.0):
    """The blocks of these events, and the view after them."""
    view = view or View()
    blocks = [block for event in events for block in view.take(event, now_s)]
    return blocks, view


START = {"type": "message_start", "message": assistant("")}


def test_an_answer_is_what_came_in_parts_and_not_again_what_its_end_says():
    """The whole message at the end repeats what was streamed; it is printed once."""
    blocks, view = told(
        START, delta("one\n\ntw"), delta("o"), {"type": "message_end", "message": assistant("one\n\ntwo")}
    )

    assert [block.text for block in blocks if isinstance(block, Prose)] == ["one\n\ntwo"]
    assert view.answer is None


def test_an_answer_whose_beginning_was_missed_is_shown_by_its_end():
    """A terminal that comes in the middle shows no half of it, and then all of it."""
    blocks, _ = told(delta("half"), {"type": "message_end", "message": assistant("the whole")})

    assert blocks == [Prose("the whole")]


def test_thinking_ends_where_text_or_a_call_begins_and_has_its_time():
    """What was thought is one block, in front of what came of it."""
    view = View()
    told(START, view=view)
    told(delta("hm ", "thinking_delta"), view=view, now_s=1.0)
    blocks, _ = told(delta("So."), view=view, now_s=4.0)

    assert blocks == [Thought("hm ", 3.0)]
    assert view.phase == "answering"


def test_a_tool_is_at_work_between_its_start_and_its_end():
    """Its output so far is known, then its result; its arguments are those of its start."""
    start = {"type": "tool_execution_start", "toolCallId": "1", "toolName": "bash", "args": {"command": "ls"}}
    says = {
        "type": "tool_execution_update",
        "toolCallId": "1",
        "partialResult": {"content": [{"type": "text", "text": "a"}]},
    }
    view = View()
    told(start, says, view=view)
    assert view.tools["1"].output == "a"
    end = {"type": "tool_execution_end", "toolCallId": "1", "toolName": "bash", "isError": True,
           "result": {"content": [{"type": "text", "text": "no"}], "trust": "untrusted"}}  # fmt: skip
    blocks, _ = told(end, view=view, now_s=2.0)

    assert blocks == [ToolRan("bash", {"command": "ls"}, "no", is_error=True, seconds=2.0, untrusted=True)]
    assert view.tools == {}


def test_a_run_that_settles_leaves_nothing_on_its_way():
    """Stopped in the middle: what there was of the answer is printed, tools are gone, questions too."""
    view = View()
    told({"type": "agent_start"}, START, delta("half"), question(), view=view)
    blocks, _ = told({"type": "settled", "outcome": "aborted"}, view=view)

    assert Prose("half") in blocks
    assert Notice("stopped", "warning") in blocks
    assert (view.phase, view.tools, view.questions, view.is_running) == ("idle", {}, [], False)


def test_a_question_for_permission_shows_the_whole_call_and_is_asked_once():
    """Sent again to one who has it, it is the same question; answered elsewhere, it is gone."""
    blocks, view = told(question(), question())
    assert blocks == [Asked("bash", "bash\n  command: rm -rf build", "no rule allows it", ("bash(rm *)",))]
    assert [option.key for option in view.questions[0].options] == ["y", "a", "n"]

    told({"type": "extension_ui_closed", "id": "q1", "answered": True}, view=view)
    assert view.questions == []


def test_a_decision_of_somebody_else_takes_the_question_away():
    """Another client, a rule or the mode decided: nobody is asked any more, and a no is told."""
    _, view = told(question())
    denied = {"type": "permission_decided", "toolCallId": "c1", "toolName": "bash", "decision": "denied", "by": "rule",
              "reason": "a rule", "subject": "rm"}  # fmt: skip
    blocks, _ = told(denied, view=view)

    assert view.questions == []
    assert blocks == [Notice("not allowed: bash: a rule", "warning")]


def test_a_retry_and_a_compaction_are_told_and_timed():
    """What takes long says what it is: the try, the wait, the shorter conversation."""
    blocks, view = told(
        {"type": "auto_retry_start", "attempt": 2, "maxAttempts": 3, "delayMs": 4000, "errorMessage": "busy"}
    )
    assert blocks == [Notice("busy; trying again", "warning")]
    assert (view.phase, view.retry_at_s) == ("retrying", 4.0)
    blocks, view = told(
        {"type": "compaction_start", "reason": "threshold", "tokensBefore": 9000},
        {"type": "compaction_end", "tokensBefore": 9000, "tokensAfter": 800, "summary": "short"},
    )
    assert blocks == [Summary("compacted: about 9,000 tokens into a summary", "short")]
    assert view.context_tokens == 800


def test_extensions_set_status_widgets_title_text_and_notices():
    """What only informs is kept until it is taken back."""

    def ui(method, **more):
        return {"type": "extension_ui_request", "id": method, "method": method, **more}

    blocks, view = told(
        ui("notify", message="look", notifyType="error"),
        ui("setStatus", statusKey="a", statusText="busy"),
        ui("setWidget", widgetKey="w", widgetLines=["one", "two"]),
        ui("setTitle", title="T"),
        ui("set_editor_text", text="draft"),
    )
    assert blocks == [Notice("look", "error")]
    assert (view.statuses, view.widgets, view.title, view.editor_text) == (
        {"a": "busy"},
        {"w": ("one", "two")},
        "T",
        "draft",
    )
    told(ui("setStatus", statusKey="a"), ui("setWidget", widgetKey="w"), view=view)
    assert (view.statuses, view.widgets) == ({}, {})


@pytest.mark.parametrize("event", [
    {}, {"type": None}, {"type": "of tomorrow"}, {"type": "message_update"}, {"type": "message_end"},
    {"type": "message_end", "message": {}}, {"type": "tool_execution_end"}, {"type": "tool_execution_start", "args": 3},
    {"type": "extension_ui_request"}, {"type": "settled"}, {"type": "queue_update"}, {"type": "message_start"},
    {"type": "tool_execution_end", "toolCallId": "9", "result": {"content": "text"}, "toolName": "x"},
])  # fmt: skip
def test_an_event_of_another_shape_harms_nothing(event):
    """A host of another version may say less, or other things: the terminal goes on."""
    _, view = told(START, event, delta("still"), {"type": "message_end", "message": assistant("still here")})

    assert view.answer is None


def test_an_old_conversation_shows_calls_with_their_results():
    """Messages from before: prompts, answers, and each call where its result is."""
    call = {"type": "toolCall", "id": "1", "name": "read", "arguments": {"path": "a"}}
    result = {"role": "toolResult", "toolCallId": "1", "toolName": "read", "content": [{"type": "text", "text": "A"}]}
    messages = [user_said("hi")[1]["message"], {"role": "assistant", "content": [call]}, result, assistant("done")]

    assert history_blocks(messages) == [UserSaid("hi"), ToolRan("read", {"path": "a"}, "A"), Prose("done")]


def test_what_had_begun_before_is_timed_from_its_beginning():
    """Who comes later counts the run, a call and the wait for the next try as those do who were there."""
    view = View(run_since_s=99.0, phase="waiting")  # as the state said, which knows no more
    view.take({"type": "agent_start", "missed": True, "ageMs": 65_000}, 100.0)
    view.take(
        {"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "missed": True, "ageMs": 5_000}, 100.0
    )
    view.take({"type": "auto_retry_start", "delayMs": 20_000, "missed": True, "ageMs": 8_000}, 100.0)
    assert view.run_since_s == 35.0
    assert view.tools["c"].since_s == 95.0
    assert view.retry_at_s == 112.0


def test_a_message_that_was_being_said_before_goes_on_where_it_was():
    """Its thoughts, its finished text and the beginning of the last one, then the parts that come: each once."""
    view = View()
    so_far = [
        {"type": "thinking", "thinking": "Let me see."},
        {"type": "text", "text": "First part."},
        {"type": "text", "text": "Second beg"},
    ]
    begun = view.take(
        {"type": "message_start", "message": {"role": "assistant", "content": so_far}, "missed": True}, 1.0
    )
    assert begun == [Thought("Let me see."), Prose("First part.")]
    assert view.phase == "answering"
    view.take(delta("ins."), 2.0)
    assert view.take({"type": "message_end", "message": assistant("whole")}, 3.0) == [Prose("Second begins.")]
