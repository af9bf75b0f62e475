"""Value. What every kind of supervisor is asked, and how its answers reach the caller.

All kinds understand the same requests, so that a request sent to the wrong kind is answered with an error, not with the
end of the supervisor.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from attrs import define, frozen

from lemon_otp.child_spec import ChildSpec, Restart, Shutdown, StartFunction
from lemon_otp.errors import BadArgument
from lemon_otp.gen_server import Request
from lemon_otp.pid import Name
from lemon_otp.restarts import Backoff
from lemon_otp.telling import describe


class SupervisorRequest(Request[Any]):
    """Base of what any supervisor is asked; one of a kind that it does not serve is refused with BadArgument."""

    __slots__ = ()


@define(eq=False)  # a third of what a frozen one costs, and this is made for every child
class StartChild(SupervisorRequest):
    """Add this child and start it."""

    spec: ChildSpec


@define(eq=False)
class TerminateChild(SupervisorRequest):
    """Stop this child, named by its id or, where ids may repeat, by its pid, and do not start it again."""

    child: Hashable


@frozen
class RestartChild(SupervisorRequest):
    """Start this stopped child."""

    id: Hashable


@frozen
class DeleteChild(SupervisorRequest):
    """Forget this stopped child."""

    id: Hashable


@frozen
class WhichChildren(SupervisorRequest):
    """List the children."""


@frozen
class CountChildren(SupervisorRequest):
    """Count the children."""


def refusal(supervisor: object, request: SupervisorRequest) -> BadArgument:
    """The answer to a request of another kind of supervisor."""
    return BadArgument(f"a {type(supervisor).__name__} cannot serve {type(request).__name__}")


def raised(answer: Any) -> Any:
    """The answer of a supervisor; an exception among them is raised here, in the caller."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def default_id(cls: type, name: Name | None) -> Any:
    """The id of a child that goes by its registered name: that, else the last part of its module's path."""
    return name if isinstance(name, str) else cls.__module__.rsplit(".", 1)[-1]


def supervisor_spec(
    cls: type,
    start: StartFunction,
    name: Name | None,
    id: Any,  # noqa: A002 - the name that child specifications have for it
    *,
    restart: Restart,
    shutdown: Shutdown = "infinity",
    significant: bool = False,
) -> ChildSpec:
    """How another supervisor starts one of this class; its id is by default its name, see `default_id`."""
    return ChildSpec(
        id=default_id(cls, name) if id is None else id,
        start=start,
        restart=restart,
        shutdown=shutdown,
        kind="supervisor",
        significant=significant,
        module=cls.__module__,
    )


def checked_id(id: Any) -> Any:  # noqa: A002 - what a child specification calls it
    """The id of a child. Raises BadArgument in the caller, where the supervisor itself would stumble over it."""
    try:
        hash(id)
    except TypeError:
        raise BadArgument(f"the id of a child is a value that can be hashed, not {describe(id)}") from None
    return id


def check_limits(max_restarts: int, max_seconds: float, backoff: Backoff | None) -> None:
    """Raise BadArgument when the restart limits are nonsense."""
    if isinstance(max_restarts, bool) or not isinstance(max_restarts, int) or max_restarts < 0:
        raise BadArgument(f"max_restarts is a number from 0 on, not {max_restarts!r}")
    if isinstance(max_seconds, bool) or not isinstance(max_seconds, int | float) or not max_seconds > 0:
        raise BadArgument(f"max_seconds is a positive number of seconds, not {max_seconds!r}")
    if backoff is not None and not isinstance(backoff, Backoff):
        raise BadArgument(f"backoff is a Backoff or None, not {backoff!r}")
