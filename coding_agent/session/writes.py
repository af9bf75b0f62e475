"""Values and a queue. What can be asked to be stored, and the order in which it is.

While a run is going on, everything the run itself does not say waits here and is stored at the end of the turn, first
in, first out (seed "Data Flow", Pending Writes; checklist PERS-5, -6).
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

from attrs import define, field, frozen

from coding_agent.errors import SessionError
from lemon_agent import AgentMessage


class EntryStore(Protocol):
    """The part of a session's storage that writes entries; each call returns the id of the entry it appended."""

    def append_message(self, message: Any) -> str: ...
    def append_model_change(self, provider: str, model_id: str) -> str: ...
    def append_thinking_level_change(self, level: str) -> str: ...
    def append_active_tools_change(self, names: tuple[str, ...]) -> str: ...
    def append_custom(self, custom_type: str, data: Any) -> str: ...
    def append_custom_message(self, custom_type: str, content: Any, display: bool, details: Any) -> str: ...
    def append_label(self, target_id: str, label: str | None) -> str: ...
    def append_session_name(self, name: str) -> str: ...


@frozen
class WriteMessage:
    """A message of the conversation."""

    message: AgentMessage

    def apply(self, store: EntryStore) -> str:
        return store.append_message(self.message)


@frozen
class WriteModelChange:
    """Another model answers from here on."""

    provider: str
    model_id: str

    def apply(self, store: EntryStore) -> str:
        return store.append_model_change(self.provider, self.model_id)


@frozen
class WriteThinkingLevelChange:
    """Another thinking level holds from here on."""

    level: str

    def apply(self, store: EntryStore) -> str:
        return store.append_thinking_level_change(self.level)


@frozen
class WriteActiveToolsChange:
    """Another set of tools is active from here on."""

    names: tuple[str, ...]

    def apply(self, store: EntryStore) -> str:
        return store.append_active_tools_change(self.names)


@frozen
class WriteCustom:
    """State of an extension's; the model never sees it."""

    custom_type: str
    data: Any = None

    def apply(self, store: EntryStore) -> str:
        return store.append_custom(self.custom_type, self.data)


@frozen
class WriteCustomMessage:
    """A message of an extension's; the model sees it, a person only when `display` is set."""

    custom_type: str
    content: Any
    display: bool = True
    details: Any = None

    def apply(self, store: EntryStore) -> str:
        return store.append_custom_message(self.custom_type, self.content, self.display, self.details)


@frozen
class WriteLabel:
    """A bookmark on an entry; None takes it away."""

    target_id: str
    label: str | None

    def apply(self, store: EntryStore) -> str:
        return store.append_label(self.target_id, self.label)


@frozen
class WriteSessionName:
    """What a person calls this session."""

    name: str

    def apply(self, store: EntryStore) -> str:
        return store.append_session_name(self.name)


Write: TypeAlias = (
    WriteMessage
    | WriteModelChange
    | WriteThinkingLevelChange
    | WriteActiveToolsChange
    | WriteCustom
    | WriteCustomMessage
    | WriteLabel
    | WriteSessionName
)
"""Whatever a session may be asked to store."""


@frozen
class Flushed:
    """What became of the writes that waited: ids of the entries, and what the storage said of those it could not write.

    The storage keeps what did not reach the disk, in order, and tries again with the next entry, so nothing is lost.
    """

    entry_ids: tuple[str, ...] = ()
    failures: tuple[SessionError, ...] = ()


@define
class PendingWrites:
    """First in, first out, and nothing is forgotten."""

    _queue: deque[Write] = field(factory=deque, alias="queue")

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Write]:
        return iter(self._queue)

    def add(self, write: Write) -> None:
        """Store it later, after everything added before."""
        self._queue.append(write)

    def flush(self, store: EntryStore) -> Flushed:
        """Store everything, oldest first. What `store` refuses is reported and does not hold up the rest."""
        entry_ids: list[str] = []
        failures: list[SessionError] = []
        while self._queue:
            try:
                entry_ids.append(self._queue[0].apply(store))
            except SessionError as error:
                failures.append(error)
            self._queue.popleft()
        return Flushed(tuple(entry_ids), tuple(failures))
