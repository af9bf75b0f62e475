"""Pure. A provider's error object, in any of the shapes they use, to a sentence, a type and a code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from lemon_otp import frozen

_MESSAGE_KEYS = ("message", "Message", "error_description", "error_message", "detail", "details", "description", "msg")
_LONGEST = 200


@frozen
class Details:
    """What an error object says.

    Attributes:
        message: The provider's sentence, empty when it gave none.
        type, code: Its own words.
        status: A number inside the object that is an HTTP status.
    """

    message: str = ""
    type: str | None = None
    code: str | None = None
    status: int | None = None

    def with_message(self, message: str) -> Details:
        return evolve(self, message=message)

    def with_type(self, type_name: str) -> Details:
        return evolve(self, type=type_name)


def read_details(payload: Any) -> Details:
    """What a decoded error body says; a blank sentence at the top yields to one further down."""
    if isinstance(payload, list):
        return read_details(payload[0]) if len(payload) == 1 else Details(_sentence(payload))
    if not isinstance(payload, Mapping):
        return Details(str(payload).strip() if payload is not None else "")
    error = payload.get("error")
    if isinstance(error, Mapping):
        return _from_object(error, payload)
    if isinstance(error, list) and error:
        return Details(_sentence(error), _word(payload.get("type")), _word(payload.get("code")))
    if isinstance(error, str) and error:
        return _from_string(error, payload)
    errors = payload.get("errors")
    if isinstance(errors, list) and errors:
        return Details(_sentence(errors), _word(payload.get("type")), _word(payload.get("code")))
    return _from_object(payload, payload)


def _from_object(error: Mapping[str, Any], whole: Mapping[str, Any]) -> Details:
    nested = error.get("errors")
    message = _text(error.get("message")) or (_sentence(nested) if isinstance(nested, list) else "")
    message = message or _first_sentence(error) or (_first_sentence(whole) if whole is not error else "")
    code, status = error.get("code"), error.get("status")
    kind = _word(error.get("type")) or _word(error.get("__type"))
    number = next((n for n in (code, status, error.get("status_code")) if _is_status(n)), None)
    if isinstance(status, str) and not kind:
        kind = status
    upstream = _upstream(error)
    if upstream and upstream not in message:
        message = f"{message} ({upstream})" if message else upstream
    if not message and not kind and code is None:
        message = _rest(error)
    word = None if isinstance(status, str) and _is_status(code) else _word(code)
    return Details(message, kind.rsplit("#", 1)[-1] if kind else None, word, int(number) if number else None)


def _from_string(error: str, payload: Mapping[str, Any]) -> Details:
    more = next((_text(payload.get(key)) for key in _MESSAGE_KEYS if _text(payload.get(key))), "")
    if more and more != error:
        return Details(more, error, _word(payload.get("code")))
    return Details(error, _word(payload.get("type")), _word(payload.get("code")))


def _upstream(error: Mapping[str, Any]) -> str:
    """What the provider behind a gateway said, where the gateway passes it on."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    return " ".join(raw.split())[:_LONGEST] if isinstance(raw, str) else ""


def _first_sentence(error: Mapping[str, Any]) -> str:
    return next(filter(None, (_sentence(error.get(key)) for key in _MESSAGE_KEYS)), "")


def _sentence(value: Any) -> str:
    """One line for a string, a list of complaints, or an object of them."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Mapping):
        place = value.get("loc")
        where = ".".join(map(str, place)) + ": " if isinstance(place, list) and place else ""
        said = _first_sentence(value) or _sentence(value.get("error"))
        return where + said if said else ""
    if isinstance(value, list):
        return "; ".join(filter(None, map(_sentence, value)))
    return ""


def _rest(error: Mapping[str, Any]) -> str:
    parts = [f"{key}: {value}" for key, value in error.items() if isinstance(value, (str, int, float))]
    return "; ".join(parts)[:_LONGEST]


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _word(value: Any) -> str | None:
    return None if value is None or value == "" or isinstance(value, (Mapping, list)) else str(value)


def _is_status(value: Any) -> bool:
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    return isinstance(value, int) and not isinstance(value, bool) and 300 <= value < 600
