"""Pure. Messages and single notices of the protocol as blocks."""

from collections.abc import Iterable
from typing import Any, Final

from coding_agent.terminal.blocks import Block, Notice, Prose, ShellRan, Summary, Thought, ToolRan, UserSaid
from coding_agent.terminal.channel import Message

QUIET_OUTCOMES: Final = ("completed", "stopped")


def role_of(event: Message) -> str:
    """Whose message an event is about."""
    return str((event.get("message") or {}).get("role") or "")


def text_of(content: Any) -> str:
    """The text of a content: a string, or blocks of which some are text."""
    if isinstance(content, str):
        return content
    return "\n".join(
        str(block.get("text") or "")
        for block in content or ()
        if isinstance(block, dict) and block.get("type") == "text"
    )


def images_of(content: Any) -> int:
    """How many pictures a content has."""
    if not isinstance(content, list):
        return 0
    return sum(isinstance(block, dict) and block.get("type") == "image" for block in content)


def blocks_of(message: Message) -> list[Block]:
    """A finished message. Results of tools are shown with their calls, not here."""
    content = message.get("content")
    match message.get("role"):
        case "user":
            return [UserSaid(text_of(content), images_of(content))]
        case "assistant":
            return [*_answer(content), *stop_notice(message)]
        case "bashExecution":
            return [_shell(message)]
        case "compactionSummary":
            return [Summary("what was said before, in short", str(message.get("summary") or ""))]
        case "branchSummary":
            return [Summary("what was done on another branch", str(message.get("summary") or ""))]
        case "custom" if message.get("shown"):
            return [Prose(str(message["shown"]))]
        case "custom" if message.get("display", True):
            return [Notice(text_of(content))]
        case _:
            return []


def _answer(content: Any) -> Iterable[Block]:
    for block in content if isinstance(content, list) else [{"type": "text", "text": text_of(content)}]:
        if block.get("type") == "text" and str(block.get("text") or "").strip():
            yield Prose(str(block["text"]))
        elif block.get("type") == "thinking" and str(block.get("thinking") or "").strip():
            yield Thought(str(block["thinking"]))


def _shell(message: Message) -> ShellRan:
    return ShellRan(
        command=str(message.get("command") or ""),
        output=str(message.get("output") or ""),
        exit_code=message.get("exitCode"),
        cancelled=bool(message.get("cancelled")),
        truncated=bool(message.get("truncated")),
        kept_out=bool(message.get("excludeFromContext")),
    )


def history_blocks(messages: Iterable[Message]) -> list[Block]:
    """A conversation that was there before: calls stand where their results are."""
    blocks: list[Block] = []
    calls: dict[str, Message] = {}
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) and message.get("role") == "assistant" else ():
            if block.get("type") == "toolCall":
                calls[str(block.get("id"))] = block
        if message.get("role") == "toolResult":
            call = calls.pop(str(message.get("toolCallId")), {})
            args = call.get("arguments")
            event = {"toolName": message.get("toolName"), "result": message, "isError": message.get("isError")}
            blocks.append(tool_ran(event, args if isinstance(args, dict) else {}, None))
        else:
            blocks += blocks_of(message)
    return blocks


def tool_ran(event: Message, args: dict[str, Any], seconds: float | None) -> ToolRan:
    """A finished call."""
    result = event.get("result") or {}
    content = result.get("content")
    return ToolRan(
        name=str(event.get("toolName") or "tool"),
        args=args,
        text=text_of(content),
        details=result.get("details"),
        is_error=bool(event.get("isError")),
        images=images_of(content),
        seconds=seconds,
        untrusted=result.get("trust") == "untrusted",
    )


def stop_notice(message: Message) -> list[Block]:
    """Why an answer ended, when not because all was said."""
    reason, error = message.get("stopReason"), message.get("errorMessage")
    if reason == "error":
        return [Notice(str(error or "the model call failed"), "error")]
    if reason == "length":
        return [Notice("the answer was cut: it reached the longest the model may give", "warning")]
    return []


def outcome_notice(settled: Message) -> list[Block]:
    """How a run ended, when not well. Errors were told with the answer they ended."""
    outcome, reason = settled.get("outcome"), settled.get("reason")
    if outcome == "aborted":
        return [Notice("stopped", "warning")]
    if outcome == "budget":
        return [Notice(f"the budget is used up: {reason}" if reason else "the budget is used up", "warning")]
    if outcome is None or outcome in QUIET_OUTCOMES or outcome == "error":
        return []
    return [Notice(f"the run ended: {outcome}{f' ({reason})' if reason else ''}", "warning")]


def notice(event: Message) -> list[Block]:
    """An event that is one line to a person."""
    match event.get("type"):
        case "branch_summarized":
            return [Summary("the branch that was left, in short", str(event.get("summary") or ""))]
        case "storage_failed":
            return [Notice(f"not stored yet ({event.get('unsaved')} entries): {event.get('message')}", "error")]
        case "provider_switched":
            left = f"{event.get('fromProvider')}/{event.get('fromModel')}"
            taken = f"{event.get('toProvider')}/{event.get('toModel')}"
            return [Notice(f"{left} failed ({event.get('reason')}); {taken} is asked instead", "warning")]
        case "rate_limit_paused":
            seconds = int((event.get("retryAfterMs") or 0) / 1000)
            return [Notice(f"{event.get('provider')} asks to wait {seconds} s; try again then", "warning")]
        case "extension_error":
            where = event.get("extensionPath") or "an extension"
            return [Notice(f"{where} failed at {event.get('event')}: {event.get('error')}", "error")]
        case _:
            return []
