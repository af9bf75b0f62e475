"""Edge. The conversation as plain lines, for a terminal that can do nothing else: no colours, nothing redrawn.

Lines are read by the event loop. What is said while the model works is said to it at the next chance; Ctrl-C stops it,
and leaves when nothing runs. It needs no library beyond Python's.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final, assert_never

from attrs import define, field

from coding_agent.terminal.blocks import (
    Asked,
    Banner,
    Block,
    Notice,
    Prose,
    Report,
    ShellRan,
    Summary,
    Thought,
    ToolRan,
    UserSaid,
)
from coding_agent.terminal.channel import Channel
from coding_agent.terminal.conversation import Conversation
from coding_agent.terminal.ending import ignore_further_ends
from coding_agent.terminal.options import TerminalOptions
from coding_agent.terminal.plain_lines import main_argument
from coding_agent.terminal.questions import QUIET_S, Question
from coding_agent.terminal.screen_text import for_screen, one_line, spelled_out
from lemon_otp import monotonic_s

PROMPT: Final = "> "
LINE_BYTES_MAX: Final = 1_000_000
OUTPUT_LINES: Final = 10


@define(eq=False)
class Lines:
    """A `Front` on standard output, a line at a time."""

    talk: Conversation = field(init=False)
    left: "asyncio.Future[int]" = field(init=False)
    _asked: Question | None = None
    _read: bytes = b""
    _heads: int = 0

    def show(self, blocks: Sequence[Block]) -> None:
        """Print these; an answer is printed piece by piece, as it becomes certain."""
        for block in blocks:
            for line in block_text(block):
                self._print(line)

    def changed(self) -> None:
        """Take what has become certain; put the question that is open."""
        answer = self.talk.view.answer
        if answer is not None:
            self.show([Prose(piece.text, piece.joined) for piece in answer.text.take_lines()])
        question = self.talk.question
        if question is not self._asked:
            self._asked = question
            if question is not None:
                self._put(question)

    def put_text(self, text: str) -> None:
        """There is no editor: it is shown, to be typed again or not."""
        self._print(f"(to say again: {one_line(text)})")

    def to_clipboard(self, text: str) -> None:
        """There is none: it is printed."""
        self._print(for_screen(text))

    def leave(self, code: int) -> None:
        """End with this exit code."""
        if not self.left.done():
            self.left.set_result(code)

    async def run(self, options: TerminalOptions) -> int:
        """Until somebody leaves."""
        loop = asyncio.get_running_loop()
        self.left = loop.create_future()
        standard_input = sys.stdin.fileno()
        handled = {
            signal.SIGINT: self._interrupt,
            signal.SIGTERM: lambda: self.leave(143),
            signal.SIGHUP: lambda: self.leave(129),
        }
        for number, handler in handled.items():
            loop.add_signal_handler(number, handler)
        try:
            await self.talk.open()
            if options.first_prompt:
                await self.talk.submit(options.first_prompt)
            self._prompt()
            loop.add_reader(standard_input, self._readable, standard_input)
            return await self.left
        finally:
            loop.remove_reader(standard_input)
            ignore_further_ends(loop)

    def _readable(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, 65_536)
        except OSError:
            data = b""
        if not data:
            self.leave(0)
            return
        *lines, self._read = (self._read + data).split(b"\n")
        self._read = self._read[-LINE_BYTES_MAX:]
        for line in lines:
            self._typed(line.decode(errors="replace").rstrip("\r"))

    def _typed(self, line: str) -> None:
        question = self.talk.question
        if question is not None:
            self._answer(question, line)
        elif line.strip():
            self.talk.begin(self._submit, line)
        else:
            self._prompt()

    async def _submit(self, line: str) -> None:
        await self.talk.submit(line)
        if not self.left.done() and self.talk.question is None:
            self._prompt()

    def _interrupt(self) -> None:
        if self.talk.question is not None:
            self.talk.answer(self.talk.question, None)
        elif self.talk.view.is_running or self.talk.view.shell is not None:
            self.talk.stop()
        else:
            self._print("")
            self.leave(130)

    # Questions.

    def _put(self, question: Question) -> None:
        question.appeared(monotonic_s())
        asyncio.get_running_loop().call_later(QUIET_S, self._arm, question)
        self._print("")
        self._print(
            f"? {one_line(question.title)}" if question.kind != "permit" else "? may this be done? (shown above)"
        )
        if question.message:
            self._print(f"  {one_line(question.message)}")
        for number, option in enumerate(question.options, 1):
            note = f"  ({one_line(option.note)})" if option.note else ""
            self._print(f"  {option.key or number}  {'  ' * option.depth}{one_line(option.label)}{note}")
        if question.is_ours:
            self._arm(question)

    def _arm(self, question: Question) -> None:
        if question is not self._asked or question.is_armed:
            return
        if question.arm(monotonic_s()):
            self._print("  type an answer; an empty line is none")
        else:
            asyncio.get_running_loop().call_later(QUIET_S, self._arm, question)

    def _answer(self, question: Question, line: str) -> None:
        typed = line.strip()
        if not question.arm(monotonic_s()):  # typed before the question could be read
            question.too_early(monotonic_s())
            self._print("  that was too early to be an answer; type it again")
        elif question.is_field:
            self.talk.answer(question, line or None)
        elif not typed:
            self.talk.answer(question, None)
        else:
            option = question.by_key(typed)
            if option is None and typed.isdigit() and 0 < int(typed) <= len(question.options):
                option = question.options[int(typed) - 1]
            if option is None:
                self._print("  that is none of the answers")
            else:
                self.talk.answer(question, option.value)

    def _prompt(self) -> None:
        sys.stdout.write(PROMPT)
        sys.stdout.flush()

    def _print(self, line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def block_text(block: Block) -> list[str]:
    """A block as plain lines."""
    match block:
        case UserSaid(text, images):
            pictures = f" [{images} pictures]" if images else ""
            return ["", *(f"> {line}" for line in (for_screen(text) + pictures).splitlines())]
        case Prose(text, joined):
            return [*([] if joined else [""]), *for_screen(text).split("\n")]
        case Thought():
            return ["(thought)"]
        case ToolRan():
            return tool_text(block)
        case ShellRan(command, output, exit_code):
            end = f" (exit {exit_code})" if exit_code else ""
            return ["", f"$ {one_line(command)}{end}", *for_screen(output).rstrip("\n").split("\n")]
        case Notice(text, level):
            return [f"{'-' if level == 'info' else level + ':'} {for_screen(text)}"]
        case Summary(title, text):
            return ["", one_line(title)]
        case Asked(tool_name, shown, reason):
            why = [f"  because {one_line(reason)}"] if reason else []
            body = [f"  {line}" for line in spelled_out(shown).strip("\n").split("\n")]
            return ["", f"may {one_line(tool_name)} do this?", *body, *why]
        case Report(title, rows, text):
            body = [f"  {one_line(left)}: {for_screen(right)}" for left, right in rows]
            return ["", one_line(title), *body, *(for_screen(text).split("\n") if text else [])]
        case Banner(version, model, cwd):
            return [
                f"Lemon {one_line(version)}, {one_line(model)}, {one_line(cwd)}",
                "/help shows the commands; /quit leaves",
            ]
        case _:
            assert_never(block)


def tool_text(ran: ToolRan) -> list[str]:
    """A finished call: one line, and what went wrong."""
    mark = "failed" if ran.is_error else "done"
    lines = [f"* {one_line(ran.name)} {main_argument(ran.args)[:120]} ({mark})"]
    shown: Any = ran.details.get("diff") if isinstance(ran.details, dict) else None
    body = shown if isinstance(shown, str) and shown else ran.text if ran.is_error or ran.name == "bash" else ""
    kept = for_screen(body).strip("\n").split("\n")[-OUTPUT_LINES:] if body.strip() else []
    return lines + [f"  {line}" for line in kept]


async def run_lines(channel: Channel, options: TerminalOptions) -> int:
    """Hold a conversation in plain lines until the person leaves; the exit code."""
    front = Lines()
    front.talk = Conversation(channel, options, front)
    try:
        return await front.run(options)
    finally:
        front.talk.close()
