"""A recorded exchange as a file, and the ways its body can be cut into pieces."""

import base64
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "cassettes"
_NOT_REPLAYED = frozenset({"content-length", "transfer-encoding", "content-encoding", "connection", "keep-alive"})


@frozen
class Cassette:
    """One recorded exchange."""

    id: str
    api: str
    provider: str
    model: str
    request: Mapping[str, Any]
    status: int
    headers: Mapping[str, str]
    body: bytes
    expect: Mapping[str, Any]

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def load(path: Path) -> Cassette:
    """The cassette in one file."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    answer = stored["response"]
    if answer.get("body_base64") is not None:
        body = base64.b64decode(answer["body_base64"])
    else:
        body = (answer.get("body_text") or "").encode("utf-8", "surrogatepass")
    headers = {name: value for name, value in _pairs(answer.get("headers")) if name.lower() not in _NOT_REPLAYED}
    return Cassette(
        id=stored["id"],
        api=stored["api"],
        provider=stored["provider"],
        model=stored["model"],
        request=stored.get("request") or {},
        status=answer["status"],
        headers=headers,
        body=body,
        expect=stored.get("expect") or {},
    )


def find(paths: Iterable[str | Path]) -> list[Path]:
    """The cassette files among files and folders, in order; an index is none."""
    found: list[Path] = []
    for given in map(Path, paths):
        files = sorted(given.glob("*.json")) if given.is_dir() else [given]
        if not files or not all(file.is_file() for file in files):
            raise FileNotFoundError(f"no cassettes at {given}")
        found.extend(file for file in files if file.name != "index.json")
    return found


def pieces(body: bytes, split: str | None, name: str) -> Iterator[bytes]:
    """`body` in pieces: whole, of N bytes, or of random lengths that a seed and the cassette's name decide."""
    if not split or split == "whole":
        if body:
            yield body
        return
    if not split.startswith("random:"):
        size = int(split)
        yield from (body[at : at + size] for at in range(0, len(body), size))
        return
    dice = random.Random(f"{split.removeprefix('random:')}/{name}")
    at = 0
    while at < len(body):
        size = dice.choice((1, 2, 3, 7, 19, 64, 257, 1024, 4096))
        yield body[at : at + size]
        at += size


def _pairs(headers: Any) -> Iterable[tuple[str, str]]:
    if isinstance(headers, Mapping):
        return [(str(name), str(value)) for name, value in headers.items()]
    return [(str(name), str(value)) for name, value in headers or ()]
