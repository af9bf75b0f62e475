"""Edge. A Python process that keeps its variables between scripts, and is killed whole when it misbehaves."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from coding_agent.tools.child import Child, ChildNotStarted, OnOutput, first_of, settle
from coding_agent.tools.keeper import Keeper, Program
from lemon_agent import AbortSignal, ToolError

SOURCE: Final = Path(__file__).with_name("kernel_main.py")
IDLE_S: Final = 30 * 60.0
GRACE_S: Final = 0.3
KILL_S: Final = 2.5
MESSAGE_MAX: Final = 8 * 1024 * 1024
LAST_OUTPUT_S: Final = 0.05

Bridge = Callable[[str, Mapping[str, Any]], Awaitable[str]]
"""Answers a tool call that a script makes; raises `ToolError` to refuse it."""


@frozen
class Ended:
    """How a script ended.

    Attributes:
        how: "done", "raised", "timeout", "aborted" or "crashed". After the last three the kernel is gone.
        code: Of a kernel that crashed.
    """

    how: str
    code: int | None = None


class Kernel:
    """One such process, started when it is first needed."""

    def __init__(
        self,
        keeper: Callable[[], Keeper],
        program: Program,
        folder: str,
        keep: Callable[[Child], None] = lambda _child: None,
    ) -> None:
        """Args:
        keeper: Gives what starts it.
        program: What to start; `-c` and the source are added.
        folder: Where it runs.
        keep: Told of what goes on between the scripts.
        """
        self._keep = keep
        self._keeper = keeper
        self._program = program
        self._folder = folder
        self._child: Child | None = None
        self._on_output: OnOutput | None = None
        self._heard = b""
        self._news: asyncio.Future[Mapping[str, Any]] | None = None
        self._idle: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        """Does it hold variables of earlier scripts?"""
        return self._child is not None and not self._child.exited.done()

    async def run(
        self, script: str, on_output: OnOutput, bridge: Bridge, timeout_s: float, signal: AbortSignal | None
    ) -> Ended:
        """Run one script to its end. One at a time.

        Raises:
            ToolError: The kernel cannot be started.

        Cancelling kills the kernel.
        """
        child = await self._started()
        self._on_output = on_output
        loop = asyncio.get_running_loop()
        aborted: asyncio.Future[None] = loop.create_future()
        undo = signal.on_abort(lambda _reason: settle(aborted, None)) if signal is not None else None
        deadline = loop.time() + timeout_s
        try:
            await self._tell(child, {"script": script}, deadline)
            while True:
                self._news = loop.create_future()
                self._read_heard()
                await first_of(max(0.0, deadline - loop.time()), self._news, child.exited, aborted)
                if not self._news.done():
                    return await self._lost(child, aborted.done())
                message = self._news.result()
                if "done" in message:
                    await asyncio.sleep(0)
                    child.read_what_is_there()
                    return Ended("done" if message["done"] else "raised")
                await self._answer(child, message, bridge, deadline)
        except BaseException:
            await self.stop()
            raise
        finally:
            aborted.cancel()
            self._on_output = None
            if undo is not None:
                undo()
            self._rest(loop)

    async def stop(self) -> None:
        """End it with everything its scripts started; its variables are lost."""
        child, self._child = self._child, None
        if self._idle is not None:
            self._idle.cancel()
        if child is not None:
            if not child.gone.done():
                child.kill(GRACE_S)
                await child.ended_for_certain(GRACE_S + KILL_S)
            child.close()

    async def _started(self) -> Child:
        if self._idle is not None:
            self._idle.cancel()
        if self._child is not None and self.running:
            return self._child
        await self.stop()
        self._heard = b""
        argv = (*self._program.argv, "-u", "-c", SOURCE.read_text())
        program = evolve(self._program, argv=argv, stdin="pipe", split_errors=True, tty=False)
        try:
            cwd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolError(f"Working directory {self._folder}: {error.strerror}") from error
        try:
            self._child = await self._keeper().start(program.in_directory(cwd), self._take, on_errors=self._hear)
        except ChildNotStarted as error:
            raise ToolError(f"Cannot run {program.argv[0]}: {error.strerror}") from error
        finally:
            os.close(cwd)
        self._keep(self._child)
        return self._child

    async def _lost(self, child: Child, aborted: bool) -> Ended:
        code = child.exited.result() if child.exited.done() else None
        await first_of(LAST_OUTPUT_S, child.drained)
        child.read_what_is_there()
        await self.stop()
        if code is not None:
            return Ended("crashed", code)
        return Ended("aborted" if aborted else "timeout")

    async def _answer(self, child: Child, message: Mapping[str, Any], bridge: Bridge, deadline: float) -> None:
        """Let a tool answer the script, within the script's time."""
        loop = asyncio.get_running_loop()
        arguments = message.get("arguments")
        try:
            async with asyncio.timeout(max(0.0, deadline - loop.time())):
                text = await bridge(str(message.get("call")), arguments if isinstance(arguments, dict) else {})
            reply: dict[str, Any] = {"text": text}
        except ToolError as error:
            reply = {"error": str(error)}
        except TimeoutError:
            reply = {"error": "the script's time is up"}
        await self._tell(child, reply, deadline)

    async def _tell(self, child: Child, message: Mapping[str, Any], deadline: float) -> None:
        """Send a message; a kernel that does not take it in time is lost, which the caller sees."""
        try:
            async with asyncio.timeout_at(deadline):
                await child.write(json.dumps(message).encode() + b"\n")
        except (TimeoutError, OSError):
            return

    def _take(self, data: bytes) -> None:
        if self._on_output is not None:
            self._on_output(data)

    def _hear(self, data: bytes) -> None:
        self._heard += data
        if len(self._heard) > MESSAGE_MAX:
            self._heard = self._heard[-MESSAGE_MAX:]
        self._read_heard()

    def _read_heard(self) -> None:
        """Hand over the next message, if somebody waits for one and one is complete."""
        while self._news is not None and not self._news.done() and b"\n" in self._heard:
            line, _, self._heard = self._heard.partition(b"\n")
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict):
                self._news.set_result(message)

    def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Kill it when nobody wants it for long."""
        child = self._child
        if child is not None:
            self._idle = loop.call_later(IDLE_S, child.kill, 0)
