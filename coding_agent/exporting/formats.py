"""Pure. A session for other eyes: one JSON document, a file pi opens, or text to read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias, assert_never

from coding_agent.exporting.clean import Cleaner
from coding_agent.exporting.page import html_page
from coding_agent.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    describe_command,
)
from coding_agent.storage.lines import encode
from coding_agent.storage.session_manager import SessionManager
from coding_agent.storage.stamps import iso
from lemon_ai import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

Format: TypeAlias = Literal["json", "jsonl", "markdown", "html"]
FORMATS: Final[tuple[Format, ...]] = ("markdown", "html", "json", "jsonl")

_Part: TypeAlias = tuple[str, str, bool]
"""A heading, its text, and whether the text is shown letter by letter."""


def export(manager: SessionManager, form: Format, *, secrets: Iterable[str] = ()) -> str:
    """A session as text of some format.

    `json` and `jsonl` are copies: every entry as it is stored, so that another program can go on with them. `html` and
    `markdown` are for people: without what looks like a secret and without terminal codes. `html` and the copies hold
    every branch, `markdown` the current one as a model would be given it.

    Args:
        manager: The session.
        form: Which format.
        secrets: Exact values that are hidden from people beside what looks like a secret.
    """
    match form:
        case "json":
            return json.dumps(to_document(manager), ensure_ascii=False, indent=2) + "\n"
        case "jsonl":
            return _jsonl(manager)
        case "markdown":
            return _markdown(manager, Cleaner.hiding(secrets))
        case "html":
            return html_page(manager, secrets=secrets)
        case _:
            assert_never(form)


def to_document(manager: SessionManager) -> dict[str, Any]:
    """The whole session as one JSON object, its entries as format 3 has them."""
    log = manager.log
    return {
        "header": _header(manager),
        "leafId": manager.leaf_id,
        "name": manager.name,
        "labels": dict(manager.labels),
        "entries": [log.entry_data(at) for at in range(len(log.tree))],
    }


def _jsonl(manager: SessionManager) -> str:
    log = manager.log
    lines = [encode(_header(manager))]
    lines += [log.entry_bytes(at).decode("utf-8", "replace") for at in range(len(log.tree))]
    return "\n".join(lines) + "\n"


def _header(manager: SessionManager) -> dict[str, Any]:
    return {**manager.header.data, "version": 3}


def _markdown(manager: SessionManager, cleaner: Cleaner) -> str:
    lines = [f"# {cleaner.text(_title(manager))}", "", f"`{manager.path}`"]
    for heading, said, verbatim in _parts(manager):
        text = cleaner.text(said)
        fence = "`" * max(3, _longest_fence(text) + 1)
        lines += ["", f"## {cleaner.text(heading)}", "", f"{fence}\n{text}\n{fence}" if verbatim else text]
    return "\n".join(lines) + "\n"


def _title(manager: SessionManager) -> str:
    return manager.name or f"Session {manager.session_id}"


def _parts(manager: SessionManager) -> Iterator[_Part]:
    for message in manager.build_context(repaired=False).messages:
        yield from _message_parts(message)


def _message_parts(message: Any) -> Iterator[_Part]:
    match message:
        case UserMessage(content=content, timestamp=timestamp):
            yield f"User, {iso(timestamp)}", _plain(content), False
        case AssistantMessage():
            yield from _answer_parts(message)
        case ToolResultMessage():
            yield (
                f"Result of {message.tool_name}"
                + (", an error" if message.is_error else "")
                + (", untrusted content" if message.trust == "untrusted" else ""),
                _plain(message.content),
                True,
            )
        case BashExecutionMessage():
            yield "User ran a command", describe_command(message), False
        case CustomMessage():
            if message.display:
                yield f"From {message.custom_type}", _plain(message.content), False
        case BranchSummaryMessage(summary=summary):
            yield "Summary of another branch", summary, False
        case CompactionSummaryMessage(summary=summary):
            yield "Summary of what came before", summary, False
        case _:
            pass


def _answer_parts(message: AssistantMessage) -> Iterator[_Part]:
    said = "\n\n".join(block.text for block in message.content if isinstance(block, TextContent))
    thought = "\n\n".join(block.thinking for block in message.content if isinstance(block, ThinkingContent))
    if thought.strip():
        yield "Thinking", thought, False
    if said.strip() or message.error_message:
        yield f"Assistant, {message.model}", "\n\n".join(filter(None, (said, message.error_message))), False
    for block in message.content:
        if isinstance(block, ToolCall):
            yield f"Call of {block.name}", json.dumps(dict(block.arguments), ensure_ascii=False, indent=2), True


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join("[image]" if isinstance(block, ImageContent) else block.text for block in content)


def _longest_fence(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
