"""Pure. A tool call with its result as one folded block: the command, the difference it made, what it said."""

from __future__ import annotations

import base64
import binascii
import html
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from coding_agent.exporting.clean import Cleaner
from coding_agent.telling_argument import telling_argument
from lemon_ai import ImageContent, TextContent, ToolCall, ToolResultMessage

_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_OLD_NEW: Final = (("old_text", "new_text"), ("oldText", "newText"), ("old_string", "new_string"))


def call(cleaner: Cleaner, made: ToolCall, result: ToolResultMessage | None) -> str:
    """One call, folded; an error and a label of untrusted content can be seen without unfolding."""
    diff = _diff_of(result)
    parts = [*_arguments(cleaner, made, with_diff=not diff)]
    if made.invalid is not None:
        parts.append(f'<p class="note">The arguments could not be read.</p><pre>{cleaner.html(made.invalid)}</pre>')
    if result is None:
        parts.append('<p class="note">There is no result.</p>')
        return _folded("call", f"{_name(cleaner, made)}{_badge('open', 'no result')}", parts)
    parts += _result_parts(cleaner, result, diff)
    return _folded("call" + (" failed" if result.is_error else ""), _name(cleaner, made) + _badges(result), parts)


def lone_result(cleaner: Cleaner, result: ToolResultMessage) -> str:
    """A result whose call is not beside it."""
    head = f"<b>Result of {cleaner.html(result.tool_name)}</b>{_badges(result)}"
    return _folded("call", head, _result_parts(cleaner, result, _diff_of(result)))


def picture(cleaner: Cleaner, block: ImageContent) -> str:
    """An image as part of the page, if it is one a browser shows without running anything."""
    data = "".join(block.data.split())
    try:
        size = len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return '<p class="note">[an image that cannot be read]</p>'
    if block.mime_type.lower() not in _PICTURES:
        return f'<p class="note">[an image of type {cleaner.html(block.mime_type)}, {size} bytes]</p>'
    return f'<img alt="image, {size} bytes" src="data:{block.mime_type.lower()};base64,{data}">'


def difference(cleaner: Cleaner, text: str) -> str:
    """A unified diff, its lines coloured by what they do."""
    shown = []
    for line in cleaner.text(text).rstrip("\n").split("\n"):
        kind = {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "")
        escaped = html.escape(line) or " "
        shown.append(f'<span class="{kind}">{escaped}</span>' if kind else f"<span>{escaped}</span>")
    return f'<pre class="diff">{"".join(shown)}</pre>'


def _name(cleaner: Cleaner, made: ToolCall) -> str:
    return f"<b>Call of {cleaner.html(made.name)}</b> <code>{cleaner.line(telling_argument(made.arguments))}</code>"


def _badges(result: ToolResultMessage) -> str:
    found = _badge("error", "error") if result.is_error else ""
    if result.trust == "untrusted":
        found += _badge("untrusted", "untrusted content")
    return found


def _badge(kind: str, words: str) -> str:
    return f' <span class="badge {kind}">{words}</span>'


def _folded(kind: str, head: str, parts: Iterable[str]) -> str:
    return f'<details class="{kind}"><summary>{head}</summary>{"".join(parts)}</details>'


def _arguments(cleaner: Cleaner, made: ToolCall, *, with_diff: bool) -> Iterator[str]:
    shown = dict(made.arguments)
    for edit in _edits(shown):
        if with_diff:
            removed, added = (_marked(part, sign) for part, sign in zip(edit, "-+", strict=True))
            yield difference(cleaner, removed + added)
    for name, value in shown.items():
        words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
        yield f'<div class="argument">{cleaner.html(str(name))}</div><pre>{cleaner.html(words)}</pre>'


def _edits(arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """Old and new text of what is an edit, taken out of `arguments`."""
    found = []
    several = arguments.get("edits")
    listed = several if isinstance(several, list) else []
    for fields in (arguments, *listed):
        for old, new in _OLD_NEW:
            if isinstance(fields, dict) and isinstance(fields.get(old), str) and isinstance(fields.get(new), str):
                found.append((fields[old], fields[new]))
    if found:
        for name in ("edits", *(name for pair in _OLD_NEW for name in pair)):
            arguments.pop(name, None)
    return found


def _marked(text: str, sign: str) -> str:
    return "".join(f"{sign}{line}\n" for line in text.splitlines())


def _diff_of(result: ToolResultMessage | None) -> str:
    details = result.details if result is not None else None
    found = details.get("diff") if isinstance(details, Mapping) else None
    return found if isinstance(found, str) else ""


def _result_parts(cleaner: Cleaner, result: ToolResultMessage, diff: str) -> Iterator[str]:
    yield '<div class="argument">result</div>'
    for block in result.content:
        if isinstance(block, ImageContent):
            yield picture(cleaner, block)
        elif isinstance(block, TextContent) and block.text.strip():
            text = block.text.replace(diff, "").rstrip("\n") if diff else block.text
            if text.strip():
                yield f"<pre>{cleaner.html(text)}</pre>"
    if diff:
        yield difference(cleaner, diff)
