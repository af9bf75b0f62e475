"""The list of things to do: its rules, its process, its tool."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.tools import todo_store, todo_tool
from coding_agent.tools.todo_list import (
    BadTodos,
    Todo,
    actionable,
    all_completed,
    blocking,
    parse,
    progress,
    stamped,
    with_status,
)
from coding_agent.tools.todo_store import TodoStore
from lemon_agent import ToolError
from lemon_otp import Runtime, Supervisor, exit_signal, stop, whereis
from tests.coding_agent.tools.support import Bench, call, text_of, until


def item(number: object, **fields: Any) -> dict[str, Any]:
    """One thing to do, as a model writes it."""
    return {"id": str(number), "content": f"do {number}", "status": "pending", "priority": "medium", **fields}


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        (None, "must be a list"),
        ([1], "todo 1: must be an object"),
        ([item(1), item(2, content=" ")], "todo 2: content must be text"),
        ([item(1, id=None)], "todo 1: id must be text"),
        ([item(1, status="done")], "todo 1: status must be one of pending"),
        ([item(1, priority="urgent")], "todo 1: priority must be one of high"),
        ([item(1), item(1)], "todo 2: id '1' is used twice"),
        ([item(1, dependencies=["9"])], "todo 1: depends on '9'"),
        ([item(1, dependencies="9")], "todo 1: dependencies must be a list"),
        ([item(1, content="\ud800")], "half a character"),
        ([item(number) for number in range(501)], "at most 500"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(items: object, reason: str) -> None:
    """The item is named by its number from 1."""
    with pytest.raises(BadTodos, match=reason):
        parse(items)


def test_progress_counts_and_rounds_down() -> None:
    """An empty list is complete, and no percent of it is."""
    todos = parse([item(1, status="completed"), item(2, status="blocked"), item(3)])

    assert progress(todos) == {
        "total": 3, "pending": 1, "in_progress": 0, "completed": 1, "blocked": 1, "percentage": 33,
    }  # fmt: skip
    assert progress(())["percentage"] == 0
    assert all_completed(())
    assert not all_completed(todos)


def test_what_can_be_done_comes_by_priority_once_its_dependencies_are_completed() -> None:
    """And what others wait for is named."""
    todos = parse(
        [
            item(1, status="completed"),
            item(2, priority="low", dependencies=["1"]),
            item(3, priority="high", dependencies=["2"]),
            item(4, priority="high", status="in_progress"),
            item(5, status="blocked"),
        ]
    )

    assert [todo.id for todo in actionable(todos)] == ["4", "2"]
    assert [todo.id for todo in blocking(todos)] == ["2"]


def test_the_time_of_a_change_is_kept_until_the_next() -> None:
    """Writing the same list again changes no time."""
    first = stamped((), parse([item(1), item(2, status="completed")]), 1000)
    again = stamped(first, parse([item(1), item(2, status="completed")]), 2000)
    done = with_status(again, "1", "completed", 3000)

    assert again == first
    assert (first[1].updated_at, first[1].completed_at) == (1000, 1000)
    assert (done[0].updated_at, done[0].completed_at) == (3000, 3000)


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=5) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["id", "content", "status", "priority", "dependencies"]), inner, max_size=5
            )
        ),
        max_leaves=12,
    )
)
def test_anything_is_a_list_or_refused(value: object) -> None:
    """Never another error, and what is taken has every field."""
    try:
        todos = parse(value)
    except BadTodos:
        return
    assert all(isinstance(todo, Todo) and todo.id and todo.content for todo in todos)


async def test_the_tool_reads_what_it_wrote(bench: Bench) -> None:
    """As JSON, with the whole list in the details."""
    result = await bench.call("todo", action="write", todos=[item(1), item(2, status="completed")])
    listed = json.loads(await bench.text("todo", action="read"))

    assert result.details["title"] == "2 todos"
    assert [todo["id"] for todo in listed] == ["1", "2"]
    assert json.loads(await bench.text("todo", action="progress"))["percentage"] == 50
    assert [todo["id"] for todo in json.loads(await bench.text("todo", action="actionable"))] == ["1"]


async def test_the_tool_says_what_is_wrong(bench: Bench) -> None:
    """An unknown action, and a bad list that leaves the old one."""
    await bench.call("todo", action="write", todos=[item(1)])

    assert "action must be one of" in await bench.refusal("todo", action="clear")
    assert "todo 1: status" in await bench.refusal("todo", action="write", todos=[item(9, status="x")])
    assert "todos must be a list" in await bench.refusal("todo", action="write")
    assert [todo["id"] for todo in json.loads(await bench.text("todo", action="read"))] == ["1"]


async def test_the_store_keeps_lists_apart_and_beyond_the_calls(runtime: Runtime, folder: Path) -> None:
    """Two sessions with tools of their own; a crash of the store loses the lists but not the service."""
    supervisor = await Supervisor.start_link([todo_store.child_spec()])
    one, two = (todo_tool(str(folder), session_id=name) for name in ("one", "two"))
    await call(one, action="write", todos=[item(1)])

    assert json.loads(text_of(await call(one, action="read")))[0]["id"] == "1"
    assert json.loads(text_of(await call(two, action="read"))) == []
    assert [todo.id for todo in await TodoStore.get("one")] == ["1"]

    store = whereis(todo_store.NAME)
    assert store is not None
    exit_signal(store, "kill")
    await until(lambda: whereis(todo_store.NAME) not in (None, store), "it was restarted")
    assert json.loads(text_of(await call(one, action="read"))) == []
    await TodoStore.put("one", parse([item(2)]))
    await TodoStore.delete("one")
    assert await TodoStore.get("one") == ()
    await stop(supervisor)


async def test_a_refused_list_is_a_tool_error(bench: Bench) -> None:
    """Which the loop turns into an error result."""
    with pytest.raises(ToolError):
        await bench.call("todo", action="write", todos="x")
