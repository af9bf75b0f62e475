"""Edge. What the tool `edit` does: read, change in memory, replace, report. Loaded with the first edit."""

from typing import Any, Final

from attrs import frozen

from coding_agent.tools import diff
from coding_agent.tools.arguments import optional_flag, required_text
from coding_agent.tools.edit_hints import hint
from coding_agent.tools.edits import Change, Edit, EditRefused, plan
from coding_agent.tools.files import Fence, Version, read_bytes, replace
from coding_agent.tools.paths import Place
from coding_agent.tools.text_file import NotText, TextFile, decode
from lemon_agent import AgentToolResult, ToolError, text_result

FILE_BYTES_MAX: Final = 64 * 1024 * 1024


@frozen
class Edited:
    """What was done to a file."""

    place_name: str
    real: str
    version: Version
    changes: list[Change]
    diff: str
    first_line: int
    loose_lines: list[tuple[int, int]]
    encoding: str


def edits_of(params: dict[str, Any]) -> list[Edit]:
    """The replacements asked for, in either form.

    Raises:
        ToolError: Neither or both forms were used, or a field is missing.
    """
    several = params.get("edits")
    if several:
        if params.get("old_text") is not None:
            raise ToolError("Give either old_text and new_text, or edits, not both")
        if not isinstance(several, list) or not all(isinstance(each, dict) for each in several):
            raise ToolError("edits must be a list of objects with old_text and new_text")
        return [one_edit(each, f"edits[{index}].") for index, each in enumerate(several)]
    return [one_edit(params, "")]


def one_edit(fields: dict[str, Any], prefix: str) -> Edit:
    return Edit(
        required_text(fields, "old_text", f"{prefix}old_text is required", empty=True),
        required_text(fields, "new_text", f"{prefix}new_text is required", empty=True),
        optional_flag(fields, "replace_all"),
    )


def apply(place: Place, edits: list[Edit], seen: Version | None, fence: Fence) -> Edited:
    """Read, change in memory, replace. In a worker thread.

    Raises:
        ToolError: Some edit does not fit; the file is as it was.
    """
    with place:
        data, status = read_bytes(place, FILE_BYTES_MAX)
        version = Version.of(status)
        try:
            file = decode(data)
        except NotText:
            raise ToolError(f"{place.given} is a binary file; edit changes text only") from None
        stale = seen is not None and seen != version
        changes = planned(place, file, edits, stale)
        try:
            new_data = file.spliced([(change.start, change.end, change.new) for change in changes])
        except UnicodeEncodeError as error:
            char = error.object[error.start]
            raise ToolError(
                f"{place.given} is encoded in {file.encoding}, which has no {char!r} (U+{ord(char):04X})"
            ) from None
        first_line = diff.first_changed_line(file.text, changes)
        after = replace(place, new_data, fence, expected=version)
        return Edited(
            place_name=place.shown,
            real=place.real,
            version=Version.of(after),
            changes=changes,
            diff=diff.unified(file.text, changes, first_line),
            first_line=first_line,
            loose_lines=[line_span(file.text, change) for change in changes if change.loose],
            encoding=file.encoding,
        )


def planned(place: Place, file: TextFile, edits: list[Edit], stale: bool) -> list[Change]:
    """The changes to make.

    Raises:
        ToolError: An edit does not fit, or fits only loosely a file that is not the one the model has read.
    """
    try:
        changes = plan(file.text, edits)
    except EditRefused as refused:
        raise ToolError(refusal(place, file, edits, refused, stale)) from None
    if stale and any(change.loose for change in changes):
        raise ToolError(
            f"{place.given} has changed since it was read, and old_text is not exactly in it any more; read it again"
        )
    return changes


def refusal(place: Place, file: TextFile, edits: list[Edit], refused: EditRefused, stale: bool) -> str:
    """Why an edit does not fit, for the model."""
    which = f"edits[{refused.index}]: " if len(edits) > 1 else ""
    name = place.given
    if refused.kind == "empty":
        return f"{which}old_text is empty; use write to create or replace a whole file"
    if refused.kind == "ambiguous":
        return (
            f"{which}Found {refused.count} occurrences of the text in {name}. It must be unique: "
            "add lines around it to old_text, or set replace_all"
        )
    if refused.kind == "overlap":
        return f"{which}This replacement overlaps another one in {name}; join them into one"
    if refused.kind == "no_change":
        return f"No changes made to {name}: the new text is the same as the old"
    parts = [f"{which}Could not find the exact text in {name}. It must match including whitespace and line breaks."]
    if stale:
        parts.append("The file has changed since it was read; read it again.")
    parts.append(hint(file.text, edits[refused.index].old))
    return " ".join(filter(None, parts))


def line_span(text: str, change: Change) -> tuple[int, int]:
    """First and last line of a change, from 1."""
    first = text.count("\n", 0, change.start) + 1
    return first, first + text.count("\n", change.start, max(change.start, change.end - 1))


def report(edited: Edited) -> AgentToolResult:
    """What the model and the screen are told."""
    count = len(edited.changes)
    what = "the text" if count == 1 else f"{count} places"
    lines = [f"Successfully replaced {what} in {edited.place_name}."]
    if edited.loose_lines:
        spans = ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in edited.loose_lines)
        lines.append(
            f"Note: old_text was not exactly in the file; what it was taken for, up to blanks, quotes and dashes, "
            f"stood in line {spans}."
        )
    details = {
        "path": edited.place_name,
        "diff": edited.diff,
        "first_changed_line": edited.first_line,
        "replacements": count,
        "loose": [list(span) for span in edited.loose_lines],
        "encoding": edited.encoding,
    }
    return text_result("\n".join(lines) + "\n" + edited.diff, details)
