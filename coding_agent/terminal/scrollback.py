"""Edge. What is printed for good, above everything that is drawn again: once, in order, and anew at another width."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from attrs import define, evolve, field

from coding_agent.terminal.block_lines import lines_or_excuse
from coding_agent.terminal.blocks import Block, Fold, Prose
from coding_agent.terminal.markdown import markdown_lines, safe_length
from coding_agent.terminal.render import Renderer
from coding_agent.terminal.view import Answer

KEPT_BLOCKS: Final = 400
"""For drawing the end of the conversation anew."""


@define(eq=False)
class Scrollback:
    """The finished part of a conversation on a terminal.

    Attributes:
        renderer: How wide, in which colours.
        write: Takes what goes to the terminal.
        fold: What is shown in short.
    """

    renderer: Renderer
    write: Callable[[str], None]
    fold: Fold
    _pending: list[Block] = field(factory=list, init=False)
    _printed: deque[tuple[Block, int]] = field(factory=lambda: deque(maxlen=KEPT_BLOCKS), init=False)

    def add(self, blocks: Sequence[Block]) -> None:
        """These are finished; they are printed with the next drawing."""
        self._pending.extend(blocks)

    def ripen(self, answer: Answer | None) -> None:
        """Take what has become certain of an answer that is on its way."""
        if answer is None:
            return
        self._pending += [Prose(piece.text, piece.joined) for piece in answer.text.take()]
        while answer.text.is_long_paragraph:
            length = safe_length(answer.text.tail, markdown_lines(self.renderer, answer.text.tail))
            if not length:
                return
            piece = answer.text.let_go(length)
            self._pending.append(Prose(piece.text, piece.joined))

    @property
    def has_news(self) -> bool:
        """Whether something is to be printed."""
        return bool(self._pending)

    def print(self) -> None:
        """Print what is new, where the cursor is; below it is nothing."""
        blocks, self._pending = self._pending, []
        self._print(blocks)

    def print_again(self, rows: int) -> None:
        """Print the last `rows` lines or a few more of what was printed, as it is shown now."""
        again: list[Block] = []
        shown = 0
        while self._printed and shown < rows:  # all of what can be seen, and no more
            block, lines = self._printed.pop()
            again.append(block)
            shown += lines
        self._print(again[::-1])

    def toggle(self, *, thinking: bool = False, tools: bool = False) -> None:
        """Fold or unfold; it holds for what is printed from now on."""
        self.fold = evolve(self.fold, thinking=self.fold.thinking != thinking, tools=self.fold.tools != tools)

    def _print(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            before = self._printed[-1][0] if self._printed else None
            lines = lines_or_excuse(self.renderer, block, self.fold, before)
            self._printed.append((block, len(lines)))
            self.write(self.renderer.ansi(lines))
