"""Edge of prompt-toolkit. The table of `keys` as bindings that call the person's methods."""

from collections.abc import Callable

from prompt_toolkit.filters import Condition
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from coding_agent.terminal.keys import BINDINGS, SHIFT_ENTER, SHIFT_ENTER_SENDS, TYPED, Binding, Typed, When
from coding_agent.terminal.person import Person


def teach_shift_enter() -> None:
    """Let what terminals send for Shift+Enter and Ctrl+Enter be told from Enter."""
    for sequence in SHIFT_ENTER_SENDS:
        ANSI_SEQUENCES[sequence] = Keys(SHIFT_ENTER)


def bound(person: Person) -> KeyBindings:
    """The keys of the whole screen, in the hands of this person."""
    keys = KeyBindings()
    for binding in BINDINGS:
        keys.add(*binding.key.split(), filter=_in(person, binding.when))(_does(person, binding))
    for typed in TYPED:
        keys.add(typed.key, filter=_in(person, typed.when))(_types(person, typed))
    return keys


def _in(person: Person, when: When) -> Condition:
    return Condition(lambda: person.situation in when)


def _does(person: Person, binding: Binding) -> Callable[[KeyPressEvent], None]:
    return lambda _event: binding.does(person)


def _types(person: Person, typed: Typed) -> Callable[[KeyPressEvent], None]:
    return lambda event: typed.does(person, event.data)
