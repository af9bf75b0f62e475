"""Pure. What stands at a path inside a value, such as `.sessions['a'].items[0]`; no code of the value's is run."""

from __future__ import annotations

import ast
import re
import types
from typing import Any, Final

from lemon_otp.bounded import bounded, fields_of, held_dict, line_of, type_name
from lemon_otp.repl.operations import Refusal

STEPS_MAX: Final = 40
_STEP: Final = re.compile(r"""(?:\.(?P<name>[A-Za-z_]\w*)|\[(?P<key>-?\d+|'[^']*'|"[^"]*"|True|False|None)\])""")
_ABSENT: Final = object()


def steps(path: str) -> list[tuple[str, Any]]:
    """The path as attributes and keys.

    Raises:
        Refusal: It is no path.
    """
    found: list[tuple[str, Any]] = []
    position = 0
    text = path.strip()
    if text[:1].isalpha() or text[:1] == "_":  # the first dot may be left out
        text = "." + text
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None or len(found) >= STEPS_MAX:
            raise Refusal(f"{path!r} is no path such as .items[0].name or ['key']", "bad_request")
        position = match.end()
        name = match["name"]
        found.append(("name", name) if name is not None else ("key", ast.literal_eval(match["key"])))
    return found


def held_at(value: Any, path: str) -> Any:
    """What stands at the path.

    Raises:
        Refusal: Something on the way is not there.
    """
    for kind, step in steps(path):
        found = _attribute(value, step) if kind == "name" else _item(value, step)
        if found is _ABSENT:
            what = f"attribute {step}" if kind == "name" else f"item {bounded(step, 60)}"
            raise Refusal(f"a {type_name(value)} here has no {what}", "not_found")
        value = found
    return value


def _attribute(value: Any, name: str) -> Any:
    kind = type(value)
    held = held_dict(value, kind)
    if name in held:
        return held[name]
    if issubclass(kind, dict) and dict.__contains__(value, name):  # the short form for a key that is a word
        return dict.__getitem__(value, name)
    for owner in line_of(kind):
        slot = fields_of(owner).get(name)
        if type(slot) is types.MemberDescriptorType:
            try:
                return slot.__get__(value, kind)
            except AttributeError:
                return _ABSENT
        names = fields_of(owner).get("_fields")
        if issubclass(kind, tuple) and type(names) is tuple and name in names:
            return tuple.__getitem__(value, names.index(name))
    return _ABSENT


def _item(value: Any, key: Any) -> Any:
    try:
        kind = type(value)
        if issubclass(kind, dict):
            return dict.get(value, key, _ABSENT)
        if issubclass(kind, list | tuple):
            base: Any = list if issubclass(kind, list) else tuple
            return base.__getitem__(value, key)
    except (IndexError, TypeError):
        return _ABSENT
    return _ABSENT
