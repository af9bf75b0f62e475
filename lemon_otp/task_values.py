"""Value. What the owner of a task is told, and how a task may have ended."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from attrs import frozen

from lemon_otp.pid import MonitorRef

T = TypeVar("T")


class TaskReply(NamedTuple):
    """Message to the owner of a task: its value. A tuple, as on the BEAM."""

    ref: MonitorRef
    value: Any


@frozen
class TaskDone(Generic[T]):
    """The task returned."""

    value: T


@frozen
class TaskExit:
    """The task ended without a value."""

    reason: Any


TaskResult: TypeAlias = TaskDone[T] | TaskExit
