"""Edge. One run of a program that only answers: its output to a function, its errors kept, its end certain."""

import asyncio
from collections.abc import Callable
from typing import Final

from attrs import frozen

from coding_agent.tools.child import Child, ChildNotStarted, OnOutput, first_of, settle
from coding_agent.tools.keeper import Keeper, Program
from lemon_agent import AbortSignal, ToolError

ERRORS_KEPT: Final = 20_000
KILL_S: Final = 2.5


@frozen
class End:
    """How it ended.

    Attributes:
        code: Its exit code; None when it was stopped.
        errors: The beginning of what it said on standard error.
        timed_out: The time was up.
        stopped: It had said enough.
    """

    code: int | None
    errors: bytes = b""
    timed_out: bool = False
    stopped: bool = False


class ProgramRun:
    """Runs one program. It is stopped, with all it started, when it has said enough, takes too long or is given up."""

    def __init__(
        self, keeper: Keeper, *, stop_after: int | None = None, stop_when: Callable[[], bool] | None = None
    ) -> None:
        """Args:
        keeper: Starts it.
        stop_after: So many bytes of output are enough.
        stop_when: Asked after each piece of output whether that is enough.
        """
        self._keeper = keeper
        self._stop_after = stop_after
        self._stop_when = stop_when
        self._errors = b""
        self._size = 0

    async def until_ended(
        self, program: Program, on_output: OnOutput, timeout_s: float, signal: AbortSignal | None = None
    ) -> End:
        """Run it, and return when nothing of it is left.

        Raises:
            ToolError: It could not be started, or the run was aborted.
        """
        loop = asyncio.get_running_loop()
        enough: asyncio.Future[bool] = loop.create_future()
        undo = signal.on_abort(lambda _reason: settle(enough, False)) if signal is not None else None

        def take(data: bytes) -> None:
            if enough.done():
                return
            on_output(data)
            self._size += len(data)
            if (self._stop_after is not None and self._size > self._stop_after) or (
                self._stop_when is not None and self._stop_when()
            ):
                settle(enough, True)

        child: Child | None = None
        try:
            child = await self._keeper.start(program, take, on_errors=self._take_errors)
            await first_of(timeout_s, child.exited, enough)
            if child.exited.done() and not enough.done():
                await first_of(1.0, child.drained, child.gone, enough)
                child.read_what_is_there(1 << 30)
            if enough.done() and not enough.result():
                raise ToolError("Operation aborted")
            if enough.done():
                return End(None, self._errors, stopped=True)
            if not child.exited.done():
                return End(None, self._errors, timed_out=True)
            return End(child.exited.result(), self._errors)
        except ChildNotStarted as error:
            raise ToolError(f"Cannot run {program.argv[0]}: {error.strerror}") from error
        finally:
            if undo is not None:
                undo()
            enough.cancel()
            if child is not None:
                await self._finish(child)

    async def _finish(self, child: Child) -> None:
        if not child.gone.done():
            child.kill(0)
            await child.ended_for_certain(KILL_S)
        child.close()

    def _take_errors(self, data: bytes) -> None:
        self._errors += data[: ERRORS_KEPT - len(self._errors)]
