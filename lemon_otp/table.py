"""Edge. Keyed tables that belong to a process and may outlive it through an heir.

A table is reached from any process by its name or its handle, without a message. It ends with its owner, before
anybody is told of the owner's death, unless it names a live heir: then the heir owns it and is sent a
`TableTransfer`.

Owns: one `Rows` a table, in the runtime
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

from lemon_otp.errors import BadArgument
from lemon_otp.machine import Process
from lemon_otp.pid import ALIVE, Pid
from lemon_otp.process import current_runtime, living_process
from lemon_otp.scheduler import CURRENT, Scheduler
from lemon_otp.table_rows import TABLE_TYPES, Row, Rows, TableType
from lemon_otp.telling import describe

Access: TypeAlias = Literal["public", "protected", "private"]
"""Everybody reads and writes; everybody reads and the owner writes; only the owner does either."""
ACCESSES: Final = ("public", "protected", "private")

_STORE: Final = "tables"


@frozen
class TableTransfer:
    """Message to a process that has become the owner of a table.

    Attributes:
        table: The table.
        former_owner: Who gave it away or died.
        data: What `give_away` or `set_heir` was given for the new owner.
    """

    table: Table
    former_owner: Pid
    data: Any


@frozen
class TableInfo:
    """How a table stands."""

    name: str
    type: TableType
    access: Access
    owner: Pid
    heir: Pid | None
    size: int


class Table:
    """One table, made by `new`. Rows are tuples; the first element is the key.

    Every method but `info` raises `BadArgument` when the table is gone, the caller may not do this, or the row is no
    such tuple; nothing has changed then.
    """

    __slots__ = ("_access", "_heir", "_heir_data", "_owner", "_rows", "_tables", "name")

    def __init__(self, name: str, table_type: TableType, access: Access, owner: Process) -> None:
        self.name = name
        self._access: Access = access
        self._owner = owner
        self._heir: Process | None = None
        self._heir_data: Any = None
        self._rows: Rows | None = Rows(table_type)
        self._tables = tables_of(owner.runtime)

    @staticmethod
    def new(
        name: str,
        type: TableType = "set",  # noqa: A002 - the word of the field it sets
        access: Access = "protected",
        *,
        heir: Pid | None = None,
        heir_data: Any = None,
    ) -> Table:
        """An empty table that the calling process owns.

        Raises:
            BadArgument: The name is taken, or type or access is none of theirs.
            NotAProcess: Only a process can own a table.
        """
        owner = living_process()
        if type not in TABLE_TYPES:
            raise BadArgument(f"a table is one of {', '.join(TABLE_TYPES)}, not {type!r}")
        if access not in ACCESSES:
            raise BadArgument(f"access is one of {', '.join(ACCESSES)}, not {access!r}")
        table = Table(name, type, access, owner)
        if name in table._tables:
            raise BadArgument(f"there is a table named {name!r} already")
        table.set_heir(heir, heir_data)
        table._tables[name] = table
        table._watch(owner)
        return table

    @staticmethod
    def whereis(name: str) -> Table | None:
        """The table of this name in the caller's runtime, or None."""
        return tables_of(current_runtime()).get(name)

    @staticmethod
    def named(name: str) -> Table:
        """The table of this name.

        Raises:
            BadArgument: There is none.
        """
        table = Table.whereis(name)
        if table is None:
            raise BadArgument(f"there is no table named {name!r}")
        return table

    # Reading.

    def lookup(self, key: Any) -> list[Row]:
        """The rows under `key`, oldest first."""
        return self._readable().lookup(key)

    def member(self, key: Any) -> bool:
        """Whether there is a row under `key`."""
        return key in self._readable()

    def rows(self) -> list[Row]:
        """Every row; in key order for an ordered set."""
        return list(self._readable())

    def first(self, default: Any = None) -> Any:
        """The first key; `default` when the table is empty."""
        return self._readable().first(default)

    def next(self, key: Any, default: Any = None) -> Any:
        """The key after `key`; `default` when it is the last. Quick only for ordered sets."""
        try:
            return self._readable().after(key, default)
        except KeyError:
            raise BadArgument(f"table {self.name!r} has no key {describe(key)}") from None

    def __len__(self) -> int:
        return 0 if self._rows is None else self._rows.size

    def __bool__(self) -> bool:
        return True

    # Writing.

    def insert(self, rows: Row | Iterable[Row]) -> None:
        """Insert one row or several; those of a set replace what was under their key.

        As on the BEAM, a bag takes the rows of one call last first.
        """
        table = self._writable()
        if type(rows) is tuple and rows and type(rows[0]) is int:
            table.insert(rows)  # one row under a plain key: what most insert, and nothing to check about it
        else:
            table.insert_all(self._checked(rows))

    def insert_new(self, rows: Row | Iterable[Row]) -> bool:
        """Insert all rows, or none and return False when one of their keys is there already."""
        table = self._writable()
        checked = self._checked(rows)
        if any(row[0] in table for row in checked):
            return False
        table.insert_all(checked)
        return True

    def take(self, key: Any) -> list[Row]:
        """Remove and return the rows under `key`."""
        return self._writable().take(key)

    def delete(self, key: Any) -> None:
        """Remove the rows under `key`, if there are any."""
        self._writable().take(key)

    def delete_row(self, row: Row) -> None:
        """Remove every row equal to `row`."""
        self._writable().remove_row(row)

    def clear(self) -> None:
        """Remove every row."""
        self._writable().clear()

    def update_counter(self, key: Any, by: int = 1, *, position: int = 1, default: Row | None = None) -> int:
        """Add `by` to a number in the one row under `key` and return the new number.

        Args:
            key: The key of a set's row.
            by: What to add.
            position: Which element of the row the number is; the key is element 0.
            default: The row to begin with when there is none.

        Raises:
            BadArgument: There is no such row and no default, or that element is no number.
        """
        table = self._writable()
        found = table.lookup(key)
        row = found[0] if found else default
        if table.type not in ("set", "ordered_set") or row is None:
            raise BadArgument(f"table {self.name!r} has no counter under {describe(key)}")
        if not 1 <= position < len(row) or isinstance(row[position], bool) or not isinstance(row[position], int):
            raise BadArgument(f"element {position} of {describe(row)} is no number that can be counted up")
        if isinstance(by, bool) or not isinstance(by, int):
            raise BadArgument(f"a counter goes up by a whole number, not by {describe(by)}")
        number: int = row[position] + by
        table.insert((key, *row[1:position], number, *row[position + 1 :]))
        return number

    # Owner and heir.

    def give_away(self, to: Pid, data: Any = None) -> None:
        """Make another process the owner; it is sent a `TableTransfer` with `data`. The heir stays.

        Raises:
            BadArgument: The caller is not the owner, or `to` is dead or the owner itself.
        """
        self._owned()
        if not isinstance(to, Process) or not to.alive or to is self._owner:
            raise BadArgument(f"table {self.name!r} cannot be given to {describe(to)}")
        self._pass_on(to, data)

    def set_heir(self, heir: Pid | None, data: Any = None) -> None:
        """Name who gets the table, with `data`, when the owner dies; None, or a dead process, for nobody.

        Raises:
            BadArgument: The caller is not the owner.
        """
        self._owned()
        if heir is not None and not isinstance(heir, Process):
            raise BadArgument(f"an heir is a process, not {describe(heir)}")
        if heir is not None and heir.exit_reason is not ALIVE:
            heir = None
        self._heir, self._heir_data = heir, data if heir is not None else None

    def drop(self) -> None:
        """Delete the table itself. The heir gets nothing.

        Raises:
            BadArgument: It is gone, or the caller may not write to it.
        """
        self._writable()
        self._vanish()

    def info(self) -> TableInfo | None:
        """How the table stands; None when it is gone. Anybody may ask."""
        rows = self._rows
        if rows is None:
            return None
        return TableInfo(self.name, rows.type, self._access, self._owner, self._heir, rows.size)

    def __repr__(self) -> str:
        return f"<Table {self.name!r} {'deleted' if self._rows is None else f'of {len(self)} rows'}>"

    # Below: who may do what, and what a death does.

    def _readable(self) -> Rows:
        rows = self._rows
        if rows is None or (self._access == "private" and not self._is_owner()):
            raise BadArgument(self._refusal("read"))
        return rows

    def _writable(self) -> Rows:
        rows = self._rows
        if rows is None or (self._access != "public" and not self._is_owner()):
            raise BadArgument(self._refusal("write"))
        return rows

    def _owned(self) -> None:
        if self._rows is None or not self._is_owner():
            raise BadArgument(self._refusal("give away"))

    def _is_owner(self) -> bool:
        return CURRENT.get(None) is self._owner

    def _refusal(self, what: str) -> str:
        if self._rows is None:
            return f"table {self.name!r} was deleted"
        return f"table {self.name!r} is {self._access}: only its owner {self._owner!r} may {what}"

    @staticmethod
    def _checked(rows: Row | Iterable[Row]) -> list[Row]:
        listed: list[Any] = [rows] if isinstance(rows, tuple) else list(rows)
        for row in listed:
            if not isinstance(row, tuple) or not row:
                raise BadArgument(f"a row is a tuple that begins with its key, not {describe(row)}")
            try:
                hash(row[0])
            except TypeError:
                raise BadArgument(f"a key must be hashable, {describe(row[0])} is not") from None
        return listed

    def _watch(self, owner: Process) -> None:
        owned: dict[Process, dict[str, Table]] = owner.runtime.store.setdefault("tables_of", {})
        if owner not in owned:
            owned[owner] = {}
            owner.at_exit(_owner_died)
        owned[owner][self.name] = self

    def _pass_on(self, to: Process, data: Any) -> None:
        former = self._owner
        former.runtime.store["tables_of"].get(former, {}).pop(self.name, None)
        self._owner = to
        self._watch(to)
        to.deliver(TableTransfer(self, former, data))

    def _vanish(self) -> None:
        self._rows = self._heir = self._heir_data = None
        self._tables.pop(self.name, None)
        self._owner.runtime.store["tables_of"].get(self._owner, {}).pop(self.name, None)

    def _owner_ended(self) -> None:
        heir = self._heir
        if heir is None or heir.exit_reason is not ALIVE:
            self._vanish()
        else:
            self._pass_on(heir, self._heir_data)


def tables_of(runtime: Scheduler) -> dict[str, Table]:
    """The tables of a runtime by name."""
    tables: dict[str, Table] = runtime.store.setdefault(_STORE, {})
    return tables


def _owner_died(owner: Process, _reason: Any) -> None:
    for table in list(owner.runtime.store["tables_of"].pop(owner, {}).values()):
        table._owner_ended()
