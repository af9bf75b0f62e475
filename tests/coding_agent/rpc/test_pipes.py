"""Standard input and output that never hold up the event loop."""

import fcntl
import os

import pytest

from coding_agent.rpc.pipes import AT_ONCE, InputEnded, InputPipe, OutputClosed, OutputPipe, Received
from lemon_otp import ReceiveTimeout, receive, self_pid


def not_blocking(descriptor: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_NONBLOCK)


async def all_of(size: int, pipe: InputPipe) -> bytes:
    found = b""
    while len(found) < size:
        message = await receive(lambda message: isinstance(message, Received), timeout_s=20.0)
        pipe.taken()
        found += message.data
    return found


@pytest.mark.parametrize("make_hard", [False, True], ids=["blocking", "not-blocking"])
async def test_bytes_go_through_in_order_whatever_their_size(runtime, make_hard: bool):
    """Short and long lines, more than a pipe holds, over descriptors of either kind."""
    reading, writing = os.pipe()
    if make_hard:
        not_blocking(reading)
        not_blocking(writing)
    incoming, outgoing = InputPipe(reading, self_pid()), OutputPipe(writing, self_pid())
    lines = [bytes([number % 251]) * (number * 37 % (3 * AT_ONCE)) + b"\n" for number in range(400)]
    for line in lines:
        outgoing.write(line)
    whole = b"".join(lines)
    assert await all_of(len(whole), incoming) == whole
    outgoing.close()
    assert outgoing.backlog == 0
    os.close(writing)
    assert isinstance(await receive(timeout_s=20.0), InputEnded)


async def test_a_reader_that_does_not_read_costs_memory_and_no_time(runtime):
    """Writing returns at once; how much waits can be asked."""
    reading, writing = os.pipe()
    outgoing = OutputPipe(writing, self_pid())
    for _ in range(100):
        outgoing.write(b"x" * 100_000)
    assert outgoing.backlog > 8_000_000
    os.close(reading)
    assert isinstance(await receive(timeout_s=20.0), OutputClosed)
    outgoing.write(b"for nobody\n")
    outgoing.close()
    os.close(writing)


async def test_that_nobody_reads_any_more_is_told_once(runtime):
    """The first write after that finds out; later ones are dropped."""
    reading, writing = os.pipe()
    outgoing = OutputPipe(writing, self_pid())
    os.close(reading)
    for _ in range(3):
        outgoing.write(b"line\n")
    assert isinstance(await receive(timeout_s=20.0), OutputClosed)
    outgoing.close()
    os.close(writing)
    with pytest.raises(ReceiveTimeout):
        await receive(timeout_s=0)
