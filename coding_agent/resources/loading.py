"""Edge. Everything a person and a project say to the agent in files, read once into one frozen value."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

from coding_agent.errors import UnreadableFile
from coding_agent.resources import places, skills, templates
from coding_agent.resources.context_files import ContextFile, read_context
from coding_agent.resources.files import read_text
from coding_agent.resources.skills import Skill
from coding_agent.resources.templates import Template
from coding_agent.subagents.definitions import Definitions, load_definitions

if TYPE_CHECKING:
    from coding_agent.settings import Settings

PROMPT_BYTES_MAX: Final = 256 * 1024


@frozen
class Resources:
    """What was found for one working folder.

    Attributes:
        context: Files for every agent that works there, the nearest last.
        skills: By name, each once.
        templates: By name, each once.
        subagents: The kinds of subagents there are.
        mcp_files: Files that name MCP servers and count; a later one wins by the server's name.
        system_prompt: Stands in for the agent's own identity; None when nobody wrote one.
        append_prompt: Is added after it.
        problems: What could not be used, a line each.
        trusted: The project's own files were read too.
        pending: The project's files that wait for trust.
        skill_commands: Skills are offered as `/skill:NAME`.
    """

    context: tuple[ContextFile, ...] = ()
    skills: tuple[Skill, ...] = ()
    templates: tuple[Template, ...] = ()
    subagents: Definitions = field(factory=Definitions)
    mcp_files: tuple[Path, ...] = ()
    system_prompt: str | None = None
    append_prompt: str | None = None
    problems: tuple[str, ...] = ()
    trusted: bool = False
    pending: tuple[str, ...] = ()
    skill_commands: bool = True

    @property
    def readable(self) -> tuple[Path, ...]:
        """What the model may read besides the working folder: the skills it is told of, with what lies beside them."""
        return tuple(skill.folder if skill.path.name == skills.FILE_NAME else skill.path for skill in self.skills)

    def skill(self, name: str) -> Skill | None:
        """The skill of that name."""
        return next((skill for skill in self.skills if skill.name == name), None)

    def template(self, name: str) -> Template | None:
        """The template of that name."""
        return next((template for template in self.templates if template.name == name), None)


def load_resources(settings: "Settings", *, trusted: bool) -> Resources:
    """Read what holds in a working folder. What is wrong with a file is a problem of its own and never raises.

    Args:
        settings: Of this start: the folder, further places, what is switched off.
        trusted: The person trusts the project, so that its skills, templates, prompts and subagents count. Its context
            files are read in any case.
    """
    problems: list[str] = []
    wanted = settings.resources
    where = places.places_of(settings, trusted=trusted)
    context: tuple[ContextFile, ...] = ()
    if wanted.context_files:
        reading = read_context(settings.cwd, where.personal, home=settings.home, trusted=trusted)
        context = tuple(reading.files)
        problems += reading.problems
    subagents = load_definitions(settings.cwd, settings.home, project=trusted)
    problems += map(str, subagents.problems)
    return Resources(
        context=context,
        skills=_skills(where.skills, problems) if wanted.use_skills else (),
        templates=_templates(where.templates, problems) if wanted.use_templates else (),
        subagents=subagents,
        mcp_files=tuple(file for file in where.mcp_files if os.path.isfile(file)),
        system_prompt=_prompt(wanted.system_prompt, where.prompts, "SYSTEM.md", problems),
        append_prompt=_prompt(wanted.append_prompt, where.prompts, "APPEND_SYSTEM.md", problems),
        problems=tuple(dict.fromkeys(problems)),
        trusted=trusted,
        pending=() if trusted else settings.pending,
        skill_commands=wanted.skill_commands,
    )


def _skills(wanted: Iterable[places.Place], problems: list[str]) -> tuple[Skill, ...]:
    found = [
        (place, skills.load_skills(place.path, place.source, single_files=place.single_files))
        for place in _existing(wanted, problems)
    ]
    for _, each in found:
        problems.extend(each.problems)
    first = skills.first_of_each(skill for place, each in found for skill in each.skills if place.admits(skill.path))
    problems.extend(first.problems)
    return first.skills


def _templates(wanted: Iterable[places.Place], problems: list[str]) -> tuple[Template, ...]:
    found: list[Template] = []
    for place in _existing(wanted, problems):
        loaded, wrong = templates.load_templates(place.path, place.source)
        found += [template for template in loaded if place.admits(template.path)]
        problems += wrong
    first, clashes = templates.first_of_each(found)
    problems += clashes
    return first


def _existing(wanted: Iterable[places.Place], problems: list[str]) -> Iterator[places.Place]:
    for place in wanted:
        if os.path.exists(place.path):
            yield place
        elif place.source == "path":
            problems.append(f"{place.path}: there is no such file or folder")


def _prompt(given: str | None, folders: Iterable[Path], name: str, problems: list[str]) -> str | None:
    """The text of a flag, or of the file it names; else the first file of that name."""
    try:
        if given is not None:
            return _text_or_file(given)
        for folder in folders:
            try:
                return read_text(folder / name, PROMPT_BYTES_MAX).strip() or None
            except FileNotFoundError:
                continue
    except UnreadableFile as error:
        problems.append(str(error))
    return None


def _text_or_file(given: str) -> str:
    if "\n" not in given and len(given) < 1_024 and os.path.isfile(given):
        return read_text(Path(given), PROMPT_BYTES_MAX).strip()
    return given
