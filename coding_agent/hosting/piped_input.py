"""Edge. What is piped in, read to its end before anything runs."""

import select
import stat
import sys
from os import fstat
from typing import Final

from coding_agent.errors import BadUsage
from coding_agent.hosting.command_line import FILE_BYTES_MAX

PATIENCE_S: Final = 3.0
"""After so long without a byte it is said what is waited for: a pipe that nobody closes is easily inherited."""
WAITING: Final = "waiting for the end of standard input, which goes in front of the prompt; </dev/null leaves it out"


def piped_text() -> str | None:
    """What came through standard input; None at a terminal, and where it is closed.

    Bytes that are no UTF-8 become replacement characters.

    Raises:
        BadUsage: It is too long for a prompt, or cannot be read. Nothing of it is used.
    """
    if sys.stdin is None or sys.stdin.isatty():
        return None
    try:
        descriptor = sys.stdin.fileno()
        if _may_keep_silent(descriptor) and not select.select([descriptor], [], [], PATIENCE_S)[0]:
            print(WAITING, file=sys.stderr, flush=True)
        data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadUsage(f"standard input cannot be read: {error.strerror or error}") from error
    if len(data) > FILE_BYTES_MAX:
        raise BadUsage(
            f"what is piped in has more than {FILE_BYTES_MAX} bytes; put it into a file and let the agent read the "
            "part that matters"
        )
    return data.decode("utf-8", "replace")


def _may_keep_silent(descriptor: int) -> bool:
    """Is it a pipe or a socket, at whose other end somebody may never say anything?"""
    mode = fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
