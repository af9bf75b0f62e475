"""Fixtures for tests of agents: the package's tree, and a place for telemetry."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from lemon_agent.application import start
from lemon_otp import Pid, Runtime, telemetry

LOOP = ("lemon_agent", "loop")
TASK = ("lemon_agent", "tool_task")
HEARD = [
    (*LOOP, "start"),
    (*LOOP, "end"),
    (*LOOP, "state_transition"),
    (*TASK, "start"),
    (*TASK, "entered"),
    (*TASK, "end"),
    (*TASK, "error"),
    (*TASK, "retry"),
    (*TASK, "orphaned"),
    ("lemon_agent", "tool_result", "emit"),
    ("lemon_agent", "tool_call", "name_normalized"),
    ("lemon_agent", "context", "size"),
    ("lemon_agent", "context", "warning"),
    ("lemon_agent", "context", "truncated"),
    ("lemon_agent", "subagent", "spawn"),
    ("lemon_agent", "subagent", "end"),
    ("lemon_agent", "subscriber", "coalesced"),
    ("lemon_agent", "subscriber", "resumed"),
    ("lemon_agent", "subscriber", "out_of_credit"),
    ("lemon_agent", "tool_schema_snapshot", "created"),
    ("lemon_agent", "model_runtime", "fallback"),
]


class Heard:
    """What telemetry said, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]] = []

    def __call__(self, event: Any, measurements: Any, metadata: Any, _config: Any) -> None:
        self.events.append((event, dict(measurements), dict(metadata)))

    def of(self, *name: str) -> list[dict[str, Any]]:
        """The metadata of every event of that name, without "lemon_agent"."""
        return [metadata for event, _, metadata in self.events if event[1:] == name]

    def measured(self, *name: str) -> list[dict[str, Any]]:
        """The measurements of every event of that name."""
        return [measured for event, measured, _ in self.events if event[1:] == name]


@pytest_asyncio.fixture
async def tree(runtime: Runtime) -> Pid:
    """The tree of `lemon_agent` in a runtime of its own, with the test as a process."""
    return await start()


@pytest_asyncio.fixture
async def clocked_tree(clocked_runtime: Runtime) -> Pid:
    """As `tree`; its time is `fake_clock`."""
    return await start()


@pytest_asyncio.fixture
async def heard(runtime: Runtime) -> AsyncIterator[Heard]:
    """Everything `lemon_agent` says by telemetry in the test's runtime."""
    listener = Heard()
    telemetry.attach_many("test", HEARD, listener)
    yield listener
