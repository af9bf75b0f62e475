"""Edge. Where the program's own warnings and crash reports go: a private file; a person's terminal stays theirs.

Whatever is written has gone through redaction: the values of our environment that look like secrets by their names, and
everything that looks like a secret by itself.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from coding_agent.folders import folders
from lemon_otp import make_private

LOGGERS: Final = ("lemon_otp", "lemon_ai", "lemon_agent", "coding_agent", "opentelemetry", "urllib3", "uvicorn")
"""Ours, and those of libraries that work in the background: where nobody listens, Python prints warnings."""


def log_file(environ: Mapping[str, str]) -> Path:
    """`LEMON_LOG_FILE`, else `lemon/host.log` in the user's folder for state."""
    if given := environ.get("LEMON_LOG_FILE"):
        return Path(given).absolute()
    return folders(environ).state / "host.log"


def set_up(environ: Mapping[str, str], *, verbose: bool = False) -> None:
    """Send warnings and crash reports to the log file, and with `verbose` to standard error as well."""
    handlers: list[logging.Handler] = [PrivateFile(log_file(environ))]
    handlers[0].setFormatter(Redacting(environ, "%(asctime)s %(process)d %(name)s %(levelname)s %(message)s"))
    if verbose:
        handlers.append(logging.StreamHandler())
        handlers[1].setFormatter(Redacting(environ, "%(message)s"))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = handlers
        logger.propagate = False


class PrivateFile(logging.Handler):
    """Appends to a file of mode 0600 that is made with its first record. What cannot be written is dropped."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        self.path = path

    def emit(self, record: logging.LogRecord) -> None:
        try:
            make_private(self.path.parent)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(self.format(record) + "\n")
        except OSError:
            return


class Redacting(logging.Formatter):
    """Shows a record without secrets. What it needs is looked up with the first record: most runs have none."""

    def __init__(self, environ: Mapping[str, str], form: str) -> None:
        super().__init__(form)
        self._environ = environ

    def format(self, record: logging.LogRecord) -> str:
        from coding_agent.own_environment import secrets_in
        from lemon_ai import redact

        return redact(super().format(record), secrets_in(self._environ))
