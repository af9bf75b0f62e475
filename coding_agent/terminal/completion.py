"""Edge of prompt-toolkit. What can stand where the cursor is: commands after a slash, files after an @."""

import re
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from coding_agent.errors import CommandFailed
from coding_agent.terminal.channel import Channel, Message, ask
from coding_agent.terminal.screen_text import one_line
from coding_agent.terminal.slash import COMMANDS

FILE_WORD: Final = re.compile(r'(?:^|(?<=\s))@("[^"\n]*|[^\s"]*)$')
COMMAND_WORD: Final = re.compile(r"^/([^\s/]*)$")
FILES_MAX: Final = 50


def wants_completion(before_cursor: str) -> bool:
    """Whether something is offered without being asked for."""
    return bool(COMMAND_WORD.match(before_cursor) or FILE_WORD.search(before_cursor))


class TerminalCompleter(Completer):
    """Asks the host for files; knows the commands, and the host's by what it was told."""

    def __init__(self, channel: Channel, host_commands: Callable[[], Iterable[Message]]) -> None:
        self._channel = channel
        self._host_commands = host_commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The commands that begin with what stands after the slash."""
        found = COMMAND_WORD.match(document.text_before_cursor)
        if found is None:
            return
        typed = found[1]
        for name, summary in self._commands():
            if name.startswith(typed):
                yield Completion(f"{name} ", -len(typed), display=f"/{name}", display_meta=summary)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """As `get_completions`, and files."""
        found = FILE_WORD.search(document.text_before_cursor)
        if found is None:
            for completion in self.get_completions(document, complete_event):
                yield completion
            return
        typed = found[1]
        try:
            answer = await ask(self._channel, "complete_files", prefix=typed.lstrip('"'))
        except CommandFailed:
            return
        for path in list(answer.get("paths") or ())[:FILES_MAX]:
            name = one_line(str(path))
            word = f'"{path}"' if " " in str(path) else str(path)
            end = "" if str(path).endswith("/") else " "
            yield Completion(word + end, -len(typed), display=name)

    def _commands(self) -> Iterable[tuple[str, str]]:
        for command in COMMANDS:
            yield command.name, f"{command.takes + '  ' if command.takes else ''}{command.summary}"
        for given in self._host_commands():
            summary = one_line(str(given.get("description") or given.get("source") or ""))
            yield one_line(str(given.get("name") or "")), summary
