"""Edge of prompt-toolkit. What is drawn on the terminal and when: each drawing in one write, for the size that holds.

What is final is printed into the `scrollback` once; what is on its way is drawn again below it, as a `frame`, at the
times `pace` allows. A key is drawn for at once, and then only what keys can change.
"""

from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from prompt_toolkit.application import Application
from prompt_toolkit.output import Output

from coding_agent.terminal.alarm import Alarm
from coding_agent.terminal.blocks import Fold
from coding_agent.terminal.composer import Composer
from coding_agent.terminal.frame import NOTHING, Frame, Part, Size, frame_of
from coding_agent.terminal.held_output import HeldOutput
from coding_agent.terminal.live import live_lines
from coding_agent.terminal.pace import Pace
from coding_agent.terminal.render import Renderer
from coding_agent.terminal.screen_text import one_line
from coding_agent.terminal.scrollback import Scrollback
from coding_agent.terminal.theme import DARK, Depth, Theme
from lemon_otp import monotonic_s

if TYPE_CHECKING:
    from coding_agent.terminal.conversation import Conversation

CALM_S: Final = 0.1
"""A size is taken for final when it has not changed for so long."""
TICK_S: Final = 0.25
"""While something runs, the elapsed time is drawn so often."""
CLEAR: Final = "\x1b[2J\x1b[H"


class PacedApplication(Application[int]):
    """One that asks before it draws what a key has changed."""

    def __init__(self, wanted: Callable[[], None], *, output: Output, **options: Any) -> None:
        self._wanted = wanted
        super().__init__(
            output=output,
            include_default_pygments_style=False,
            terminal_size_polling_interval=None,
            erase_when_done=True,
            max_render_postpone_time=None,
            **options,
        )

    def invalidate(self) -> None:
        """Something is another now."""
        self._wanted()

    def draw(self) -> None:
        """Draw in the next round of the loop."""
        super().invalidate()


class Canvas:
    """Draws one conversation, from `show` until `close`.

    Attributes:
        frame: What is below the scrollback, as it was drawn last.
        is_given_away: Somebody else has the terminal: nothing is drawn.
    """

    talk: "Conversation"
    composer: Composer
    app: PacedApplication

    def __init__(
        self,
        output: HeldOutput,
        *,
        colour: bool,
        fold: Fold,
        theme: Theme = DARK,
        depth: Depth = "standard",
    ) -> None:
        """Args:
        output: To the terminal.
        colour: Whether there may be colours.
        fold: What is shown in short.
        theme: Which colours.
        depth: How many the terminal has.
        """
        self.output = output
        self.renderer = Renderer(output.get_size().columns, colour, theme, depth)
        self.scrollback = Scrollback(self.renderer, output.write_raw, fold)
        self.frame = Frame()
        self.is_given_away = False
        self._pace = Pace()
        self._drawing = Alarm(self.draw)
        self._tick = Alarm(self._ticked)
        self._calm = Alarm(self._resize_is_over)
        self._hint_ends = Alarm(lambda: self._set_hint(""))
        self._live: Part = NOTHING
        self._hint = ""
        self._title = ""
        self._terminal = output.get_size()

    def show(self, talk: "Conversation", composer: Composer, app: PacedApplication) -> None:
        """Draw this conversation and what is written, with the windows of this application."""
        self.talk, self.composer, self.app = talk, composer, app

    def close(self) -> None:
        """Draw no more."""
        for alarm in (self._drawing, self._tick, self._calm, self._hint_ends):
            alarm.off()
        self.output.release()

    # When.

    def changed(self) -> None:
        """Something happened: draw soon."""
        is_asking = self.talk.view.phase == "waiting"  # also while of an answer that has begun nothing is seen
        self._drawing.by(self._pace.due_s(monotonic_s(), is_asking=is_asking))

    def key_changed(self) -> None:
        """A person did something: that is seen at once, unless it gives way to more."""
        now_s = monotonic_s()
        due_s = self._pace.due_s(now_s, for_key=True)
        if due_s > now_s:
            self._drawing.by(due_s)
        else:
            self.app.draw()

    def give_way(self) -> None:
        """Something is to go to the host before anything is drawn."""
        self._pace.give_way(monotonic_s())

    def hint(self, text: str, seconds: float) -> None:
        """Show a few words in the last line for so long."""
        self._set_hint(text)
        self._hint_ends.after(seconds)

    def _set_hint(self, text: str) -> None:
        self._hint = text
        self.changed()

    def _schedule_tick(self) -> None:
        view = self.talk.view
        if (view.is_running or view.shell is not None or view.questions) and not self._tick.is_set:
            self._tick.after(TICK_S)

    def _ticked(self) -> None:
        self.changed()
        self._schedule_tick()

    # What.

    def draw(self) -> None:
        """Print what is finished, and draw everything below it."""
        self._drawing.off()
        if not self.app.is_running or self.is_given_away:
            return
        began_s = monotonic_s()
        self.output.hold()
        self.scrollback.ripen(self.talk.view.answer)
        if self.scrollback.has_news:
            self._erase()
            self.scrollback.print()
        self._live = self._drawn_live()
        self._set_title()
        self.app.draw()  # and then releases what is held
        self._pace.drawn(began_s, monotonic_s())
        self._schedule_tick()

    def begin_frame(self) -> None:
        """Work out what the windows show; called before each drawing of theirs."""
        self.frame = frame_of(
            self.talk.view, self._size(), self._live,
            offers=self.composer.offers(), at=self.composer.marked, hint=self._hint,
        )  # fmt: skip
        wanted = self.app.layout.container.preferred_height(self.renderer.width, self.output.get_size().rows).preferred
        last = self.app.renderer.last_rendered_screen
        if last is not None and last.height > wanted:  # else the lines that are not needed any more stay as empty ones
            self.output.hold()
            self._erase()

    def end_frame(self) -> None:
        """It is drawn: the terminal may have it."""
        self.output.release()

    def _drawn_live(self) -> Part:
        room = self._size().live_rows(self.talk.question)
        lines = live_lines(self.renderer, self.talk.view, self.scrollback.fold, monotonic_s(), room)
        return Part(self.renderer.fragments(lines), len(lines))

    def _size(self) -> Size:
        return Size(self.renderer.width, self.output.get_size().rows, self.composer.lines)

    def _erase(self) -> None:
        self.app.renderer.erase(leave_alternate_screen=False)

    def _set_title(self) -> None:
        view = self.talk.view
        name = view.title or view.name or PurePath(view.cwd).name or "lemon"
        title = one_line(f"{'· ' if view.is_running else ''}{'? ' if view.questions else ''}{name}")[:120]
        if title != self._title:
            self._title = title
            self.output.set_title(title)

    # For which size.

    def resized(self) -> None:
        """The terminal has another size; it is drawn for when it has stayed the same for a moment."""
        self._calm.after(CALM_S)

    def _resize_is_over(self) -> None:
        size = self.output.get_size()
        if size.columns != self._terminal.columns:
            self.repaint()
        elif size != self._terminal:
            self.output.hold()
            self._erase()
            self.draw()
        self._terminal = size

    def repaint(self) -> None:
        """Clear what is seen, and print what was seen at the width and with the folds that hold now."""
        if not self.app.is_running:
            return
        self._terminal = self.output.get_size()
        self.renderer.width = self._terminal.columns
        self.output.hold()
        self._erase()
        self.output.write_raw(CLEAR)
        self.scrollback.print_again(self._terminal.rows)
        self.draw()

    def found_again(self) -> None:
        """Somebody else had the terminal: nothing that was drawn is taken to be there."""
        self.app.renderer.reset()
        self.changed()
