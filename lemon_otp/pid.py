"""Value. How a process is named: by its pid, by a registered name, or through a registry."""

from __future__ import annotations

from typing import Any, Final, NoReturn, TypeAlias

from attrs import frozen


class _Alive:
    """The type of `ALIVE`: the process has no exit reason yet."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ALIVE"

    def __bool__(self) -> bool:
        return False


ALIVE: Final = _Alive()


class Pid:
    """An opaque handle of one process, alive or dead; compared by identity, never reused.

    Attributes:
        id: Its number in its runtime.
        label: What it is called in logs, when somebody has said so.
        exit_reason: Why it ended; `ALIVE` while it runs.
    """

    __slots__ = ("__weakref__", "exit_reason", "id", "label")

    def __init__(self, number: int, label: str | None) -> None:
        self.id = number
        self.label = label
        self.exit_reason: Any = ALIVE

    @property
    def alive(self) -> bool:
        """Whether the process has not ended; false at once when it was killed."""
        return self.exit_reason is ALIVE

    def at_rest(self) -> bool:
        """Whether this is a server with nothing to do, whose next turn may be taken for it."""
        return False

    @property
    def name(self) -> str | None:
        """The locally registered name, if there is one."""
        return None

    def __repr__(self) -> str:
        return f"<pid {self.id} {self.name or self.label or 'process'}>"

    def __copy__(self) -> Pid:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Pid:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a pid means nothing outside its runtime and cannot be pickled")


@frozen
class Via:
    """The process registered under `key` in the registry named `registry`.

    `value` is kept beside the registration when the Via is used to register.
    """

    registry: str
    key: Any
    value: Any = None


Name: TypeAlias = str | Via
Address: TypeAlias = Pid | str | Via


class MonitorRef:
    """One monitor; the `ref` of the Down that it leads to."""

    __slots__ = ("active", "owner", "shown", "target")

    def __init__(self, owner: Any, target: Any, shown: Any) -> None:
        self.owner = owner
        self.target = target
        self.shown = shown
        self.active = True

    def __repr__(self) -> str:
        return f"<monitor of {self.shown!r}>"

    def __copy__(self) -> MonitorRef:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> MonitorRef:
        return self

    def target_down(self, reason: Any) -> None:
        """The process that is watched has ended."""
        self.active = False
        self.owner.monitor_fired(self, reason)
