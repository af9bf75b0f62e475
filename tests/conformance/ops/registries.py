"""Ops on registries; those that register act for the executing process."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from lemon_otp import ANY, AlreadyRegistered, NotFound, Registry, send
from tests.conformance.failures import OpError, no_clause
from tests.conformance.interpreter import Fields, Place, op
from tests.conformance.normalise import Sorted
from tests.conformance.terms import ListTerm, MapTerm, is_atom

VARIABLE: Final = re.compile(r"\$\d+")


def _key(place: Place, fields: Fields) -> Any:
    return place.term(fields["key"])


def _pattern(place: Place, fields: Fields) -> Any:
    return with_wildcards(place.term(fields["pattern"]))


def with_wildcards(term: Any) -> Any:
    """The pattern that a term stands for: the atom `_` matches anything, and so does a variable that stands once."""
    if isinstance(term, tuple):
        return tuple(map(with_wildcards, term))
    if isinstance(term, ListTerm):
        return ListTerm(map(with_wildcards, term))
    if isinstance(term, MapTerm):
        return MapTerm((key, with_wildcards(value)) for key, value in term.items())
    return ANY if isinstance(term, str) and (term == "_" or VARIABLE.fullmatch(term)) else term


@op("reg_register")
async def register(place: Place, fields: Fields) -> Any:
    try:
        Registry.register(fields["registry"], _key(place, fields), place.term(fields.get("value")))
    except AlreadyRegistered as error:
        return ("error", ("already_registered", error.pid))
    return "ok"


@op("reg_unregister")
async def unregister(place: Place, fields: Fields) -> Any:
    Registry.unregister(fields["registry"], _key(place, fields))
    return "ok"


@op("reg_unregister_match")
async def unregister_match(place: Place, fields: Fields) -> Any:
    Registry.unregister_match(fields["registry"], _key(place, fields), _pattern(place, fields))
    return "ok"


@op("reg_lookup")
async def lookup(place: Place, fields: Fields) -> Any:
    return Sorted(Registry.lookup(fields["registry"], _key(place, fields)))


@op("reg_keys")
async def keys(place: Place, fields: Fields) -> Any:
    return Sorted(Registry.keys(fields["registry"], place.process(fields["pid"])))


@op("reg_values")
async def values(place: Place, fields: Fields) -> Any:
    key = _key(place, fields)
    return Sorted(Registry.values(fields["registry"], key, place.process(fields["pid"])))


@op("reg_count")
async def count(place: Place, fields: Fields) -> Any:
    return Registry.count(fields["registry"])


@op("reg_match")
async def match(place: Place, fields: Fields) -> Any:
    return Sorted(Registry.match(fields["registry"], _key(place, fields), _pattern(place, fields)))


@op("reg_count_match")
async def count_match(place: Place, fields: Fields) -> Any:
    return Registry.count_match(fields["registry"], _key(place, fields), _pattern(place, fields))


@op("reg_update_value")
async def update_value(place: Place, fields: Fields) -> Any:
    def change(value: Any) -> Any:
        if "add" not in fields:
            return place.term(fields.get("set"))
        if not isinstance(value, int | float):
            raise OpError("ArithmeticError", "badarith")
        return value + fields["add"]

    try:
        return Registry.update_value(fields["registry"], _key(place, fields), change)
    except NotFound:
        return "error"


@op("reg_select_all")
async def select_all(place: Place, fields: Fields) -> Any:
    return Sorted(Registry.select(fields["registry"]))


@op("reg_dispatch")
async def dispatch(place: Place, fields: Fields) -> Any:
    message = place.term(fields.get("msg"))

    def deliver(entries: Sequence[tuple[Any, Any]]) -> None:
        place.log("dispatching", Sorted(entries))
        for pid, _ in entries:
            send(pid, message)

    Registry.dispatch(fields["registry"], _key(place, fields), deliver)
    return "ok"


def _meta_key(place: Place, fields: Fields) -> Any:
    key = _key(place, fields)
    if not is_atom(key) and not isinstance(key, tuple):
        raise no_clause()
    return key


@op("reg_put_meta")
async def put_meta(place: Place, fields: Fields) -> Any:
    Registry.put_meta(fields["registry"], _meta_key(place, fields), place.term(fields.get("value")))
    return "ok"


@op("reg_meta")
async def meta(place: Place, fields: Fields) -> Any:
    try:
        return ("ok", Registry.meta(fields["registry"], _meta_key(place, fields)))
    except NotFound:
        return "error"


@op("reg_delete_meta")
async def delete_meta(place: Place, fields: Fields) -> Any:
    Registry.delete_meta(fields["registry"], _meta_key(place, fields))
    return "ok"
