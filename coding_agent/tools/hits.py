"""Edge. What a search program printed, read into lines found, put in order, and shown."""

import base64
import json
import os
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from attrs import define

from coding_agent.tools.find import printable
from coding_agent.tools.ignore import READ_FLAGS
from coding_agent.tools.text_file import SNIFFED, looks_binary
from coding_agent.tools.truncate import MAX_BYTES, clip_around, whole_lines
from coding_agent.tools.visible_text import CONTROLS, reveal

LINE_WIDTH: Final = 500


class Hit(NamedTuple):
    """A line that was found, or one beside it; `line` is cut to what is shown."""

    path: str
    number: int
    line: str
    matches: bool
    cut: bool

    @property
    def order(self) -> tuple[list[str], int]:
        """Directory by directory, as a walk meets them."""
        return self.path.split("/"), self.number


@define
class Cut:
    """What was left out while printing."""

    lines: bool = False
    bytes: bool = False


class Hits:
    """Collects what a program prints in ripgrep's JSON form, in whatever order and pieces."""

    def __init__(
        self, prefix: str, context: int, limit: int, folder: int, concealed: Callable[[str], bool] | None = None
    ) -> None:
        """Args:
        prefix: Put before every path.
        context: How many lines beside a match belong to it.
        limit: How many matches are wanted.
        folder: The open directory that paths are relative to.
        concealed: Says which files must not be shown; None: all may be.
        """
        self._prefix = prefix
        self._context = context
        self._limit = limit
        self._folder = folder
        self._rest = b""
        self._hits: list[Hit] = []
        self._matches = 0
        self._concealed = concealed
        self._passed_over: dict[str, bool] = {}

    @property
    def found(self) -> bool:
        """Any match at all."""
        return self._matches > 0

    @property
    def full(self) -> bool:
        """More matches than wanted."""
        return self._matches > self._limit

    def feed(self, data: bytes) -> None:
        """Take the next piece of the program's output."""
        self._rest += data
        if b"\n" in data:
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["type"] in ("match", "context"):
                    self._take(event["data"], matches=event["type"] == "match")

    def _take(self, data: dict[str, Any], *, matches: bool) -> None:
        path = os.fsdecode(as_bytes(data["path"])).removeprefix("./")
        if self._is_passed_over(path):
            return
        raw = as_bytes(data["lines"]).rstrip(b"\r\n")
        line = raw.decode(errors="replace")
        start = end = 0
        if data["submatches"]:
            span = data["submatches"][0]
            start = len(raw[: span["start"]].decode(errors="replace"))
            end = len(raw[: span["end"]].decode(errors="replace"))
        shown = clip_around(line, start, end, LINE_WIDTH)
        self._matches += matches
        self._hits.append(Hit(self._prefix + path, data["line_number"], shown, matches, shown != line))

    @property
    def concealed(self) -> int:
        """How many files had matches that are not shown because of the rules."""
        if self._concealed is None:
            return 0
        return sum(self._concealed(path) for path in self._passed_over)

    def _is_passed_over(self, path: str) -> bool:
        known = self._passed_over.get(path)
        if known is None and self._concealed is not None and self._concealed(path):
            known = self._passed_over[path] = True
        if known is None:
            try:
                fd = os.open(path, READ_FLAGS, dir_fd=self._folder)
            except OSError:
                known = False
            else:
                try:
                    known = looks_binary(os.read(fd, SNIFFED))
                finally:
                    os.close(fd)
            self._passed_over[path] = known
        return known

    def in_order(self) -> list[Hit]:
        """The first matches, as many as wanted, with the lines beside them."""
        ordered = sorted(self._hits, key=lambda hit: hit.order)
        if not self.full:
            return ordered
        kept: list[Hit] = []
        matches = 0
        for hit in ordered:
            if hit.matches:
                matches += 1
                if matches > self._limit:
                    break
            kept.append(hit)
        last = max(index for index, hit in enumerate(kept) if hit.matches)
        after = [
            hit
            for hit in kept[last + 1 :]
            if hit.path == kept[last].path and hit.number <= kept[last].number + self._context
        ]
        return kept[: last + 1] + after


def as_bytes(value: dict[str, str]) -> bytes:
    """Text or base64, as ripgrep writes what may be no UTF-8."""
    if "text" in value:
        return value["text"].encode(errors="surrogatepass")
    return base64.b64decode(value["bytes"])


def printed(hits: list[Hit], context: int) -> tuple[str, bool, Cut]:
    """The lines as the model gets them, whether something invisible is in them, and what was cut."""
    lines: list[str] = []
    before: Hit | None = None
    for hit in hits:
        if context and before is not None and (before.path != hit.path or hit.number > before.number + 1):
            lines.append("--")
        path = printable(hit.path)
        text = CONTROLS.sub("\ufffd", hit.line)
        lines.append(f"{path}:{hit.number}: {text}" if hit.matches else f"{path}-{hit.number}- {text}")
        before = hit
    text, hidden = reveal("\n".join(lines))
    fitting = whole_lines(text, MAX_BYTES)
    return fitting, hidden, Cut(lines=any(hit.cut for hit in hits), bytes=fitting != text)
