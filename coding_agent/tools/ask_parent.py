"""The tool with which a subagent asks whoever started it, when it cannot go on, or not well, without an answer."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from coding_agent.subagents.protocol import DEFAULT_TIMEOUT_MS, Answer
from coding_agent.tools.arguments import optional_flag, optional_number, optional_text, optional_texts, required_text
from lemon_agent import AgentTool, AgentToolResult, ToolError, text_result
from lemon_otp import CallFailed

PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "description": "One question, complete in itself"},
        "why_blocked": {"type": "string", "description": "What you cannot do without the answer"},
        "options": {"type": "array", "items": {"type": "string"}, "description": "Answers to choose from"},
        "recommended_option": {"type": "string", "description": "The one you would choose"},
        "can_continue_without_answer": {"type": "boolean", "description": "Whether fallback says how you would go on"},
        "fallback": {"type": "string", "description": "What you will do when no answer comes"},
        "timeout_ms": {"type": "integer", "minimum": 1, "description": "How long to wait; five minutes when left out"},
    },
    "required": ["question", "why_blocked"],
    "additionalProperties": False,
}


def ask_parent_tool(*, ask: Callable[[str, int], Awaitable[Answer]]) -> AgentTool:
    """The tool of one subagent; `ask(question, timeout_ms)` carries a question to its parent."""

    async def execute(call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> AgentToolResult:
        question = required_text(params, "question", "question is required")
        why = required_text(params, "why_blocked", "why_blocked is required")
        fallback = optional_text(params, "fallback")
        can_continue = optional_flag(params, "can_continue_without_answer")
        if can_continue and fallback is None:
            raise ToolError("can_continue_without_answer needs a fallback")
        try:
            answer = await ask(_words(question, why, params), optional_number(params, "timeout_ms", DEFAULT_TIMEOUT_MS))
        except CallFailed as failed:
            raise ToolError("nobody is there to answer") from failed
        details = {"outcome": answer.outcome}
        if answer.outcome == "answered":
            return text_result(answer.text, details)
        if can_continue and answer.outcome != "already_waiting":
            return text_result(f"No answer ({answer.text}). Go on with your fallback: {fallback}", details)
        raise ToolError(f"No answer: {answer.text}")

    return AgentTool(
        name="ask_parent",
        label="Ask parent",
        description="Ask the agent that gave you this work what you cannot go on without, and wait for its answer.",
        parameters=PARAMETERS,
        execute=execute,
        main_argument="question",
    )


def _words(question: str, why: str, params: dict[str, Any]) -> str:
    lines = [question, f"Blocked because: {why}"]
    lines += [f"- {option}" for option in optional_texts(params, "options") or ()]
    if recommended := optional_text(params, "recommended_option"):
        lines.append(f"Recommended: {recommended}")
    return "\n".join(lines)
