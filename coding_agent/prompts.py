"""Pure. The system prompt: who the agent is, what it can use, where it works, what the project says of itself.

The date is a day, so that a provider's prompt cache stays valid.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from coding_agent.resources.context_files import FILE_BYTES_MAX as CONTEXT_FILE_BYTES_MAX
from coding_agent.resources.context_files import ContextFile, read_context

if TYPE_CHECKING:
    from coding_agent.resources.skills import Skill

_IDENTITY = """\
You are a coding agent at work in a person's project. Use the tools to look before you answer, make the changes that
were asked for and no others, and say plainly what you did, what you saw and what failed."""


def system_prompt(
    *,
    cwd: Path,
    tools: Iterable[tuple[str, str]],
    context: Sequence[ContextFile],
    today: date,
    extra: str = "",
    custom: str | None = None,
    skills: Sequence["Skill"] = (),
) -> str:
    """Compose the prompt; empty parts leave no trace.

    Args:
        cwd: The folder the agent works in.
        tools: Name and description of each active tool.
        context: Project files, the nearest last, so that it has the last word.
        today: The day to state.
        extra: Text of the caller's, put after the identity.
        custom: Stands in for the identity and the list of tools.
        skills: Those the model may use; told only when it can read their files.
    """
    named = list(tools)
    tool_lines = "\n".join(f"- {name}: {description.splitlines()[0]}" for name, description in named if description)
    identity = [_IDENTITY] if custom is None else [custom.strip()]
    parts = [
        *identity,
        extra.strip(),
        f"Tools:\n{tool_lines}" if tool_lines and custom is None else "",
        *(_context_part(file) for file in context),
        _skills_part(skills) if skills and any(name == "read" for name, _ in named) else "",
        f"Today is {today.isoformat()}.\nThe working folder is {cwd}. Relative paths start there.",
    ]
    return "\n\n".join(part for part in parts if part)


def context_files(cwd: Path) -> list[ContextFile]:
    """The project's files for every agent, from the root down to `cwd`; see `read_context`."""
    return read_context(cwd).files


def _context_part(file: ContextFile) -> str:
    note = f"\n[cut after {CONTEXT_FILE_BYTES_MAX} bytes]" if file.truncated else ""
    return f"From {file.path}:\n{file.text}{note}"


def _skills_part(skills: Sequence["Skill"]) -> str:
    from coding_agent.resources.skills import listing

    return listing(skills)
