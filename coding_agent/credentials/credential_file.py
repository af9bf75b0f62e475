"""Edge. The credentials a person stored: `auth.json`, a file only its owner can read.

The shape is the one people already have: a provider's name, then `{"type": "api_key", "key": ...}` or
`{"type": "oauth", "access": ..., "refresh": ..., "expires": milliseconds, ...}`. What this program does not know stays
as it is. A change takes the file's lock, reads what is there now, and puts a whole new file in its place: a reader sees
the old or the new one, a second writer loses nothing, and whoever is killed in between leaves the old one.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import field

from coding_agent.errors import BadCredentialFile
from coding_agent.folders import folders
from coding_agent.private_files import replace_file
from lemon_ai import canonical
from lemon_otp import frozen, make_private

VARIABLE: Final = "LEMON_AUTH_FILE"
LOCK_TIMEOUT_S: Final = 10.0
_LARGEST: Final = 4 * 1024 * 1024


@frozen
class Stored:
    """One provider's entry.

    Attributes:
        provider: Its name as this package spells it.
        kind: `api_key`, `oauth`, or what another program wrote.
        data: The object as it is stored.
    """

    provider: str
    kind: str
    data: Mapping[str, Any] = field(repr=False)

    @property
    def expires_ms(self) -> int | None:
        """When the access token of an `oauth` entry ends; None where it does not say."""
        value = self.data.get("expires")
        return int(value) if isinstance(value, int | float) and value > 0 else None


def credential_path(environ: Mapping[str, str]) -> Path:
    """`LEMON_AUTH_FILE`, else `lemon/auth.json` in the user's folder for settings."""
    if given := environ.get(VARIABLE):
        return Path(given).absolute()
    return folders(environ).config / "auth.json"


@frozen
class CredentialFile:
    """The file at a path; it need not be there.

    Attributes:
        path: Where it is. A link is followed: the file it names is replaced, not the link.
    """

    path: Path

    def read(self) -> dict[str, Stored]:
        """Every entry, by the provider's name as this package spells it; a file that is not there has none.

        A file that others may read is made private first.

        Raises:
            BadCredentialFile: It cannot be read, or is no JSON object. Nothing was changed.
        """
        document = self._document()
        return {
            canonical(name): Stored(canonical(name), str(entry.get("type") or ""), entry)
            for name, entry in document.items()
            if isinstance(entry, dict)
        }

    def put(self, provider: str, entry: Mapping[str, Any]) -> None:
        """Keep this entry for a provider, in place of the one it had; the others stay as they are.

        Raises:
            BadCredentialFile: What is there cannot be read, the lock was not to be had in ten seconds, or the file
                cannot be written. It is as it was.
        """

        def change(document: dict[str, Any]) -> bool:
            names = [name for name in document if canonical(name) == canonical(provider)]
            document[names[0] if names else canonical(provider).replace("_", "-")] = dict(entry)
            for name in names[1:]:
                del document[name]
            return True

        self._change(change)

    def remove(self, provider: str) -> bool:
        """Forget a provider's entry; was there one? Raises as `put` does."""

        def change(document: dict[str, Any]) -> bool:
            names = [name for name in document if canonical(name) == canonical(provider)]
            for name in names:
                del document[name]
            return bool(names)

        return self._change(change)

    def _document(self) -> dict[str, Any]:
        try:
            text = self._text()
            document = json.loads(text) if text.strip() else {}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise BadCredentialFile(self.path, f"cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError):  # its words must not get into a message: they may be half a key
            raise BadCredentialFile(self.path, "is no JSON; mend it or move it away") from None
        if not isinstance(document, dict):
            raise BadCredentialFile(self.path, "is no JSON object; mend it or move it away")
        return document

    def _text(self) -> str:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise BadCredentialFile(self.path, "is not a file")
            if found.st_mode & 0o077 and found.st_uid == os.getuid():
                os.fchmod(descriptor, 0o600)
            return file.read(_LARGEST).decode("utf-8")

    def _change(self, change: Callable[[dict[str, Any]], bool]) -> bool:
        with self._locked():
            document = self._document()
            if not change(document):
                return False
            try:
                text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
                replace_file(Path(os.path.realpath(self.path)), text.encode(), locked=True)
            except OSError as error:
                raise BadCredentialFile(self.path, f"cannot be written: {error.strerror or error}") from error
            return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        try:
            make_private(self.path.parent)
            lock = FileLock(f"{self.path}.lock", timeout=LOCK_TIMEOUT_S, mode=0o600)
            lock.acquire()
        except Timeout:
            raise BadCredentialFile(
                self.path, f"is being changed by another program; {self.path}.lock is held"
            ) from None
        except OSError as error:
            raise BadCredentialFile(self.path, f"cannot be locked: {error.strerror or error}") from error
        try:
            yield
        finally:
            lock.release()
