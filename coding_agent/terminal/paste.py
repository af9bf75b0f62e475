"""Pure, but for a look at files. What is pasted: long text is folded to a word, paths of pictures become pictures."""

import re
import shlex
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from attrs import define, field, frozen

from coding_agent.tools.images import picture_kind
from coding_agent.tools.visible_text import plain

LINES_MAX: Final = 10
CHARACTERS_MAX: Final = 1_000
PASTE_MAX: Final = 5_000_000
"""Characters; more is cut, and said."""
PICTURE_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")
PICTURE_BYTES_MAX: Final = 20_000_000
FOLDED: Final = re.compile(r"\[pasted (?:[\d,]+ lines|[\d,]+ characters) #(\d+)\]")
PICTURE: Final = re.compile(r"\[picture #(\d+): [^\]\n]*\]")


@frozen
class Picture:
    """A picture that goes with a prompt."""

    path: Path
    data: bytes
    mime_type: str


@define
class Pasted:
    """What the words in the editor stand for."""

    texts: dict[int, str] = field(factory=dict)
    pictures: dict[int, Picture] = field(factory=dict)
    _last: int = 0

    def paste(self, text: str, cwd: Path) -> str:
        """What is put into the editor for pasted text."""
        pictures = pictures_in(text, cwd)
        if pictures:
            return " ".join(self._keep_picture(each) for each in pictures) + " "
        clean = plain(text.replace("\r\n", "\n").replace("\r", "\n"))
        if len(clean) > PASTE_MAX:
            clean = clean[:PASTE_MAX] + "\n[... cut ...]"
        lines = clean.count("\n") + 1
        if lines <= LINES_MAX and len(clean) <= CHARACTERS_MAX:
            return clean
        self._last += 1
        self.texts[self._last] = clean
        size = f"{lines:,} lines" if lines > LINES_MAX else f"{len(clean):,} characters"
        return f"[pasted {size} #{self._last}]"

    def unfolded(self, text: str) -> str:
        """The text with what was pasted in its place, and without the words for pictures that go beside it."""
        text = FOLDED.sub(lambda found: self.texts.get(int(found[1]), found[0]), text)
        return PICTURE.sub(lambda found: "" if int(found[1]) in self.pictures else found[0], text).strip()

    def pictures_of(self, text: str) -> list[Picture]:
        """The pictures whose words are still in the text, in their order."""
        numbers = [int(found[1]) for found in PICTURE.finditer(text)]
        return [self.pictures[number] for number in dict.fromkeys(numbers) if number in self.pictures]

    def clear(self) -> None:
        """The editor is empty again; numbers go on, so that old words never stand for something new."""
        self.texts.clear()
        self.pictures.clear()

    def _keep_picture(self, picture: Picture) -> str:
        self._last += 1
        self.pictures[self._last] = picture
        name = re.sub(r"[\[\]\n]", "_", plain(picture.path.name))
        return f"[picture #{self._last}: {name}]"


def pictures_in(text: str, cwd: Path) -> list[Picture]:
    """The pictures that pasted text names, when it is nothing but their paths; else none."""
    if len(text) > 10_000 or not any(suffix in text.casefold() for suffix in PICTURE_SUFFIXES):
        return []
    found = []
    for word in path_words(text.strip()):
        picture = read_picture(as_path(word, cwd))
        if picture is None:
            return []
        found.append(picture)
    return found


def path_words(text: str) -> list[str]:
    """The paths in text that is dropped on a terminal: quoted, escaped, or one a line."""
    if text.startswith("/") and "\n" not in text and Path(text).is_file():
        return [text]
    try:
        return [word for line in text.splitlines() for word in shlex.split(line)]
    except ValueError:
        return text.splitlines()


def as_path(word: str, cwd: Path) -> Path:
    """A path or a file URL as a path."""
    if word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    return cwd / Path(word).expanduser() if word.startswith("~") else cwd / word


def read_picture(path: Path) -> Picture | None:
    """The picture in a file, None when it has none."""
    try:
        if path.suffix.casefold() not in PICTURE_SUFFIXES or not 0 < path.stat().st_size <= PICTURE_BYTES_MAX:
            return None
        data = path.read_bytes()
    except (OSError, ValueError):
        return None
    kind = picture_kind(data)
    return None if kind is None else Picture(path, data, kind.mime_type)
