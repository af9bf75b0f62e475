"""Edge. Commands that the user runs beside the conversation; what they print, the model reads with the next prompt."""

import codecs
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import field

from coding_agent.messages import BashExecutionMessage
from coding_agent.tools.bash import Run, program_for
from coding_agent.tools.child import ChildNotStarted
from coding_agent.tools.workspace import Workspace
from lemon_agent import AbortSignal, ToolError
from lemon_otp import define, frozen, wall_ms

LONGEST_S: Final = 7 * 24 * 3600.0
"""A command of the user's own ends when it ends; this is only so that nothing waits for ever."""

OnText = Callable[[str], None]


@frozen
class BashOutput:
    """A piece of what a command of the user's prints.

    Attributes:
        run_id: Which command, in the words of whoever gave it; None when they gave none.
    """

    run_id: Any
    delta: str


class _Watched(Run):
    """A run whose output is also passed on as it comes."""

    def __init__(self, workspace: Workspace, on_text: OnText) -> None:
        super().__init__(workspace, None)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._on_text = on_text

    def _take(self, data: bytes) -> None:
        super()._take(data)
        if text := self._decoder.decode(data):
            self._on_text(text)


@define(eq=False)
class UserBash:
    """The commands a user runs in one working folder."""

    _running: dict[AbortSignal, str] = field(factory=dict)
    _workspaces: dict[Path, Workspace] = field(factory=dict)

    @property
    def busy(self) -> bool:
        """Is one running?"""
        return bool(self._running)

    def abort(self) -> bool:
        """End what runs; False when nothing does."""
        for signal in list(self._running):
            signal.abort()
        return bool(self._running)

    async def run(
        self,
        command: str,
        cwd: Path,
        on_text: OnText,
        *,
        prefix: str | None = None,
        excluded: bool = False,
    ) -> BashExecutionMessage:
        """Run a command to its end, or to `abort`; what came of it. Cancelling ends the command.

        Args:
            command: For bash.
            cwd: The folder it runs in.
            on_text: Is called with each piece of output.
            prefix: Put before the command, on lines of its own.
            excluded: The model is not to see it.
        """
        workspace = self._workspaces.setdefault(cwd, Workspace(cwd))
        signal = AbortSignal()
        self._running[signal] = command
        run = _Watched(workspace, on_text)
        try:
            program = program_for(workspace, "bash", f"{prefix}\n{command}" if prefix else command)
            outcome = await run.until_ended(program, LONGEST_S, signal)
            shown = run.output.finished()
            return BashExecutionMessage(
                command=command,
                output=shown.text,
                exit_code=outcome.code,
                cancelled=outcome.how == "aborted",
                truncated=shown.truncated,
                full_output_path=None if run.output.path is None else str(run.output.path),
                exclude_from_context=excluded,
                timestamp=wall_ms(),
            )
        except (ToolError, ChildNotStarted) as error:
            return BashExecutionMessage(
                command, str(error), exit_code=127, exclude_from_context=excluded, timestamp=wall_ms()
            )
        finally:
            del self._running[signal]
            run.close()


def answered_elsewhere(command: str, found: Mapping[str, Any], *, excluded: bool) -> BashExecutionMessage:
    """What somebody else says came of a command, as the protocol's `bash` answers it."""
    return BashExecutionMessage(
        command=command,
        output=str(found.get("output", "")),
        exit_code=found.get("exitCode"),
        cancelled=bool(found.get("cancelled")),
        truncated=bool(found.get("truncated")),
        full_output_path=found.get("fullOutputPath"),
        exclude_from_context=excluded,
        timestamp=wall_ms(),
    )
