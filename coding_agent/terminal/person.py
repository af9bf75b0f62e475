"""Edge. What a person at the screen can do, each a method; which key does it stands in `keys`.

Whatever they do is done to one of three: the conversation, the text they write, or the screen itself.
"""

from typing import Literal, Protocol, TypeAlias

from attrs import define, field

from coding_agent.terminal.composer import Composer, Writing
from coding_agent.terminal.conversation import Conversation
from coding_agent.terminal.questions import Question
from coding_agent.terminal.setting_actions import next_model, next_thinking
from coding_agent.terminal.slash import ALIASES, BY_NAME
from lemon_otp import monotonic_s

TWICE_S = 3.0
"""Within this time a second Ctrl-C means it."""

Situation: TypeAlias = Writing | Literal["choosing", "answering"]
"""A prompt is written, or one of several answers is chosen, or an answer is written."""


class Stage(Protocol):
    """What a person can do to the screen."""

    def changed(self) -> None:
        """Draw what is another now."""

    def give_way(self) -> None:
        """Something is to go to the host before anything is drawn."""

    def hint(self, text: str, seconds: float) -> None:
        """Show a few words for so long."""

    def toggle(self, *, thinking: bool = False, tools: bool = False) -> None:
        """Fold or unfold."""

    def repaint(self) -> None:
        """Draw all of it anew."""

    def suspend(self) -> None:
        """Give the terminal back for a while."""

    def leave(self, code: int) -> None:
        """End with this exit code."""


class Answer(Protocol):
    """The answer that is written."""

    text: str

    def newline(self, *, copy_margin: bool) -> None:
        """Begin another line."""


@define(eq=False)
class Person:
    """Somebody at the screen."""

    talk: Conversation
    composer: Composer
    answer: Answer
    stage: Stage
    _interrupted_at_s: float = field(default=-TWICE_S, init=False)

    @property
    def situation(self) -> Situation:
        """What keys are about now."""
        question = self.talk.question
        if question is not None:
            return "answering" if question.is_field else "choosing"
        return self.composer.writing

    # While a prompt is written.

    def send(self) -> None:
        """Send it, or go on in a new line after a backslash."""
        if self.composer.goes_on():
            return
        known = {str(each.get("name")) for each in self.talk.commands} | set(BY_NAME) | set(ALIASES)
        if not self.composer.complete_command(known):
            self._submit(later=False)

    def send_later(self) -> None:
        """Send it for when the run is over; where none is going on, begin a new line."""
        if self.talk.view.is_running and self.composer.text.strip():
            self._submit(later=True)
        else:
            self.composer.newline()

    def _submit(self, *, later: bool) -> None:
        written = self.composer.take()
        if written is not None:
            self.stage.give_way()
            self.talk.begin(self.talk.submit, *written, later=later)

    def newline(self) -> None:
        """Begin another line of the prompt."""
        self.composer.newline()

    def complete(self) -> None:
        """Have something offered, or the next of it marked."""
        self.composer.complete()

    def accept_offer(self) -> None:
        """Take what is marked; a command that takes nothing is done by a second Enter."""
        self.composer.accept()

    def refuse_offers(self) -> None:
        """Have nothing offered."""
        self.composer.offer_nothing()

    def stop(self) -> None:
        """Stop the model, or a command."""
        self.talk.stop()

    def interrupt(self) -> None:
        """Empty the line; on an empty one stop the model; twice: leave."""
        now_s = monotonic_s()
        if self.composer.text:
            self.composer.empty()
        elif now_s - self._interrupted_at_s < TWICE_S:
            self.stage.leave(130 if self.talk.view.is_running else 0)
        else:
            self.talk.stop()
            self.stage.hint("Ctrl-C again quits", TWICE_S)
            self._interrupted_at_s = now_s
        self.stage.changed()

    def delete_or_leave(self) -> None:
        """Delete the next character; on an empty line leave."""
        if self.composer.text:
            self.composer.buffer.delete()
        else:
            self.stage.leave(0)

    def next_level(self) -> None:
        """Have the model think harder, or not at all after the hardest."""
        self.talk.begin(next_thinking, self.talk)

    def next_model(self) -> None:
        """Have another model answer."""
        self.talk.begin(next_model, self.talk)

    def press(self, key: str) -> None:
        """Have an extension do what it has registered this key for."""
        self.talk.begin(self.talk.press, key)

    # While something is asked.

    def up(self) -> None:
        """Mark the answer before."""
        self._mark(-1)

    def down(self) -> None:
        """Mark the next answer."""
        self._mark(1)

    def page_up(self) -> None:
        """Mark one well before."""
        self._mark(-8)

    def page_down(self) -> None:
        """Mark one well behind."""
        self._mark(8)

    def _mark(self, by: int) -> None:
        if (question := self._counting()) is not None:
            question.move(by)
        self.stage.changed()

    def choose(self) -> None:
        """Answer what is marked."""
        question = self._counting()
        option = None if question is None else question.chosen()
        if question is not None and option is not None:
            self.talk.answer(question, option.value)
        self.stage.changed()

    def widen(self) -> None:
        """Take back the last character that narrows the answers down."""
        if (question := self._counting()) is not None:
            question.narrow(question.typed[:-1])
        self.stage.changed()

    def answer_written(self) -> None:
        """Answer what is written."""
        if (question := self._counting()) is not None:
            self.talk.answer(question, self.answer.text.rstrip("\n"))
        self.stage.changed()

    def newline_in_answer(self) -> None:
        """Begin another line of the answer."""
        self.answer.newline(copy_margin=False)

    def give_no_answer(self) -> None:
        """Leave the question. One for permission is refused by that, and only once it could be read."""
        question = self.talk.question
        if question is not None and question.kind != "permit":
            self.talk.answer(question, None)
        elif question is not None and self._counting() is question:
            refusal = question.by_key("n")
            self.talk.answer(question, None if refusal is None else refusal.value)
        self.stage.changed()

    def type_answer(self, data: str) -> None:
        """A character: the key of an answer, or one to narrow them down; before it counts it is of the prompt."""
        question = self.talk.question
        if question is None or not data.isprintable():
            return
        if self._counting() is None:
            self.composer.insert(data)
            return
        option = question.by_key(data)
        if option is not None:
            self.talk.answer(question, option.value)
        elif question.kind == "pick":
            question.narrow(question.typed + data)
        self.stage.changed()

    def paste_meanwhile(self, data: str) -> None:
        """Pasted text answers nothing: it goes into the prompt."""
        if self.talk.question is not None:
            self.talk.question.too_early(monotonic_s())
        self.composer.insert(self.composer.fold(data))

    def _counting(self) -> Question | None:
        """The question, if keys count already; else this one was pressed too early."""
        question = self.talk.question
        if question is not None and not question.is_armed:
            question.too_early(monotonic_s())
            return None
        return question

    # Always.

    def toggle_thinking(self) -> None:
        """Show or fold what was thought."""
        self.stage.toggle(thinking=True)

    def toggle_tools(self) -> None:
        """Show or fold what tools printed."""
        self.stage.toggle(tools=True)

    def repaint(self) -> None:
        """Have the screen drawn anew."""
        self.stage.repaint()

    def suspend(self) -> None:
        """Go to the shell; `fg` comes back."""
        self.stage.suspend()
