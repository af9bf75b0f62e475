"""Edge of prompt-toolkit. Where a prompt is written: lines, history, completion, what is pasted."""

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from coding_agent.terminal import graphemes
from coding_agent.terminal.completion import wants_completion
from coding_agent.terminal.history import PrivateHistory


def make_buffer(completer: Completer, history: PrivateHistory) -> Buffer:
    """The text that is being written."""
    buffer: Buffer

    def offers() -> bool:
        return wants_completion(buffer.document.text_before_cursor)

    buffer = Buffer(
        completer=completer,
        complete_while_typing=Condition(offers),
        history=history,
        multiline=True,
        name="editor",
    )
    return buffer


def editing_keys(paste: Callable[[str], str]) -> KeyBindings:
    """Keys that change a text, letter by letter as a person counts them. They hold in every text that is written.

    Args:
        paste: What is put in for pasted text.
    """
    keys = KeyBindings()

    @keys.add("left")
    def _left(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.cursor_position > 0:
            buffer.cursor_position = graphemes.before(buffer.text, buffer.cursor_position)

    @keys.add("right")
    def _right(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.cursor_position < len(buffer.text):
            buffer.cursor_position = graphemes.after(buffer.text, buffer.cursor_position)

    @keys.add("backspace")
    @keys.add("c-h")
    def _backspace(event: KeyPressEvent) -> None:
        _cut(event.current_buffer, graphemes.before)

    @keys.add("delete")
    def _delete(event: KeyPressEvent) -> None:
        _cut_ahead(event.current_buffer, graphemes.after)

    @keys.add("escape", "backspace")
    @keys.add("escape", "c-h")
    @keys.add("c-w")
    def _word_back(event: KeyPressEvent) -> None:
        _cut(event.current_buffer, graphemes.word_start)

    @keys.add("escape", "d")
    @keys.add("c-delete")
    def _word_ahead(event: KeyPressEvent) -> None:
        _cut_ahead(event.current_buffer, graphemes.word_end)

    @keys.add("escape", "b")
    @keys.add("c-left")
    def _to_word_before(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.cursor_position = graphemes.word_start(buffer.text, buffer.cursor_position)

    @keys.add("escape", "f")
    @keys.add("c-right")
    def _to_word_after(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.cursor_position = graphemes.word_end(buffer.text, buffer.cursor_position)

    @keys.add(Keys.BracketedPaste)
    def _paste(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(paste(event.data))

    return keys


def _cut(buffer: Buffer, boundary: Callable[[str, int], int]) -> None:
    at = buffer.cursor_position
    if at > 0:
        start = boundary(buffer.text, at)
        buffer.delete_before_cursor(at - start)


def _cut_ahead(buffer: Buffer, boundary: Callable[[str, int], int]) -> None:
    at = buffer.cursor_position
    if at < len(buffer.text):
        buffer.delete(boundary(buffer.text, at) - at)
