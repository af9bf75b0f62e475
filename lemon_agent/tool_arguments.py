"""Pure. A model's arguments against a tool's schema: bent to fit where the meaning is plain, then checked.

Models write `"3"` for 3 and a lone value for a list of one. `Checker` works on a copy: first it coerces, which also
settles types and required names, then, only for schemas that say more than that, `jsonschema` has the last word.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from lemon_otp import frozen


@frozen
class Checked:
    """Arguments that fit, or why they do not."""

    arguments: dict[str, Any]
    errors: tuple[str, ...] = ()


class _Rest(Protocol):
    """The part of a jsonschema validator that is used."""

    def iter_errors(self, instance: Any) -> Any: ...


_PLAIN_KEYWORDS: Final = frozenset(
    {"type", "properties", "required", "items", "nullable", "title", "description", "default", "examples", "$schema"}
)
"""What coercion alone checks completely; any other keyword brings in jsonschema."""

_CACHE_SIZE: Final = 512
_checkers: "OrderedDict[int, Checker]" = OrderedDict()


class Checker:
    """One schema, made ready to check arguments with."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self._needs_rest = not _plain(schema)
        self._rest: _Rest | None = None

    def check(self, arguments: Any) -> Checked:
        """A coerced copy of `arguments`, with everything that is still wrong with it."""
        errors: list[str] = []
        if not isinstance(arguments, Mapping):
            return Checked({}, (f"expected object, got {_kind(arguments)}",))
        coerced = _object(arguments, self.schema, errors, "")
        if not errors and self._needs_rest:
            errors.extend(self._remaining(coerced))
        return Checked(coerced, tuple(errors))

    def _remaining(self, coerced: Mapping[str, Any]) -> list[str]:
        try:
            if self._rest is None:
                self._rest = _validator(self.schema)
            found = list(self._rest.iter_errors(coerced))
        except Exception as error:  # a pattern that is no pattern, a reference that leads nowhere
            return [f"the tool's own schema cannot be used: {_shortened(str(error))}"]
        found.sort(key=lambda error: [str(part) for part in error.absolute_path])
        return [_said(error) for error in found]


def checker_for(schema: Mapping[str, Any]) -> Checker:
    """The checker of a schema, made once for as long as it is in use."""
    key = id(schema)
    checker = _checkers.get(key)
    if checker is None or checker.schema is not schema:
        checker = _checkers[key] = Checker(schema)
        if len(_checkers) > _CACHE_SIZE:
            _checkers.popitem(last=False)
    else:
        _checkers.move_to_end(key)
    return checker


def check_arguments(schema: Mapping[str, Any], arguments: Any) -> Checked:
    """A coerced copy of `arguments`, with everything that is wrong with it."""
    return checker_for(schema).check(arguments)


class _Misfit(Exception):
    """A value that cannot be taken for the type wanted; carries the errors, each with its path."""

    def __init__(self, *errors: str) -> None:
        self.errors = errors


def _object(value: Mapping[str, Any], schema: Mapping[str, Any], errors: list[str], path: str) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    result: dict[str, Any] = {}
    for name, item in value.items():
        wanted = properties.get(name)
        if isinstance(wanted, Mapping):
            try:
                item = _fit(item, wanted, f"{path}{name}: ")
            except _Misfit as misfit:
                errors.extend(misfit.errors)
        result[name] = item
    errors.extend(
        f'{path}missing required argument "{name}"' for name in schema.get("required") or () if name not in value
    )
    return result


def _fit(value: Any, schema: Mapping[str, Any], path: str) -> Any:
    """`value` as the schema wants it, or `_Misfit`."""
    if (value is None or (isinstance(value, str) and value.strip().lower() == "null")) and _nullable(schema):
        return None
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, Sequence) and "type" not in schema:
            return _first_fit(value, [branch for branch in branches if isinstance(branch, Mapping)], path)
    wanted = schema.get("type")
    if isinstance(wanted, list | tuple):
        if any(_is_exactly(value, name) for name in wanted):
            wanted = next(name for name in wanted if _is_exactly(value, name))
        else:
            return _first_of_types(value, schema, [name for name in wanted if name != "null"], path)
    convert = _CONVERT.get(wanted) if isinstance(wanted, str) else None
    return value if convert is None else convert(value, schema, path)


def _first_fit(value: Any, branches: Sequence[Mapping[str, Any]], path: str) -> Any:
    for branch in branches:
        if any(_is_exactly(value, name) for name in _types(branch)):
            try:
                return _fit(value, branch, path)
            except _Misfit:
                continue
    for branch in branches:
        try:
            return _fit(value, branch, path)
        except _Misfit:
            continue
    return value  # no branch takes it: jsonschema says why


def _first_of_types(value: Any, schema: Mapping[str, Any], types: Sequence[str], path: str) -> Any:
    for name in types:
        try:
            return _fit(value, {**schema, "type": name}, path)
        except _Misfit:
            continue
    raise _Misfit(f"{path}expected {' or '.join(types)}")


def _to_object(value: Any, schema: Mapping[str, Any], path: str) -> dict[str, Any]:
    if isinstance(value, str):
        value = _parsed(value, Mapping, value)
    if not isinstance(value, Mapping):
        raise _Misfit(f"{path}expected object")
    errors: list[str] = []
    result = _object(value, schema, errors, path)
    if errors:
        raise _Misfit(*errors)
    return result


def _to_array(value: Any, schema: Mapping[str, Any], path: str) -> list[Any]:
    if isinstance(value, str):
        value = _parsed(value, list, [value])
    elif isinstance(value, tuple):
        value = list(value)
    elif not isinstance(value, list):
        if isinstance(value, Mapping) or value is None:
            raise _Misfit(f"{path}expected array")
        value = [value]
    items = schema.get("items")
    if not isinstance(items, Mapping):
        return list(value)
    errors: list[str] = []
    result = []
    for index, item in enumerate(value):
        try:
            result.append(_fit(item, items, f"{path}{index}: "))
        except _Misfit as misfit:
            errors.extend(misfit.errors)
    if errors:
        raise _Misfit(*errors)
    return result


def _to_boolean(value: Any, _schema: Mapping[str, Any], path: str) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in ("true", "false"):
        raise _Misfit(f"{path}expected boolean")
    return word == "true"


def _to_integer(value: Any, _schema: Mapping[str, Any], path: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _numeral(value):
        try:
            return int(value)
        except ValueError:
            pass
    raise _Misfit(f"{path}expected integer")


def _to_number(value: Any, _schema: Mapping[str, Any], path: str) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _numeral(value):
        for parse in (int, float):
            try:
                number = parse(value)
            except ValueError:
                continue
            if number == number and number not in (float("inf"), float("-inf")):
                return number
    raise _Misfit(f"{path}expected number")


def _numeral(text: str) -> bool:
    """May Python's own parsers read it? They take more than JSON does: other scripts' digits, and underscores."""
    return text.isascii() and "_" not in text


def _to_string(value: Any, _schema: Mapping[str, Any], path: str) -> str:
    if not isinstance(value, str):
        raise _Misfit(f"{path}expected string")
    return value


def _to_null(value: Any, _schema: Mapping[str, Any], path: str) -> None:
    if value is not None and not (isinstance(value, str) and value.strip().lower() == "null"):
        raise _Misfit(f"{path}expected null")


_CONVERT: Final[Mapping[str, Callable[[Any, Mapping[str, Any], str], Any]]] = {
    "object": _to_object,
    "array": _to_array,
    "boolean": _to_boolean,
    "integer": _to_integer,
    "number": _to_number,
    "string": _to_string,
    "null": _to_null,
}


def _parsed(text: str, wanted: type, otherwise: Any) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return otherwise
    return value if isinstance(value, wanted) else otherwise


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    wanted = schema.get("type")
    if isinstance(wanted, str):
        return (wanted,)
    return tuple(wanted) if isinstance(wanted, list | tuple) else ()


def _nullable(schema: Mapping[str, Any]) -> bool:
    return schema.get("nullable") is True or "null" in _types(schema)


def _is_exactly(value: Any, name: str) -> bool:
    return _kind(value) == name or (name == "number" and _kind(value) == "integer")


def _kind(value: Any) -> str:
    """What JSON calls it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for kinds, name in (((int,), "integer"), ((float,), "number"), ((str,), "string"), ((list, tuple), "array")):
        if isinstance(value, kinds):
            return name
    return "object" if isinstance(value, Mapping) else type(value).__name__


def _plain(schema: Any) -> bool:
    """Does coercion alone check it completely?"""
    if not isinstance(schema, Mapping):
        return False
    more = schema.keys() - _PLAIN_KEYWORDS
    if more and not (more == {"additionalProperties"} and schema["additionalProperties"] is True):
        return False
    if any(name not in _CONVERT for name in _types(schema)):
        return False
    items = schema.get("items")
    parts = [*(schema.get("properties") or {}).values(), *([] if items is None else [items])]
    return all(_plain(part) for part in parts)


def _validator(schema: Mapping[str, Any]) -> _Rest:
    from jsonschema.validators import validator_for

    written = _with_null(schema)
    kind = validator_for(written)
    made: _Rest = kind(written)
    return made


def _with_null(schema: Any) -> Any:
    """The schema with `nullable: true` said as jsonschema understands it."""
    if isinstance(schema, Mapping):
        written = {key: _with_null(value) for key, value in schema.items() if key != "nullable"}
        if any(name not in _CONVERT for name in _types(schema)):
            written.pop("type")  # a type of the future passes through
        if schema.get("nullable") is True and _types(schema):
            written["type"] = [*dict.fromkeys((*_types(schema), "null"))]
        return written
    return [_with_null(part) for part in schema] if isinstance(schema, list | tuple) else schema


def _said(error: Any) -> str:
    """One of jsonschema's errors in our words where we have some."""
    path = "".join(f"{part}: " for part in error.absolute_path)
    if error.validator == "type":
        wanted = error.validator_value
        return f"{path}expected {wanted if isinstance(wanted, str) else ' or '.join(wanted)}"
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return "; ".join(f'{path}missing required argument "{name}"' for name in missing)
    return f"{path}{_shortened(error.message)}"


def _shortened(message: str, limit: int = 300) -> str:
    return message if len(message) <= limit else f"{message[:limit]}..."
