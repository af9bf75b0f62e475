"""Edge. A listener on this machine that waits for the browser to come back with a code."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import urlsplit

from lemon_ai.auth.pkce import LoginFailed, PendingLogin, read_code

T = TypeVar("T")

WAIT_S: Final = 120.0
_PAGE: Final = "<!doctype html><title>Login</title><p>{said} You can close this page.</p>"
_LONGEST_REQUEST: Final = 16_384


async def wait_for_code(login: PendingLogin, redirect_uri: str, *, timeout_s: float = WAIT_S) -> str:
    """The code the browser brings to `redirect_uri`; as `wait_for_answer`."""
    return await wait_for_answer(lambda answer: read_code(answer, login.state), redirect_uri, timeout_s=timeout_s)


async def wait_for_answer(
    read: Callable[[str], T],
    redirect_uri: str,
    *,
    timeout_s: float = WAIT_S,
    on_listening: Callable[[], None] = lambda: None,
) -> T:
    """What `read` makes of the address with which the browser comes to `redirect_uri`, which must name this machine.

    Requests for other paths are answered with 404 and do not end the waiting.

    Args:
        read: Called with that address.
        redirect_uri: Where the browser was told to come.
        timeout_s: Seconds to wait for it.
        on_listening: Called once a browser can come: the time to send one.

    Raises:
        LoginFailed: `read` raised it: the login was declined, or belongs to somebody else. Or nobody came in time.
        OSError: The port is taken; let the user paste the address instead.
    """
    parts = urlsplit(redirect_uri)
    found: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target = await _target_of(reader)
            status, said = _judge(target, parts.path, read, found)
            page = _PAGE.format(said=said).encode()
            head = f"HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {len(page)}\r\n"
            writer.write(head.encode() + b"connection: close\r\n\r\n" + page)
            await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a visitor that does not speak HTTP is not the browser waited for
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "localhost", parts.port, limit=_LONGEST_REQUEST)
    on_listening()
    try:
        async with asyncio.timeout(timeout_s):
            return await found
    except TimeoutError as error:
        raise LoginFailed(f"No browser came back within {timeout_s:.0f} s.") from error
    finally:
        server.close()
        await server.wait_closed()


async def _target_of(reader: asyncio.StreamReader) -> str:
    head = await reader.readuntil(b"\r\n\r\n")
    return head.split(b"\r\n", 1)[0].decode("ascii").split(" ")[1]


def _judge(target: str, path: str, read: Callable[[str], T], found: asyncio.Future[T]) -> tuple[str, str]:
    if urlsplit(target).path != path:
        return "404 Not Found", "There is nothing here."
    try:
        answer = read(target)
    except LoginFailed as problem:
        if not found.done():
            found.set_exception(problem)
        return "400 Bad Request", "The login failed."
    if not found.done():
        found.set_result(answer)
    return "200 OK", "You are logged in."
