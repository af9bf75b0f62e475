"""Process. Keeps the todo lists of sessions, so that they outlive the tool calls that write them.

Tree:  coding_agent.supervisor / todo_store, permanent
Owns:  session id to list; lost on restart, as a session's entries bring its list back
"""

from typing import Any, Final

from attrs import frozen

from coding_agent.tools.todo_list import Todo, stamped
from lemon_otp import Address, Caller, ChildSpec, GenServer, Reply, Request, call, wall_ms

NAME: Final = "todo_store"


@frozen
class Get(Request[tuple[Todo, ...]]):
    """What is on a session's list?"""

    session_id: str


@frozen
class Put(Request[tuple[Todo, ...]]):
    """Make this a session's list; answered with it, times filled in."""

    session_id: str
    todos: tuple[Todo, ...]


@frozen
class Delete(Request[None]):
    """Forget a session's list."""

    session_id: str


Lists = dict[str, tuple[Todo, ...]]


class TodoStore(GenServer[None, Get | Put | Delete, Any, Lists]):
    """One list a session."""

    # Client side: runs in the caller.

    @staticmethod
    async def get(session_id: str, *, store: Address = NAME) -> tuple[Todo, ...]:
        """The session's list; empty when it has none."""
        return await call(store, Get(session_id))

    @staticmethod
    async def put(session_id: str, todos: tuple[Todo, ...], *, store: Address = NAME) -> tuple[Todo, ...]:
        """Make it the session's list. Returns it with the time of each change."""
        return await call(store, Put(session_id, todos))

    @staticmethod
    async def delete(session_id: str, *, store: Address = NAME) -> None:
        """Forget the session's list."""
        await call(store, Delete(session_id))

    # Server side: runs in the process.

    def init(self, arg: None) -> Lists:
        return {}

    def handle_call(self, message: Get | Put | Delete, caller: Caller, lists: Lists) -> Reply[Lists]:
        match message:
            case Get(session_id):
                return Reply(lists.get(session_id, ()), lists)
            case Put(session_id, todos):
                lists[session_id] = stamped(lists.get(session_id, ()), todos, wall_ms())
                return Reply(lists[session_id], lists)
            case Delete(session_id):
                lists.pop(session_id, None)
                return Reply(None, lists)


def child_spec() -> ChildSpec:
    """For the tree of this package."""
    return TodoStore.child_spec(id=NAME, name=NAME)
