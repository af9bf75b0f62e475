"""Edge. `--mode rpc`: one client on standard input and output.

When the client goes, or closes its end, what runs is aborted and stored and the program ends. What is too much for a
client that does not read is left out where a later event says the same, and the client is given up in the end.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from coding_agent.errors import CodingAgentError
from coding_agent.hosting.desk import Desk
from coding_agent.hosting.first_session import first_session
from coding_agent.hosting.running import Body, HostRun, Interrupted
from coding_agent.rpc.lines import BACKLOG_MAX, CONGESTED, LineClient
from coding_agent.rpc.pipes import InputEnded, InputPipe, OutputClosed, OutputPipe, Received, take_standard_streams
from lemon_otp import CallFailed, receive, self_pid

ENDING_S: Final = 15.0
"""How long a client that is gone keeps the program, at most."""

_log: Final = logging.getLogger(__name__)


def over_standard_streams() -> Body:
    """The front end that serves the protocol on standard input and output until the client goes.

    From now on nothing else comes to standard output, whatever is read or loaded before the front end runs.
    """
    incoming, outgoing = take_standard_streams()

    async def body(host: HostRun) -> int:
        return await run_rpc(host, incoming, outgoing)

    return body


async def run_rpc(host: HostRun, incoming: int, outgoing: int) -> int:
    """Serve the protocol on these descriptors until the client goes; the exit code."""
    desk = await Desk.start(host)
    await first_session(desk)
    output = OutputPipe(outgoing, self_pid())
    client = LineClient(
        desk, output.write, deltas=host.arguments.rpc_deltas, congested=lambda: output.backlog > CONGESTED
    )
    desk.tell_notices()
    code = 0

    async def feed(data: bytes | None) -> None:
        client.finish() if data is None else client.feed(data)

    try:
        code = await read_until_gone(InputPipe(incoming, self_pid()), output, feed, BACKLOG_MAX)
        await _end(desk, client)
    finally:
        client.connection.close()
        await desk.close()
        output.close()
    return code


async def read_until_gone(
    incoming: InputPipe, output: OutputPipe, feed: Callable[[bytes | None], Awaitable[None]], backlog_max: int
) -> int:
    """Pass on what comes, then None, until the client goes or does not read any more; the exit code."""
    while True:
        match await receive():
            case Received(data):
                incoming.taken()
                await feed(data)
                if output.backlog > backlog_max:
                    _log.warning("the client does not read: %d bytes wait", output.backlog)
                    return 1
            case InputEnded():
                await feed(None)
                return 0
            case OutputClosed(reason):
                _log.info("nobody reads the output: %s", reason)
                return 0
            case Interrupted():
                return 130


async def _end(desk: Desk, client: LineClient) -> None:
    """Let what was asked be answered; what runs on is aborted."""
    with suppress(CodingAgentError, CallFailed, TimeoutError):
        async with asyncio.timeout(ENDING_S):
            await desk.abort_all()
            await client.connection.settled()
