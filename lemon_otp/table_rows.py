"""Pure. The rows of a keyed table: set, ordered_set, bag and duplicate_bag."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Literal, TypeAlias

from lemon_otp.pid import Pid

Row: TypeAlias = tuple[Any, ...]
"""A tuple whose first element is the key, any hashable value."""
TableType: TypeAlias = Literal["set", "ordered_set", "bag", "duplicate_bag"]
TABLE_TYPES: Final = ("set", "ordered_set", "bag", "duplicate_bag")


def term_order(term: Any) -> tuple[Any, ...]:
    """A sort key that puts any two keys in an order, that of the BEAM where it has one.

    Numbers, texts, None, pids by age, other things, tuples and mappings by size and then part by part, lists part by
    part, bytes.
    """
    if isinstance(term, int | float):
        return (0, term)
    if isinstance(term, str):
        return (1, term)
    if term is None:
        return (2,)
    if isinstance(term, Pid):
        return (3, term.id)
    if isinstance(term, tuple):
        return (5, len(term), tuple(map(term_order, term)))
    if isinstance(term, Mapping):
        keys = sorted(term, key=term_order)
        return (6, len(keys), tuple(map(term_order, keys)), tuple(term_order(term[key]) for key in keys))
    if isinstance(term, list):
        return (7, tuple(map(term_order, term)))
    if isinstance(term, bytes):
        return (8, term)
    return (4, type(term).__qualname__, repr(term))


class Rows:
    """Rows under keys; one row a key for `set` and `ordered_set`, any number for the bags."""

    __slots__ = ("_by_key", "_sorted_keys", "size", "type")

    def __init__(self, table_type: TableType) -> None:
        self.type = table_type
        self.size = 0
        self._by_key: dict[Any, list[Row]] = {}
        self._sorted_keys: list[Any] | None = [] if table_type == "ordered_set" else None

    def insert(self, row: Row) -> None:
        """Add the row; a set forgets the row that had this key, a bag keeps no row twice."""
        key = row[0]
        rows = self._by_key.get(key)
        if rows is None:
            self._by_key[key] = [row]
            self.size += 1
            if self._sorted_keys is not None:
                insort(self._sorted_keys, key, key=term_order)
        elif self.type in ("set", "ordered_set"):
            rows[0] = row
        elif self.type == "duplicate_bag" or row not in rows:
            rows.append(row)
            self.size += 1

    def insert_all(self, rows: Sequence[Row]) -> None:
        """Add the rows of one call: a bag takes the last one first, the others take them as they stand."""
        for row in reversed(rows) if self.type == "bag" else rows:
            self.insert(row)

    def __contains__(self, key: Any) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[Row]:
        """Every row; in key order for `ordered_set`."""
        if self._sorted_keys is not None:
            return iter([self._by_key[key][0] for key in self._sorted_keys])
        return chain.from_iterable(list(self._by_key.values()))

    def lookup(self, key: Any) -> list[Row]:
        """The rows of a key, oldest first."""
        return list(self._by_key.get(key, ()))

    def take(self, key: Any) -> list[Row]:
        """Remove and return the rows of a key."""
        rows = self._by_key.pop(key, [])
        self.size -= len(rows)
        if rows and self._sorted_keys is not None:
            del self._sorted_keys[bisect_left(self._sorted_keys, term_order(key), key=term_order)]
        return rows

    def remove_row(self, row: Row) -> None:
        """Remove every row equal to `row`."""
        kept = [other for other in self._by_key.get(row[0], ()) if other != row]
        self.take(row[0])
        for other in kept:
            self.insert(other)

    def clear(self) -> None:
        """Remove every row."""
        self.__init__(self.type)  # type: ignore[misc]

    def keys(self) -> Iterable[Any]:
        """The keys; in order for `ordered_set`."""
        return self._by_key.keys() if self._sorted_keys is None else self._sorted_keys

    def first(self, default: Any = None) -> Any:
        """The first key; `default` when there is none."""
        return next(iter(self.keys()), default)

    def after(self, key: Any, default: Any = None) -> Any:
        """The key after `key`; `default` when it is the last.

        That is the next greater key of an ordered set, whether or not `key` is there. Otherwise it is the next one in
        the order of iteration, found by looking through the keys.

        Raises:
            KeyError: The keys are not ordered and `key` is not there.
        """
        if self._sorted_keys is not None:
            index = bisect_right(self._sorted_keys, term_order(key), key=term_order)
            return self._sorted_keys[index] if index < len(self._sorted_keys) else default
        if key not in self._by_key:
            raise KeyError(key)
        keys = iter(self._by_key)
        for candidate in keys:
            if candidate == key:
                break
        return next(keys, default)
