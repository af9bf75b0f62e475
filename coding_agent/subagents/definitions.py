"""Edge. Who a subagent can be: Markdown files with a few lines of data before the words it is told.

    ---
    name: review
    description: Reads a change and reports faults.
    tools: read, grep
    model: anthropic/claude-haiku-4-5
    thinking: low
    ---
    You review code for another agent...

They lie in `.lemon/agents` of the working folder and of the home folder; four come with the program. A later one of
the same name stands in for an earlier one: built in, then home, then project. A file is data, whoever wrote it: nothing
in it is run, and it cannot give a subagent a tool that its parent has not got.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from attrs import field

from coding_agent.errors import BadDefinition, UnknownSubagent
from lemon_otp import frozen

FOLDER: Final = Path(".lemon") / "agents"
BUILT_IN: Final = Path(__file__).parent / "roles"
BYTES_MAX: Final = 64 * 1024
FILES_MAX: Final = 200
THINKING_LEVELS: Final = ("off", "minimal", "low", "medium", "high", "xhigh", "max")

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@frozen
class Definition:
    """One kind of subagent.

    Attributes:
        description: What it is good for; the parent's model reads it.
        prompt: What the subagent is told it is.
        tools: The tools it may have of its parent's; None for all but the one that starts subagents.
        model: `provider/model`; None for the parent's.
        thinking: None for the parent's level.
        path: Where it was read.
    """

    name: str
    description: str = ""
    prompt: str = field(default="", repr=False)
    tools: tuple[str, ...] | None = None
    model: str | None = None
    thinking: str | None = None
    path: Path | None = None


@frozen
class Definitions:
    """Every kind of subagent there is, and what was wrong with the files that gave none."""

    by_name: Mapping[str, Definition] = field(factory=dict)
    problems: tuple[BadDefinition, ...] = ()

    def named(self, name: str) -> Definition:
        """The definition of that name.

        Raises:
            UnknownSubagent: There is none.
        """
        found = self.by_name.get(name)
        if found is None:
            raise UnknownSubagent(name, sorted(self.by_name))
        return found


def load_definitions(cwd: Path, home: Path | None = None, *, project: bool = True) -> Definitions:
    """Read the definitions that hold in a working folder; a file that cannot be used is a problem of its own.

    Args:
        cwd: The working folder.
        home: The home folder; None for the person's own.
        project: Read those of the working folder; without, they are as if they were not there.
    """
    by_name: dict[str, Definition] = {}
    problems: list[BadDefinition] = []
    for folder in (BUILT_IN, (home or Path.home()) / FOLDER, *((cwd / FOLDER,) if project else ())):
        for path in _files(folder, problems):
            try:
                definition = read_definition(path)
            except BadDefinition as problem:
                problems.append(problem)
            else:
                by_name[definition.name] = definition
    return Definitions(by_name, tuple(problems))


def read_definition(path: Path) -> Definition:
    """Read one file.

    Raises:
        BadDefinition: It is no regular file, too large, no text, or says something that cannot be used.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as source:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise BadDefinition(path, "it is no regular file")
            raw = source.read(BYTES_MAX + 1)
    except OSError as error:
        raise BadDefinition(path, error.strerror or str(error)) from error
    if len(raw) > BYTES_MAX:
        raise BadDefinition(path, f"it is larger than {BYTES_MAX} bytes")
    try:
        return parse_definition(raw.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        raise BadDefinition(path, "it is no UTF-8 text") from error


def parse_definition(text: str, path: Path) -> Definition:
    """The definition a text gives; its name is the file's unless it says another. Raises as `read_definition`."""
    facts, body = _parted(text, path)
    name = facts.get("name", path.stem).strip()
    if not _NAME.fullmatch(name):
        raise BadDefinition(path, f"{name!r} cannot be a name: use small letters, digits, - and _")
    thinking = facts.get("thinking") or None
    if thinking is not None and thinking not in THINKING_LEVELS:
        raise BadDefinition(path, f"thinking is {thinking!r}; it can be {', '.join(THINKING_LEVELS)}")
    if not body.strip():
        raise BadDefinition(path, "there are no words for the subagent after the second ---")
    tools = _list(facts["tools"]) if facts.get("tools") else None
    return Definition(
        name, facts.get("description", ""), body.strip(), tools, facts.get("model") or None, thinking, path
    )


def _parted(text: str, path: Path) -> tuple[dict[str, str], str]:
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        raise BadDefinition(path, "the first line is not ---")
    facts: dict[str, str] = {}
    key = ""
    for number, line in enumerate(lines[1:], 2):
        if line.strip() == "---":
            return facts, "\n".join(lines[number:])
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if key and line[0] in " -" and line.strip().startswith("- "):  # an item of a list that began above
            facts[key] = ", ".join(filter(None, (facts[key], _bare(line.strip()[2:]))))
            continue
        key, colon, value = line.partition(":")
        key = key.strip()
        if not colon or not key.isidentifier():
            raise BadDefinition(path, f"line {number} is no `key: value`")
        if key in facts:
            raise BadDefinition(path, f"line {number}: {key} stands there twice")
        facts[key] = _bare(value)
    raise BadDefinition(path, "there is no second ---")


def _bare(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _list(value: str) -> tuple[str, ...]:
    items = value.strip().removeprefix("[").removesuffix("]").split(",")
    return tuple(dict.fromkeys(item for item in map(_bare, items) if item))


def _files(folder: Path, problems: list[BadDefinition]) -> Iterable[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".md"))
    except FileNotFoundError:
        return ()
    except OSError as error:
        problems.append(BadDefinition(folder, error.strerror or str(error)))
        return ()
    if len(names) > FILES_MAX:
        problems.append(BadDefinition(folder, f"only the first {FILES_MAX} of {len(names)} files were read"))
    return [folder / name for name in names[:FILES_MAX]]
