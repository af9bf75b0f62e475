"""One started program, and how the host gives it up."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coding_agent.tools.child import Child
from coding_agent.tools.keeper import Keeper, Program
from tests.coding_agent.tools.support import alive, open_descriptors, started, until

SHELL = ("/bin/sh", "-c", "echo there; exec sleep 600")


@pytest.fixture
async def keeper() -> AsyncIterator[Keeper]:
    """A helper process of this test's own."""
    made = Keeper()
    yield made
    assert await made.aclose()


async def begun(keeper: Keeper, program: Program) -> Child:
    """The program, once it has printed something."""
    heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take(_data: bytes) -> None:
        if not heard.done():
            heard.set_result(None)

    child = await keeper.start(program, take)
    await heard
    return child


@pytest.mark.parametrize("end", ["close", "release", "close_input"])
@pytest.mark.parametrize(
    "program", [Program(SHELL, {}, tty=True), Program(SHELL, {}, stdin="pipe")], ids=["on a terminal", "on pipes"]
)
async def test_every_descriptor_is_closed_once(keeper: Keeper, program: Program, end: str) -> None:
    """
    On a terminal input and output are one descriptor. However a child is given up, it is closed once: closing it again
    would raise, or close what somebody else has opened since.
    """
    await begun(keeper, program)
    keeper.close()
    before = open_descriptors()
    child = await begun(keeper, program)
    getattr(child, end)()
    child.close()
    child.close()
    await until(lambda: not alive(child.pid), "the program is gone", 10)
    keeper.close()
    assert open_descriptors() == before


async def test_who_waits_to_write_to_a_terminal_learns_that_it_is_closed(keeper: Keeper) -> None:
    """The program never reads; its terminal is full when the host gives it up."""
    child = await begun(keeper, Program(SHELL, {}, tty=True))
    writing = started(child.write(b"x" * 1_000_000))
    for _turn in range(10):
        await asyncio.sleep(0)
    assert not writing.done()
    child.close()
    with pytest.raises(BrokenPipeError):
        await writing


async def test_a_start_that_is_canceled_twice_gives_up_its_terminal(keeper: Keeper, tmp_path: Path) -> None:
    """The second cancel comes while the first one's kill is awaited; what was opened is closed, and nothing runs."""
    (await begun(keeper, Program(SHELL, {}, tty=True))).close()
    before = open_descriptors()
    mark = tmp_path / "pid"
    program = Program(("/bin/sh", "-c", f"echo $$ > {mark}; trap '' TERM; sleep 600"), {"PATH": os.defpath}, tty=True)
    start = started(keeper.start(program, lambda _data: None))
    while not keeper.children:
        await asyncio.sleep(0)
    start.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    await until(lambda: open_descriptors() == before, "every descriptor is closed", 10)
    await until(lambda: not mark.exists() or not alive(int(mark.read_text() or 0)), "nothing runs", 10)
