"""Edge. The operating-system processes a tool call has started, so that ending the call by force ends them too."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_groups_of_call: Final[ContextVar[set[int] | None]] = ContextVar("lemon_agent_process_groups", default=None)


def collect_into(groups: set[int]) -> None:
    """From here on, in this context, `process_group` notes groups in `groups`."""
    _groups_of_call.set(groups)


@contextmanager
def process_group(group: int) -> Iterator[None]:
    """For the length of the block, tie a process group to the tool call that runs it.

    When the call has to be ended by force, every process of the group is killed. Leaving the block unties it: seeing to
    an orderly end is the tool's own business. Outside a tool call the block does nothing.

    Args:
        group: The group's id: the pid of a child started with `start_new_session=True`.
    """
    groups = _groups_of_call.get()
    if groups is None:
        yield
        return
    groups.add(group)
    try:
        yield
    finally:
        groups.discard(group)


def kill_groups(groups: set[int]) -> int:
    """Kill every process of these groups; how many groups there still were."""
    killed = 0
    while groups:
        try:
            os.killpg(groups.pop(), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
        killed += 1
    return killed
