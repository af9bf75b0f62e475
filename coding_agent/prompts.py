"""The system prompt: who the agent is, what it can use, where it works, and what the project says of itself.

`system_prompt` is pure; `context_files` reads the disk. The date is a day, so that a provider's prompt cache stays
valid.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from attrs import frozen

CONTEXT_FILE_NAMES = ("AGENTS.md", "CLAUDE.md")
CONTEXT_FILE_BYTES_MAX = 32 * 1024

_IDENTITY = """\
You are a coding agent at work in a person's project. Use the tools to look before you answer, make the changes that
were asked for and no others, and say plainly what you did, what you saw and what failed."""


@frozen
class ContextFile:
    """What a project file says to every agent that works below its folder."""

    path: Path
    text: str
    truncated: bool = False


def system_prompt(
    *, cwd: Path, tools: Iterable[tuple[str, str]], context: Sequence[ContextFile], today: date, extra: str = ""
) -> str:
    """Compose the prompt; empty parts leave no trace.

    Args:
        cwd: The folder the agent works in.
        tools: Name and description of each active tool.
        context: Project files, the nearest last, so that it has the last word.
        today: The day to state.
        extra: Text of the caller's, put after the identity.
    """
    tool_lines = "\n".join(f"- {name}: {description.splitlines()[0]}" for name, description in tools if description)
    parts = [
        _IDENTITY,
        extra.strip(),
        f"Tools:\n{tool_lines}" if tool_lines else "",
        *(_context_part(file) for file in context),
        f"Today is {today.isoformat()}.\nThe working folder is {cwd}. Relative paths start there.",
    ]
    return "\n\n".join(part for part in parts if part)


def context_files(cwd: Path) -> list[ContextFile]:
    """Read the first of `AGENTS.md`, `CLAUDE.md` in each folder from the root down to `cwd`.

    A file reached by two names counts once; one that cannot be read is left out.
    """
    found: list[ContextFile] = []
    seen: set[Path] = set()
    for folder in [*reversed(cwd.parents), cwd]:
        for name in CONTEXT_FILE_NAMES:
            file = _read(folder / name, seen)
            if file is not None:
                found.append(file)
                break
    return found


def _read(path: Path, seen: set[Path]) -> ContextFile | None:
    try:
        real = path.resolve(strict=True)
        if real in seen or not real.is_file():
            return None
        with real.open("rb") as source:
            raw = source.read(CONTEXT_FILE_BYTES_MAX + 1)
    except OSError:
        return None
    seen.add(real)
    text = raw[:CONTEXT_FILE_BYTES_MAX].decode("utf-8", errors="ignore").strip()
    return ContextFile(path, text, truncated=len(raw) > CONTEXT_FILE_BYTES_MAX) if text else None


def _context_part(file: ContextFile) -> str:
    note = f"\n[cut after {CONTEXT_FILE_BYTES_MAX} bytes]" if file.truncated else ""
    return f"From {file.path}:\n{file.text}{note}"
