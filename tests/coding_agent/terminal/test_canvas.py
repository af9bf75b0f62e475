"""What is drawn, and when."""

from io import StringIO
from types import SimpleNamespace

from coding_agent.terminal.blocks import Fold
from coding_agent.terminal.canvas import Canvas
from coding_agent.terminal.held_output import HeldOutput
from coding_agent.terminal.pace import GIVES_WAY_S
from coding_agent.terminal.view import View
from lemon_otp import Runtime, monotonic_s
from lemon_otp.testing import FakeClock
from tests.coding_agent.terminal.fakes import delta


async def test_what_comes_before_the_first_word_of_an_answer_does_not_keep_it_from_being_drawn():
    """That an answer, and its text, has begun shows nothing: drawn at once, it would have the word wait for a frame."""
    view = View()
    async with Runtime(clock=FakeClock()):
        canvas = Canvas(HeldOutput(StringIO(), term="xterm", colour=False), colour=False, fold=Fold())
        canvas.show(SimpleNamespace(view=view), None, None)  # type: ignore[arg-type]  # nothing is drawn here
        canvas._pace.next_at_s = monotonic_s()
        for event in (
            {"type": "agent_start"},
            {"type": "message_start", "message": {"role": "assistant", "content": []}},
            {"type": "message_update", "assistantMessageEvent": {"type": "text_start"}},
        ):
            view.take(event, monotonic_s())
            canvas.changed()
            assert canvas._drawing._due_s == monotonic_s() + GIVES_WAY_S
        view.take(delta("word"), monotonic_s())
        canvas.changed()
        assert canvas._drawing._due_s == monotonic_s()
        canvas.close()
