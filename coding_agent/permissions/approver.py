"""Values. Who is asked when the rules leave something open, what they are shown and what they may answer."""

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from coding_agent.permissions.rules import Rule  # with all that reads a command: nobody needs it before a question

Choice: TypeAlias = Literal["once", "always", "deny"]


@frozen
class PermissionRequest:
    """Something a person is asked.

    Attributes:
        id: Of this question.
        seal: Stands for exactly what is shown: tool, arguments, folder. An answer carries it back.
        shown: The whole call, for a person: nothing shortened, nothing invisible.
        reason: Why it is asked.
        rules: What "always" would store, to be shown with that choice; empty where it cannot be had.
    """

    id: str
    seal: str
    tool_call_id: str
    tool_name: str
    shown: str
    reason: str
    rules: "tuple[Rule, ...]" = ()


@frozen
class PermissionAnswer:
    """What somebody answered.

    Attributes:
        choice: `once`, `always` (also store the rules that were shown) or `deny`.
        seal: The one of the request that was looked at; an answer to another question counts for nothing.
        note: Told to the model with a refusal.
    """

    choice: Choice
    seal: str
    note: str = ""


class Approver(Protocol):
    """Asks a person. Raising, or an answer that does not fit, means no; the wait is cancelled when the run is aborted.

    Several questions may be open at once when agents work side by side.
    """

    async def ask(self, request: PermissionRequest) -> PermissionAnswer: ...
