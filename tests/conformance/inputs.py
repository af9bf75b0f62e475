"""Edge. Scenario files: `.json` holds one, `.jsonl` one a line, a folder all of both in name order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


class UnreadableInput(Exception):
    """A path that holds no scenarios, or text that is none."""


def read_scenarios(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Every scenario under `paths`, in input order; raises `UnreadableInput`."""
    return [scenario for path in paths for scenario in _read(path)]


def _read(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_dir():
        for member in sorted(path.iterdir(), key=lambda entry: entry.name):
            if member.suffix in (".json", ".jsonl"):
                yield from _read(member)
        return
    try:
        text = path.read_text(encoding="utf-8")
        documents = [text] if path.suffix != ".jsonl" else [line for line in text.splitlines() if line.strip()]
        for document in documents:
            yield _checked(json.loads(document))
    except (OSError, ValueError) as error:
        raise UnreadableInput(f"{path}: {error}") from error


def _checked(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise ValueError("a scenario is a JSON object with a name")
    return document
