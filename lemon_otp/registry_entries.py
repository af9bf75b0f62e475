"""Pure. Who is registered under which key: the tables of a registry, without its processes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import count
from typing import Any, Final, Literal, TypeAlias

from lemon_otp.pid import Pid

KeyKind: TypeAlias = Literal["unique", "duplicate"]
"""One process a key, or any number."""
KEY_KINDS: Final = ("unique", "duplicate")
Entry: TypeAlias = tuple[Pid, Any]
"""Who registered, and the value beside the registration."""


class _Any:
    """The type of `ANY`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ANY"


ANY: Final = _Any()
"""Matches everything, wherever it stands in a pattern."""


def matches(pattern: Any, value: Any) -> bool:
    """Whether `value` equals `pattern`, where `ANY` in it stands for anything.

    Tuples and lists are looked into, and dicts, of which the pattern names the keys that matter.
    """
    if pattern is ANY:
        return True
    if isinstance(pattern, tuple | list):
        if type(value) is not type(pattern) or len(value) != len(pattern):
            return False
        return all(map(matches, pattern, value))
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(key in value and matches(pattern[key], value[key]) for key in pattern)
    return bool(pattern == value)


class UniqueEntries:
    """Registrations of which each key has one."""

    __slots__ = ("by_key", "by_process")

    kind: KeyKind = "unique"

    def __init__(self, by_key: dict[Any, Entry] | None = None) -> None:
        self.by_key: dict[Any, Entry] = {} if by_key is None else by_key
        self.by_process: dict[Pid, dict[Any, None]] = {}

    @property
    def size(self) -> int:
        """How many registrations there are."""
        return len(self.by_key)

    def add(self, key: Any, pid: Pid, value: Any) -> Pid | None:
        """Register `pid`; who holds the key already."""
        entry = (pid, value)
        holder = self.by_key.setdefault(key, entry)
        if holder is not entry:
            return holder[0]
        self.by_process.setdefault(pid, {})[key] = None
        return None

    def remove(self, key: Any, pid: Pid, pattern: Any = ANY) -> int:
        """Forget what `pid` registered under `key` with a matching value; how many registrations that were."""
        entry = self.by_key.get(key)
        if entry is None or entry[0] is not pid or not matches(pattern, entry[1]):
            return 0
        del self.by_key[key]
        keys = self.by_process[pid]
        del keys[key]
        if not keys:
            del self.by_process[pid]
        return 1

    def drop_process(self, pid: Pid) -> Collection[Any]:
        """Forget the process and everything it registered; the keys it had."""
        keys = self.by_process.pop(pid, ())
        for key in keys:
            del self.by_key[key]
        return keys

    def of_key(self, key: Any) -> list[Entry]:
        """The registrations under `key`."""
        entry = self.by_key.get(key)
        return [] if entry is None else [entry]

    def keys_of(self, pid: Pid) -> list[Any]:
        """The keys of a process."""
        return list(self.by_process.get(pid, ()))

    def all(self) -> list[tuple[Any, Pid, Any]]:
        """Every registration as key, process and value."""
        return [(key, pid, value) for key, (pid, value) in self.by_key.items()]

    def update(self, key: Any, pid: Pid, change: Callable[[Any], Any]) -> tuple[Any, Any] | None:
        """Change the value that `pid` registered under `key`: the new and the old one, or None if it did not."""
        entry = self.by_key.get(key)
        if entry is None or entry[0] is not pid:
            return None
        new = change(entry[1])
        self.by_key[key] = (pid, new)
        return new, entry[1]


class DuplicateEntries:
    """Registrations of which each key may have many; numbered, so that one can go without a search."""

    __slots__ = ("_numbers", "by_key", "by_process", "size")

    kind: KeyKind = "duplicate"

    def __init__(self) -> None:
        self.size = 0
        self.by_key: dict[Any, dict[int, Entry]] = {}
        self.by_process: dict[Pid, dict[Any, list[int]]] = {}
        self._numbers = count()

    def add(self, key: Any, pid: Pid, value: Any) -> Pid | None:
        """Register `pid`, once more if it is already."""
        number = next(self._numbers)
        self.by_key.setdefault(key, {})[number] = (pid, value)
        self.by_process.setdefault(pid, {}).setdefault(key, []).append(number)
        self.size += 1
        return None

    def remove(self, key: Any, pid: Pid, pattern: Any = ANY) -> int:
        """Forget what `pid` registered under `key` with a matching value; how many registrations that were."""
        keys = self.by_process.get(pid, {})
        numbers = keys.get(key, [])
        entries = self.by_key.get(key, {})
        going = [number for number in numbers if matches(pattern, entries[number][1])]
        for number in going:
            del entries[number]
            numbers.remove(number)
        if going and not numbers:
            del keys[key]
            if not keys:
                del self.by_process[pid]
        if going and not entries:
            del self.by_key[key]
        self.size -= len(going)
        return len(going)

    def drop_process(self, pid: Pid) -> list[Any]:
        """Forget the process and everything it registered; the keys it had, as often as it had each."""
        dropped: list[Any] = []
        for key, numbers in self.by_process.pop(pid, {}).items():
            entries = self.by_key[key]
            for number in numbers:
                del entries[number]
            if not entries:
                del self.by_key[key]
            dropped += [key] * len(numbers)
        self.size -= len(dropped)
        return dropped

    def of_key(self, key: Any) -> list[Entry]:
        """The registrations under `key`, oldest first."""
        return list(self.by_key.get(key, {}).values())

    def keys_of(self, pid: Pid) -> list[Any]:
        """The keys of a process, as often as it registered each."""
        return [key for key, numbers in self.by_process.get(pid, {}).items() for _ in numbers]

    def all(self) -> list[tuple[Any, Pid, Any]]:
        """Every registration as key, process and value."""
        return [(key, pid, value) for key, entries in self.by_key.items() for pid, value in entries.values()]
