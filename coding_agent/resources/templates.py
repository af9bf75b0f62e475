"""Edge. Prompt templates: `NAME.md` is what `/NAME arguments` stands for."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from coding_agent.errors import UnreadableFile
from coding_agent.resources import frontmatter
from coding_agent.resources.files import entries, is_file, read_text
from coding_agent.resources.skills import Source
from lemon_otp import frozen

FILE_BYTES_MAX: Final = 256 * 1024
TEMPLATES_MAX: Final = 500
DESCRIPTION_CHARS: Final = 60
EXPANDED_CHARS_MAX: Final = 4 * 1024 * 1024

_PLACE: Final = re.compile(r"\$(?:(\d+)|(@)|(ARGUMENTS)(?![A-Za-z0-9_])|\{@:(\d+)(?::(\d+))?\})")


@frozen
class Template:
    """A prompt with places for arguments.

    Attributes:
        name: What it is called by, without the slash.
        description: For a list, on one line.
        path: Where it was read.
        source: Who put it there.
        text: With its places.
    """

    name: str
    description: str
    path: Path
    source: Source
    text: str

    def expand(self, args: str = "") -> str:
        """The text with the arguments in their places.

        Raises:
            UnreadableFile: It would be longer than a prompt can be.
        """
        text = substitute(self.text, split_arguments(args))
        if len(text) > EXPANDED_CHARS_MAX:
            raise UnreadableFile(self.path, f"with these arguments it has more than {EXPANDED_CHARS_MAX} characters")
        return text


def split_arguments(args: str) -> list[str]:
    """Words as a shell would split them; quotes hold words together, and one that is never closed does no harm."""
    words: list[str] = []
    word: list[str] = []
    quote = ""
    begun = False
    for char in args:
        if quote:
            if char == quote:
                quote = ""
            else:
                word.append(char)
        elif char in "\"'":
            quote, begun = char, True
        elif char.isspace():
            if word or begun:
                words.append("".join(word))
            word, begun = [], False
        else:
            word.append(char)
    if word or begun:
        words.append("".join(word))
    return words


def substitute(text: str, args: Sequence[str]) -> str:
    """Put arguments in their places, all in one pass: what stands in an argument is never taken for a place.

    `$1` is the first, `$@` and `$ARGUMENTS` are all, `${@:2}` those from the second on, `${@:2:3}` three of them. One
    that was not given leaves nothing.
    """

    def value(place: re.Match[str]) -> str:
        number, every, named, start, count = place.groups()
        if number is not None:
            index = int(number) if len(number) < 10 else 0
            return args[index - 1] if 0 < index <= len(args) else ""
        if every or named:
            return " ".join(args)
        first = max(int(start[:9]), 1) - 1
        return " ".join(args[first:] if count is None else args[first : first + int(count[:9])])

    return _PLACE.sub(value, text)


def load_templates(place: Path, source: Source) -> tuple[list[Template], list[str]]:
    """The templates of a folder, those in folders below it left out, or the one in a file."""
    templates: list[Template] = []
    problems: list[str] = []
    if place.is_file():
        paths = [place]
    else:
        paths = [Path(entry.path) for entry in entries(place) if entry.name.endswith(".md") and is_file(entry)]
    for path in paths[:TEMPLATES_MAX]:
        try:
            templates.append(read_template(path, source))
        except FileNotFoundError:
            problems.append(f"{path}: the file is gone")
        except (UnreadableFile, frontmatter.BadFrontmatter) as error:
            problems.append(str(error) if isinstance(error, UnreadableFile) else f"{path}: {error}")
    return templates, problems


def read_template(path: Path, source: Source) -> Template:
    """The template in a file.

    Raises:
        FileNotFoundError: There is none.
        UnreadableFile: It gives no text.
        BadFrontmatter: The data before its text cannot be read.
    """
    document = frontmatter.parse(read_text(path, FILE_BYTES_MAX))
    description = frontmatter.one_line(frontmatter.text_of(document.data.get("description")))
    return Template(path.stem, description or _first_words(document.body), path, source, document.body.strip())


def _first_words(body: str) -> str:
    line = next((line.strip() for line in body.splitlines() if line.strip()), "")
    return line if len(line) <= DESCRIPTION_CHARS else line[:DESCRIPTION_CHARS] + "..."


def first_of_each(found: Iterable[Template]) -> tuple[tuple[Template, ...], list[str]]:
    """Each name once: the first one that has it."""
    by_name: dict[str, Template] = {}
    problems = []
    for template in found:
        other = by_name.setdefault(template.name, template)
        if other is not template and other.path.resolve() != template.path.resolve():
            problems.append(f"{template.path}: the name {template.name!r} is taken by {other.path}")
    return tuple(by_name.values()), problems
