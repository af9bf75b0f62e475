"""Edge. JSON-RPC 2.0 over lines, both ways: requests of the client handled side by side, ours answered by it.

Each request of the client's runs in a process of its own, linked to the one that reads, so that it can call, wait and
be cancelled like any other; notifications are handled at once and in order. What is written goes out in the order of
the calls, so that an update stands before the answer it belongs to.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from coding_agent.acp.errors import failure_of
from coding_agent.rpc.framing import BadLine, NoObject, TooLong, decode
from lemon_otp import Pid, exit_signal, self_pid, spawn_link, unlink

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
REQUEST_CANCELLED: Final = -32800

Message: TypeAlias = dict[str, Any]
Handle: TypeAlias = Callable[[str, Any, bool], Awaitable[Any]]
"""`handle(method, params, is_notification)`; raises the protocol library's `RequestError` to refuse."""
Late: TypeAlias = Callable[[Mapping[str, Any]], None]

_log: Final = logging.getLogger(__name__)


class Refused(Exception):
    """The client answered a request of ours with an error.

    Attributes:
        code: As JSON-RPC has it.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Wire:
    """One connection.

    Attributes:
        on_cancel: Told of the method, the parameters and the process of a request that the client takes back, before
            it is ended. Answers True when the request will end by itself.
    """

    def __init__(self, handle: Handle, write: Callable[[Message], None]) -> None:
        """Args:
        handle: Carries out what the client asks.
        write: Takes each message. Must not wait and must not raise.
        """
        self.on_cancel: Callable[[str, Any, Pid], bool] = lambda _method, _params, _pid: False
        self._handle = handle
        self._write = write
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._lost = False
        self._late: dict[int, Late] = {}
        self._running: dict[Any, tuple[Pid, str, Any]] = {}
        self._taken_back: set[Any] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    # Ours.

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the client something."""
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def post(self, method: str, params: Mapping[str, Any]) -> None:
        """Ask the client something whose answer nobody waits for."""
        self._write({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params})

    async def send_request(
        self, method: str, params: Mapping[str, Any] | None = None, *, late: Late | None = None
    ) -> Any:
        """Ask the client, and wait for what it answers. Cancelling tells it so.

        Args:
            method: What is asked.
            params: Its parameters.
            late: Called with an answer that comes although the request was cancelled.

        Raises:
            Refused: It answered with an error.
            ConnectionError: It went away.
        """
        if self._lost:
            raise ConnectionError("the client is gone")
        number = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        try:
            return await answer
        finally:
            if self._asked.pop(number, None) is not None:
                self.notify("$/cancel_request", {"requestId": number})
                if late is not None:
                    self._late[number] = late
            answer.cancel()

    # The client's. Called by the process that reads.

    async def take(self, line: bytes | TooLong) -> None:
        """Take a line. Whatever is wrong with it is answered, and the connection goes on."""
        if isinstance(line, TooLong):
            self._refuse(None, PARSE_ERROR, f"a message is at most {line.limit} bytes")
            return
        if not line.strip():
            return
        try:
            message = decode(line)
        except BadLine as error:
            code = INVALID_REQUEST if isinstance(error, NoObject) else PARSE_ERROR
            self._refuse(None, code, f"no JSON-RPC message: {error}")
            return
        method, number = message.get("method"), message.get("id")
        if isinstance(method, str) and "id" in message:
            self._begin(number, method, message.get("params"))
        elif isinstance(method, str):
            await self._notified(method, message.get("params"))
        elif "result" in message or "error" in message:
            self._answered(message)
        else:
            self._refuse(number, INVALID_REQUEST, "neither a request nor a response")

    def lose(self) -> None:
        """The client is gone: nothing we asked, or will ask, is answered."""
        self._lost = True
        asked, self._asked = self._asked, {}
        for answer in asked.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the client is gone"))

    async def settled(self) -> None:
        """Return when every request that came was answered."""
        await self._idle.wait()

    def _begin(self, number: Any, method: str, params: Any) -> None:
        if not isinstance(number, int | str) or isinstance(number, bool):
            self._refuse(None, INVALID_REQUEST, "the id of a request is a number or a text")
            return
        if number in self._running:
            self._refuse(number, INVALID_REQUEST, "a request of this id is running")
            return
        self._idle.clear()
        pid = spawn_link(self._answer, number, method, params, label=f"acp[{method}]")
        self._running[number] = pid, method, params

    async def _answer(self, number: Any, method: str, params: Any) -> None:
        response: Message = {"jsonrpc": "2.0", "id": number}
        after: Callable[[], None] | None = None
        try:
            result = await self._handle(method, params, False)
            if isinstance(result, Answer):
                result, after = result.result, result.after
            response["result"] = result
        except Exception as error:
            response["error"] = failure_of(error, method)
        except BaseException:
            response["error"] = {"code": REQUEST_CANCELLED, "message": "the request was cancelled"}
            raise
        finally:
            if number in self._taken_back and "error" not in response:
                response.pop("result", None)
                response["error"] = {"code": REQUEST_CANCELLED, "message": "the request was cancelled"}
            self._end(number, self_pid(), response)
        if after is not None:
            after()

    def _end(self, number: Any, pid: Pid, response: Message) -> None:
        """Answer a request of the client's, unless that was done."""
        if self._running.get(number, (None,))[0] != pid:
            return
        del self._running[number]
        self._taken_back.discard(number)
        self._write(response)
        if not self._running:
            self._idle.set()

    async def _notified(self, method: str, params: Any) -> None:
        if method == "$/cancel_request":
            self._take_back(params)
            return
        try:
            await self._handle(method, params, True)
        except Exception as error:
            if not method.startswith(("$/", "_")):
                _log.warning("the notification %s could not be handled: %s", method, failure_of(error, method))

    def _take_back(self, params: Any) -> None:
        number = params.get("requestId") if isinstance(params, dict) else None
        running = self._running.get(number) if isinstance(number, int | str) else None
        if running is None:
            return
        pid, method, asked = running
        self._taken_back.add(number)
        if not self.on_cancel(method, asked, pid):
            cancelled = {"code": REQUEST_CANCELLED, "message": "the request was cancelled"}
            self._end(number, pid, {"jsonrpc": "2.0", "id": number, "error": cancelled})  # it may not have begun yet
            unlink(pid)  # its end is not ours
            exit_signal(pid, "shutdown")

    def _answered(self, message: Message) -> None:
        number = message.get("id")
        if not isinstance(number, int):
            return
        if (late := self._late.pop(number, None)) is not None and isinstance(message.get("result"), dict):
            late(message["result"])
        answer = self._asked.pop(number, None)
        if answer is None or answer.done():
            return  # it was taken back meanwhile
        error = message.get("error")
        if error is None:
            answer.set_result(message.get("result"))
            return
        known = error if isinstance(error, dict) else {}
        code = known.get("code")
        answer.set_exception(Refused(code if isinstance(code, int) else 0, str(known.get("message", "an error"))))

    def _refuse(self, number: Any, code: int, text: str) -> None:
        whole = number if isinstance(number, int | str) and not isinstance(number, bool) else None
        self._write({"jsonrpc": "2.0", "id": whole, "error": {"code": code, "message": text}})


class Answer:
    """What a handler returns that has more to say once its answer is out.

    Attributes:
        result: The answer.
        after: Called behind it.
    """

    def __init__(self, result: Any, after: Callable[[], None]) -> None:
        self.result = result
        self.after = after
