"""Edge. A client of the protocol that speaks in lines of bytes, whatever brings them."""

from collections.abc import Callable
from typing import Final

from coding_agent.hosting.desk import Desk
from coding_agent.rpc.connection import RpcConnection, parse_failure
from coding_agent.rpc.framing import LINE_BYTES_MAX, BadLine, LineSplitter, TooLong, decode, encode

CONGESTED: Final = 32 * 1024 * 1024
"""Once a client leaves so much unread, it is not told what a later event says too."""
BACKLOG_MAX: Final = 512 * 1024 * 1024
"""A client that leaves so much unread is gone for us; one prompt of the longest kind is told of several times over."""


class LineClient:
    """Bytes in, lines out. What is no command gets a response that says so, and the connection lives.

    Attributes:
        connection: The client itself.
    """

    def __init__(
        self,
        desk: Desk,
        write: Callable[[bytes], None],
        *,
        deltas: bool = False,
        limit: int = LINE_BYTES_MAX,
        congested: Callable[[], bool] | None = None,
    ) -> None:
        """Args:
        desk: The client's own.
        write: Takes each line, its end included. Must not wait and must not raise.
        deltas: Leave the growing message out of `message_update`.
        limit: The longest line that is taken, in bytes.
        congested: Does too much wait to be read? Then what a later event says too is left out.
        """
        self.connection = RpcConnection(
            desk, lambda message: write(encode(message)), deltas=deltas, congested=congested
        )
        self._splitter = LineSplitter(limit)

    def feed(self, data: bytes) -> None:
        """Take bytes as they come. Called by the process that the commands' processes are to end with."""
        for line in self._splitter.feed(data):
            self._take(line)

    def finish(self) -> None:
        """Nothing more comes: half a line is taken for a whole one."""
        for line in self._splitter.finish():
            self._take(line)

    def _take(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            self.connection.write(parse_failure(f"a line is at most {line.limit} bytes"))
            return
        if not line.strip():
            return
        try:
            message = decode(line)
        except BadLine as error:
            self.connection.write(parse_failure(str(error)))
        else:
            self.connection.accept(message)
