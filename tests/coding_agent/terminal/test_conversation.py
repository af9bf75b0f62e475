"""A conversation on a channel, whatever the screen."""

from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from coding_agent.terminal.blocks import Block, Notice, Prose, Report, UserSaid
from coding_agent.terminal.conversation import Conversation, not_in
from coding_agent.terminal.options import TerminalOptions, options_from
from coding_agent.terminal.questions import Question
from lemon_otp.testing import settle
from tests.coding_agent.terminal.fakes import FakeChannel, assistant, question, user_said


@define
class Shown:
    """A front that remembers."""

    blocks: list[Block] = field(factory=list)
    text: str = ""
    code: int | None = None
    clipboard: str = ""

    def show(self, blocks: Any) -> None:
        self.blocks.extend(blocks)

    def changed(self) -> None:
        pass

    def put_text(self, text: str) -> None:
        self.text = text

    def to_clipboard(self, text: str) -> None:
        self.clipboard = text

    def leave(self, code: int) -> None:
        self.code = code


@pytest.fixture
async def talk(runtime):
    talk = Conversation(FakeChannel(), TerminalOptions(Path("/tmp")), Shown())
    await talk.open()
    return talk


async def test_what_happens_while_the_history_is_fetched_comes_after_it_and_once(runtime):
    """A message that is in the history already is not shown again by its event; what is newer is."""
    channel = FakeChannel()
    old, new = user_said("old"), user_said("new")
    channel.answers["get_messages"] = {"messages": [old[1]["message"]]}

    def on_command(command):
        if command["type"] == "get_messages":
            for event in (*old, *new):
                channel.say(event)

    channel.on_command = on_command
    talk = Conversation(channel, TerminalOptions(Path("/tmp")), Shown())
    await talk.open()

    assert [block for block in talk.front.blocks if isinstance(block, UserSaid)] == [UserSaid("old"), UserSaid("new")]


def test_questions_that_came_meanwhile_are_kept():
    """Only what the history tells is left out."""
    done = [{"type": "message_end", "message": assistant("x")}]

    assert not_in([assistant("x")], [question(), *done, {"type": "settled"}]) == [question(), {"type": "settled"}]


async def test_another_session_is_shown_from_its_beginning(talk):
    """Whoever switched: the state, the history and the questions of the new session stand in for the old ones."""
    talk.view.steering = ("waits",)
    talk.channel.answers["get_messages"] = {"messages": [assistant("from there")]}
    talk.channel.say({"type": "session_opened", "sessionId": "2", "reason": "switch"})
    talk.channel.say(question(id="q9"))
    await settle()

    assert talk.front.blocks[-3:-1] == [Notice("another session"), Prose("from there")]
    assert talk.view.steering == ()
    assert talk.question is not None
    assert talk.question.id == "q9"


async def test_a_prompt_that_is_refused_comes_back_to_the_editor(talk):
    """Nothing that was typed is lost; the reason is shown."""
    talk.channel.answers["prompt"] = ValueError("no key for this model")
    await talk.submit("my words")

    assert talk.front.text == "my words"
    assert talk.front.blocks[-1] == Notice("no key for this model", "error")


async def test_a_prompt_says_what_it_is_when_the_model_works(talk):
    """Now or later: steer and follow-up, as one command that also begins a run."""
    await talk.submit("now")
    await talk.submit("later", later=True)

    prompts = [each for each in talk.channel.sent if each["type"] == "prompt"]
    assert [each["streamingBehavior"] for each in prompts] == ["steer", "followUp"]


async def test_esc_stops_a_wait_for_the_next_try_a_run_and_a_command(talk):
    """Each has its own command of the protocol; nothing is sent when nothing runs."""
    talk.stop()
    await settle()
    assert not {"abort", "abort_retry", "abort_bash"} & set(talk.channel.types())
    talk.view.take({"type": "agent_start"}, 0.0)
    talk.stop()
    talk.view.take({"type": "auto_retry_start"}, 0.0)
    talk.stop()
    await settle()
    assert [each for each in talk.channel.types() if each.startswith("abort")] == ["abort", "abort_retry"]


async def test_what_waited_for_the_model_comes_back_when_it_is_stopped(talk):
    """Nothing that was typed is lost: it stands in the line again, in the order in which it would have been said."""
    talk.channel.answers["abort"] = {"clearedSteering": ["look here"], "clearedFollowUp": ["then\nthere"]}
    talk.view.take({"type": "agent_start"}, 0.0)
    talk.stop()
    await settle()
    assert talk.front.text == "look here\nthen\nthere"


async def test_a_question_is_answered_once_and_one_of_ones_own_by_a_value(talk):
    """An answer to a question that is gone is sent nowhere."""
    talk.channel.say(question())
    asked = talk.question
    talk.answer(asked, "Allow once")
    talk.answer(asked, "Deny")
    assert [each["value"] for each in talk.channel.posted] == ["Allow once"]

    got: list[Any] = []

    async def ask() -> None:
        got.append(await talk.choose(Question("line", "Name?")))

    talk.begin(ask)
    await settle()
    talk.answer(talk.question, "x")
    await settle()
    assert got == ["x"]


async def test_a_question_whose_time_is_up_is_taken_away(talk):
    """The host waits no longer: the panel goes, a line says so."""
    talk.channel.say(question(method="input", kind=None, timeout=500))
    asked = talk.question
    talk.drop_expired(asked.expires_s - 0.1)
    assert talk.question is asked
    talk.drop_expired(asked.expires_s + 0.1)
    assert talk.question is None


async def test_the_end_of_the_connection_is_the_end_of_the_terminal(talk):
    """The host has gone: nothing is waited for, and the exit code says it."""
    asked = len(talk.channel.sent)
    talk.channel.say({"type": "connection_closed", "reason": "the host has ended"})
    await settle()
    assert len(talk.channel.sent) == asked

    assert talk.front.code == 1


async def test_a_command_the_host_does_not_know_is_a_line(talk):
    """A host of another version refuses: that is shown, and nothing breaks."""
    talk.channel.answers["compact"] = ValueError("Unknown command: compact")
    talk.begin(talk.submit, "/compact")
    await settle()

    assert talk.front.blocks[-1] == Notice("Unknown command: compact", "error")


async def test_the_last_answer_goes_to_the_clipboard(talk):
    """/copy takes it from the host, so that it is whole."""
    await talk.submit("/copy")

    assert talk.front.clipboard == "the last answer"


@pytest.mark.parametrize(
    ("environ", "flag", "colour", "plain"),
    [
        ({"TERM": "xterm"}, False, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False, False, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, False, True, False),
        ({"TERM": "xterm"}, True, False, False),
        ({"TERM": "dumb"}, False, True, True),
        ({}, False, True, True),
    ],
)
def test_the_environment_says_what_the_terminal_can(environ, flag, colour, plain):
    """NO_COLOR counts when it is not empty; without a TERM nothing is taken for granted."""
    options = options_from({"HOME": "/h", **environ}, Path("/p"), no_colour=flag)

    assert (options.colour, options.plain) == (colour, plain)
    assert options.history_file == Path("/h/.local/state/lemon/history")


async def test_mcp_servers_are_shown_and_connected_anew_by_name(talk):
    """What each has is counted; with `reconnect` the host is asked for one, or for all."""
    talk.channel.answers["get_mcp"] = {
        "servers": [
            {"name": "a", "state": "ready", "tools": ["x", "y"], "resources": ["r"], "templates": [], "prompts": ["p"]},
            {"name": "b", "state": "failed", "error": "it ended", "tools": []},
        ]
    }
    talk.channel.answers["reconnect_mcp"] = {"servers": ["b"]}

    for typed in ("/mcp", "/mcp reconnect b", "/mcp reconnect", "/mcp b"):
        await talk.submit(typed)

    report = next(block for block in talk.front.blocks if isinstance(block, Report))
    assert report.rows == (("a", "ready, 2 tools, 1 resource, 1 prompt"), ("b", "failed, it ended"))
    asked = [command for command in talk.channel.sent if command["type"] == "reconnect_mcp"]
    assert [command.get("name") for command in asked] == ["b", None]
    notices = [block.text for block in talk.front.blocks if isinstance(block, Notice)]
    assert notices[-3:] == ["connecting anew: b", "connecting anew: b", "give /mcp alone, or /mcp reconnect [NAME]"]


async def test_commands_are_asked_for_again_when_there_are_others(talk):
    """An MCP server has got another prompt: it completes from then on."""
    talk.channel.answers["get_commands"] = {"commands": [{"name": "mcp__a__new", "source": "mcp"}]}

    talk.channel.say({"type": "commands_update"})
    await settle()

    assert [command["name"] for command in talk.commands] == ["mcp__a__new"]
