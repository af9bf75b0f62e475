"""Pure. One entry, or an answer with the results of its calls, as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from coding_agent.exporting.branches import Group
from coding_agent.exporting.clean import Cleaner
from coding_agent.exporting.markdown_html import to_html
from coding_agent.exporting.tool_html import call, lone_result, picture
from coding_agent.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    UnknownMessage,
    content_from_json,
)
from coding_agent.storage.gist import entry_words
from coding_agent.storage.session_manager import SessionManager
from coding_agent.storage.stamps import iso, parse_iso
from lemon_ai import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)


def render(manager: SessionManager, cleaner: Cleaner, group: Group) -> Iterator[str]:
    """The HTML of a group; nothing for one with nothing to show."""
    first, *others = group.positions
    kind = manager.tree.kinds[first]
    label = manager.labels.get(manager.tree.ids[first])
    results = [message for at in others if isinstance(message := _message(manager, at), ToolResultMessage)]
    if kind.startswith("message/"):
        message = _message(manager, first)
        if message is None:
            yield _article(first, "other", "A message that cannot be read", "", label, cleaner)
        else:
            yield from _of_message(cleaner, first, message, results, label)
    else:
        yield from _of_entry(cleaner, first, kind, manager.log.entry_data(first), label)


def gist(manager: SessionManager, cleaner: Cleaner, position: int, limit: int = 100) -> str:
    """One line that says which entry it is, safe for HTML."""
    return cleaner.line(entry_words(manager, position), limit)


def moment(milliseconds: int) -> str:
    """A time stamp as people read it, without its milliseconds."""
    return iso(milliseconds)[:19].replace("T", " ") + " UTC"


def _message(manager: SessionManager, position: int) -> Any:
    if not manager.tree.kinds[position].startswith("message/"):
        return None
    return manager.log.message_at(position)


def _of_message(
    cleaner: Cleaner, at: int, message: Any, results: list[ToolResultMessage], label: str | None
) -> Iterator[str]:
    match message:
        case UserMessage():
            yield _article(
                at, "user", f"User, {moment(message.timestamp)}", _content(cleaner, message.content), label, cleaner
            )
        case AssistantMessage():
            yield _answer(cleaner, at, message, results, label)
            return
        case ToolResultMessage():
            yield _article(at, "tool", "", lone_result(cleaner, message), label, cleaner)
        case BashExecutionMessage():
            yield _article(at, "tool", "User ran a command", _command(cleaner, message), label, cleaner)
        case CustomMessage():
            yield _custom(cleaner, at, message.custom_type, message.content, label)
        case BranchSummaryMessage() | CompactionSummaryMessage():
            yield _summary(cleaner, at, "Summary", message.summary, label)
        case UnknownMessage():
            yield _article(at, "other", f"A message of role {cleaner.line(message.role)}", "", label, cleaner)
    for result in results:
        yield _article(at, "tool", "", lone_result(cleaner, result), None, cleaner, anchor=False)


def _answer(
    cleaner: Cleaner, at: int, message: AssistantMessage, results: list[ToolResultMessage], label: str | None
) -> str:
    by_call: dict[str, ToolResultMessage] = {}
    for result in results:
        by_call.setdefault(result.tool_call_id, result)
    parts = []
    for block in message.content:
        match block:
            case TextContent(text=text) if text.strip():
                parts.append(f'<div class="said">{to_html(cleaner.text(text))}</div>')
            case ThinkingContent(redacted=True):
                parts.append('<p class="note">A thought that the provider keeps hidden.</p>')
            case ThinkingContent(thinking=thinking) if thinking.strip():
                body = to_html(cleaner.text(thinking))
                parts.append(f'<details class="thinking"><summary>Thinking</summary>{body}</details>')
            case ToolCall():
                parts.append(call(cleaner, block, by_call.pop(block.id, None)))
            case _:
                pass
    parts += [lone_result(cleaner, result) for result in by_call.values()]
    if message.error_message:
        parts.append(f'<p class="problem">{cleaner.html(message.error_message)}</p>')
    elif message.stop_reason in ("error", "aborted", "length", "redirected"):
        parts.append(f'<p class="problem">The answer ended early: {cleaner.html(message.stop_reason)}.</p>')
    head = f"Assistant, {cleaner.line(message.model)}, {moment(message.timestamp)}"
    return _article(at, "assistant", head, "".join(parts), label, cleaner, _used(message))


def _used(message: AssistantMessage) -> str:
    usage = message.usage
    if not usage.total_tokens and not usage.cost.total:
        return ""
    cached = f", {usage.cache_read:,} cached" if usage.cache_read else ""
    cost = f", ${usage.cost.total:.4f}" if usage.cost.total else ""
    return f"{usage.input:,} in, {usage.output:,} out{cached}{cost}"


def _of_entry(cleaner: Cleaner, at: int, kind: str, data: Mapping[str, Any], label: str | None) -> Iterator[str]:
    match kind:
        case "compaction":
            before = data.get("tokensBefore")
            head = "Summary of what came before" + (f", {before:,} tokens" if isinstance(before, int) else "")
            yield _summary(cleaner, at, head, str(data.get("summary") or ""), label)
        case "branch_summary":
            yield _summary(cleaner, at, "Summary of another branch", str(data.get("summary") or ""), label)
        case "custom_message":
            if data.get("display") is not False:
                content = content_from_json(data.get("content"))
                yield _custom(cleaner, at, str(data.get("customType") or ""), content, label)
        case "model_change":
            name = f"{data.get('provider')}/{data.get('modelId')}"
            yield _aside(at, f"Model: {cleaner.line(name)}")
        case "thinking_level_change":
            yield _aside(at, f"Thinking: {cleaner.line(str(data.get('thinkingLevel')))}")
        case "custom" | "label" | "leaf" | "session_info" | "active_tools_change":
            return
        case _:
            when = parse_iso(data.get("timestamp"))
            yield _aside(at, f"An entry of type {cleaner.line(kind)}" + (f", {moment(when)}" if when else ""))


def _command(cleaner: Cleaner, message: BashExecutionMessage) -> str:
    notes = ["cancelled"] if message.cancelled else []
    if message.exit_code:
        notes.append(f"exit code {message.exit_code}")
    if message.exclude_from_context:
        notes.append("not shown to the model")
    note = f'<p class="note">{", ".join(notes)}</p>' if notes else ""
    output = f"<pre>{cleaner.html(message.output)}</pre>" if message.output else ""
    return f"<pre>$ {cleaner.html(message.command)}</pre>{output}{note}"


def _custom(cleaner: Cleaner, at: int, whose: str, content: Any, label: str | None) -> str:
    return _article(at, "other", f"From {cleaner.line(whose)}", _content(cleaner, content), label, cleaner)


def _summary(cleaner: Cleaner, at: int, head: str, summary: str, label: str | None) -> str:
    return _article(at, "summary", head, to_html(cleaner.text(summary)), label, cleaner)


def _content(cleaner: Cleaner, content: Any) -> str:
    if isinstance(content, str):
        return to_html(cleaner.text(content))
    return "".join(
        picture(cleaner, block) if isinstance(block, ImageContent) else to_html(cleaner.text(block.text))
        for block in content
    )


def _article(
    at: int,
    kind: str,
    head: str,
    body: str,
    label: str | None,
    cleaner: Cleaner,
    foot: str = "",
    *,
    anchor: bool = True,
) -> str:
    """An entry in its frame; `head` and `body` are HTML already."""
    identity = f' id="n{at}"' if anchor else ""
    mark = f' <span class="badge label">{cleaner.line(label)}</span>' if label else ""
    heading = f"<h2>{head}{mark}</h2>" if head or mark else ""
    used = f'<p class="used">{foot}</p>' if foot else ""
    return f'<article class="{kind}"{identity}>{heading}{body}{used}</article>\n'


def _aside(at: int, words: str) -> str:
    return f'<p class="aside" id="n{at}">{words}</p>\n'
