"""Edge. The checkpoints that a session can go back over: its own, and those of the conversation it came out of.

A fork shares the beginning of another session, so what was changed before it was forked counts, and what the other did
afterwards does not. A subagent's changes stand in its parent's store, in one order with those of everybody who worked
there; of these, those it made itself count for it, and for its parent all do.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from attrs import evolve, frozen

from coding_agent.checkpoints.records import Checkpoint
from coding_agent.checkpoints.store import CheckpointStore, folder_for
from coding_agent.storage.header import SessionHeader, header_from_json
from coding_agent.storage.stamps import parse_iso

ANCESTORS_MAX: Final = 50
HEADER_BYTES_MAX: Final = 1 << 20


@frozen
class Inherited:
    """A part of another session's checkpoints.

    Attributes:
        until_ms: Only those up to this moment; None for all.
        session: Only those of this session's calls; None for all.
    """

    store: CheckpointStore
    until_ms: int | None = None
    session: str | None = None

    def all(self) -> list[Checkpoint]:
        """Those that count, oldest first."""
        return [each for each in self.store.all() if self._counts(each)]

    def _counts(self, one: Checkpoint) -> bool:
        return (self.until_ms is None or one.at_ms <= self.until_ms) and self.session in (None, one.session)


class CheckpointHistory(CheckpointStore):
    """A session's own store, which looks further back as well. What is written goes into the session's own."""

    def __init__(self, folder: Path, earlier: Iterable[Inherited]) -> None:
        super().__init__(folder)
        self._earlier = tuple(earlier)

    def get(self, sha: str) -> bytes:
        """A content, wherever it is kept; see `CheckpointStore.get`."""
        holder = next((each.store for each in self._earlier if each.store.has(sha)), None)
        return super().get(sha) if holder is None or super().has(sha) else holder.get(sha)

    def has(self, sha: str) -> bool:
        """Is the content kept anywhere?"""
        return super().has(sha) or any(each.store.has(sha) for each in self._earlier)

    def all(self) -> list[Checkpoint]:
        """All that count, oldest first, numbered in one order."""
        found: list[Checkpoint] = []
        settled = 0
        for place, part in enumerate((*(each.all() for each in self._earlier), super().all())):
            found += [
                evolve(
                    one,
                    id=f"{place:02}-{one.id}",
                    settled=None if one.settled is None else one.settled + settled,
                )
                for one in part
            ]
            settled = max((one.settled or 0 for one in found), default=0)
        return found

    def pruned_until_ms(self) -> int:
        """Checkpoints up to this moment may be missing; 0 when none are."""
        earlier = (min(each.store.pruned_until_ms(), each.until_ms or 1 << 62) for each in self._earlier)
        return max(super().pruned_until_ms(), *earlier, 0)


def history_of(session_file: Path) -> CheckpointHistory:
    """What the session in a file can go back over; a file that cannot be read any more contributes nothing."""
    earlier: list[Inherited] = []
    file, until_ms, seen = session_file, None, {session_file}
    while (header := header_of(file)) is not None and header.parent_session is not None:
        parent = Path(header.parent_session)
        if parent in seen or len(seen) > ANCESTORS_MAX:
            break
        seen.add(parent)
        if is_subagent(file, parent):
            earlier.append(Inherited(CheckpointStore(folder_for(root_of(parent))), until_ms, file.stem))
            break
        began = parse_iso(header.timestamp)
        until_ms = began if until_ms is None or (began is not None and began < until_ms) else until_ms
        earlier.append(Inherited(CheckpointStore(folder_for(parent)), until_ms))
        file = parent
    return CheckpointHistory(folder_for(session_file), reversed(earlier))


def is_subagent(file: Path, parent: Path) -> bool:
    """Does a session's file lie where its parent's subagents do?"""
    return parent.with_suffix("") in file.parents


def root_of(file: Path) -> Path:
    """The session whose store has the checkpoints of a session: itself, or whoever stands above all subagents."""
    for _floor in range(ANCESTORS_MAX):
        header = header_of(file)
        if header is None or header.parent_session is None or not is_subagent(file, Path(header.parent_session)):
            break
        file = Path(header.parent_session)
    return file


def header_of(file: Path) -> SessionHeader | None:
    """The first line of a session file; None when there is none."""
    try:
        with file.open("rb") as lines:
            data = json.loads(lines.readline(HEADER_BYTES_MAX))
    except (OSError, ValueError):
        return None
    return header_from_json(data) if isinstance(data, dict) else None
