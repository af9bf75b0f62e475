"""Edge of prompt-toolkit. The table of `keys` as bindings that call the person's methods."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from prompt_toolkit.filters import Condition
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import DynamicKeyBindings, KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from coding_agent.terminal.channel import Message
from coding_agent.terminal.keys import BINDINGS, SHIFT_ENTER, SHIFT_ENTER_SENDS, TYPED, WRITING, Binding, Typed, When
from coding_agent.terminal.person import Person

OWN: Final = frozenset(binding.key for binding in BINDINGS)
SHORTCUT_PREFIXES: Final = re.compile(r"^(?:ctrl|alt)\+")
"""How the protocol writes keys that are held."""


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


def shortcuts_of(person: Person) -> DynamicKeyBindings:
    """The keys that extensions have registered with the host, as it lists them now."""
    listed: list[Message] = []
    keys = KeyBindings()

    def now() -> KeyBindings:
        nonlocal listed, keys
        if person.talk.shortcuts is not listed:
            listed, keys = person.talk.shortcuts, KeyBindings()
            for shortcut in listed:
                _add_shortcut(keys, person, str(shortcut.get("key")))
        return keys

    return DynamicKeyBindings(now)


def _add_shortcut(keys: KeyBindings, person: Person, key: str) -> None:
    """Bind a key of the protocol's; one that is the terminal's own, or that it does not know, does nothing."""
    named = SHORTCUT_PREFIXES.sub(lambda found: {"ctrl+": "c-", "alt+": "escape "}[found.group()], key)
    if named in OWN:
        return
    with suppress(ValueError):
        keys.add(*named.split(), filter=_in(person, WRITING))(lambda _event: person.press(key))


def _in(person: Person, when: When) -> Condition:
    return Condition(lambda: person.situation in when)


def _does(person: Person, binding: Binding) -> Callable[[KeyPressEvent], None]:
    return lambda _event: binding.does(person)


def _types(person: Person, typed: Typed) -> Callable[[KeyPressEvent], None]:
    return lambda event: typed.does(person, event.data)
