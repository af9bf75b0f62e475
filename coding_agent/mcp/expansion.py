"""Pure. `${NAME}` and `${NAME:-default}` in configuration files."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

_REFERENCE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_INPUT: Final = re.compile(r"\$\{(input|command):([^}]*)\}")


class Unset(LookupError):
    """A variable without a default is not set; the text names it."""


def references(text: str) -> Iterator[str]:
    """The variables that a text names."""
    return (found[1] for found in _REFERENCE.finditer(text))


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """The text with every reference replaced, once: what a value holds is not looked into again.

    A default also stands in for an empty value, as in a shell.

    Raises:
        Unset: A variable is not set and has no default, or only its editor could ask for it.
    """
    asked = _INPUT.search(text)
    if asked is not None:
        raise Unset(f"{asked[0]} is something only the editor can fill in; write the value, or ${{NAME}}")

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name in variables and (variables[name] or default is None):
            return variables[name]
        if default is None:
            raise Unset(f"the variable {name} is not set; set it, or write ${{{name}:-default}}")
        return str(default)

    return _REFERENCE.sub(value, text)
