"""Edge of prompt-toolkit. The prompt that is written: its text, what pasted words in it stand for, what is offered."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from attrs import define, field
from prompt_toolkit.buffer import Buffer

from coding_agent.terminal.completion import COMMAND_WORD
from coding_agent.terminal.frame import Offer
from coding_agent.terminal.paste import Pasted, Picture

Writing: TypeAlias = Literal["writing", "offered", "completing"]
"""Nothing is offered; something is; one of what is offered is marked."""


@define(eq=False)
class Composer:
    """A prompt on its way to be sent.

    Attributes:
        buffer: Its text and the cursor.
        cwd: Paths in pasted text are relative to it.
    """

    buffer: Buffer
    cwd: Path
    _pasted: Pasted = field(factory=Pasted, init=False)

    # Writing.

    @property
    def text(self) -> str:
        """As it is seen."""
        return self.buffer.text

    @property
    def lines(self) -> int:
        """How many lines are written."""
        return self.buffer.document.line_count

    def take(self) -> tuple[str, Sequence[Picture]] | None:
        """What is to be sent; the editor is empty then and remembers it. None where there is nothing to send."""
        pictures = self._pasted.pictures_of(self.text)
        text = self._pasted.unfolded(self.text)
        if not text.strip() and not pictures:
            return None
        if text.strip():
            self.buffer.history.append_string(text.strip())
        self.empty()
        return text, pictures

    def empty(self) -> None:
        """Forget what is written."""
        self.buffer.reset()
        self._pasted.clear()

    def put_before(self, text: str) -> None:
        """Put a text before what is being written."""
        rest = self.text
        self.buffer.text = f"{text}\n{rest}" if rest.strip() else text
        self.buffer.cursor_position = len(self.text)

    def insert(self, text: str) -> None:
        """Write this where the cursor is."""
        self.buffer.insert_text(text)

    def newline(self) -> None:
        """Begin another line."""
        self.buffer.newline(copy_margin=False)

    def goes_on(self) -> bool:
        """A backslash before the cursor becomes a new line; whether there was one."""
        before = self.buffer.document.text_before_cursor
        if not before.endswith("\\") or before.endswith("\\\\"):
            return False
        self.buffer.delete_before_cursor(1)
        self.newline()
        return True

    def fold(self, pasted: str) -> str:
        """What is written for pasted text."""
        return self._pasted.paste(pasted, self.cwd)

    # What is offered.

    @property
    def writing(self) -> Writing:
        """What Enter, Tab and Esc are about."""
        state = self.buffer.complete_state
        if state is None or not state.completions:
            return "writing"
        return "offered" if state.current_completion is None else "completing"

    def offers(self) -> Sequence[Offer]:
        """What can stand where the cursor is."""
        state = self.buffer.complete_state
        found = () if state is None else state.completions
        return [Offer(each.display_text, each.display_meta_text) for each in found]

    @property
    def marked(self) -> int | None:
        """Which of the offers is."""
        state = self.buffer.complete_state
        return None if state is None else state.complete_index

    def complete(self) -> None:
        """Offer what fits, or go to the next of the offers."""
        if self.buffer.complete_state is not None:
            self.buffer.complete_next()
        else:
            self.buffer.start_completion(select_first=True)

    def accept(self) -> None:
        """The marked offer stands in the text already: offer nothing more."""
        self.buffer.complete_state = None

    def offer_nothing(self) -> None:
        """Take the offers away, and the marked one out of the text."""
        self.buffer.cancel_completion()

    def complete_command(self, known: Collection[str]) -> bool:
        """Take the first offer where only a part of a command's name is written, which is no prompt; was it so?"""
        state, found = self.buffer.complete_state, COMMAND_WORD.match(self.text)
        if state is None or not state.completions or found is None or not found[1] or found[1] in known:
            return False
        self.buffer.apply_completion(state.completions[0])
        return True
