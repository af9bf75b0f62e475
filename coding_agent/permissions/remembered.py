"""Edge. Rules that somebody chose to keep ("always allow"), a private file for each working folder.

A file that others may write, that lies in the workspace itself, or that was made for another folder counts for nothing:
whoever can put rules there could allow themselves anything.
"""

import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from coding_agent.permissions.rules import BadRule, Rule, parse_rule
from coding_agent.private_files import replace_file
from lemon_otp import make_private

SIZE_MAX: Final = 256 * 1024


class RememberedRules:
    """The rules kept for one working folder."""

    def __init__(self, file: Path | None, cwd: Path) -> None:
        """Args:
        file: Where; None keeps them in memory only.
        cwd: The working folder they hold for.
        """
        self._cwd = os.path.realpath(cwd)
        inside = file is not None and os.path.realpath(file).startswith(self._cwd.rstrip("/") + "/")
        self._file = None if inside else file
        self._rules: tuple[Rule, ...] | None = None

    def rules(self) -> tuple[Rule, ...]:
        """All of them; the file is read with the first call."""
        if self._rules is None:
            self._rules = self._read()
        return self._rules

    def add(self, rules: Iterable[Rule]) -> bool:
        """Keep these too; False when they hold for this program only, because they could not be written."""
        self._rules = tuple(dict.fromkeys((*self._read(), *self.rules(), *rules)))
        if self._file is None:
            return False
        try:
            self._write(self._file)
        except OSError:
            return False
        return True

    def _read(self) -> tuple[Rule, ...]:
        if self._file is None:
            return ()
        try:
            fd = os.open(self._file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return ()
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            own = status.st_uid == os.geteuid() and not status.st_mode & 0o022
            if not (own and stat.S_ISREG(status.st_mode) and status.st_size <= SIZE_MAX):
                return ()
            data = file.read(SIZE_MAX)
        return tuple(self._parsed(data))

    def _parsed(self, data: bytes) -> Iterable[Rule]:
        try:
            kept = json.loads(data)
        except ValueError:
            return
        if not isinstance(kept, dict) or kept.get("cwd") != self._cwd or not isinstance(kept.get("allow"), list):
            return
        for text in kept["allow"]:
            with suppress(BadRule):
                if isinstance(text, str):
                    yield parse_rule(text, "allow")

    def _write(self, path: Path) -> None:
        make_private(path.parent)
        kept = {"cwd": self._cwd, "allow": [str(rule) for rule in self._rules or ()]}
        replace_file(path, json.dumps(kept, indent=1).encode())
