"""Edge of prompt-toolkit. The screen: what is final goes into the scrollback once, what is on its way is redrawn below.

However fast events come, it is drawn so often as somebody can see, and never for more than a part of the time.
"""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from attrs import evolve
from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import merge_key_bindings
from prompt_toolkit.layout import Window
from prompt_toolkit.styles import Style

from coding_agent.errors import CommandFailed
from coding_agent.terminal.aside import everything_aside
from coding_agent.terminal.block_lines import lines_or_excuse
from coding_agent.terminal.blocks import Block, Fold, Notice, Prose
from coding_agent.terminal.completion import TerminalCompleter
from coding_agent.terminal.editor import editing_keys, make_buffer
from coding_agent.terminal.ending import ignore_further_ends
from coding_agent.terminal.hands import Hands
from coding_agent.terminal.held_output import HeldOutput
from coding_agent.terminal.history import PrivateHistory
from coding_agent.terminal.keys import screen_keys, teach_shift_enter
from coding_agent.terminal.layout import make_layout
from coding_agent.terminal.live import live_lines
from coding_agent.terminal.markdown import markdown_lines, safe_length
from coding_agent.terminal.modes import TerminalModes
from coding_agent.terminal.options import TerminalOptions
from coding_agent.terminal.questions import QUIET_S, Question
from coding_agent.terminal.render import Fragment, Renderer
from coding_agent.terminal.screen_text import one_line
from lemon_otp import monotonic_s

if TYPE_CHECKING:
    from coding_agent.terminal.conversation import Conversation

FRAME_S: Final = 1 / 24
"""Between two drawings at least."""
SHARE: Final = 4.0
"""After a drawing, so many times what it took is left to everything else."""
CALM_S: Final = 0.1
"""A size is taken for final when it has not changed for so long."""
TICK_S: Final = 0.25
"""While something runs, the elapsed time is drawn so often."""
KEPT_BLOCKS: Final = 400
"""For drawing the end of the conversation anew."""
STYLE: Final = Style.from_dict(
    {
        "status": "dim",
        "status.phase": "bold",
        "status.tight": "fg:ansiyellow bold",
        "status.hint": "fg:ansiyellow",
        "rule": "dim",
        "mark": "fg:ansiblue bold",
        "faint": "dim",
        "ask": "fg:ansiyellow bold",
        "typed": "underline",
        "key": "fg:ansiyellow bold",
        "chosen": "bold reverse",
        "menu.current": "reverse",
        "menu.note": "dim",
    }
)


class Screen:
    """A `Front` on a terminal that can move its cursor. `run` shows it until somebody leaves."""

    talk: "Conversation"
    panel_window: Window
    editor: Buffer
    field: Buffer
    app: Application[int]

    def __init__(self, options: TerminalOptions) -> None:
        teach_shift_enter()
        self.options = options
        self.hands = Hands(self)
        self.fold = Fold(thinking=not options.show_thinking)
        self.output = HeldOutput(sys.__stdout__, term=os.environ.get("TERM"), colour=options.colour)
        self.renderer = Renderer(self.output.get_size().columns, colour=options.colour)
        assert sys.__stdin__ is not None
        assert sys.__stdout__ is not None
        self.modes = TerminalModes(sys.__stdin__.fileno(), sys.__stdout__.fileno())
        self.hint = ""
        self.failure: CommandFailed | None = None
        self._pending: list[Block] = []
        self._printed: deque[tuple[Block, int]] = deque(maxlen=KEPT_BLOCKS)
        self._live: list[Fragment] = []
        self._live_rows = 0
        self._timer: asyncio.TimerHandle | None = None
        self._calm: asyncio.TimerHandle | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._next_at_s = self._due_s = 0.0
        self._shown_question: Question | None = None
        self._title = ""
        self._size = self.output.get_size()
        self._is_leaving = False
        self._is_suspended = False

    def attach(self, talk: "Conversation") -> None:
        """Show this conversation."""
        self.talk = talk
        history = PrivateHistory(self.options.history_file)
        self.editor = make_buffer(TerminalCompleter(talk.channel, lambda: talk.commands), history)
        self.field = Buffer(multiline=True, name="field")
        bindings = merge_key_bindings([editing_keys(self.hands.paste), screen_keys(self)])
        self.app = Application(
            layout=make_layout(self),
            key_bindings=bindings,
            style=STYLE,
            include_default_pygments_style=False,
            input=create_input(sys.__stdin__),
            output=self.output,
            terminal_size_polling_interval=None,
            erase_when_done=True,
            max_render_postpone_time=None,
            before_render=lambda _app: self._before_render(),
            after_render=lambda _app: self._after_render(),
        )
        self.app.ttimeoutlen = 0.05
        self.app.timeoutlen = 0.1

    async def run(self) -> int:
        """Show the screen until somebody leaves; the exit code."""
        loop = asyncio.get_running_loop()
        handled = {
            signal.SIGINT: self.hands.interrupt,
            signal.SIGTERM: lambda: self.leave(143),
            signal.SIGHUP: lambda: self.leave(129),
            signal.SIGQUIT: lambda: self.leave(131),
            signal.SIGTSTP: self.suspend,
            signal.SIGCONT: self._continued,
        }
        self.modes.on()

        def started() -> None:
            loop.call_soon(loop.add_signal_handler, signal.SIGWINCH, self.resized)
            self.talk.begin(self._open)

        try:
            for number, handler in handled.items():
                loop.add_signal_handler(number, handler)
            with everything_aside(self.notice):
                return await self.app.run_async(pre_run=started, handle_sigint=False, set_exception_handler=False)
        except (EOFError, OSError):  # the terminal is gone
            return 129
        finally:
            for timer in (self._timer, self._calm, self._tick):
                if timer is not None:
                    timer.cancel()
            for each in (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH):
                loop.remove_signal_handler(each)
            ignore_further_ends(loop)
            self.output.release()
            self.modes.off()

    async def _open(self) -> None:
        try:
            await self.talk.open()
        except CommandFailed as failed:
            self.failure = failed
            self.leave(1)
            return
        if self.options.first_prompt:
            await self.talk.submit(self.options.first_prompt)

    # Front.

    def show(self, blocks: Sequence[Block]) -> None:
        """Print these for good, with the next drawing."""
        self._pending.extend(blocks)
        self.changed()

    def changed(self) -> None:
        """Draw soon; what comes of asking the model can wait a moment, the beginning of an answer cannot."""
        if self._is_leaving:
            return
        now_s = monotonic_s()
        is_asking = self.talk.view.phase == "waiting" and self.talk.view.answer is None
        due_s = max(self._next_at_s, now_s + FRAME_S / 2 if is_asking else now_s)
        if self._timer is not None:
            if due_s >= self._due_s:
                return
            self._timer.cancel()
        self._due_s = due_s
        self._timer = asyncio.get_running_loop().call_later(due_s - now_s, self._draw)

    def put_text(self, text: str) -> None:
        """Put a text into the editor, before what is being written there."""
        rest = self.editor.text
        self.editor.text = f"{text}\n{rest}" if rest.strip() else text
        self.editor.cursor_position = len(self.editor.text)
        self.changed()

    def to_clipboard(self, text: str) -> None:
        """By the terminal, which may refuse."""
        import base64

        self.output.write_raw(f"\x1b]52;c;{base64.b64encode(text.encode()[:74_000]).decode()}\x07")
        self.output.flush()

    def leave(self, code: int) -> None:
        """End with this exit code."""
        if self._is_leaving or not self.app.is_running:
            return
        self._draw()
        self._is_leaving = True
        self.app.exit(result=code)

    # Drawing.

    @property
    def question(self) -> Question | None:
        """What is asked now."""
        return self.talk.question

    @property
    def rows(self) -> int:
        """Of the terminal."""
        return self.output.get_size().rows

    def live_fragments(self) -> list[Fragment]:
        """What is on its way, as it was at the last drawing."""
        return self._live

    @property
    def live_height(self) -> int:
        """How many lines that takes."""
        return self._live_rows

    def live_room(self) -> int:
        """How many lines there are for it."""
        taken = min(self.editor.document.line_count, self.editor_rows()) + 2
        if self.question is not None:
            taken += self.panel_rows()
        return max(0, self.rows - taken - 1)

    def editor_rows(self) -> int:
        """How high the editor may become."""
        return max(1, min(12, self.rows // 3))

    def panel_rows(self) -> int:
        """How high a question may become."""
        return max(1, min(14, self.rows - 4))

    def _draw(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.app.is_running or self._is_suspended:
            return
        began = monotonic_s()
        self.output.hold()
        self._ripen()
        if self._pending:
            self.app.renderer.erase(leave_alternate_screen=False)
            self._print(self._pending)
            self._pending = []
        self._refresh_live()
        self._set_title()
        self.app.invalidate()  # draws, and releases what is held
        took = monotonic_s() - began
        self._next_at_s = monotonic_s() + max(FRAME_S, SHARE * took)
        self._schedule_tick()

    def _ripen(self) -> None:
        """Take what has become certain of the answer that is on its way."""
        answer = self.talk.view.answer
        if answer is None:
            return
        self._pending += [Prose(piece.text, piece.joined) for piece in answer.text.take()]
        while answer.text.is_long_paragraph:
            length = safe_length(answer.text.tail, markdown_lines(self.renderer, answer.text.tail))
            if not length:
                return
            piece = answer.text.let_go(length)
            self._pending.append(Prose(piece.text, piece.joined))

    def _print(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            before = self._printed[-1][0] if self._printed else None
            lines = lines_or_excuse(self.renderer, block, self.fold, before)
            self._printed.append((block, len(lines)))
            self.output.write_raw(self.renderer.ansi(lines))

    def _refresh_live(self) -> None:
        lines = live_lines(self.renderer, self.talk.view, self.fold, monotonic_s(), self.live_room())
        self._live_rows = len(lines)
        self._live = self.renderer.fragments(lines)

    def _before_render(self) -> None:
        now_s = monotonic_s()
        self.talk.drop_expired(now_s)
        question = self.question
        if question is not self._shown_question:
            self._ask(question, now_s)
        if question is not None:
            question.arm(now_s)
        wanted = self.app.layout.container.preferred_height(self.renderer.width, self.rows).preferred
        last = self.app.renderer.last_rendered_screen
        if last is not None and last.height > wanted:  # else the lines that are not needed any more stay as empty ones
            self.output.hold()
            self.app.renderer.erase(leave_alternate_screen=False)

    def _after_render(self) -> None:
        self.output.release()
        if self.question is not None:
            self.question.appeared(monotonic_s())

    def _schedule_tick(self) -> None:
        busy = self.talk.view.is_running or self.talk.view.shell is not None or self.question is not None
        if busy and self._tick is None:
            self._tick = asyncio.get_running_loop().call_later(TICK_S, self._ticked)

    def _ticked(self) -> None:
        self._tick = None
        self.changed()
        self._schedule_tick()

    def _set_title(self) -> None:
        view = self.talk.view
        name = view.title or view.name or self.options.cwd.name or "lemon"
        title = one_line(f"{'· ' if view.is_running else ''}{'? ' if view.questions else ''}{name}")[:120]
        if title != self._title:
            self._title = title
            self.output.set_title(title)

    # Size, suspension.

    def resized(self) -> None:
        """The terminal has another size; it is drawn for when it has stayed the same for a moment."""
        if self._calm is not None:
            self._calm.cancel()
        self._calm = asyncio.get_running_loop().call_later(CALM_S, self._resize_is_over)

    def _resize_is_over(self) -> None:
        self._calm = None
        size = self.output.get_size()
        if size.columns != self._size.columns:
            self.repaint()
        elif size != self._size:
            self.output.hold()
            self.app.renderer.erase(leave_alternate_screen=False)
            self._draw()
        self._size = size

    def repaint(self) -> None:
        """Clear what is seen, and print what was seen at the width and with the folds that hold now."""
        if not self.app.is_running:
            return
        self._size = self.output.get_size()
        self.renderer.width = self._size.columns
        self.output.hold()
        self.app.renderer.erase(leave_alternate_screen=False)
        self.output.write_raw("\x1b[2J\x1b[H")
        again: list[Block] = []
        rows = 0
        while self._printed and rows < self._size.rows:  # all of what can be seen, and no more
            block, lines = self._printed.pop()
            again.append(block)
            rows += lines
        self._print(again[::-1])
        self._draw()

    def suspend(self) -> None:
        """Give the terminal back and stop, as Ctrl-Z does everywhere; go on when somebody lets us."""

        def stop() -> None:
            loop = asyncio.get_running_loop()
            loop.remove_signal_handler(signal.SIGTSTP)
            self._is_suspended = True
            self.modes.off()
            os.kill(0, signal.SIGTSTP)
            self.modes.on()
            self._is_suspended = False
            loop.add_signal_handler(signal.SIGTSTP, self.suspend)
            loop.call_soon(self.changed)

        if self.app.is_running and self.app.context is not None:
            self.output.release()
            self.app.context.copy().run(run_in_terminal, stop)

    def _continued(self) -> None:
        """Stopped from outside and going on: whoever had the terminal meanwhile may have changed it."""
        self.app.renderer.reset()
        self.changed()

    def toggle(self, *, thinking: bool = False, tools: bool = False) -> None:
        """Fold or unfold, what is on the screen too."""
        if thinking:
            self.fold = evolve(self.fold, thinking=not self.fold.thinking)
        if tools:
            self.fold = evolve(self.fold, tools=not self.fold.tools)
        self.repaint()

    # Within.

    def _ask(self, question: Question | None, now_s: float) -> None:
        """Another question is shown from here on, or none."""
        self._shown_question = question
        if question is None:
            self.app.layout.focus(self.editor)
            return
        if question.is_field:
            self.field.text = question.text
            self.field.cursor_position = len(question.text)
            self.app.layout.focus(self.field)
        else:
            self.app.layout.focus(self.panel_window)
        if question.is_ours:
            question.appeared(now_s)
        else:
            self.output.bell()
            asyncio.get_running_loop().call_later(QUIET_S, self.changed)

    def notice(self, text: str) -> None:
        """A line from somewhere else in this program."""
        self.show([Notice(text, "warning")])
