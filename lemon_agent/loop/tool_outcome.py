"""Pure. What became of one tool call: the result the model sees, whether it is an error, and of which kind."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from lemon_agent.errors import REASON_MAX, ToolError, words_of
from lemon_agent.loop.config import KEEP, ToolOverride
from lemon_agent.tools import AgentTool, AgentToolResult, ErrorInfo, error_result, error_text, normal_trust
from lemon_ai import TextContent, ToolCall, ToolResultMessage
from lemon_otp import ProcessExit, describe, frozen

ABORTED: Final = "Tool execution aborted"
CUT_SHORT: Final = (
    "This call was not executed: the answer hit the output limit, so its arguments may be incomplete. "
    "Make the call again, with less in it if need be."
)
BLOCKED: Final = "Tool execution was blocked"
SHOWN_CHARS: Final = 80


@frozen
class ToolOutcome:
    """A result and how it came about."""

    result: AgentToolResult
    is_error: bool = False
    failed_task: Any = None
    """Why the task itself, not the tool, failed; None when the tool had its say."""

    @property
    def error_type(self) -> str | None:
        """The kind of error, None when there is none."""
        info = self.result.error_info
        return info.type if self.is_error and info is not None else None


def interpret(value: Any) -> ToolOutcome:
    """What a tool returned, as an outcome."""
    match value:
        case AgentToolResult():
            return ToolOutcome(value)
        case ("ok", AgentToolResult() as result):
            return ToolOutcome(result)
        case ("error", reason):
            return ToolOutcome(error_result(reason, "tool_error"), is_error=True)
        case _:
            text = f"Unexpected tool result: {describe(value, REASON_MAX)}"
            return ToolOutcome(error_result(text, "unexpected_tool_result"), is_error=True)


def caught(error: BaseException) -> ToolOutcome:
    """What a tool raised, as an outcome."""
    match error:
        case ToolError():
            result = error_result(error.reason, "tool_error", details=error.details)
        case ProcessExit():
            result = error_result(f"exit: {describe(error.reason, REASON_MAX)}", "tool_caught")
        case Exception():
            result = error_result(words_of(error), "tool_exception", exception=type(error).__name__)
        case SystemExit() | KeyboardInterrupt() | GeneratorExit() | asyncio.CancelledError():
            result = error_result(f"exit: {describe(error, REASON_MAX)}", "tool_caught")
        case _:
            result = error_result(f"throw: {describe(error, REASON_MAX)}", "tool_caught")
    return ToolOutcome(result, is_error=True)


def unknown_tool(name: str) -> ToolOutcome:
    """There is no tool of that name."""
    return _failed(f"Tool {name} not found", "unknown_tool", "unknown_tool")


def invalid_arguments(errors: tuple[str, ...]) -> ToolOutcome:
    """The arguments do not fit the tool's schema."""
    text = f"Invalid tool arguments: {'; '.join(errors)}"
    return _failed(text, "invalid_tool_arguments", "invalid_tool_arguments")


def blocked(reason: str | None, terminate: bool | None = None) -> ToolOutcome:
    """A hook said the call must not run."""
    return ToolOutcome(evolve(error_result(reason or BLOCKED, "blocked"), terminate=terminate), is_error=True)


def hook_raised(error: BaseException) -> ToolOutcome:
    """A hook around the call failed."""
    result = error_result(words_of(error), "hook_exception", exception=type(error).__name__)
    return ToolOutcome(result, is_error=True)


def not_started(reason: Any) -> ToolOutcome:
    """The call's process could not be started."""
    return _failed(
        f"Tool task failed to start: {error_text(reason)}", "tool_task_start_failed", ("start_failed", reason)
    )


def crashed(reason: Any) -> ToolOutcome:
    """The call's process ended before it gave a result."""
    return _failed(f"Tool task crashed: {error_text(reason)}", "tool_task_crashed", reason, info=reason)


def timed_out(timeout_ms: int) -> ToolOutcome:
    """The call took longer than it may."""
    return _failed(f"Tool task timed out after {timeout_ms}ms", "tool_task_timeout", "timeout")


def aborted(late: ToolOutcome | None = None) -> ToolOutcome:
    """The run was aborted; `late` is the error the tool ended in when it heard of it."""
    outcome = _failed(ABORTED, "aborted", "aborted")
    if late is None:
        return outcome
    content = (*outcome.result.content, *late.result.content)
    return evolve(outcome, result=evolve(outcome.result, content=content, details=late.result.details))


def cut_short() -> ToolOutcome:
    """The message that made the call was cut by the output limit."""
    return _failed(CUT_SHORT, "output_limit", "output_limit")


def overridden(outcome: ToolOutcome, answer: Any) -> ToolOutcome:
    """The outcome with the fields that `after_tool_call` answered in place of its own."""
    if answer is None:
        return outcome
    override = answer if isinstance(answer, ToolOverride) else ToolOverride(**answer)
    given = {"content": override.content, "details": override.details, "usage": override.usage}
    given["terminate"] = override.terminate
    changes = {name: value for name, value in given.items() if value is not KEEP}
    is_error = outcome.is_error if override.is_error is KEEP else bool(override.is_error)
    return evolve(outcome, result=evolve(outcome.result, **changes), is_error=is_error)


def is_block(answer: Any) -> bool:
    """Does an answer of `before_tool_call`, which is no `Block`, say the same in a mapping?"""
    return isinstance(answer, Mapping) and bool(answer.get("block"))


def result_message(call: ToolCall, outcome: ToolOutcome) -> ToolResultMessage:
    """The outcome as the message that answers the call."""
    result = outcome.result
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=result.content,
        details=result.details,
        trust=normal_trust(result.trust),
        is_error=outcome.is_error,
        usage=result.usage,
        added_tool_names=result.added_tool_names or (),
    )


def main_argument(tool: AgentTool, args: Mapping[str, Any]) -> str | None:
    """What says most about a call, on one short line."""
    named = args.get(tool.main_argument) if tool.main_argument else None
    value = named if named is not None else next((v for v in args.values() if isinstance(v, str)), None)
    if value is None:
        return None
    line = " ".join(str(value)[: 4 * SHOWN_CHARS].split())
    return line if len(line) <= SHOWN_CHARS else f"{line[: SHOWN_CHARS - 1]}…"


def as_partial(value: Any) -> AgentToolResult:
    """What a tool passed to `on_update`, as a result."""
    if isinstance(value, AgentToolResult):
        return value
    return AgentToolResult(content=(TextContent(error_text(value)),))


def _failed(text: str, error_type: str, reason: Any, *, info: Any = None) -> ToolOutcome:
    result = AgentToolResult(content=(TextContent(text),), error_info=ErrorInfo(error_type, info or reason))
    return ToolOutcome(result, is_error=True, failed_task=reason)
