"""Pure, but for the skills and templates it is handed. What a person typed, on its way to becoming a prompt.

The order is fixed: an extension's command is run, whatever is going on; then extensions see the text and may take it
over or change it; then `/skill:NAME args` and `/TEMPLATE args` are expanded. Words that begin with a slash and name
nothing stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from coding_agent.events import SessionEvent
from coding_agent.hosting.dialogs import Dialogs
from lemon_ai import ImageContent
from lemon_otp import Pid, frozen

SKILL_PREFIX: Final = "skill:"

Images: TypeAlias = tuple[ImageContent, ...]

StreamingBehavior: TypeAlias = Literal["steer", "follow_up"]
"""What becomes of a prompt that comes while a run is going on."""


class Expandable(Protocol):
    """A skill or a template: a name, and what it makes of the words behind the name."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    def expand(self, args: str = "") -> str: ...


class PromptResources(Protocol):
    """What a prompt may name; `coding_agent.resources.Resources` is one."""

    @property
    def skills(self) -> Sequence[Expandable]: ...

    @property
    def templates(self) -> Sequence[Expandable]: ...

    @property
    def skill_commands(self) -> bool:
        """May skills be named?"""
        ...


@frozen
class Continue:
    """The text goes on, as it is or changed."""

    text: str
    images: Images = ()


@frozen
class Handled:
    """An extension took the text over: nothing is sent."""


@frozen
class CommandInfo:
    """Something that can be typed behind a slash.

    Attributes:
        source: `extension`, `prompt` or `skill`.
        location: `user`, `project` or `path`; None where that says nothing.
        path: The file it comes from.
    """

    name: str
    source: str
    description: str = ""
    location: str | None = None
    path: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As the protocol lists it."""
        whole = {
            "name": self.name,
            "description": self.description or None,
            "source": self.source,
            "location": self.location,
            "path": self.path,
        }
        return {key: value for key, value in whole.items() if value is not None}


@frozen
class ShortcutInfo:
    """A key that an extension has registered.

    Attributes:
        key: `ctrl+x`, `alt+x` or `f5`.
        path: The extension's file.
    """

    key: str
    description: str
    path: str

    def to_json(self) -> dict[str, Any]:
        """As the protocol lists it."""
        return {"key": self.key, "description": self.description, "path": self.path}


class PromptDesk(Protocol):
    """The desk a prompt was typed at, as far as hooks need it. See `Desk`."""

    @property
    def session_id(self) -> str: ...

    @property
    def session_pid(self) -> Pid: ...

    @property
    def dialogs(self) -> Dialogs: ...

    @property
    def cwd(self) -> Path: ...

    async def pid(self) -> Pid:
        """The session's process; a crashed one is started again."""

    def tell(self, event: SessionEvent) -> None:
        """Show the client something."""


class PromptHooks(Protocol):
    """What extensions do with prompts; `HostRun.hooks` holds it. None of these may raise."""

    def commands(self) -> Sequence[CommandInfo]:
        """The commands extensions have registered."""

    async def run_command(self, name: str, args: str, desk: PromptDesk) -> bool:
        """Run an extension's command; False when none has that name. Its failure is told as an event of the desk."""

    def shortcuts(self) -> Sequence[ShortcutInfo]:
        """The keys extensions have registered."""

    async def run_shortcut(self, key: str, desk: PromptDesk) -> bool:
        """Do what a key stands for; False when it stands for nothing. A failure is told as an event of the desk."""

    def renders(self, message: object) -> bool:
        """Does an extension say how this message is shown?"""

    async def rendered(self, message: Any, desk: PromptDesk) -> Any:
        """Such a message with what is shown of it."""

    async def on_input(self, text: str, images: Images, desk: PromptDesk) -> Continue | Handled:
        """Let extensions see a prompt before it is expanded."""

    async def may_leave(self, reason: str, target: str | None, desk: PromptDesk) -> bool:
        """May the desk go to another session? `reason` is `new`, `switch` or `fork`; `target` a file or an entry."""

    def has_gone(self, reason: str, desk: PromptDesk) -> None:
        """The desk looks at another session now: `reason` is `new`, `switch`, `fork` or `clone`. Must not wait."""

    async def on_bash(self, command: str, desk: PromptDesk) -> Mapping[str, Any] | None:
        """An extension's own result for a command of the user's, as the protocol's `bash` answers; None runs it."""


def slash_command(text: str) -> tuple[str, str] | None:
    """The name and the words of `/name words`; None for any other text."""
    if not text.startswith("/"):
        return None
    head, _, args = text[1:].partition(" ")
    name, newline, below = head.partition("\n")
    if not name or name.startswith("/"):
        return None
    return name, (f"{below} {args}" if newline else args).strip()


def expanded(text: str, resources: PromptResources | None) -> str:
    """The text with a skill or template in its place, when it names one; else as it is.

    Raises:
        CodingAgentError: The skill's file cannot be read, or a template grows too long with these words.
    """
    found = slash_command(text)
    if found is None or resources is None:
        return text
    name, args = found
    if name.startswith(SKILL_PREFIX) and not resources.skill_commands:
        return text
    wanted = name.removeprefix(SKILL_PREFIX)
    kind: Sequence[Expandable] = resources.skills if name.startswith(SKILL_PREFIX) else resources.templates
    match = next((one for one in kind if one.name == wanted), None)
    return text if match is None else match.expand(args)


def commands_of(resources: PromptResources | None, hooks: PromptHooks | None) -> list[CommandInfo]:
    """Everything that can be typed behind a slash: extensions' commands, templates, skills."""
    found = [] if hooks is None else list(hooks.commands())
    if resources is not None:
        found += [_listed(one.name, "prompt", one) for one in resources.templates]
        shown = resources.skills if resources.skill_commands else ()
        found += [_listed(SKILL_PREFIX + one.name, "skill", one) for one in shown]
    return found


def _listed(name: str, source: str, one: Expandable) -> CommandInfo:
    path = getattr(one, "path", None)
    return CommandInfo(name, source, one.description, getattr(one, "source", None), None if path is None else str(path))
