"""A running lemon_ai for tests of its processes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from lemon_ai import APPLICATION
from lemon_otp import Runtime, ensure_all_started, running_applications, stop_application
from lemon_otp.testing import FakeClock


@pytest_asyncio.fixture
async def ai(runtime: Runtime) -> AsyncIterator[Runtime]:
    """The application on the machine's clock; the test is a process beside it."""
    await ensure_all_started(APPLICATION)
    yield runtime
    if "lemon_ai" in running_applications():
        await stop_application("lemon_ai")


@pytest_asyncio.fixture
async def clocked_ai(clocked_runtime: Runtime, fake_clock: FakeClock) -> AsyncIterator[FakeClock]:
    """The application on a clock that the test moves."""
    await ensure_all_started(APPLICATION)
    yield fake_clock
    if "lemon_ai" in running_applications():
        await stop_application("lemon_ai")
