"""Edge. Takes secrets out of what the system shows of our environment to every program of the same user.

`/proc/PID/environ` is the memory in which a program was handed its environment, whatever it did to it since. So the
secrets are set anew, which puts them elsewhere, and what was handed over is blanked: `env` finds nothing in a child,
because children are not given them, and `cat /proc/*/environ` finds nothing of ours either. A debugger still would.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

SECRET_NAME: Final = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|(^|_|PG)PASS(_|$)|CREDENTIAL|AUTH(?!OR|_SOCK|_FILE)|COOKIE|SESSION_ID|BEARER|PRIVATE",
    re.IGNORECASE,
)
"""A name that says "secret"."""
SECRET_LENGTH_MIN: Final = 8

ENV_START, ENV_END = 49, 50
"""Which words of `/proc/self/stat` say where it is, counted from 0."""
BLOCK_MAX: Final = 4 * 1024 * 1024


def hide_secrets() -> None:
    """Blank the values of variables that are secrets by their names; where there is no `/proc` nothing is shown."""
    secret = [name for name in os.environb if SECRET_NAME.search(os.fsdecode(name))]
    if not secret:
        return
    with suppress(OSError, ValueError, IndexError):
        words = Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()
        start, end = (int(words[index - 2]) for index in (ENV_START, ENV_END))
        if not 0 < end - start <= BLOCK_MAX:
            return
        for name in secret:
            os.putenv(name, os.environb[name])
        memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
        try:
            block = os.pread(memory, end - start, start)
            os.pwrite(memory, blanked(block, secret), start)
        finally:
            os.close(memory)


def secrets_in(environ: Mapping[str, str]) -> frozenset[str]:
    """The values that are secrets by their names; short ones are words like "true", not secrets."""
    return frozenset(
        value for name, value in environ.items() if len(value) >= SECRET_LENGTH_MIN and SECRET_NAME.search(name)
    )


def blanked(block: bytes, names: list[bytes]) -> bytes:
    """An environment block of the same length, in which these variables hold nothing but blanks."""
    entries = []
    for entry in block.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        entries.append(name + equals + b" " * len(value) if name in names else entry)
    return b"\0".join(entries)
