"""Pure. A Jupyter notebook as text: its cells in order, with what they printed."""

import json
from typing import Any, Final

from coding_agent.tools.visible_text import plain

OUTPUT_CHARACTERS_MAX: Final = 4_000


class NotANotebook(Exception):
    """The file is not what its name says."""


def rendered(data: bytes) -> str:
    """The notebook's cells, each under a line that numbers it.

    Raises:
        NotANotebook: It is no JSON, or holds no cells.
    """
    try:
        notebook = json.loads(data)
        cells = notebook["cells"]
        return "\n".join(cell_text(number, cell) for number, cell in enumerate(cells, 1))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotANotebook(str(error)) from error


def cell_text(number: int, cell: dict[str, Any]) -> str:
    """One cell."""
    parts = [f"--- cell {number}: {cell.get('cell_type', 'unknown')} ---", joined(cell.get("source", ""))]
    for output in cell.get("outputs") or []:
        parts.append(f"--- output of cell {number} ---")
        parts.append(output_text(output))
    return "\n".join(parts) + "\n"


def output_text(output: dict[str, Any]) -> str:
    """What a cell printed, returned or failed with; pictures are named only."""
    kind = output.get("output_type")
    if kind == "stream":
        return shortened(joined(output.get("text", "")))
    if kind == "error":
        return shortened("\n".join(output.get("traceback") or [f"{output.get('ename')}: {output.get('evalue')}"]))
    data = output.get("data") or {}
    lines = [shortened(joined(data["text/plain"]))] if "text/plain" in data else []
    lines += [f"[{name}, {len(joined(value))} characters]" for name, value in data.items() if name != "text/plain"]
    return "\n".join(lines)


def joined(value: Any) -> str:
    """Notebooks keep text as a string or as a list of lines."""
    return "".join(map(str, value)) if isinstance(value, list) else str(value)


def shortened(text: str) -> str:
    text = plain(text)
    return text if len(text) <= OUTPUT_CHARACTERS_MAX else text[:OUTPUT_CHARACTERS_MAX] + "\n[... cut ...]"
