"""The table of keys, and what a person does with them."""

from pathlib import Path
from typing import Any, get_args

import pytest
from attrs import define, field
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindings

from coding_agent.extensions.api import OWN_KEYS
from coding_agent.terminal.bindings import bound, shortcuts_of, teach_shift_enter
from coding_agent.terminal.composer import Composer
from coding_agent.terminal.conversation import Conversation
from coding_agent.terminal.keys import ALWAYS, BINDINGS, SHIFT_ENTER, TYPED
from coding_agent.terminal.options import TerminalOptions
from coding_agent.terminal.person import Person, Situation
from coding_agent.terminal.questions import Option, Question
from coding_agent.terminal.slash import KEYS
from lemon_otp.testing import settle
from tests.coding_agent.terminal.fakes import FakeChannel
from tests.coding_agent.terminal.test_conversation import Shown

NAMES = {"escape": "Esc", "<sigint>": "Ctrl-C", SHIFT_ENTER: "Shift+Enter", "pageup": "Up", "pagedown": "Down"}


@define
class Stage:
    """Remembers what was done to the screen, in order."""

    done: list[Any] = field(factory=list)

    def changed(self) -> None:
        pass

    def give_way(self) -> None:
        self.done.append("give way")

    def hint(self, text: str, seconds: float) -> None:
        self.done.append(text)

    def toggle(self, **what: bool) -> None:
        self.done.append(what)

    def repaint(self) -> None:
        self.done.append("repaint")

    def suspend(self) -> None:
        self.done.append("suspend")

    def leave(self, code: int) -> None:
        self.done.append(code)


@pytest.fixture
async def person(runtime):
    talk = Conversation(FakeChannel(), TerminalOptions(Path("/tmp")), Shown())
    await talk.open()
    return Person(talk, Composer(Buffer(multiline=True), Path("/tmp")), Buffer(multiline=True), Stage())


def test_a_key_does_one_thing_in_each_situation():
    """No two rows for the same key can hold at once."""
    taken = [(row.key, situation) for row in (*BINDINGS, *TYPED) for situation in row.when]
    assert len(taken) == len(set(taken))
    assert frozenset(s for part in get_args(Situation) for s in get_args(part) or (part,)) == ALWAYS


def test_help_names_every_key_of_the_table():
    """A key that nobody is told of is none."""
    told = " ".join(keys for keys, _ in KEYS)
    for row in BINDINGS:
        name = row.key
        shown = NAMES.get(name) or name.replace("escape enter", "Alt+Enter").replace("s-tab", "Shift+Tab")
        shown = f"Ctrl-{shown[2:].upper()}" if shown.startswith("c-") else shown[:1].upper() + shown[1:]
        assert shown in told or name == "backspace", name


async def test_every_row_is_a_binding(person):
    """The table is all there is: what prompt-toolkit knows is made from it."""
    teach_shift_enter()
    keys = bound(person)
    assert isinstance(keys, KeyBindings)
    assert len(keys.bindings) == len(BINDINGS) + len(TYPED)


async def test_the_situation_follows_what_is_asked(person):
    """A question with answers to choose from, one with an answer to write, none."""
    assert person.situation == "writing"
    person.talk.view.questions.append(Question("pick", "Which?", (Option("a", 1),)))
    assert person.situation == "choosing"
    person.talk.view.questions[0] = Question("line", "Name?")
    assert person.situation == "answering"


async def test_a_prompt_is_on_its_way_before_anything_is_drawn(person):
    """What was written is sent and gone; drawing gives way to it."""
    person.composer.insert("hello")
    person.send()
    await settle()
    assert person.stage.done == ["give way"]
    assert person.composer.text == ""
    assert [each["message"] for each in person.talk.channel.sent if each["type"] == "prompt"] == ["hello"]


async def test_what_is_written_for_later_waits_only_for_a_run(person):
    """While the model works it goes behind the run; else the same key begins a new line."""
    person.composer.insert("later")
    person.send_later()
    assert person.composer.text == "later\n"
    person.talk.view.take({"type": "agent_start"}, 0.0)
    person.send_later()
    await settle()
    (prompt,) = [each for each in person.talk.channel.sent if each["type"] == "prompt"]
    assert (prompt["message"], prompt["streamingBehavior"]) == ("later", "followUp")


async def test_a_key_that_comes_too_early_answers_nothing_and_is_not_lost(person):
    """A question of the host's has just appeared: a character goes into the prompt, Enter and Esc do nothing."""
    asked = Question("permit", "bash", (Option("Allow once", "yes", key="y"),), id="q1")
    person.talk.view.questions.append(asked)
    asked.appeared(0.0)
    person.type_answer("y")
    person.choose()
    person.give_no_answer()
    person.paste_meanwhile(" pasted")
    assert person.talk.question is asked
    assert person.composer.text == "y pasted"
    assert person.talk.channel.posted == []


async def test_ctrl_c_empties_then_warns_then_leaves(person):
    """Three steps, so that nobody leaves by mistake."""
    person.composer.insert("text")
    person.interrupt()
    assert (person.composer.text, person.stage.done) == ("", [])
    person.interrupt()
    person.interrupt()
    assert person.stage.done == ["Ctrl-C again quits", 0]


def test_no_extension_takes_a_key_of_the_terminals():
    """Every key with Ctrl that does something here is among those that are refused when an extension registers them."""
    ours = {binding.key.replace("c-", "ctrl+") for binding in BINDINGS if binding.key.startswith("c-")}
    assert ours <= OWN_KEYS


async def test_keys_of_extensions_are_bound_while_a_prompt_is_written(person):
    """As the host lists them at the moment; one of our own, or one there is not, does nothing."""
    keys = shortcuts_of(person)
    assert keys.bindings == []
    person.talk.shortcuts = [{"key": key} for key in ("ctrl+r", "alt+x", "f5", "ctrl+c", "hyper+q")]
    bound_now = {binding.keys: binding for binding in keys.bindings}
    assert [tuple(getattr(key, "value", key) for key in each) for each in bound_now] == [
        ("c-r",), ("escape", "x"), ("f5",),
    ]  # fmt: skip
    next(iter(bound_now.values())).handler(None)
    await settle()
    assert {"type": "run_shortcut", "key": "ctrl+r"} in person.talk.channel.sent
    person.talk.shortcuts = []
    assert keys.bindings == []
