"""Edge. Skills: folders with a `SKILL.md` that says what it is good for; the model reads the rest when it needs it.

    ---
    name: pdf-forms
    description: Fills in PDF forms. Use it when a form is mentioned.
    ---
    # How to ...

A file of a wrong name is a warning; one without a description is not loaded, because nobody could know when to use it.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from attrs import field

from coding_agent.errors import UnreadableFile
from coding_agent.resources import frontmatter
from coding_agent.resources.files import FOLDER_DEPTH_MAX, entries, is_file, is_folder, read_text
from lemon_otp import frozen

Source: TypeAlias = Literal["user", "project", "path"]
"""Who put it there: the person in a folder of their own, the project, or a path of a setting or a flag."""

FILE_NAME: Final = "SKILL.md"
FILE_BYTES_MAX: Final = 256 * 1024
NAME_CHARS_MAX: Final = 64
DESCRIPTION_CHARS_MAX: Final = 1024
COMPATIBILITY_CHARS_MAX: Final = 500
SKILLS_MAX: Final = 500


@frozen
class Skill:
    """Instructions for one kind of work, read when they are needed.

    Attributes:
        name: What it is called by.
        description: When it is of use, on one line.
        path: The file.
        source: Who put it there.
        model_invocable: The model is told of it; else only a person starts it.
        digest: Of a project's file as it was when the project was trusted; it is followed only as long as it is that.
    """

    name: str
    description: str
    path: Path
    source: Source
    model_invocable: bool = True
    digest: str | None = field(default=None, repr=False)

    @property
    def folder(self) -> Path:
        """Where what it speaks of lies."""
        return self.path.parent

    def expand(self, args: str = "") -> str:
        """What is said to the model when a person starts the skill: its words, read now, and what they want of it.

        Raises:
            UnreadableFile: The file is gone or cannot be read, or has changed since the project was trusted.
        """
        try:
            text = read_text(self.path, FILE_BYTES_MAX)
        except FileNotFoundError as error:
            raise UnreadableFile(self.path, "the skill's file is gone") from error
        if self.digest not in (None, _digest(text)):
            raise UnreadableFile(self.path, "it has changed since the project was trusted; /reload looks again")
        body = frontmatter.body_of(text)
        head = f'<skill name="{_escaped(self.name)}" location="{_escaped(str(self.path))}">'
        parts = [f"{head}\nPaths in it are relative to {self.folder}.\n\n{body}\n</skill>"]
        if args.strip():
            parts.append(f"User: {args.strip()}")
        return "\n\n".join(parts)


@frozen
class Found:
    """The skills of one place, and what was wrong there."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = field(default=())


def load_skills(place: Path, source: Source, *, single_files: bool = True) -> Found:
    """The skills of a folder, or the one in a file.

    A folder with a `SKILL.md` is a skill, and what lies below it belongs to it; other folders are looked into. In the
    first one a plain `*.md` is a skill too, if `single_files`.
    """
    skills: list[Skill] = []
    problems: list[str] = []
    paths = [place] if place.is_file() else _files(place, single_files=single_files)
    for path in paths:
        if len(skills) >= SKILLS_MAX:
            problems.append(f"{place}: only the first {SKILLS_MAX} skills were read")
            break
        skill, wrong = read_skill(path, source)
        problems.extend(f"{path}: {problem}" for problem in wrong)
        if skill is not None:
            skills.append(skill)
    return Found(tuple(skills), tuple(problems))


def read_skill(path: Path, source: Source) -> tuple[Skill | None, list[str]]:
    """The skill in a file, if there is one to be had, and what is wrong with it."""
    try:
        text = read_text(path, FILE_BYTES_MAX)
        data = frontmatter.parse(text).data
    except FileNotFoundError:
        return None, ["the file is gone"]
    except UnreadableFile as error:
        return None, [error.problem]
    except frontmatter.BadFrontmatter as error:
        return None, [str(error)]
    expected = path.parent.name if path.name == FILE_NAME else path.stem
    name = frontmatter.text_of(data.get("name")).strip() or expected
    description = frontmatter.one_line(frontmatter.text_of(data.get("description")))
    problems = [*_name_problems(name, expected), *_other_problems(description, data)]
    if not description:
        return None, problems
    hidden = frontmatter.flag_of(data.get("disable-model-invocation"))
    digest = _digest(text) if source == "project" else None
    return Skill(name, description, path, source, model_invocable=not hidden, digest=digest), problems


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _name_problems(name: str, expected: str) -> Iterator[str]:
    if name != expected:
        yield f"the name {name!r} does not match its folder or file, {expected!r}"
    if len(name) > NAME_CHARS_MAX:
        yield f"the name exceeds {NAME_CHARS_MAX} characters ({len(name)})"
    if not re.fullmatch(r"[a-z0-9-]+", name):
        yield f"the name {name!r} contains invalid characters: only a-z, 0-9 and - are"
    if name.startswith("-") or name.endswith("-"):
        yield f"the name {name!r} must not begin or end with a hyphen"
    if "--" in name:
        yield f"the name {name!r} must not contain consecutive hyphens"


def _other_problems(description: str, data: Any) -> Iterator[str]:
    if not description:
        yield "a description is required; the skill was not loaded"
    if len(description) > DESCRIPTION_CHARS_MAX:
        yield f"the description exceeds {DESCRIPTION_CHARS_MAX} characters ({len(description)})"
    if len(frontmatter.text_of(data.get("compatibility"))) > COMPATIBILITY_CHARS_MAX:
        yield f"compatibility exceeds {COMPATIBILITY_CHARS_MAX} characters"


def _files(folder: Path, *, single_files: bool) -> Iterator[Path]:
    if single_files:
        for entry in entries(folder):
            if entry.name.endswith(".md") and entry.name != FILE_NAME and entry.name[0] != "." and is_file(entry):
                yield Path(entry.path)
    yield from _skill_files(folder, FOLDER_DEPTH_MAX, set())


def _skill_files(folder: Path, depth: int, seen: set[str]) -> Iterator[Path]:
    real = os.path.realpath(folder)
    if real in seen:  # links may lead in a circle
        return
    seen.add(real)
    inside = entries(folder)
    if any(entry.name == FILE_NAME and is_file(entry) for entry in inside):
        yield folder / FILE_NAME
        return
    if depth == 0:
        return
    for entry in inside:
        if not _passed_over(entry.name) and is_folder(entry):
            yield from _skill_files(Path(entry.path), depth - 1, seen)


def _passed_over(name: str) -> bool:
    return name.startswith(".") or name == "node_modules"


def first_of_each(found: Iterable[Skill]) -> Found:
    """Each name once: the first one that has it; a file reached in two ways counts once, without a word."""
    by_name: dict[str, Skill] = {}
    files: set[str] = set()
    problems = []
    for skill in found:
        real = os.path.realpath(skill.path)
        if real in files:
            continue
        files.add(real)
        if skill.name in by_name:
            problems.append(f"{skill.path}: the name {skill.name!r} is taken by {by_name[skill.name].path}")
        else:
            by_name[skill.name] = skill
    return Found(tuple(by_name.values()), tuple(problems))


def listing(skills: Iterable[Skill]) -> str:
    """What the model is told about the skills it may use; empty when there are none."""
    shown = [skill for skill in skills if skill.model_invocable]
    if not shown:
        return ""
    lines = [
        "Skills hold instructions for special kinds of work. When a task fits a description, read the skill's file "
        "first; paths in it are relative to the folder it lies in.",
        "<available_skills>",
    ]
    for skill in shown:
        lines += [
            "  <skill>",
            f"    <name>{_escaped(skill.name)}</name>",
            f"    <description>{_escaped(skill.description)}</description>",
            f"    <location>{_escaped(str(skill.path))}</location>",
            "  </skill>",
        ]
    return "\n".join([*lines, "</available_skills>"])


def _escaped(text: str) -> str:
    """For XML; importing the library's own takes longer than reading the skills."""
    for char, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(char, name)
    return text
