"""Edge. The colours of the terminal: two that are built in, and a person's own from a file.

A theme names a colour for each meaning; bold, dim and reverse are the same in all. pi's theme files can be used: of
what they say, the meanings below are taken.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from attrs import evolve, fields, frozen

from coding_agent.errors import BadUsage

Depth: TypeAlias = Literal["standard", "256", "truecolor"]
"""How many colours a terminal has."""

FILE_BYTES_MAX: Final = 256 * 1024
_EIGHT: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
ANSI: Final = frozenset({*_EIGHT, *(f"bright_{name}" for name in _EIGHT)})
"""Colours by the names that terminals have for them, which a person's terminal gives its own shades."""
_HEX: Final = re.compile(r"#[0-9a-fA-F]{6}")
_NAME: Final = re.compile(r"[\w-][\w.-]{0,63}")
ALIASES: Final = {"mdCode": "code", "toolDiffAdded": "success", "toolDiffRemoved": "error"}
"""What pi's files call a meaning; our own name for it comes first."""


@frozen
class Theme:
    """What is shown in which colour: the name of one of the terminal's own, or `#rrggbb`.

    Attributes:
        accent: What is under way.
        success: What went well, and lines that were added.
        error: What went wrong, and lines that were taken away.
        warning: What is asked, and what a person should know.
        code: Code and the places in a file.
        highlight: The colours of code in a block: a style of Pygments.
    """

    accent: str = "blue"
    success: str = "green"
    error: str = "red"
    warning: str = "yellow"
    code: str = "cyan"
    highlight: str = "ansi_dark"

    def depth(self, environ: Mapping[str, str]) -> Depth:
        """How many colours it is drawn with: the terminal's own sixteen, where it names no others."""
        if not any(_HEX.fullmatch(str(getattr(self, name))) for name in COLOURS):
            return "standard"
        return "truecolor" if environ.get("COLORTERM") in ("truecolor", "24bit") else "256"


COLOURS: Final = tuple(attribute.name for attribute in fields(Theme) if attribute.name != "highlight")
DARK: Final = Theme()
LIGHT: Final = Theme(warning="magenta", code="blue", highlight="ansi_light")
BUILT_IN: Final[Mapping[str, Theme]] = {"dark": DARK, "light": LIGHT, "default": DARK}


def find_theme(name: str, folder: Path) -> Theme:
    """The theme of that name: a built-in one, else `NAME.json` in a folder.

    Raises:
        BadUsage: There is none, or its file cannot be used; the text says which there are.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    path = folder / f"{name}.json"
    try:
        if not _NAME.fullmatch(name):
            raise FileNotFoundError
        with path.open("rb") as file:
            return read_theme(json.loads(file.read(FILE_BYTES_MAX)), str(path))
    except FileNotFoundError:
        own = sorted(file.stem for file in folder.glob("*.json")) if folder.is_dir() else []
        known = ", ".join(("dark", "light", *own))
        raise BadUsage(f"there is no theme {name}; there are {known}, and what {folder}/NAME.json describes") from None
    except OSError as error:
        raise BadUsage(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise BadUsage(f"{path} is no JSON: {error}") from error


def read_theme(document: Any, file: str) -> Theme:
    """A theme as a file describes it: `base`, and `colors` by meaning, which may name one of `vars`.

    Raises:
        BadUsage: It cannot be meant; the text says what of it.
    """
    if not isinstance(document, dict) or not isinstance(document.get("colors", {}), dict):
        raise BadUsage(f"{file} must be an object with colors")
    base = BUILT_IN.get(str(document.get("base", "dark")))
    if base is None:
        raise BadUsage(f"{file}: base must be dark or light")
    names = document.get("vars")
    given: dict[str, str] = {}
    for key, value in document.get("colors", {}).items():
        meaning = ALIASES.get(key, key)
        if meaning in COLOURS and value != "" and (key == meaning or meaning not in document["colors"]):
            given[meaning] = _colour(names.get(value, value) if isinstance(names, dict) else value, f"{file}: {key}")
    return evolve(base, **given)


def _colour(value: Any, where: str) -> str:
    if isinstance(value, str) and (value in ANSI or _HEX.fullmatch(value)):
        return value
    if type(value) is int and 0 <= value <= 255:
        return _of_256(value)
    raise BadUsage(f"{where} must be #rrggbb or one of {', '.join(sorted(ANSI))}, not {value!r}")


def _of_256(number: int) -> str:
    """A colour of the palette of 256: sixteen of the terminal's own, a cube of six by six by six, a row of greys."""
    if number < 16:
        name = _EIGHT[number % 8]
        return name if number < 8 else f"bright_{name}"
    if number >= 232:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    cube = number - 16
    return "#" + "".join(f"{0 if part == 0 else 55 + 40 * part:02x}" for part in (cube // 36, cube // 6 % 6, cube % 6))
