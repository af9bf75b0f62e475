"""Pure. Arguments of a call, as the tools here want them; schemas were checked before, types may still be loose."""

from typing import Any

from lemon_agent import ToolError


def required_text(params: dict[str, Any], name: str, message: str, *, empty: bool = False) -> str:
    """A string that must be there.

    Raises:
        ToolError: It is missing, no string, or empty where that makes no sense.
    """
    value = params.get(name)
    if value is None or (value == "" and not empty):
        raise ToolError(message)
    if not isinstance(value, str):
        raise ToolError(f"{name} must be a string")
    return value


def optional_text(params: dict[str, Any], name: str) -> str | None:
    """A string, or None when it is missing or empty."""
    value = params.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ToolError(f"{name} must be a string")
    return value


def optional_flag(params: dict[str, Any], name: str, default: bool = False) -> bool:
    """A boolean."""
    value = params.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ToolError(f"{name} must be true or false")
    return value


def optional_number(params: dict[str, Any], name: str, default: int, *, least: int = 1, most: int | None = None) -> int:
    """A whole number; too large a one counts as the largest allowed.

    Raises:
        ToolError: It is no whole number, or smaller than `least`.
    """
    value = params.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise ToolError(f"{name} must be a whole number")
    if value < least:
        raise ToolError(f"{name} must be at least {least}")
    return int(value) if most is None else min(int(value), most)


def optional_texts(params: dict[str, Any], name: str) -> tuple[str, ...] | None:
    """A list of strings, or None when it is missing."""
    value = params.get(name)
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise ToolError(f"{name} must be a list of strings")
    return tuple(value)
