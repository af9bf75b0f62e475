"""Pure. A list of things to do: what is in it, what can be done next, and how far it has come."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from attrs import asdict, evolve, frozen

Status: TypeAlias = Literal["pending", "in_progress", "completed", "blocked"]
Priority: TypeAlias = Literal["high", "medium", "low"]
STATUSES: Final[tuple[str, ...]] = get_args(Status)
PRIORITIES: Final[tuple[str, ...]] = get_args(Priority)
ITEMS_MAX: Final = 500
CONTENT_MAX: Final = 2_000


class BadTodos(ValueError):
    """The list cannot be taken; the text says which item and why."""


@frozen
class Todo:
    """One thing to do.

    Attributes:
        dependencies: Ids of what must be completed before.
        updated_at, completed_at: Wall-clock milliseconds; None before the first change, and until it is completed.
    """

    id: str
    content: str
    status: Status = "pending"
    priority: Priority = "medium"
    dependencies: tuple[str, ...] = ()
    updated_at: int | None = None
    completed_at: int | None = None


def parse(items: object) -> tuple[Todo, ...]:
    """The list as a model gave it.

    Raises:
        BadTodos: Something is missing or unknown; items count from 1.
    """
    if not isinstance(items, list):
        raise BadTodos("todos must be a list")
    if len(items) > ITEMS_MAX:
        raise BadTodos(f"at most {ITEMS_MAX} todos")
    todos = tuple(_parse_one(number, item) for number, item in enumerate(items, 1))
    ids = [todo.id for todo in todos]
    for number, todo in enumerate(todos, 1):
        if ids.index(todo.id) != number - 1:
            raise BadTodos(f"todo {number}: id {todo.id!r} is used twice")
        unknown = [each for each in todo.dependencies if each not in ids]
        if unknown:
            raise BadTodos(f"todo {number}: depends on {unknown[0]!r}, which is not in the list")
    return todos


def _parse_one(number: int, item: object) -> Todo:
    if not isinstance(item, dict):
        raise BadTodos(f"todo {number}: must be an object")
    dependencies = item.get("dependencies") or []
    if not isinstance(dependencies, list) or not all(isinstance(each, str) for each in dependencies):
        raise BadTodos(f"todo {number}: dependencies must be a list of ids")
    status, priority = item.get("status", "pending"), item.get("priority", "medium")
    if status not in STATUSES:
        raise BadTodos(f"todo {number}: status must be one of {', '.join(STATUSES)}")
    if priority not in PRIORITIES:
        raise BadTodos(f"todo {number}: priority must be one of {', '.join(PRIORITIES)}")
    return Todo(
        id=_text(number, item, "id"),
        content=_text(number, item, "content"),
        status=status,
        priority=priority,
        dependencies=tuple(dependencies),
    )


def _text(number: int, item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise BadTodos(f"todo {number}: {name} must be text that is not empty")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise BadTodos(f"todo {number}: {name} holds half a character (a lone surrogate)")
    if len(value) > CONTENT_MAX:
        raise BadTodos(f"todo {number}: {name} is longer than {CONTENT_MAX} characters")
    return value


def progress(todos: Sequence[Todo]) -> dict[str, int]:
    """How many there are of each kind, and what part is completed, in whole percent rounded down."""
    counts = {status: sum(todo.status == status for todo in todos) for status in STATUSES}
    total = len(todos)
    return {"total": total, **counts, "percentage": counts["completed"] * 100 // total if total else 0}


def actionable(todos: Sequence[Todo]) -> list[Todo]:
    """What can be worked on now, the most important first: open, with everything it depends on completed."""
    done = {todo.id for todo in todos if todo.status == "completed"}
    ready = [todo for todo in todos if todo.status in ("pending", "in_progress") and set(todo.dependencies) <= done]
    return sorted(ready, key=lambda todo: PRIORITIES.index(todo.priority))


def blocking(todos: Sequence[Todo]) -> list[Todo]:
    """What is not completed and something else waits for."""
    wanted = {each for todo in todos if todo.status != "completed" for each in todo.dependencies}
    return [todo for todo in todos if todo.id in wanted and todo.status != "completed"]


def with_status(todos: Sequence[Todo], todo_id: str, status: Status, now_ms: int) -> tuple[Todo, ...]:
    """The list with one status changed, and when that was."""
    return tuple(_changed(todo, status, now_ms) if todo.id == todo_id else todo for todo in todos)


def stamped(old: Sequence[Todo], new: Sequence[Todo], now_ms: int) -> tuple[Todo, ...]:
    """The new list, with the times of what did not change taken over from the old."""
    known = {todo.id: todo for todo in old}
    result = []
    for todo in new:
        before = known.get(todo.id)
        if (
            before is not None
            and evolve(todo, updated_at=before.updated_at, completed_at=before.completed_at) == before
        ):
            result.append(before)
        else:
            result.append(_changed(todo, todo.status, now_ms))
    return tuple(result)


def all_completed(todos: Sequence[Todo]) -> bool:
    """Nothing is left to do; true of an empty list."""
    return all(todo.status == "completed" for todo in todos)


def as_dict(todo: Todo) -> dict[str, Any]:
    """For JSON; what is not set is left out."""
    return {name: value for name, value in asdict(todo).items() if value is not None and value != ()}


def _changed(todo: Todo, status: Status, now_ms: int) -> Todo:
    return evolve(todo, status=status, updated_at=now_ms, completed_at=now_ms if status == "completed" else None)
