"""Values. What is printed once and stays: the parts of a conversation as a person reads them."""

from typing import Any, Literal, TypeAlias

from attrs import frozen

Level: TypeAlias = Literal["info", "warning", "error"]


@frozen
class UserSaid:
    """A prompt.

    Attributes:
        images: How many pictures came with it.
    """

    text: str
    images: int = 0


@frozen
class Prose:
    """A part of an answer, in Markdown; `joined` when it goes on where the one before ended."""

    text: str
    joined: bool = False


@frozen
class Thought:
    """What was thought before an answer, and for how long; None when nobody has seen it begin."""

    text: str
    seconds: float | None = None


@frozen
class ToolRan:
    """A tool call and what came of it."""

    name: str
    args: dict[str, Any]
    text: str = ""
    details: Any = None
    is_error: bool = False
    images: int = 0
    seconds: float | None = None
    untrusted: bool = False


@frozen
class ShellRan:
    """A command of the user's own."""

    command: str
    output: str
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    kept_out: bool = False
    """The model is not told of it."""


@frozen
class Notice:
    """Something that happened."""

    text: str
    level: Level = "info"


@frozen
class Summary:
    """What stands in for a part of the conversation."""

    title: str
    text: str


@frozen
class Asked:
    """Somebody asks for permission; the whole of what would be done."""

    tool_name: str
    shown: str
    reason: str
    rules: tuple[str, ...] = ()


@frozen
class Report:
    """The answer to a command of the user's: a title and lines of two columns."""

    title: str
    rows: tuple[tuple[str, str], ...] = ()
    text: str = ""


@frozen
class Banner:
    """The start of it all."""

    version: str
    model: str
    cwd: str
    session: str


Block: TypeAlias = UserSaid | Prose | Thought | ToolRan | ShellRan | Notice | Summary | Asked | Report | Banner
"""Closed. Readers `match` and end in `assert_never`, so a class added here lists every reader to visit."""


@frozen
class Fold:
    """What is shown in short."""

    thinking: bool = True
    tools: bool = True
