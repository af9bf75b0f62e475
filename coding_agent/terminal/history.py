"""Edge. What was typed before, in a file that only its owner can read."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from prompt_toolkit.history import History

from coding_agent.private_files import appending

ENTRIES_MAX: Final = 1_000
ENTRY_CHARACTERS_MAX: Final = 20_000
FILE_BYTES_MAX: Final = 4_000_000


class PrivateHistory(History):
    """One JSON string a line, so that an entry may have any number of lines. Without a file it is only remembered."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """The entries, newest first; a line that cannot be read is passed over."""
        if self._path is None:
            return []
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - FILE_BYTES_MAX))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return []
        entries = [entry for line in lines if (entry := _read(line)) is not None]
        return list(reversed(entries[-ENTRIES_MAX:]))

    def store_string(self, string: str) -> None:
        """Append an entry. Where it cannot be written it is remembered for as long as the program runs."""
        if self._path is None or len(string) > ENTRY_CHARACTERS_MAX:
            return
        try:
            with appending(self._path) as file:
                os.fchmod(file.fileno(), 0o600)
                file.write((json.dumps(string) + "\n").encode())
        except OSError:
            return


def _read(line: str) -> str | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, str) else None
