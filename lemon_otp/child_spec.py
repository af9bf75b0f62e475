"""Value. What a supervisor knows about one child: how to start it, when to start it again, how to stop it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias

from attrs import evolve, field, frozen

from lemon_otp.errors import BadChildSpec

Restart: TypeAlias = Literal["permanent", "transient", "temporary"]
"""Started again always, only after an abnormal end, or never."""
ChildKind: TypeAlias = Literal["worker", "supervisor"]
Shutdown: TypeAlias = float | Literal["brutal_kill", "infinity"]
"""Seconds to end by itself after the signal `shutdown`; killed at once; waited for without end."""
StartFunction: TypeAlias = Callable[[], Awaitable[Any]]
"""Starts and links one child: its pid, `(pid, info)`, or None when the child declines to run."""

RESTARTS: Final = ("permanent", "transient", "temporary")
KINDS: Final = ("worker", "supervisor")


def _check_id(_spec: Any, _field: Any, id: Any) -> None:  # noqa: A002 - the field that it checks
    try:
        hash(id)
    except TypeError:
        raise BadChildSpec(("invalid_id", id), "id must be a value that can be hashed") from None


def _check_start(_spec: Any, _field: Any, start: Any) -> None:
    if not callable(start):
        raise BadChildSpec(("invalid_mfa", start), "start must be an async function without arguments")


def _check_restart(_spec: Any, _field: Any, restart: Any) -> None:
    if restart not in RESTARTS:
        raise BadChildSpec(("invalid_restart_type", restart), f"restart must be one of {', '.join(RESTARTS)}")


def _check_shutdown(_spec: Any, _field: Any, shutdown: Any) -> None:
    if shutdown in ("brutal_kill", "infinity"):
        return
    if isinstance(shutdown, bool) or not isinstance(shutdown, int | float) or not shutdown >= 0:
        raise BadChildSpec(("invalid_shutdown", shutdown), "shutdown must be seconds, 'brutal_kill' or 'infinity'")


def _check_kind(_spec: Any, _field: Any, kind: Any) -> None:
    if kind not in KINDS:
        raise BadChildSpec(("invalid_child_type", kind), f"kind must be one of {', '.join(KINDS)}")


def _check_significant(_spec: Any, _field: Any, significant: Any) -> None:
    if not isinstance(significant, bool):
        raise BadChildSpec(("invalid_significant", significant), "significant must be True or False")


@frozen(kw_only=False)
class ChildSpec:
    """One child of a supervisor. Nonsense raises `BadChildSpec` here, where it was written.

    Attributes:
        id: Any hashable value; unique under a `Supervisor`. By habit the last part of the child's module path.
        start: Async function that starts the child linked to its caller, which is the supervisor.
        restart: When the supervisor starts the child again after it ended.
        shutdown: How the supervisor stops the child.
        kind: A supervisor among the children is counted apart and should have `shutdown="infinity"`.
        significant: Its own end may stop the supervisor, see `auto_shutdown`.
        module: Dotted path of the child's module, for `tree()`.
    """

    id: Any = field(validator=_check_id)
    start: StartFunction = field(repr=False, validator=_check_start)
    restart: Restart = field(default="permanent", validator=_check_restart)
    shutdown: Shutdown = field(default=5.0, validator=_check_shutdown)
    kind: ChildKind = field(default="worker", validator=_check_kind)
    significant: bool = field(default=False, validator=_check_significant)
    module: str | None = None

    def replace(self, **changes: Any) -> ChildSpec:
        """The same spec with some fields changed, checked again."""
        return evolve(self, **changes)
