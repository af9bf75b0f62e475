"""Edge. One request to one server: found, made, bounded in time, and whatever goes wrong in the same few words."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from coding_agent.errors import McpRequestFailed, McpServerUnavailable
from coding_agent.mcp.mcp_server import McpServer
from coding_agent.mcp.standing import Reachable
from coding_agent.tools.visible_text import plain, reveal
from lemon_otp import CallFailed, CallTimeout, monotonic_s, sleep_s

CONNECTION_S: Final = 35.0
"""How long a request waits for a server that is on its way."""
AGAIN_S: Final = 3.0
LOOK_S: Final = 0.1
ERROR_MAX: Final = 2_000


async def request(server: Reachable, ask: Callable[[Any], Awaitable[Any]]) -> Any:
    """What the server answers to `ask(client)`. Cancelling tells the server so.

    A server that does not answer in time, or not in the protocol, is looked after: it may hang for good.

    Raises:
        McpRequestFailed: It is not connected, did not answer, or answered with an error.
    """
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT

    entry = server.entry
    client = await _client(server)
    try:
        async with server.clocks.limit(entry.timeout_s):
            return await ask(client)
    except TimeoutError:
        McpServer.suspect(server.address, client)
        raise McpRequestFailed(f"{entry.name} did not answer within {entry.timeout_s:g} seconds") from None
    except MCPError as error:
        if error.code in (CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT):
            McpServer.suspect(server.address, client)
        raise _in_its_words(server, error.message) from error
    except Exception as error:  # whatever the library makes of an answer that does not fit
        McpServer.suspect(server.address, client)
        raise _in_its_words(server, str(error) or type(error).__name__) from error


async def _client(server: Reachable) -> Any:
    """The library's client; a server's process that was killed is given a moment to come back."""
    give_up_s = monotonic_s() + AGAIN_S
    while True:
        try:
            return await McpServer.client(server.address, timeout_s=CONNECTION_S)
        except McpServerUnavailable as error:
            raise McpRequestFailed(str(error)) from error
        except (CallFailed, CallTimeout) as error:
            if isinstance(error, CallTimeout) or monotonic_s() >= give_up_s:
                raise McpRequestFailed(f"the server {server.entry.name} does not run any more") from error
            await sleep_s(LOOK_S)


def _in_its_words(server: Reachable, said: str) -> McpRequestFailed:
    """An error in the server's words, which are as little to be trusted as its answers."""
    text = reveal(plain(server.entry.masked(said[:ERROR_MAX])))[0]
    return McpRequestFailed(f"{server.entry.name}: {text}", said=True)
