"""Pure. What a command carries, checked as it is taken out, so that a wrong field is named and nothing is begun."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Final, TypeVar

from coding_agent.errors import BadUsage
from lemon_ai import ImageContent
from lemon_otp import frozen

S = TypeVar("S", bound=str)

NULL: Final = object()
"""What a command answers whose data is null; one that answers None has no data."""


@frozen
class Fields:
    """The fields of one command. Every method raises `BadUsage` for a field of the wrong kind.

    Attributes:
        command: Its type.
        given: The object as it came.
    """

    command: str
    given: Mapping[str, Any]

    def text(self, name: str) -> str:
        """A text that must be there."""
        value = self.given.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        return value

    def optional_text(self, name: str) -> str | None:
        """A text, or None when it is left out or null."""
        return None if self.given.get(name) is None else self.text(name)

    def flag(self, name: str) -> bool:
        """True or false, which must be there."""
        value = self.given.get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def optional_flag(self, name: str, default: bool = False) -> bool:
        """True or false, or the default when it is left out or null."""
        return default if self.given.get(name) is None else self.flag(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, which must be there."""
        value = self.given.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, "a list of texts")
        return tuple(value)

    def number(self, name: str) -> float | None:
        """A number that is not below 0, or None when it is left out or null."""
        value = self.given.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
            raise self._wrong(name, "a number that is not below 0")
        return value

    def choice(self, name: str, choices: Sequence[S]) -> S:
        """One of these texts, which must be there."""
        value = self.given.get(name)
        for choice in choices:
            if choice == value:
                return choice
        raise self._wrong(name, f"one of {', '.join(choices)}")

    def images(self) -> tuple[ImageContent, ...]:
        """The pictures of `images`; none when it is left out."""
        value = self.given.get("images")
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self._wrong("images", "a list of images")
        return tuple(self._image(item) for item in value)

    def _image(self, item: Any) -> ImageContent:
        source = item.get("source", item) if isinstance(item, dict) else None
        data = source.get("data") if isinstance(source, dict) else None
        kind = (source.get("mimeType") or source.get("mediaType")) if isinstance(source, dict) else None
        if not isinstance(data, str) or not isinstance(kind, str) or not kind.startswith("image/"):
            raise self._wrong("images", "a list of {type: image, data: BASE64, mimeType: image/...}")
        try:
            base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise self._wrong("images", "a list of images whose data is base64") from None
        return ImageContent(data, kind)

    def _wrong(self, name: str, wanted: str) -> BadUsage:
        return BadUsage(f"{self.command} needs {name}: {wanted}")
