"""Edge. The program that searches files where there is no ripgrep; what it prints has ripgrep's own form.

It runs by itself (`python -I -S search_main.py REQUEST`) in the directory to search, for two reasons: Python's regular
expressions can take for ever and cannot be interrupted from within, and they hold up every other thread meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from coding_agent.tools.ignore import READ_FLAGS, REPOSITORY, Rules
    from coding_agent.tools.path_globs import path_pattern
    from coding_agent.tools.walk import walk
else:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from ignore import READ_FLAGS, REPOSITORY, Rules
    from path_globs import path_pattern
    from walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

CHUNK: Final = 1 << 18
SNIFFED: Final = 8192
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
WIDE: Final = (b"\xff\xfe", b"\xfe\xff")
UTF8_MARK: Final = b"\xef\xbb\xbf"


class Search:
    """One search, as the request describes it."""

    def __init__(self, request: dict[str, Any]) -> None:
        flags = re.MULTILINE | (re.IGNORECASE if request["ignore_case"] else 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.pattern = re.compile(request["pattern"], flags)
        self.by_line: bool = request["by_line"]
        self.context: int = request["context"]
        self.limit: int = request["limit"]
        glob: str | None = request["glob"]
        self.excluding = glob is not None and glob.startswith("!")
        self.glob = None if glob is None else path_pattern(glob.removeprefix("!"))
        self.needle = needle_of(request["literal"], request["ignore_case"])
        self.found = 0

    def run(self, only: str | None) -> None:
        """Search one file, or everything below the working directory, until the limit is reached."""
        root = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        if only is not None:
            self.search(root, only, only)
            return
        for path, name, kind, _depth, directory in walk(root, _nothing, skip=self.skip, rules=Rules.above(root, "")):
            if kind == "file":
                self.search(directory, name, path)
                if self.found > self.limit:
                    return

    def skip(self, path: str, name: str, is_dir: bool, rules: Rules) -> bool:
        """As ripgrep does it: what a glob names is searched even when an ignore file names it too."""
        if name == REPOSITORY:
            return True
        if self.glob is not None:
            if self.glob.fullmatch(path):
                return self.excluding
            if not is_dir and not self.excluding:
                return True
        return rules.ignored(path, name, is_dir)

    def search(self, directory: int, name: str, path: str) -> None:
        """Print what one file has."""
        data = read(directory, name)
        if data is None or (self.needle is not None and self.needle not in data and not data.startswith(WIDE)):
            return
        text = decoded(data)
        starts: list[int] = []
        for start in self.matching_lines(text):
            starts.append(start)
            if self.found + len(starts) > self.limit:
                break
        if starts:
            self.found += len(starts)
            self.report(path, text, starts)

    def matching_lines(self, text: str) -> Iterator[int]:
        """Where each line begins that the pattern matches in."""
        at, last = 0, len(text) - 1 if text.endswith("\n") else len(text)
        while at <= last:
            hit = at
            if not self.by_line:
                match = self.pattern.search(text, at)
                if match is None or match.start() > last:
                    return
                hit = match.start()
            start = text.rfind("\n", at, hit) + 1 or at
            end = text.find("\n", hit)
            end = len(text) if end < 0 else end
            # What matches across lines must match within one of them too.
            if self.pattern.search(text[start:end]):
                yield start
            at = end + 1

    def report(self, path: str, text: str, starts: list[int]) -> None:
        """The matching lines with their context, each line once and in order."""
        counted, number = 0, 1
        numbers = {}
        for start in starts:
            number += text.count("\n", counted, start)
            counted = start
            numbers[number] = start
        printed = 0
        for number, start in numbers.items():
            first = max(printed + 1, number - self.context)
            at = start
            for _line in range(number - first):
                at = text.rfind("\n", 0, at - 1) + 1
            for near in range(first, number + self.context + 1):
                if at >= len(text) or (near > number and near in numbers):
                    break
                end = text.find("\n", at)
                end = len(text) if end < 0 else end
                self.emit(path, near, text[at:end], near == number)
                printed = near
                at = end + 1

    def emit(self, path: str, number: int, line: str, matches: bool) -> None:
        found = self.pattern.search(line) if matches else None
        clean = line.encode(errors="surrogateescape").decode(errors="replace")
        spans = (
            [{"start": len(clean[: found.start()].encode()), "end": len(clean[: found.end()].encode())}]
            if found
            else []
        )
        data = {"path": named(path), "lines": {"text": clean}, "line_number": number, "submatches": spans}
        print(json.dumps({"type": "match" if matches else "context", "data": data}))


def needle_of(literal: str | None, ignore_case: bool) -> bytes | None:
    """Bytes that a file must hold to be worth a look; None when that cannot be said."""
    return None if literal is None or ignore_case else literal.encode(errors="surrogateescape")


def named(path: str) -> dict[str, str]:
    """A path as ripgrep names it: its text, or its bytes when they are no UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        import base64

        return {"bytes": base64.b64encode(os.fsencode(path)).decode()}
    return {"text": path}


def read(directory: int, name: str) -> bytes | None:
    """A text file's bytes; None when it is binary, too large or cannot be read."""
    try:
        fd = os.open(name, READ_FLAGS, dir_fd=directory)
    except OSError:
        return None
    try:
        data = os.read(fd, CHUNK)
        if b"\0" in data[:SNIFFED] and not data.startswith(WIDE):
            return None
        if len(data) == CHUNK:
            if os.fstat(fd).st_size > FILE_BYTES_MAX:
                return None
            with os.fdopen(os.dup(fd), "rb") as file:
                data += file.read(FILE_BYTES_MAX)
        return data
    except OSError:
        return None
    finally:
        os.close(fd)


def decoded(data: bytes) -> str:
    """The text, lines ending with LF; bytes that are no UTF-8 stay recognisable."""
    if data.startswith(WIDE):
        text = data[2:].decode("utf-16-le" if data.startswith(WIDE[0]) else "utf-16-be", errors="replace")
    else:
        text = data.removeprefix(UTF8_MARK).decode(errors="surrogateescape")
    return text.replace("\r\n", "\n") if "\r" in text else text


def _nothing() -> None:
    """Nobody asks this program to stop; it is killed."""


def main() -> None:
    request = json.loads(sys.argv[1])
    sys.path += request["sys_path"]
    Search(request).run(request["only"])


if __name__ == "__main__":
    main()
