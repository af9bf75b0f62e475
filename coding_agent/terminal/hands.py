"""Edge of prompt-toolkit. What keys do to the editor, to a question and to the conversation."""

import asyncio
from typing import TYPE_CHECKING, Final

from coding_agent.terminal.completion import COMMAND_WORD
from coding_agent.terminal.paste import Pasted
from coding_agent.terminal.slash import ALIASES, BY_NAME
from lemon_otp import monotonic_s

if TYPE_CHECKING:
    from coding_agent.terminal.screen import Screen

TWICE_S: Final = 3.0
"""Within this time a second Ctrl-C means it."""


class Hands:
    """The person at the screen: each method is something they did."""

    def __init__(self, screen: "Screen") -> None:
        self.screen = screen
        self.pasted = Pasted()
        self._interrupted_at_s = -TWICE_S

    def enter(self, *, later: bool) -> None:
        """Send what is written, or go on in a new line after a backslash."""
        buffer = self.screen.editor
        before = buffer.document.text_before_cursor
        if not later and before.endswith("\\") and not before.endswith("\\\\"):
            buffer.delete_before_cursor(1)
            buffer.newline(copy_margin=False)
            return
        if not later and self._complete_command():
            return
        text = buffer.text
        pictures = self.pasted.pictures_of(text)
        full = self.pasted.unfolded(text)
        if not full.strip() and not pictures:
            return
        if full.strip():
            buffer.history.append_string(full.strip())
        buffer.reset()
        self.pasted.clear()
        self.screen.talk.begin(self.screen.talk.submit, full, pictures, later=later)

    def _complete_command(self) -> bool:
        """Take the first command that is offered, where only a part of its name is written: that is no prompt."""
        state, found = self.screen.editor.complete_state, COMMAND_WORD.match(self.screen.editor.text)
        if state is None or not state.completions or found is None or not found[1]:
            return False
        known = {str(each.get("name")) for each in self.screen.talk.commands} | set(BY_NAME) | set(ALIASES)
        if found[1] in known:
            return False
        self.screen.editor.apply_completion(state.completions[0])
        return True

    def accept_completion(self) -> None:
        """Take the completion under the cursor; a command that takes nothing is done at once by a second Enter."""
        self.screen.editor.complete_state = None

    def escape(self) -> None:
        """Stop the model."""
        self.screen.talk.stop()

    def interrupt(self) -> None:
        """Ctrl-C: empty the line; on an empty line stop the model; twice: leave."""
        now_s = monotonic_s()
        if self.screen.editor.text:
            self.screen.editor.reset()
            self.pasted.clear()
        elif now_s - self._interrupted_at_s < TWICE_S:
            self.screen.leave(130 if self.screen.talk.view.is_running else 0)
            return
        else:
            self.screen.talk.stop()
            self.screen.hint = "Ctrl-C again quits"
            asyncio.get_running_loop().call_later(TWICE_S, self._drop_hint)
            self._interrupted_at_s = now_s
        self.screen.changed()

    def question_key(self, key: str) -> None:
        """A key that is no character, while a question is on the screen."""
        question = self.screen.question
        if question is None:
            return
        if key == "escape" and question.kind != "permit":
            self.screen.talk.answer(question, None)
        elif question.is_field and question.is_armed:
            self.screen.talk.answer(question, self.screen.field.text.rstrip("\n"))
        elif not question.is_armed:
            question.too_early(monotonic_s())
        elif key == "escape":
            self.screen.talk.answer(question, None)
        elif key == "enter":
            option = question.chosen()
            if option is not None:
                self.screen.talk.answer(question, option.value)
        elif key == "backspace":
            question.narrow(question.typed[:-1])
        else:
            question.move({"up": -1, "down": 1, "pageup": -8, "pagedown": 8}[key])
        self.screen.changed()

    def question_typed(self, data: str) -> None:
        """A character, while a question is on the screen; one that was meant for the editor goes there."""
        question = self.screen.question
        if question is None or not data.isprintable():
            return
        if not question.is_armed:
            question.too_early(monotonic_s())
            self.screen.editor.insert_text(data)
            return
        option = question.by_key(data)
        if option is not None:
            self.screen.talk.answer(question, option.value)
        elif question.kind == "pick":
            question.narrow(question.typed + data)
        self.screen.changed()

    def question_pasted(self, data: str) -> None:
        """Text pasted while a question is on the screen answers nothing: it goes into the editor."""
        question = self.screen.question
        if question is not None:
            question.too_early(monotonic_s())
        self.screen.editor.insert_text(self.paste(data))

    def paste(self, text: str) -> str:
        """What is put into the editor for pasted text."""
        return self.pasted.paste(text, self.screen.options.cwd)

    def _drop_hint(self) -> None:
        self.screen.hint = ""
        self.screen.changed()
