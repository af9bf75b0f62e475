"""Edge. The prompt: lines from a person, with completion and a history, until they leave or the host does.

Needs `prompt-toolkit`; answers are drawn with `rich` where it is installed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lemon_otp.private_folders import make_private
from lemon_otp.repl_shell.asking import Asker, Unreachable
from lemon_otp.repl_shell.shell import DONE, FAILED, Shell

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

TRIES: Final = 3
PAUSE_S: Final = 0.1
EXTRA: Final = "the prompt needs prompt-toolkit: pip install 'lemon-agents[terminal]'"


class MissingExtra(Exception):
    """What the prompt needs is not installed; the text says how to get it."""


def prompt(shell: Shell, title: str, *, history: Path | None = None) -> int:
    """Read lines and do what they ask, until the person leaves; the exit code.

    Raises:
        MissingExtra: `prompt-toolkit` is not installed.
    """
    session = _session(shell, history)
    print(f"{title}; `help` lists what can be asked, `quit` leaves")
    while True:
        try:
            line = session.prompt(f"{shell.asker.hello.get('os_pid', '?')}> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return DONE
        if line.strip() in ("quit", "exit"):
            return DONE
        try:
            shell.run(line)
        except KeyboardInterrupt:
            continue
        except Unreachable as gone:
            if gone.code == "no_answer":
                print(f"error: {gone}")
            elif _connected_again(shell):
                print("(the connection was closed; connected again)")
            else:
                print(f"error: {gone}")
                return FAILED


def _connected_again(shell: Shell) -> bool:
    """Whether the host is there after all: what listens in it may have been started anew."""
    for _ in range(TRIES):
        try:
            fresh = Asker(shell.asker.path, timeout_s=shell.asker.timeout_s)
        except Unreachable:
            time.sleep(PAUSE_S)
            continue
        shell.asker.close()
        shell.asker = fresh
        return True
    return False


def _session(shell: Shell, history: Path | None) -> PromptSession[str]:
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import Completer
        from prompt_toolkit.completion import Completion as Offered
        from prompt_toolkit.history import FileHistory, InMemoryHistory
    except ImportError as error:
        raise MissingExtra(EXTRA) from error

    class Ways(Completer):
        """What the shell knows of how to go on."""

        def get_completions(self, document: Any, complete_event: Any) -> Iterable[Offered]:
            text = document.text_before_cursor
            found: Iterator[Any] = shell.completions(text)
            for way in found:
                yield Offered(way.text, start_position=-way.back, display_meta=way.meta)

    kept = InMemoryHistory() if history is None else FileHistory(private_history(history))
    return PromptSession(completer=Ways(), history=kept, complete_while_typing=False, enable_history_search=True)


def private_history(path: Path) -> str:
    """The name of the history's file, made, with its folder, for this user alone: lines may hold what processes got."""
    make_private(path.parent)
    path.touch(mode=0o600)
    return str(path)
