"""Edge. The tool `todo`: the session's list of things to do."""

import json
from collections.abc import Sequence
from typing import Any, Final

from coding_agent.tools.arguments import required_text
from coding_agent.tools.workspace import workspace_for
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, ToolError, check_abort, text_result
from lemon_otp import NotAProcess, wall_ms, whereis

ACTIONS: Final = ("read", "write", "progress", "actionable")

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(ACTIONS), "description": "write replaces the whole list."},
        "todos": {
            "type": "array",
            "description": "With write: everything on the list.",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "content": {"type": "string"},
                    "status": {"type": "string", "enum": ["pending", "in_progress", "completed", "blocked"]},
                    "priority": {"type": "string", "enum": ["high", "medium", "low"]},
                    "dependencies": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["id", "content", "status", "priority"],
            },
        },
    },
    "required": ["action"],
}

DESCRIPTION: Final = (
    "Keep a list of the steps of a longer task: write it when you plan, write it again with changed states as you go. "
    "actionable shows what can be done next."
)


def todo_tool(cwd: str, **options: Any) -> AgentTool:
    """The tool `todo`.

    `session_id` names the list; by default it is the session that the workspace has joined. It is kept by the process
    `todo_store` where one runs, else with the workspace.
    """
    named = str(options.pop("session_id", ""))
    workspace = workspace_for(cwd, options)

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, _on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        from coding_agent.tools import todo_list
        from coding_agent.tools.todo_store import NAME, TodoStore

        check_abort(signal)
        action = required_text(params, "action", "action is required")
        if action not in ACTIONS:
            raise ToolError(f"action must be one of {', '.join(ACTIONS)}")
        session_id = named or workspace.session_name
        shared = bool(session_id) and runs(NAME)
        todos = await TodoStore.get(session_id) if shared else workspace.todos
        if action == "write":
            try:
                wanted = todo_list.parse(params.get("todos"))
            except todo_list.BadTodos as error:
                raise ToolError(str(error)) from error
            if shared:
                todos = await TodoStore.put(session_id, wanted)
            else:
                todos = workspace.todos = todo_list.stamped(workspace.todos, wanted, wall_ms())
        if action == "progress":
            return shown(todo_list.progress(todos), todos)
        listed: Sequence[Any] = todo_list.actionable(todos) if action == "actionable" else todos
        return shown([todo_list.as_dict(todo) for todo in listed], todos)

    return AgentTool(
        name="todo",
        label="Todo",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
        main_argument="action",
    )


def runs(name: str) -> bool:
    """Is there a process of this name in the caller's runtime?"""
    try:
        return whereis(name) is not None
    except NotAProcess:
        return False


def shown(value: object, todos: Sequence[Any]) -> AgentToolResult:
    """The answer as JSON, with the whole list for the screen."""
    from coding_agent.tools.todo_list import as_dict

    title = f"{len(todos)} {'todo' if len(todos) == 1 else 'todos'}"
    details = {"title": title, "todos": [as_dict(todo) for todo in todos]}
    return text_result(json.dumps(value, indent=2, ensure_ascii=False), details)
