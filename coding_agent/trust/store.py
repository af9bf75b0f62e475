"""Edge. What the person has said about projects: one private file in their folder for state, outside of any project.

A file that others could write, that is a link, or that lies in the project it speaks of counts for nothing: whoever can
put words there could trust themselves.
"""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import field

from coding_agent.errors import BadUsage
from coding_agent.private_files import replace_file
from lemon_otp import frozen, make_private

BYTES_MAX: Final = 16 * 1024 * 1024
LOCK_TIMEOUT_S: Final = 10.0


@frozen
class Decision:
    """What the person said about a project.

    Attributes:
        trusted: Yes or no.
        files: A digest of each file they were asked about.
        decided_ms: When, in Unix milliseconds.
    """

    trusted: bool
    files: Mapping[str, str] = field(factory=dict)
    decided_ms: int = 0


@frozen
class TrustStore:
    """The file with all decisions."""

    path: Path

    def counts_for(self, project: Path) -> bool:
        """Does it lie outside of the project, out of reach of whoever works there?"""
        return not Path(os.path.realpath(self.path)).is_relative_to(os.path.realpath(project))

    def read(self) -> dict[str, Decision]:
        """Every decision; nothing when there is no file, or one that counts for nothing.

        Raises:
            BadUsage: The file is there and cannot be read; the text says which line. Nothing was changed.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise BadUsage(f"{self.path} cannot be read: {error.strerror}; move it away") from error
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            if status.st_uid != os.geteuid() or status.st_mode & 0o022 or not stat.S_ISREG(status.st_mode):
                raise BadUsage(f"{self.path} could have been written by others, so no project is trusted; move it away")
            raw = file.read(BYTES_MAX + 1)
        try:
            if len(raw) > BYTES_MAX:
                raise ValueError("it is too large")
            return dict(_decisions(json.loads(raw)))
        except (ValueError, RecursionError, LookupError, TypeError) as error:
            raise BadUsage(f"{self.path} is damaged ({error}), so no project is trusted; move it away") from error

    def write(self, project: Path, decision: Decision | None) -> None:
        """Keep a decision, or with None forget it. Other projects' stay as they are.

        Raises:
            BadUsage: The file cannot be read, written or locked. Nothing was changed.
        """
        from filelock import FileLock, Timeout

        try:
            make_private(self.path.parent)
            with FileLock(f"{self.path}.lock", timeout=LOCK_TIMEOUT_S, mode=0o600):
                kept = self.read()
                kept.pop(str(project), None)
                if decision is not None:
                    kept[str(project)] = decision
                self._replace(kept)
        except Timeout as error:
            raise BadUsage(f"{self.path} is in use by another program; try again") from error
        except OSError as error:
            raise BadUsage(f"{self.path} cannot be written: {error.strerror or error}") from error

    def _replace(self, kept: Mapping[str, Decision]) -> None:
        projects = {
            name: {"trusted": each.trusted, "files": dict(each.files), "decidedMs": each.decided_ms}
            for name, each in sorted(kept.items())
        }
        replace_file(self.path, json.dumps({"version": 1, "projects": projects}, indent=1).encode(), locked=True)


def _decisions(document: Any) -> Any:
    for project, each in document["projects"].items():
        files = each.get("files", {})
        if not isinstance(each["trusted"], bool) or not all(isinstance(digest, str) for digest in files.values()):
            raise ValueError(f"the decision about {project} cannot be understood")
        yield project, Decision(each["trusted"], dict(files), int(each.get("decidedMs", 0)))
