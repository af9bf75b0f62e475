"""Edge. `python -m coding_agent acp`: an editor on standard input and output.

Standard output carries the protocol and nothing else. When the editor goes, or closes its end, what runs is aborted and
stored and the program ends.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from coding_agent.acp.agent import Agent
from coding_agent.errors import CodingAgentError
from coding_agent.hosting.running import HostRun
from coding_agent.rpc.framing import LINE_BYTES_MAX, LineSplitter, encode
from coding_agent.rpc.pipes import InputPipe, OutputPipe, take_standard_streams
from coding_agent.rpc.stdio import read_until_gone
from lemon_otp import CallFailed, self_pid

BACKLOG_MAX: Final = 512 * 1024 * 1024
"""A client that leaves so much unread is gone for us."""
ENDING_S: Final = 20.0
"""How long a client that is gone keeps the program, at most."""

_log: Final = logging.getLogger(__name__)


async def run_acp(incoming: int, outgoing: int, host: HostRun) -> int:
    """Serve the protocol on these descriptors until the client goes; the exit code."""
    for notice in host.notices:
        _log.info("%s", notice)
    output = OutputPipe(outgoing, self_pid())
    agent = Agent(host, lambda message: output.write(encode(message)))
    splitter = LineSplitter(LINE_BYTES_MAX)

    async def feed(data: bytes | None) -> None:
        for line in splitter.finish() if data is None else splitter.feed(data):
            await agent.wire.take(line)

    try:
        code = await read_until_gone(InputPipe(incoming, self_pid()), output, feed, BACKLOG_MAX)
        with suppress(CodingAgentError, CallFailed, TimeoutError):
            async with asyncio.timeout(ENDING_S):
                await agent.close()
                await agent.wire.settled()
    finally:
        output.close()
    return code


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Raises:
        BadUsage: The command line cannot be used, or the protocol's library is missing.
        BadCredentialFile, LoginRefused: With `login` as the last word nothing was stored.
    """
    import os
    from functools import partial
    from importlib.util import find_spec

    from coding_agent import logs
    from coding_agent.arguments import parse
    from coding_agent.errors import BadUsage
    from coding_agent.hosting.running import prepared, run_host
    from coding_agent.settings import settings_of

    if argv[-1:] == ["login"]:  # an editor runs its own command line with this behind it, in a terminal
        from coding_agent.credentials.login_command import login

        return login([])
    if find_spec("acp") is None:
        raise BadUsage("the Agent Client Protocol needs the extra `acp`: pip install 'lemon-agents[acp]'")
    arguments = parse(argv)
    if arguments.prompt is not None or arguments.messages:
        raise BadUsage("with acp the prompts come from the editor")
    if not arguments.keep:
        raise BadUsage("with acp sessions are kept, because the editor may ask for them again; leave out --no-session")
    logs.set_up(os.environ, verbose=arguments.verbose)
    streams = take_standard_streams()  # before extensions are loaded, which may print
    return run_host(partial(run_acp, *streams), prepared(arguments, settings_of(arguments, os.environ)))
