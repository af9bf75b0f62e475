"""Edge. Where checkpoints are kept: a private folder beside the session file, contents by their SHA-256.

    SESSION/checkpoints/blobs/ab/abcd...     contents, each once
    SESSION/checkpoints/log/00000001.json    one file a checkpoint
    SESSION/checkpoints/pruned               until when (Unix ms) old ones were removed

Everything is written to a new file and renamed, mode 0600; what a crash leaves behind is a stray temporary file.
Blocking, so for worker threads; two of them may use a store at once.
"""

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from coding_agent.checkpoints.records import Checkpoint, Kind, checkpoint_from_json
from coding_agent.private_files import replace_file
from lemon_otp import make_private, wall_ms

STORED_BYTES_MAX: Final = 1 << 30
"""Beyond this the oldest checkpoints of a session go."""
CHECKPOINTS_MAX: Final = 5_000
MANIFEST_BYTES_MAX: Final = 16 * 1024 * 1024


class CheckpointStore:
    """The checkpoints of one session.

    Attributes:
        folder: Made with the first checkpoint.
    """

    def __init__(self, folder: Path, *, bytes_max: int = STORED_BYTES_MAX) -> None:
        self.folder = folder
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._last: int | None = None
        self._settled = 0
        self._stored = 0

    @property
    def blobs(self) -> Path:
        return self.folder / "blobs"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    # Contents.

    def put(self, data: bytes) -> str:
        """Keep a content; its hash."""
        sha = hashlib.sha256(data).hexdigest()
        path = self._blob(sha)
        if not path.exists():
            make_private(path.parent)
            replace_file(path, data, durable=False)
            with self._lock:
                self._stored += len(data)
        return sha

    def get(self, sha: str) -> bytes:
        """A content.

        Raises:
            OSError: It is not there.
            ValueError: It is damaged.
        """
        data = self._blob(sha).read_bytes()
        if hashlib.sha256(data).hexdigest() != sha:
            raise ValueError(f"the stored content {sha[:12]} is damaged")
        return data

    def has(self, sha: str) -> bool:
        """Is the content there?"""
        return self._blob(sha).exists()

    def _blob(self, sha: str) -> Path:
        return self.blobs / sha[:2] / sha

    # Checkpoints.

    def begin(self, kind: Kind, tool_call_id: str, tool: str, session: str = "") -> Checkpoint:
        """A new one, with a number of its own; nothing is written yet."""
        with self._lock:
            if self._last is None:
                self._resume()
            self._last = (self._last or 0) + 1
            if (self.log / f"{self._last:08d}.json").exists():  # another one writes here too, such as `rewind`
                self._resume()
                self._last = (self._last or 0) + 1
            number = self._last
        return Checkpoint(f"c{number:08d}", kind, tool_call_id, tool, wall_ms(), session=session)

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write it down, or anew."""
        make_private(self.log)
        path = self._path(checkpoint)
        replace_file(
            path, json.dumps(checkpoint.to_json(), ensure_ascii=False).encode(errors="surrogatepass"), durable=False
        )
        return path

    def next_settled(self) -> int:
        """The next number in the order in which calls end."""
        with self._lock:
            self._settled += 1
            return self._settled

    def drop(self, checkpoint: Checkpoint) -> None:
        """Forget one that turned out to have changed nothing."""
        with suppress(FileNotFoundError):
            self._path(checkpoint).unlink()

    def all(self) -> list[Checkpoint]:
        """All there are, oldest first; damaged ones are passed over."""
        return list(self._read())

    def pruned_until_ms(self) -> int:
        """Checkpoints up to this moment may be missing; 0 when none are."""
        try:
            return int((self.folder / "pruned").read_text())
        except (OSError, ValueError):
            return 0

    def _path(self, checkpoint: Checkpoint) -> Path:
        return self.log / f"{checkpoint.id[1:]}.json"

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self.log) if name.endswith(".json") and name[:-5].isdigit())
        except FileNotFoundError:
            return []

    def _read(self) -> Iterator[Checkpoint]:
        for name in self._names():
            with suppress(OSError, ValueError):
                data = (self.log / name).read_bytes()
                if len(data) <= MANIFEST_BYTES_MAX:
                    yield checkpoint_from_json(json.loads(data))

    def _resume(self) -> None:
        """Go on counting where an earlier process stopped."""
        names = self._names()
        self._last = int(names[-1][:-5]) if names else 0
        if names:
            self._settled = max((one.settled or 0 for one in self._read()), default=0)
            self._stored = sum(path.stat().st_size for path in self.blobs.glob("*/*"))

    # Bounds.

    def prune(self) -> int:
        """Remove the oldest checkpoints while there are too many or their contents take too much room; how many."""
        names = self._names() if self._last and self._last % 256 == 0 else []
        if self._stored <= self._bytes_max and len(names) <= CHECKPOINTS_MAX:
            return 0
        with self._lock:
            kept = list(self._read())
            gone: list[Checkpoint] = []
            while kept and (len(kept) > CHECKPOINTS_MAX or self._size(kept) > self._bytes_max):
                step = max(1, len(kept) // 8)
                gone += kept[:step]
                kept = kept[step:]
            if gone:
                replace_file(self.folder / "pruned", str(gone[-1].at_ms).encode(), durable=False)
            for checkpoint in gone:
                self.drop(checkpoint)
            self._sweep(kept)
            self._stored = self._size(kept)
        return len(gone)

    @staticmethod
    def _size(kept: list[Checkpoint]) -> int:
        found = {one.before.sha: one.before.size for each in kept for one in each.files if one.before is not None}
        return sum(size for sha, size in found.items() if sha is not None)

    def _sweep(self, kept: list[Checkpoint]) -> None:
        used = {one.before.sha for each in kept for one in each.files if one.before is not None}
        for path in self.blobs.glob("*/*"):
            if path.name not in used:
                path.unlink(missing_ok=True)


def store_for(session_file: Path) -> CheckpointStore:
    """The checkpoints of the session in a file."""
    return CheckpointStore(folder_for(session_file))


def folder_for(session_file: Path) -> Path:
    """Where the checkpoints of the session in a file are kept."""
    return session_file.with_suffix("") / "checkpoints"
