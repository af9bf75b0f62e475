"""Play cassettes to the providers, several at a time, and compare."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from tests.cassettes.asked import ask, got
from tests.cassettes.compared import differences
from tests.cassettes.recording import load
from tests.cassettes.server import Player, playing
from tests.cassettes.wanted import wanted

Json = dict[str, Any]


async def play(player: Player, path: Path, split: str | None) -> Json:
    """One line of the report."""
    try:
        cassette = load(path)
        want = wanted(cassette)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        return {"id": path.stem, "ok": False, "got": {"failure": repr(problem)}, "want": None}
    try:
        said = got(cassette, await ask(cassette, player.put(cassette, split)))
    except Exception as problem:  # whatever a provider raises is an outcome to report
        return {"id": cassette.id, "ok": False, "got": {"failure": repr(problem)}, "want": want}
    wrong = differences(said, want)
    line: Json = {"id": cassette.id, "ok": not wrong, "got": said, "want": want}
    return line | {"wrong": wrong} if wrong else line


async def play_all(paths: Sequence[Path], split: str | None) -> AsyncIterator[Json]:
    """A line for each cassette, in the order given."""
    async with playing() as player:
        for path in paths:
            yield await play(player, path, split)


def lines(paths: Sequence[Path], split: str | None) -> list[Json]:
    """All lines of one run, on an event loop of its own."""

    async def collect() -> list[Json]:
        return [line async for line in play_all(paths, split)]

    return asyncio.run(collect())
