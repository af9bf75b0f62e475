"""Edge of prompt-toolkit. Which key does what, apart from editing; what is done stands in the screen."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from prompt_toolkit.filters import Condition, Filter, has_completions
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from coding_agent.terminal.setting_actions import next_model, next_thinking

if TYPE_CHECKING:
    from coding_agent.terminal.screen import Screen

QUESTION_KEYS: Final[Mapping[str, Sequence[str]]] = {
    "up": ("up", "s-tab"),
    "down": ("down", "tab"),
    "pageup": ("pageup",),
    "pagedown": ("pagedown",),
    "enter": ("enter", "c-j"),
    "backspace": ("backspace",),
}
"""What a question calls a key, and the keys that are it where an answer is chosen."""
NO_ANSWER_KEYS: Final = ("escape", "c-c", "<sigint>", "c-d")

SHIFT_ENTER = Keys.F24
"""Has no name of its own in prompt-toolkit; nobody has a key F24."""


def teach_shift_enter() -> None:
    """Let what terminals send for Shift+Enter and Ctrl+Enter be told from Enter."""
    for sequence in ("\x1b[13;2u", "\x1b[27;2;13~", "\x1b[13;5u", "\x1b[27;5;13~"):
        ANSI_SEQUENCES[sequence] = SHIFT_ENTER


def screen_keys(screen: "Screen") -> KeyBindings:
    """The keys of the whole screen."""
    keys = KeyBindings()
    asking = Condition(lambda: screen.question is not None)
    field = Condition(lambda: screen.question is not None and screen.question.is_field)

    _add_editor_keys(keys, screen, ~asking)
    _add_question_keys(keys, screen, asking & ~field, field)

    @keys.add("c-t")
    def _thinking(_event: KeyPressEvent) -> None:
        screen.toggle(thinking=True)

    @keys.add("c-o")
    def _tools(_event: KeyPressEvent) -> None:
        screen.toggle(tools=True)

    @keys.add("c-l")
    def _redraw(_event: KeyPressEvent) -> None:
        screen.repaint()

    @keys.add("c-z")
    def _suspend(_event: KeyPressEvent) -> None:
        screen.suspend()

    return keys


def _add_editor_keys(keys: KeyBindings, screen: "Screen", writing: Filter) -> None:
    completing = Condition(
        lambda: screen.editor.complete_state is not None and screen.editor.complete_state.current_completion is not None
    )

    @keys.add("enter", filter=writing & completing)
    def _accept(_event: KeyPressEvent) -> None:
        screen.hands.accept_completion()

    @keys.add("enter", filter=writing & ~completing)
    def _enter(_event: KeyPressEvent) -> None:
        screen.hands.enter(later=False)

    @keys.add("escape", "enter", filter=writing)
    def _alt_enter(event: KeyPressEvent) -> None:
        if screen.talk.view.is_running and screen.editor.text.strip():
            screen.hands.enter(later=True)
        else:
            event.current_buffer.newline(copy_margin=False)

    @keys.add(SHIFT_ENTER, filter=writing)
    @keys.add("c-j", filter=writing)
    def _newline(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("tab", filter=writing)
    def _complete(event: KeyPressEvent) -> None:
        if event.current_buffer.complete_state is not None:
            event.current_buffer.complete_next()
        else:
            event.current_buffer.start_completion(select_first=True)

    @keys.add("escape", filter=writing & has_completions)
    def _close(event: KeyPressEvent) -> None:
        event.current_buffer.cancel_completion()

    @keys.add("escape", filter=writing & ~has_completions)
    def _stop(_event: KeyPressEvent) -> None:
        screen.hands.escape()

    @keys.add("c-c", filter=writing)
    @keys.add("<sigint>", filter=writing)
    def _clear(_event: KeyPressEvent) -> None:
        screen.hands.interrupt()

    @keys.add("c-d", filter=writing)
    def _end(event: KeyPressEvent) -> None:
        if screen.editor.text:
            event.current_buffer.delete()
        else:
            screen.leave(0)

    @keys.add("s-tab", filter=writing & ~has_completions)
    def _next_level(_event: KeyPressEvent) -> None:
        screen.talk.begin(next_thinking, screen.talk)

    @keys.add("c-p", filter=writing & ~has_completions)
    def _next_model(_event: KeyPressEvent) -> None:
        screen.talk.begin(next_model, screen.talk)


def _add_question_keys(keys: KeyBindings, screen: "Screen", choosing: Filter, field: Filter) -> None:
    """Keys of a question: where one of several answers is chosen, and where an answer is written into a field."""

    def bind(name: str, pressed: Sequence[str], when: Filter) -> None:
        for key in pressed:
            keys.add(key, filter=when)(lambda _event: screen.hands.question_key(name))

    for name, pressed in QUESTION_KEYS.items():
        bind(name, pressed, choosing)
    bind("escape", NO_ANSWER_KEYS, choosing | field)
    bind("enter", ("enter",), field)

    @keys.add(Keys.Any, filter=choosing)
    def _typed(event: KeyPressEvent) -> None:
        screen.hands.question_typed(event.data)

    @keys.add(Keys.BracketedPaste, filter=choosing)
    def _pasted(event: KeyPressEvent) -> None:
        screen.hands.question_pasted(event.data)

    @keys.add("escape", "enter", filter=field)
    @keys.add(SHIFT_ENTER, filter=field)
    @keys.add("c-j", filter=field)
    def _line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)
