"""Pure, but for looking where the project's git folder is. Where each kind of file is looked for, in order.

A person's own places come first, so that a project cannot put something else under a name they use. A project's count
only when it is trusted.
"""

import fnmatch
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

from coding_agent.resources.files import git_root, up_to
from coding_agent.resources.skills import Source

if TYPE_CHECKING:
    from coding_agent.settings import Settings

OURS: Final = ".lemon"
PI: Final = ".pi"
MCP_PROJECT_FILES: Final = (".vscode/mcp.json", ".cursor/mcp.json", ".pi/mcp.json", ".mcp.json", ".lemon/mcp.json")
"""A later one wins by the server's name."""


@frozen
class Place:
    """A folder or file to read.

    Attributes:
        path: Where.
        source: Whose it is.
        single_files: In a folder of skills, plain Markdown files are skills too.
        without: Patterns of paths to leave out.
    """

    path: Path
    source: Source
    single_files: bool = True
    without: tuple[str, ...] = ()

    def admits(self, path: Path) -> bool:
        """Is this file not left out?"""
        return not any(_named(pattern, path) for pattern in self.without)


@frozen
class Places:
    """Where everything is looked for, in order.

    Attributes:
        personal: The person's folders for settings, ours first.
        prompts: Folders for `SYSTEM.md` and `APPEND_SYSTEM.md`, the project's first.
    """

    personal: tuple[Path, ...]
    prompts: tuple[Path, ...]
    skills: tuple[Place, ...]
    templates: tuple[Place, ...]
    mcp_files: tuple[Path, ...]


def places_of(settings: "Settings", *, trusted: bool) -> Places:
    """The places for one start."""
    personal = (settings.config_dir, settings.home / PI / "agent")
    own = (settings.cwd / OURS, settings.cwd / PI) if trusted else ()
    return Places(
        personal=personal,
        prompts=(*own, *personal),
        skills=tuple(_skill_places(settings, personal, own)),
        templates=tuple(_template_places(settings, personal, own)),
        mcp_files=(
            *(folder / "mcp.json" for folder in reversed(personal)),
            *(settings.cwd / name for name in MCP_PROJECT_FILES if trusted),
        ),
    )


def _skill_places(settings: "Settings", personal: Iterable[Path], own: Iterable[Path]) -> Iterator[Place]:
    wanted = settings.resources
    for folder in personal:
        yield Place(folder / "skills", "user")
    yield Place(settings.home / ".agents" / "skills", "user", single_files=False)
    if wanted.claude_skills:
        yield Place(settings.home / ".claude" / "skills", "user", single_files=False)
    if wanted.codex_skills:
        yield Place(settings.home / ".codex" / "skills", "user", single_files=False)
    for folder in own:
        yield Place(folder / "skills", "project")
    if own:
        for folder in agents_folders(settings.cwd):
            yield Place(folder, "project", single_files=False)
        if wanted.claude_skills:
            yield Place(settings.cwd / ".claude" / "skills", "project", single_files=False)
    yield from _given(wanted.skills)


def _template_places(settings: "Settings", personal: Iterable[Path], own: Iterable[Path]) -> Iterator[Place]:
    wanted = settings.resources
    for folder in personal:
        yield Place(folder / "prompts", "user")
    if wanted.claude_commands:
        yield Place(settings.home / ".claude" / "commands", "user")
    for folder in own:
        yield Place(folder / "prompts", "project")
    if own and wanted.claude_commands:
        yield Place(settings.cwd / ".claude" / "commands", "project")
    yield from _given(wanted.templates)


def agents_folders(cwd: Path) -> Iterator[Path]:
    """`.agents/skills` of the working folder and of those above it, up to the git root."""
    for folder in up_to(cwd, git_root(cwd) or cwd):
        yield folder / ".agents" / "skills"


def _given(patterns: tuple[str, ...]) -> Iterator[Place]:
    """The places of a list of paths and globs; `!` in front leaves out, `-` too, `+` takes in whatever `!` says."""
    left_out = tuple(text[1:] for text in patterns if text.startswith("!"))
    never = tuple(text[1:] for text in patterns if text.startswith("-"))
    for text in patterns:
        if text[:1] not in ("!", "-", ""):
            forced = text.startswith("+")
            for path in _matching(text[1:] if forced else text):
                yield Place(path, "path", without=never if forced else (*left_out, *never))


def _matching(pattern: str) -> Iterator[Path]:
    if not any(char in pattern for char in "*?[") or os.path.exists(pattern):
        yield Path(pattern)
        return
    import glob

    for found in sorted(glob.iglob(pattern, recursive=True)):
        yield Path(found)


def _named(pattern: str, path: Path) -> bool:
    text = str(path)
    whole = pattern.rstrip("/")
    return fnmatch.fnmatchcase(text, whole) or text == whole or text.startswith(whole + "/")
