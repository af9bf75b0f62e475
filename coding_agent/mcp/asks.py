"""Edge. What a server may ask of us while it works: the folders of the session, an answer of the person, of the model.

The library calls these in tasks of its own, inside the server's `connection`. What has to call other processes runs in
a process of its own, linked to the connection, and ends when the server takes its request back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final, TypeVar

from coding_agent.mcp.backing import Backing
from coding_agent.mcp.entries import ServerEntry
from lemon_otp import exit_signal, spawn_link, unlink

T = TypeVar("T")

OPEN_MAX: Final = 4
"""So many of its questions may be open at once; what a server asks beyond that is declined unseen."""


class Asks:
    """The requests of one server, over one connection."""

    def __init__(self, entry: ServerEntry, backing: Backing) -> None:
        self._entry = entry
        self._backing = backing
        self._open = 0

    def callbacks(self) -> dict[str, Any]:
        """For the library's client: what is in here is what the server is told that we can do."""
        found: dict[str, Any] = {"list_roots_callback": self.roots, "elicitation_callback": self.elicit}
        if self._backing.sampling:
            found["sampling_callback"] = self.sample
        return found

    async def roots(self, _context: Any) -> Any:
        """The folders, which stay the same as long as the session lives."""
        from mcp_types import ListRootsResult, Root

        return ListRootsResult(
            roots=[Root.model_validate({"uri": root.as_uri(), "name": root.name}) for root in self._backing.roots]
        )

    async def elicit(self, _context: Any, asked: Any) -> Any:
        """What a person answers; with nobody there, or too many questions open, it is declined."""
        from mcp_types import ElicitResult

        from coding_agent.mcp.elicitation import elicited

        dialogs = self._backing.dialogs
        if dialogs is None or self._open >= OPEN_MAX:
            return ElicitResult(action="decline")
        with self._asking():
            return await elicited(dialogs, self._entry, asked)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """While inside, one more request is open, and calls to the server lose no time."""
        server = self._backing.standing.servers.get(self._entry.name)
        self._open += 1
        try:
            with server.clocks.standing_still() if server is not None else nullcontext():
                yield
        finally:
            self._open -= 1

    async def sample(self, _context: Any, asked: Any) -> Any:
        """What the session's model answers, once permission and budget allow it; else an error."""
        from mcp_types import INTERNAL_ERROR, ErrorData

        from coding_agent.mcp.sampling import sampled

        if self._open >= OPEN_MAX:
            return ErrorData(code=INTERNAL_ERROR, message="too many requests are open")
        with self._asking():
            label = f"sampling[{self._entry.name}]"
            return await _in_a_process(lambda: sampled(self._backing, self._entry, asked), label)


async def _in_a_process(work: Callable[[], Awaitable[T]], label: str) -> T:
    """What `work` returns, done by a process that is linked to the caller's and that ends when this is cancelled."""
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            found = await work()
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(found)

    worker = spawn_link(run, label=label)
    try:
        return await answer
    finally:
        answer.cancel()
        unlink(worker)  # its end is not the connection's
        if worker.alive:
            exit_signal(worker, "kill")
