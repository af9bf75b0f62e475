"""The host with ears on everything it says about itself, run as a program of its own by the secret canary test.

Every telemetry event, of whatever name, goes to the file `WATCHED_TELEMETRY`. After the first tool result each process
of the runtime writes the crash report it would write if it crashed then, and its whole state goes to `WATCHED_STATES`:
a real report cuts a state short, which may hide what a longer one would show. With `WATCHED_CRASH=1` the tool `ls`
really crashes what calls it, with its arguments and the environment in hand.
"""

import os
import sys
from typing import Any

from lemon_otp import telemetry  # isort: skip

ENTRY_ID = "watched_host"


class Everything(dict[Any, Any]):
    """Handlers by event, with one more for every event there ever is."""

    def __bool__(self) -> bool:
        return True

    def __contains__(self, event: object) -> bool:
        return True

    def get(self, event: Any, default: Any = None) -> Any:
        return (*super().get(event, ()), telemetry.Attachment(ENTRY_ID, event, note, None))


def append(variable: str, text: str) -> None:
    with open(os.environ[variable], "a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text + "\n")


reported = False


def note(event: Any, measurements: Any, metadata: Any, _config: Any) -> None:
    append("WATCHED_TELEMETRY", f"{event} {measurements!r} {metadata!r}")
    for value in dict(metadata).values():
        if isinstance(value, BaseException):
            append("WATCHED_TELEMETRY", f"  {type(value).__name__}: {value} {vars(value)!r}")
    if event[-2:] == ("tool_result", "emit"):
        report_all()


def report_all() -> None:
    """The crash report of every process, as it is now."""
    global reported
    if reported:
        return
    reported = True
    from lemon_otp.scheduler import CURRENT

    for process in list(CURRENT.get().runtime.processes.values()):
        process.report(RuntimeError("injected"))
        for name in ("state", "last_message", "arg"):
            append("WATCHED_STATES", f"{process!r} {name}: {getattr(process, name, None)!r}")


def watch() -> None:
    """Put the ears on every runtime that is made."""
    from lemon_otp.scheduler import Scheduler

    made = Scheduler.__init__

    def watched(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        self.handlers = Everything()

    Scheduler.__init__ = watched  # type: ignore[method-assign]


def break_ls() -> None:
    """A tool that fails in a way nobody foresaw, and says too much."""
    from coding_agent.tools import toolset
    from lemon_agent import AgentTool

    def crashing(cwd: str, **_options: Any) -> AgentTool:
        def execute(_id: str, params: Any, _signal: Any = None, _on_update: Any = None) -> Any:
            raise RuntimeError(f"crashed with {params!r}")

        return AgentTool(name="ls", description="", parameters={"type": "object"}, execute=execute)

    toolset.FACTORIES = tuple(crashing if each.__name__ == "ls_tool" else each for each in toolset.FACTORIES)  # type: ignore[misc]


if __name__ == "__main__":
    from coding_agent.host import main

    watch()
    if os.environ.get("WATCHED_CRASH"):
        break_ls()
    sys.exit(main())
