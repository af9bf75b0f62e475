"""Ops on tables and their owners."""

from __future__ import annotations

from typing import Any, Final

from lemon_otp import Pid, Table, TableInfo
from tests.conformance.failures import bad_argument
from tests.conformance.interpreter import Fields, Place, op
from tests.conformance.normalise import Sorted

END: Final = "$end_of_table"


def _table(fields: Fields) -> Table:
    return Table.named(fields["table"])


def _info(fields: Fields) -> TableInfo | None:
    table = Table.whereis(fields["table"])
    return None if table is None else table.info()


@op("ets_new")
async def new(place: Place, fields: Fields) -> Any:
    heir = fields.get("heir")
    Table.new(
        fields["table"],
        fields.get("type", "set"),
        fields.get("access", "protected"),
        heir=place.process(heir["to"]) if heir else None,
        heir_data=place.term(heir.get("data")) if heir else None,
    )
    return fields["table"]


@op("ets_insert")
async def insert(place: Place, fields: Fields) -> Any:
    table = _table(fields)
    table.insert(_rows(place, fields))
    return True


@op("ets_insert_new")
async def insert_new(place: Place, fields: Fields) -> Any:
    table = _table(fields)
    return table.insert_new(_rows(place, fields))


def _rows(place: Place, fields: Fields) -> Any:
    rows = place.term(fields["row"])
    if not isinstance(rows, tuple | list):
        raise bad_argument()
    return rows


@op("ets_lookup")
async def lookup(place: Place, fields: Fields) -> Any:
    return _table(fields).lookup(place.term(fields["key"]))


@op("ets_member")
async def member(place: Place, fields: Fields) -> Any:
    return _table(fields).member(place.term(fields["key"]))


@op("ets_take")
async def take(place: Place, fields: Fields) -> Any:
    return _table(fields).take(place.term(fields["key"]))


@op("ets_delete")
async def delete(place: Place, fields: Fields) -> Any:
    _table(fields).delete(place.term(fields["key"]))
    return True


@op("ets_delete_table")
async def delete_table(place: Place, fields: Fields) -> Any:
    _table(fields).drop()
    return True


@op("ets_delete_all")
async def delete_all(place: Place, fields: Fields) -> Any:
    _table(fields).clear()
    return True


@op("ets_all")
async def all_rows(place: Place, fields: Fields) -> Any:
    rows = _table(fields).rows()
    info = _info(fields)
    return rows if info is not None and info.type == "ordered_set" else Sorted(rows)


@op("ets_first")
async def first(place: Place, fields: Fields) -> Any:
    return _table(fields).first(END)


@op("ets_next")
async def following(place: Place, fields: Fields) -> Any:
    return _table(fields).next(place.term(fields["key"]), END)


@op("ets_update_counter")
async def update_counter(place: Place, fields: Fields) -> Any:
    return _table(fields).update_counter(place.term(fields["key"]), fields["by"])


@op("ets_exists")
async def exists(place: Place, fields: Fields) -> Any:
    return Table.whereis(fields["table"]) is not None


@op("ets_size")
async def size(place: Place, fields: Fields) -> Any:
    info = _info(fields)
    return "undefined" if info is None else info.size


@op("ets_owner")
async def owner(place: Place, fields: Fields) -> Any:
    info = _info(fields)
    return "undefined" if info is None else info.owner


@op("ets_heir")
async def heir(place: Place, fields: Fields) -> Any:
    info = _info(fields)
    return "undefined" if info is None else info.heir or "none"


@op("ets_give_away")
async def give_away(place: Place, fields: Fields) -> Any:
    to: Pid = place.process(fields["to"])
    _table(fields).give_away(to, place.term(fields.get("data")))
    return True


@op("ets_set_heir")
async def set_heir(place: Place, fields: Fields) -> Any:
    to = place.process(fields["to"]) if fields.get("to") is not None else None
    _table(fields).set_heir(to, place.term(fields.get("data")))
    return True
