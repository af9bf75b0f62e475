"""Pure. A Markdown file that begins with data: the lines between two `---` as YAML, then the words.

Whoever wrote it may mean harm: only plain values are made, never objects; anchors and aliases, with which a few lines
can stand for gigabytes, are refused; size and depth are bounded.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from attrs import field

from lemon_otp import frozen

DATA_CHARS_MAX: Final = 16 * 1024
DEPTH_MAX: Final = 16


class BadFrontmatter(ValueError):
    """The data of a file cannot be read; the text says where and why."""


@frozen
class Document:
    """A file's data and its words."""

    data: Mapping[str, Any] = field(factory=dict)
    body: str = ""


def parse(text: str) -> Document:
    """The two parts of a text; without a first line `---` it has no data.

    Raises:
        BadFrontmatter: There is data, and it cannot be read.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return Document({}, text)
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        return Document({}, text)
    source = "\n".join(lines[1:end])
    if len(source) > DATA_CHARS_MAX:
        raise BadFrontmatter(f"the data before the text is longer than {DATA_CHARS_MAX} characters")
    return Document(_data(source), "\n".join(lines[end + 1 :]).strip("\n"))


def body_of(text: str) -> str:
    """The words alone, whatever the data is."""
    try:
        return parse(text).body.strip()
    except BadFrontmatter:
        return text.split("\n---", 1)[-1].strip("-\n ")


def text_of(value: Any) -> str:
    """A scalar as text; nothing for what is none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None or isinstance(value, dict | list) else str(value)


def flag_of(value: Any) -> bool:
    """Is it a yes? Only `true` is."""
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def one_line(text: str) -> str:
    """The same words with single spaces between them."""
    return " ".join(text.split())


def _data(source: str) -> Mapping[str, Any]:
    if not source.strip():
        return {}
    import yaml

    try:
        loaded = yaml.load(source, Loader=_loader())  # a subclass of SafeLoader
    except yaml.YAMLError as error:
        raise BadFrontmatter(_place(error)) from error
    except (ValueError, TypeError, OverflowError, AttributeError, RecursionError) as error:
        raise BadFrontmatter(f"its YAML holds a value that cannot be read: {error}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise BadFrontmatter("the data before the text is no list of `key: value` lines")
    return {str(key): value for key, value in loaded.items()}


def _place(error: Any) -> str:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or "it cannot be read"
    # The first `---` is line 1 of the file, and marks count from 0.
    return f"its YAML cannot be read: {what}" + (f" at line {mark.line + 2}, column {mark.column + 1}" if mark else "")


@cache
def _loader() -> Any:
    import yaml

    class BoundedLoader(yaml.SafeLoader):
        """Plain values only, no aliases, not too deep."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                raise yaml.composer.ComposerError(None, None, "anchors and aliases are not allowed", event.start_mark)
            self.depth += 1
            if self.depth > DEPTH_MAX:
                raise yaml.composer.ComposerError(None, None, "it is nested too deeply", event.start_mark)
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

    return BoundedLoader
