"""Values. Which key does what, and when; what is done stands in `person`, editing keys in `editor`."""

from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import frozen

from coding_agent.terminal.person import Person, Situation

When: TypeAlias = frozenset[Situation]

WRITING: Final[When] = frozenset({"writing", "offered", "completing"})
UNMARKED: Final[When] = frozenset({"writing", "offered"})
CHOOSING: Final[When] = frozenset({"choosing"})
ANSWERING: Final[When] = frozenset({"answering"})
ALWAYS: Final[When] = WRITING | CHOOSING | ANSWERING

SHIFT_ENTER: Final = "f24"
"""Has no name of its own in prompt-toolkit; nobody has a key F24."""
SHIFT_ENTER_SENDS: Final = ("\x1b[13;2u", "\x1b[27;2;13~", "\x1b[13;5u", "\x1b[27;5;13~")
"""What terminals send for Shift+Enter and Ctrl+Enter."""


@frozen
class Binding:
    """A key and what it does.

    Attributes:
        key: Its name in prompt-toolkit; several, with a blank between, are pressed one after the other.
        when: The situations in which it does that.
        does: What.
    """

    key: str
    when: When
    does: Callable[[Person], None]


BINDINGS: Final = (
    Binding("enter", frozenset({"completing"}), Person.accept_offer),
    Binding("enter", UNMARKED, Person.send),
    Binding("escape enter", WRITING, Person.send_later),
    Binding(SHIFT_ENTER, WRITING, Person.newline),
    Binding("c-j", WRITING, Person.newline),
    Binding("tab", WRITING, Person.complete),
    Binding("escape", frozenset({"offered", "completing"}), Person.refuse_offers),
    Binding("escape", frozenset({"writing"}), Person.stop),
    Binding("c-c", WRITING, Person.interrupt),
    Binding("<sigint>", WRITING, Person.interrupt),
    Binding("c-d", WRITING, Person.delete_or_leave),
    Binding("s-tab", frozenset({"writing"}), Person.next_level),
    Binding("c-p", frozenset({"writing"}), Person.next_model),
    # One of several answers is chosen.
    Binding("up", CHOOSING, Person.up),
    Binding("s-tab", CHOOSING, Person.up),
    Binding("down", CHOOSING, Person.down),
    Binding("tab", CHOOSING, Person.down),
    Binding("pageup", CHOOSING, Person.page_up),
    Binding("pagedown", CHOOSING, Person.page_down),
    Binding("enter", CHOOSING, Person.choose),
    Binding("c-j", CHOOSING, Person.choose),
    Binding("backspace", CHOOSING, Person.widen),
    # An answer is written.
    Binding("enter", ANSWERING, Person.answer_written),
    Binding("escape enter", ANSWERING, Person.newline_in_answer),
    Binding(SHIFT_ENTER, ANSWERING, Person.newline_in_answer),
    Binding("c-j", ANSWERING, Person.newline_in_answer),
    # Either.
    Binding("escape", CHOOSING | ANSWERING, Person.give_no_answer),
    Binding("c-c", CHOOSING | ANSWERING, Person.give_no_answer),
    Binding("<sigint>", CHOOSING | ANSWERING, Person.give_no_answer),
    Binding("c-d", CHOOSING | ANSWERING, Person.give_no_answer),
    Binding("c-t", ALWAYS, Person.toggle_thinking),
    Binding("c-o", ALWAYS, Person.toggle_tools),
    Binding("c-l", ALWAYS, Person.repaint),
    Binding("c-z", ALWAYS, Person.suspend),
)


@frozen
class Typed:
    """Keys that bring text, and what is done with it."""

    key: str
    when: When
    does: Callable[[Person, str], None]


TYPED: Final = (
    Typed("<any>", CHOOSING, Person.type_answer),
    Typed("<bracketed-paste>", CHOOSING, Person.paste_meanwhile),
)
