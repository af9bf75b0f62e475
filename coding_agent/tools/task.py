"""The tool that hands work to subagents: run one, in the foreground or beside the conversation, and look after it.

It is handed its delegate, which knows the session's coordinator; nothing here starts a process. A foreground run ends
with the call: whoever aborts the call stops the subagent.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from coding_agent.errors import CodingAgentError, UnknownSubagent
from coding_agent.subagents.definitions import THINKING_LEVELS, Definition
from coding_agent.subagents.protocol import Delivery, JoinMode, Progress, RunView, SubagentResult, SubagentSpec
from coding_agent.subagents.tool_policy import SCHEMA, read_policy
from coding_agent.tools.arguments import optional_flag, optional_number, optional_text, optional_texts, required_text
from lemon_agent import AgentTool, AgentToolResult, OnUpdate, ToolError, text_result
from lemon_otp import CallFailed, Pid, exit_signal, monitor, receive, self_pid, spawn

PREVIEW_MAX: Final = 500
ACTIONS: Final = ("run", "poll", "join", "get", "steer", "stop", "answer")

PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(ACTIONS), "description": "What to do; run when left out."},
        "description": {"type": "string", "description": "run: a few words that say what this is about"},
        "prompt": {
            "type": "string",
            "description": "run: everything the subagent must know; it sees nothing of this conversation",
        },
        "role": {"type": "string", "description": "run: which kind of subagent; a plain one when left out"},
        "async": {"type": "boolean", "description": "run: go on meanwhile; a message comes when it has ended"},
        "queue_mode": {
            "type": "string",
            "enum": ["followup", "steer", "steer_backlog"],
            "description": "run with async: when that message comes; followup is after the current work",
        },
        "auto_followup": {"type": "boolean", "description": "run with async: false for no message; true if left out"},
        "meta": {"type": "object", "description": "run: anything to find again in the details of the result"},
        "tools": {"type": "array", "items": {"type": "string"}, "description": "run: the only tools it may use"},
        "tool_policy": SCHEMA,
        "cwd": {"type": "string", "description": "run: a folder below this one where it works"},
        "model": {"type": "string", "description": "run: provider/model; this conversation's when left out"},
        "thinking_level": {"type": "string", "enum": list(THINKING_LEVELS), "description": "run: how hard it thinks"},
        "timeout_ms": {"type": "integer", "minimum": 1, "description": "run: when to stop it"},
        "task_id": {"type": "string", "description": "poll, get, steer, stop, answer: which one"},
        "task_ids": {"type": "array", "items": {"type": "string"}, "description": "join: which ones"},
        "mode": {"type": "string", "enum": ["wait_all", "wait_any"], "description": "join: for all, or for one"},
        "text": {"type": "string", "description": "steer, answer: what to tell it"},
    },
    "additionalProperties": False,
}


class Delegate(Protocol):
    """What does the work; `subagents.delegate` has the one of a session."""

    async def run(self, spec: SubagentSpec, timeout_ms: int | None, watcher: Pid | None) -> SubagentResult: ...
    async def run_in_background(self, spec: SubagentSpec, delivery: Delivery, *, tell: bool = True) -> str: ...
    async def view(self, ids: Sequence[str] | None) -> tuple[RunView, ...]: ...
    async def join(self, ids: Sequence[str], mode: JoinMode) -> tuple[RunView, ...]: ...
    async def stop(self, run_id: str) -> RunView: ...
    async def steer(self, run_id: str, text: str) -> None: ...
    async def answer(self, run_id: str, text: str) -> None: ...


def task_tool(
    cwd: str,
    *,
    delegate: Delegate,
    kinds: Iterable[Definition] = (),
    known: Callable[[str], object] | None = None,
    **options: Any,
) -> AgentTool:
    """The tool for a session whose subagents `delegate` looks after.

    Args:
        cwd: The working folder.
        delegate: Does the work.
        kinds: Are named in its description.
        known: Raises `UnknownSubagent` for a role there is none of; asked for each run.
        options: Of other tools.
    """

    async def execute(call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> AgentToolResult:
        action = optional_text(params, "action") or "run"
        try:
            if action == "run":
                return await _run(delegate, known, params, on_update)
            if (other := _ACTIONS.get(action)) is None:
                raise ToolError(f"Unknown action: {action}; it can be {', '.join(ACTIONS)}")
            return await other(delegate, params)
        except UnknownSubagent as unknown:
            raise ToolError(f"Unknown role: {unknown.name}; there are: {', '.join(unknown.known)}") from unknown
        except CodingAgentError as refused:
            raise ToolError(str(refused)) from refused
        except CallFailed as failed:
            raise ToolError("Task session exited before completion") from failed

    return AgentTool(
        name="task",
        label="Task",
        description=_description(kinds),
        parameters=PARAMETERS,
        execute=execute,
        main_argument="description",
    )


def _description(kinds: Iterable[Definition]) -> str:
    lines = [f"- {kind.name}: {kind.description}" for kind in kinds]
    return "\n".join(
        [
            "Hand a piece of work to a subagent, which has a conversation of its own and answers with its last words.",
            "Actions: run starts one and waits, or with async goes on; poll says how it stands, get gives its result, "
            "join waits for several, steer tells it something, stop ends it, answer answers what it asked.",
            *(["Roles:", *lines] if lines else []),
        ]
    )


async def _run(
    delegate: Delegate, known: Callable[[str], object] | None, params: dict[str, Any], on_update: OnUpdate | None
) -> AgentToolResult:
    prompt = required_text(params, "prompt", "prompt is required")
    if not prompt.strip():
        raise ToolError("prompt must not be empty")
    role = optional_text(params, "role")
    if known is not None and role is not None:
        known(role)
    spec = SubagentSpec(
        prompt=prompt,
        subagent=role,
        description=optional_text(params, "description") or "",
        model=optional_text(params, "model"),
        thinking_level=optional_text(params, "thinking_level"),
        tools=optional_texts(params, "tools"),
        tool_policy=read_policy(params.get("tool_policy")),
        cwd=optional_text(params, "cwd"),
        timeout_ms=None if params.get("timeout_ms") is None else optional_number(params, "timeout_ms", 0),
    )
    meta = {} if params.get("meta") is None else {"meta": params["meta"]}
    if optional_flag(params, "async"):
        delivery: Delivery = "follow_up" if params.get("queue_mode") in (None, "followup") else "steer"
        run_id = await delegate.run_in_background(spec, delivery, tell=params.get("auto_followup") is not False)
        details = {"task_id": run_id, "run_id": run_id, "status": "queued", "description": spec.description}
        return text_result(f"Task queued: {run_id}", details | meta)
    result = await _watched(delegate, spec, on_update)
    told = {"task_id": result.id, "status": result.status, "session_file": result.session_file} | meta
    if result.status == "completed":
        return text_result(result.result or "(it said nothing)", told)
    raise ToolError(_failed(result))


async def _watched(delegate: Delegate, spec: SubagentSpec, on_update: OnUpdate | None) -> SubagentResult:
    """Run one, and report the tool calls it is at."""
    if on_update is None:
        return await delegate.run(spec, spec.timeout_ms, None)
    watcher = spawn(_report, on_update, self_pid(), label="task_progress")
    try:
        return await delegate.run(spec, spec.timeout_ms, watcher)
    finally:
        exit_signal(watcher, "kill")


async def _report(on_update: OnUpdate, caller: Pid) -> None:
    monitor(caller)
    while isinstance(message := await receive(), Progress):
        on_update(text_result(message.action or "thinking", {"current_action": message.action}))


def _failed(result: SubagentResult) -> str:
    words = {"timeout": "Task timed out", "aborted": "Task was aborted"}.get(result.status)
    head = words or f"Task failed: {_reason(result.error)}"
    return f"{head}\nWhat it had said:\n{result.result}" if result.result.strip() else head


def _reason(error: Any) -> str:
    match error:
        case ("crashed", _):
            return "Task session exited before completion"
        case str():
            return error
        case tuple():
            return ": ".join(map(str, error))
        case _:
            return str(error)


async def _poll(delegate: Delegate, params: dict[str, Any]) -> AgentToolResult:
    ids = _ids(params)
    views = await delegate.view(ids or None)
    if not views:
        return text_result("No tasks.")
    return text_result("\n\n".join(map(_standing, views)), {"tasks": [_facts(view) for view in views]})


async def _get(delegate: Delegate, params: dict[str, Any]) -> AgentToolResult:
    (view,) = await delegate.view([_one(params)])
    if view.result is None:
        return text_result(_standing(view), _facts(view))
    return text_result(_ended(view.result), _facts(view))


async def _join(delegate: Delegate, params: dict[str, Any]) -> AgentToolResult:
    ids = _ids(params)
    if not ids:
        raise ToolError("task_ids is required for action=join")
    mode: JoinMode = "wait_any" if optional_text(params, "mode") == "wait_any" else "wait_all"
    views = await delegate.join(ids, mode)
    blocks = [f"## {view.id}\n{_ended(view.result) if view.result else _standing(view)}" for view in views]
    return text_result("\n\n".join(blocks), {"tasks": [_facts(view) for view in views]})


async def _steer(delegate: Delegate, params: dict[str, Any]) -> AgentToolResult:
    await delegate.steer(_one(params), required_text(params, "text", "text is required for action=steer"))
    return text_result("It will read that before its next step.")


async def _stop(delegate: Delegate, params: dict[str, Any]) -> AgentToolResult:
    view = await delegate.stop(_one(params))
    return text_result(_standing(view), _facts(view))


async def _answer(delegate: Delegate, params: dict[str, Any]) -> AgentToolResult:
    await delegate.answer(_one(params), required_text(params, "text", "text is required for action=answer"))
    return text_result("It has your answer.")


_ACTIONS: Final[Mapping[str, Callable[[Delegate, dict[str, Any]], Awaitable[AgentToolResult]]]] = {
    "poll": _poll,
    "get": _get,
    "join": _join,
    "steer": _steer,
    "stop": _stop,
    "answer": _answer,
}


def _one(params: dict[str, Any]) -> str:
    return required_text(params, "task_id", f"task_id is required for action={params.get('action')}")


def _ids(params: dict[str, Any]) -> list[str]:
    one = optional_text(params, "task_id")
    return list(optional_texts(params, "task_ids") or ([one] if one else []))


def _ended(result: SubagentResult) -> str:
    return (result.result or "(it said nothing)") if result.status == "completed" else _failed(result)


def _standing(view: RunView) -> str:
    lines = [f"{view.id}: {view.status}{f' ({view.description})' if view.description else ''}"]
    if view.current_action:
        lines.append(f"at: {view.current_action}")
    if view.question:
        lines.append(f"asks: {view.question}")
    if view.result is not None and view.result.result:
        lines.append(view.result.result[:PREVIEW_MAX])
    return "\n".join(lines)


def _facts(view: RunView) -> dict[str, Any]:
    return {"task_id": view.id, "status": view.status, "session_file": view.session_file}
