"""Pure. The terms of the scenario language, from JSON to Python.

Atoms are `str`, and so are the constants: `true`, `false` and `null` are the atoms "true", "false" and "nil",
as on the BEAM, which keeps the number 1 and the constant true apart wherever terms are compared. Texts are
`bytes`. Lists and maps are hashable, because any term may be a key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from attrs import frozen

NIL: Final = "nil"


@frozen
class Do:
    """The message of `tell`, and of `call` and `cast` with `do`: run these ops instead of a handler."""

    ops: Sequence[dict[str, Any]]

    def as_term(self) -> Any:
        """How a process shows it that does not run ops."""
        return ("$do", from_json(self.ops))


class ListTerm(list[Any]):
    """A list that may be a key; nobody changes a term once it is made."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(("list", *self))


class MapTerm(dict[str, Any]):
    """A map with atom keys that may itself be a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def atom(constant: bool | None) -> str:
    """The atom of a constant."""
    return NIL if constant is None else "true" if constant else "false"


def is_atom(term: object) -> bool:
    """Whether the term is an atom; the library's own True, False and None are atoms too."""
    return term is None or isinstance(term, str | bool)


def is_tagged(term: object) -> bool:
    """Whether the term is a tuple that begins with an atom."""
    return isinstance(term, tuple) and bool(term) and is_atom(term[0])


def atom_name(term: Any) -> str:
    """The name of an atom."""
    return term if isinstance(term, str) else atom(term)


def to_term(template: Any, look_up: Callable[[str, Any], Any]) -> Any:
    """The term of a JSON template; `look_up(kind, argument)` resolves `pid`, `state` and `args`."""
    if template is None or isinstance(template, bool):
        return atom(template)
    if isinstance(template, list):
        return ListTerm(to_term(item, look_up) for item in template)
    if not isinstance(template, dict):
        return template
    ((kind, argument),) = template.items()
    if kind == "t":
        return tuple(to_term(item, look_up) for item in argument)
    if kind == "s":
        return argument.encode()
    if kind == "m":
        return MapTerm((key, to_term(value, look_up)) for key, value in argument.items())
    return look_up(kind, argument)


def from_json(value: Any) -> Any:
    """JSON itself as a term: objects are maps, strings are texts."""
    if value is None or isinstance(value, bool):
        return atom(value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        return MapTerm((key, from_json(item)) for key, item in value.items())
    return ListTerm(map(from_json, value)) if isinstance(value, list) else value
