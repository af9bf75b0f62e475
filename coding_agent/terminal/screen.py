"""Edge of prompt-toolkit. The screen, from its beginning to its end: the parts of it, the signals, being stopped.

It is the `Front` of a conversation and the `Stage` of a person. What is drawn and when is the `canvas`'s, what is
written the `composer`'s, what a key does the `person`'s.
"""

import asyncio
import base64
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from prompt_toolkit.application.run_in_terminal import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import merge_key_bindings

from coding_agent.errors import CommandFailed
from coding_agent.terminal.aside import everything_aside
from coding_agent.terminal.bindings import bound, shortcuts_of, teach_shift_enter
from coding_agent.terminal.blocks import Block, Fold, Notice
from coding_agent.terminal.canvas import Canvas, PacedApplication
from coding_agent.terminal.completion import TerminalCompleter
from coding_agent.terminal.composer import Composer
from coding_agent.terminal.editor import editing_keys, make_buffer
from coding_agent.terminal.ending import ignore_further_ends
from coding_agent.terminal.held_output import HeldOutput
from coding_agent.terminal.history import PrivateHistory
from coding_agent.terminal.layout import Windows, style_of, windows
from coding_agent.terminal.modes import TerminalModes
from coding_agent.terminal.options import TerminalOptions
from coding_agent.terminal.person import Person
from coding_agent.terminal.questions import QUIET_S, Question
from lemon_otp import monotonic_s

if TYPE_CHECKING:
    from coding_agent.terminal.conversation import Conversation

CLIPBOARD_MAX: Final = 74_000
"""Bytes; terminals take no more."""


class Screen:
    """Shows one conversation to one person. `run` does it until they leave.

    Attributes:
        failure: Why the host did not take this terminal.
    """

    talk: "Conversation"
    composer: Composer
    person: Person
    app: PacedApplication
    _windows: Windows

    def __init__(self, options: TerminalOptions) -> None:
        teach_shift_enter()
        assert sys.__stdin__ is not None
        assert sys.__stdout__ is not None
        self.options = options
        self.failure: CommandFailed | None = None
        depth = options.theme.depth(os.environ)
        self.output = HeldOutput(sys.__stdout__, term=os.environ.get("TERM"), colour=options.colour, depth=depth)
        self.modes = TerminalModes(sys.__stdin__.fileno(), sys.__stdout__.fileno())
        self.canvas = Canvas(
            self.output,
            colour=options.colour,
            fold=Fold(thinking=not options.show_thinking),
            theme=options.theme,
            depth=depth,
        )
        self.field = Buffer(multiline=True, name="field")
        self._shown_question: Question | None = None
        self._is_leaving = False

    def attach(self, talk: "Conversation") -> None:
        """Show this conversation."""
        self.talk = talk
        completer = TerminalCompleter(talk.channel, lambda: talk.commands)
        self.composer = Composer(make_buffer(completer, PrivateHistory(self.options.history_file)), self.options.cwd)
        self.person = Person(talk, self.composer, self.field, self)
        self._windows = windows(
            lambda: self.canvas.frame,
            self.composer.buffer,
            self.field,
            answers=lambda: self.person.situation == "answering",
        )
        self.app = PacedApplication(
            self.canvas.key_changed,
            layout=self._windows.layout,
            key_bindings=merge_key_bindings(
                [editing_keys(self.composer.fold), bound(self.person), shortcuts_of(self.person)]
            ),
            style=style_of(self.options.theme),
            input=create_input(sys.__stdin__),
            output=self.output,
            before_render=lambda _app: self._before_render(),
            after_render=lambda _app: self._after_render(),
        )
        self.app.ttimeoutlen = 0.05
        self.app.timeoutlen = 0.1
        self.canvas.show(talk, self.composer, self.app)

    async def run(self) -> int:
        """Show the screen until somebody leaves; the exit code."""
        loop = asyncio.get_running_loop()

        def started() -> None:
            loop.call_soon(loop.add_signal_handler, signal.SIGWINCH, self.canvas.resized)
            self.talk.begin(self._open)

        self.modes.on()
        try:
            with self._signals(loop), everything_aside(self._notice):
                return await self.app.run_async(pre_run=started, handle_sigint=False, set_exception_handler=False)
        except (EOFError, OSError):  # the terminal is gone
            return 129
        finally:
            self.canvas.close()
            self.modes.off()

    @contextmanager
    def _signals(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        handled: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGINT: self.person.interrupt,
            signal.SIGTERM: lambda: self.leave(143),
            signal.SIGHUP: lambda: self.leave(129),
            signal.SIGQUIT: lambda: self.leave(131),
            signal.SIGTSTP: self.suspend,
            signal.SIGCONT: self.canvas.found_again,
        }
        for number, handler in handled.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH):
                loop.remove_signal_handler(number)
            ignore_further_ends(loop)

    async def _open(self) -> None:
        try:
            await self.talk.open()
        except CommandFailed as failed:
            self.failure = failed
            self.leave(1)
            return
        if self.options.first_prompt:
            await self.talk.submit(self.options.first_prompt)

    # Front: what the conversation wants of it.

    def show(self, blocks: Sequence[Block]) -> None:
        """Print these for good, with the next drawing."""
        self.canvas.scrollback.add(blocks)
        self.changed()

    def changed(self) -> None:
        """Draw soon."""
        if not self._is_leaving:
            self.canvas.changed()

    def put_text(self, text: str) -> None:
        """Put a text into the editor, before what is being written there."""
        self.composer.put_before(text)
        self.changed()

    def to_clipboard(self, text: str) -> None:
        """By the terminal, which may refuse."""
        self.output.write_raw(f"\x1b]52;c;{base64.b64encode(text.encode()[:CLIPBOARD_MAX]).decode()}\x07")
        self.output.flush()

    def leave(self, code: int) -> None:
        """End with this exit code."""
        if self._is_leaving or not self.app.is_running:
            return
        self.canvas.draw()
        self._is_leaving = True
        self.app.exit(result=code)

    def _notice(self, text: str) -> None:
        """A line from somewhere else in this program."""
        self.show([Notice(text, "warning")])

    # Stage: what a person wants of it.

    def give_way(self) -> None:
        """Something is to go to the host before anything is drawn."""
        self.canvas.give_way()

    def hint(self, text: str, seconds: float) -> None:
        """Show a few words in the last line for so long."""
        self.canvas.hint(text, seconds)

    def toggle(self, *, thinking: bool = False, tools: bool = False) -> None:
        """Fold or unfold, what is on the screen too."""
        self.canvas.scrollback.toggle(thinking=thinking, tools=tools)
        self.repaint()

    def repaint(self) -> None:
        """Draw all of it anew."""
        self.canvas.repaint()

    def suspend(self) -> None:
        """Give the terminal back and stop, as Ctrl-Z does everywhere; go on when somebody lets us."""

        def stop() -> None:
            loop = asyncio.get_running_loop()
            loop.remove_signal_handler(signal.SIGTSTP)
            self.canvas.is_given_away = True
            self.modes.off()
            os.kill(0, signal.SIGTSTP)
            self.modes.on()
            self.canvas.is_given_away = False
            loop.add_signal_handler(signal.SIGTSTP, self.suspend)
            loop.call_soon(self.changed)

        if self.app.is_running and self.app.context is not None:
            self.output.release()
            self.app.context.copy().run(run_in_terminal, stop)

    # What is asked.

    def _before_render(self) -> None:
        now_s = monotonic_s()
        self.talk.drop_expired(now_s)
        question = self.talk.question
        if question is not self._shown_question:
            self._ask(question, now_s)
        if question is not None:
            question.arm(now_s)
        self.canvas.begin_frame()

    def _after_render(self) -> None:
        self.canvas.end_frame()
        if self.talk.question is not None:
            self.talk.question.appeared(monotonic_s())

    def _ask(self, question: Question | None, now_s: float) -> None:
        """Another question is shown from here on, or none: what keys are about has the cursor."""
        self._shown_question = question
        if question is None:
            self.app.layout.focus(self.composer.buffer)
            return
        if question.is_field:
            self.field.text = question.text
            self.field.cursor_position = len(question.text)
            self.app.layout.focus(self.field)
        else:
            self.app.layout.focus(self._windows.panel)
        if question.is_ours:
            question.appeared(now_s)
        else:
            self.output.bell()
            asyncio.get_running_loop().call_later(QUIET_S, self.changed)
