"""A process is the current task of the loop while it runs: what is written for tasks works inside one."""

# ruff: noqa: TID251 - task groups are what is tested here

import asyncio
import gc
import io
import socket
import sys
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
import uvloop

from lemon_otp import (
    Down,
    NotAProcess,
    Pid,
    ReceiveTimeout,
    Runtime,
    call,
    exit_signal,
    monitor,
    receive,
    run,
    self_pid,
    send,
    spawn,
    spawn_monitor,
    zombies,
)
from lemon_otp.machine import Process
from lemon_otp.testing import settle
from tests.lemon_otp.servers import Counter, Read


@pytest.fixture(autouse=True)
async def entered(runtime: Runtime) -> Runtime:
    return runtime


async def in_process(body: Callable[[], Awaitable[Any]]) -> Any:
    """What `body` returns, run as a process of its own; what it raises is raised."""
    outcome: list[Any] = []

    async def work() -> None:
        try:
            outcome.append(("value", await body()))
        except Exception as error:
            outcome.append(("error", error))

    _, ref = spawn_monitor(work)
    down = await receive(lambda message: isinstance(message, Down) and message.ref is ref, timeout_s=10)
    assert outcome, down
    kind, value = outcome[0]
    if kind == "error":
        raise value
    return value


async def test_a_process_is_the_current_task_while_it_runs() -> None:
    """`asyncio.current_task()` is the process itself, before and after it has waited."""

    async def body() -> None:
        me = self_pid()
        assert asyncio.current_task() is me
        await asyncio.sleep(0)
        assert asyncio.current_task() is me
        await asyncio.sleep(0.001)
        assert asyncio.current_task() is me

    await in_process(body)


async def test_no_task_is_made_for_a_process() -> None:
    """Processes that wait do not stand among the loop's tasks."""
    before = asyncio.all_tasks()
    for _ in range(5):
        spawn(receive_for_ever)
    await settle()
    assert asyncio.all_tasks() == before


async def receive_for_ever() -> None:
    await receive()


async def test_a_bare_yield_gives_the_loop_a_pass() -> None:
    """After `asyncio.sleep(0)` whatever the loop had to do before has been done, as in a task."""

    async def body() -> list[str]:
        seen: list[str] = []
        loop = asyncio.get_running_loop()
        loop.call_soon(seen.append, "callback")
        helper = loop.create_future()
        loop.call_soon(helper.set_result, None)
        await asyncio.sleep(0)
        seen.append(f"then {helper.done()}")
        return seen

    assert await in_process(body) == ["callback", "then True"]


async def test_a_timeout_ends_a_receive() -> None:
    """`asyncio.timeout` cancels what waits inside it, and its cancel is taken back."""

    async def body() -> tuple[str, int]:
        try:
            async with asyncio.timeout(0.01):
                await receive()
        except TimeoutError:
            me: Any = asyncio.current_task()
            return "timed out", me.cancelling()
        return "received", -1

    assert await in_process(body) == ("timed out", 0)


async def test_timeouts_nest() -> None:
    """The inner deadline ends the inner block only; the outer one still holds."""

    async def body() -> list[str]:
        seen = []
        try:
            async with asyncio.timeout(0.05):
                try:
                    async with asyncio.timeout(0.005):
                        await asyncio.Event().wait()
                except TimeoutError:
                    seen.append("inner")
                await receive()
        except TimeoutError:
            seen.append("outer")
        return seen

    assert await in_process(body) == ["inner", "outer"]


async def test_a_timeout_that_is_not_reached_leaves_nothing_behind() -> None:
    """The process goes on, and is not cancelled later."""

    async def body() -> str:
        async with asyncio.timeout(0.02):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.04)
        return "done"

    assert await in_process(body) == "done"


async def test_wait_for_gives_the_result_or_times_out() -> None:
    """`asyncio.wait_for` works on futures and coroutines."""

    async def body() -> tuple[int, str]:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, 5)
        got = await asyncio.wait_for(future, 1)
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.005)
        except TimeoutError:
            return got, "timed out"
        return got, "?"

    assert await in_process(body) == (5, "timed out")


async def test_a_task_group_runs_its_tasks_and_hands_out_their_results() -> None:
    """Helper tasks may send, call and monitor in the name of their process."""
    counter = await Counter.start(7)
    assert counter is not None

    async def body() -> tuple[int, Any, bool]:
        async def ask() -> int:
            return int(await call(counter, Read()))

        async def tell() -> Pid:
            send(self_pid(), "from a helper")
            return self_pid()

        async with asyncio.TaskGroup() as group:
            asked, told = group.create_task(ask()), group.create_task(tell())
        return asked.result(), await receive(), told.result() is self_pid()

    assert await in_process(body) == (7, "from a helper", True)


async def test_a_failing_task_of_a_group_cancels_its_process_inside_the_block() -> None:
    """The block is left at once, with the failure, and the process may go on."""

    async def body() -> str:
        async def fail() -> None:
            raise ValueError("boom")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await receive()
        except* ValueError:
            pass
        me: Any = asyncio.current_task()
        assert me.cancelling() == 0
        await asyncio.sleep(0)
        return "alive"

    assert await in_process(body) == "alive"


async def test_gather_shield_and_locks_work() -> None:
    """The other tools of asyncio find a task in a process."""

    async def body() -> tuple[list[int], int, bool]:
        async def number(value: int) -> int:
            await asyncio.sleep(0)
            return value

        lock, queue = asyncio.Lock(), asyncio.Queue[int]()
        async with lock:
            queue.put_nowait(3)
        shielded = await asyncio.shield(number(3))
        return await asyncio.gather(number(1), number(2)), shielded, await queue.get() == 3

    assert await in_process(body) == ([1, 2], 3, True)


async def test_a_helper_task_may_not_receive() -> None:
    """Messages belong to the main line of the process; a helper is told so."""

    async def body() -> str:
        async def helper() -> None:
            await receive(timeout_s=1)

        said = "?"
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(helper())
        except* NotAProcess as refused:
            said = str(refused.exceptions[0])
        return said

    assert "main line" in await in_process(body)


async def test_anyio_scopes_and_groups_work() -> None:
    """anyio's cancel scopes take the process for the host task."""

    async def body() -> list[str]:
        seen = []
        with anyio.move_on_after(0.005) as scope:
            await receive()
        seen.append(f"moved on {scope.cancelled_caught}")
        try:
            with anyio.fail_after(0.005):
                await anyio.sleep_forever()
        except TimeoutError:
            seen.append("failed")
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0.001)
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.001)
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            group.cancel_scope.cancel()
        seen.append(await anyio.to_thread.run_sync(lambda: "thread"))
        return seen

    assert await in_process(body) == ["moved on True", "failed", "thread"]


async def test_httpx_works_inside_a_process() -> None:
    """A request over a real socket, and one that times out."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        if b"/slow" not in asked:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
            await writer.drain()
        else:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def body() -> tuple[str, str]:
        async with httpx.AsyncClient(trust_env=False) as client:
            good = await client.get(f"http://127.0.0.1:{port}/")
            try:
                await client.get(f"http://127.0.0.1:{port}/slow", timeout=0.05)
            except httpx.ReadTimeout:
                return good.text, "timed out"
        return good.text, "?"

    assert await in_process(body) == ("hello", "timed out")
    server.close()
    await server.wait_closed()


async def test_a_kill_closes_the_connection_of_a_process_that_reads() -> None:
    """`finally` blocks and `async with` exits run in the coroutine that is left."""
    reached = asyncio.Event()
    gone = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        reached.set()
        await reader.read()
        gone.set()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def body() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get(f"http://127.0.0.1:{port}/", timeout=30)

    pid = spawn(body)
    await reached.wait()
    exit_signal(pid, "kill")
    assert not pid.alive
    await asyncio.wait_for(gone.wait(), 5)
    assert pid not in zombies()
    server.close()
    await server.wait_closed()


async def test_an_awaited_error_is_raised_where_it_is_awaited() -> None:
    """Futures with an exception raise it in the process."""

    async def body() -> str:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, KeyError("k"))
        try:
            await future
        except KeyError as error:
            return repr(error)
        return "?"

    assert await in_process(body) == "KeyError('k')"


async def test_awaiting_nonsense_is_an_error_in_the_process() -> None:
    """A coroutine that yields something that is no future is told so, as a task would be."""

    class Nonsense:
        def __await__(self) -> Any:
            yield 5.5

    async def body() -> str:
        try:
            await Nonsense()
        except RuntimeError as error:
            return str(error)
        return "?"

    assert "no future" in await in_process(body)


async def test_a_future_of_another_loop_is_refused() -> None:
    """The mistake is reported where the future is awaited."""
    other = asyncio.new_event_loop()
    foreign = other.create_future()

    async def body() -> str:
        try:
            await foreign
        except RuntimeError as error:
            return str(error)
        return "?"

    assert "another event loop" in await in_process(body)
    other.close()


@pytest.mark.requirement("BR-121")
async def test_a_process_that_waits_for_a_future_is_kept_although_nobody_holds_it() -> None:
    """The runtime keeps strong references; the collector takes nothing that still has to run."""
    done: list[str] = []

    async def wait() -> None:
        future = asyncio.get_running_loop().create_future()
        known.append(weakref.ref(future))
        await future
        done.append("went on")

    known: list[weakref.ref[asyncio.Future[None]]] = []
    spawn(wait)
    await settle()
    gc.collect()
    future = known[0]()
    assert future is not None
    future.set_result(None)
    del future
    await settle()
    assert done == ["went on"]


@pytest.mark.requirement("BR-122")
@pytest.mark.parametrize("ticks", range(8))
async def test_a_cancel_that_meets_a_result_is_never_lost(ticks: int) -> None:
    """
    The inner future of a `wait_for` is settled, and the process is stopped, some passes of the loop apart: whichever
    comes first, the process is dead at once and its coroutine ends, although it loops for ever.
    """
    loop = asyncio.get_running_loop()
    inner: list[asyncio.Future[None]] = []
    after_death: list[str] = []

    async def worker() -> None:
        while True:
            inner.append(loop.create_future())
            await asyncio.wait_for(inner[-1], timeout=60)
            if not pid.alive:
                after_death.append("went on")

    pid = spawn(worker)
    await settle()
    inner[-1].set_result(None)
    for _ in range(ticks):
        await asyncio.sleep(0)
    exit_signal(pid, "shutdown")
    assert not pid.alive
    for _ in range(200):
        if not zombies():
            break
        await asyncio.sleep(0.005)
    assert zombies() == []
    assert len(after_death) <= 1


@pytest.mark.requirement("BR-122")
@pytest.mark.parametrize("ticks", range(6))
async def test_cancel_as_a_task_is_seen_whatever_the_future_does(ticks: int) -> None:
    """`Process.cancel()` in the same passes in which the awaited future is settled raises CancelledError inside."""
    loop = asyncio.get_running_loop()
    seen: list[str] = []
    futures: list[asyncio.Future[None]] = []

    async def worker() -> None:
        try:
            for _ in range(50):
                futures.append(loop.create_future())
                await futures[-1]
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    pid, _ = spawn_monitor(worker)
    assert isinstance(pid, Process)
    await settle()
    futures[-1].set_result(None)
    for _ in range(ticks):
        await asyncio.sleep(0)
    assert pid.cancel("enough")
    down = await receive(timeout_s=1)
    assert seen == ["cancelled"]
    assert down.reason == "cancelled"
    assert pid.cancelled()
    assert not pid.cancel()


async def test_the_task_protocol_tells_about_a_process() -> None:
    """Names, loop, context, coroutine, stack, done callbacks: what debuggers and libraries ask a task for."""
    pid = spawn(receive_for_ever, label="waiter")
    assert isinstance(pid, Process)
    await settle()
    assert pid.get_loop() is asyncio.get_running_loop()
    assert pid.get_name() == repr(pid)
    assert "waiter" in pid.get_name()
    pid.set_name("renamed")
    assert "renamed" in repr(pid)
    coro = pid.get_coro()
    assert coro is not None
    assert coro.__name__ == "receive_for_ever"
    assert pid.get_context() is pid.context
    assert not pid.done()
    assert next(frame.f_code.co_name for frame in pid.get_stack()) == "receive_for_ever"
    assert pid.get_stack(limit=1)[0].f_code.co_name == "receive"
    text = io.StringIO()
    pid.print_stack(file=text)
    assert "receive_for_ever" in text.getvalue()
    assert weakref.ref(pid)() is pid
    assert pid.cancelling() == 0

    ended: list[Any] = []
    pid.add_done_callback(ended.append)
    pid.add_done_callback(print)
    assert pid.remove_done_callback(print) == 1
    exit_signal(pid, "shutdown")
    await settle()
    assert ended == [pid]
    assert pid.done()
    assert not pid.cancelled()
    assert pid.get_stack() == []
    pid.add_done_callback(ended.append)
    await settle()
    assert ended == [pid, pid]


async def test_cancel_requests_are_counted_and_taken_back() -> None:
    """As for a task: `cancel` counts up, `uncancel` down, never below zero."""

    async def body() -> list[int]:
        me: Any = asyncio.current_task()
        counts = [me.cancelling(), me.uncancel()]
        try:
            me.cancel()
            me.cancel()
            counts.append(me.cancelling())
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            counts += [me.uncancel(), me.uncancel(), me.uncancel()]
        await asyncio.sleep(0)
        return counts

    assert await in_process(body) == [0, 0, 2, 1, 0, 0]


async def test_context_variables_of_one_process_are_hidden_from_others() -> None:
    """A process inherits what its parent had set, and changes only its own."""
    from contextvars import ContextVar

    colour: ContextVar[str] = ContextVar("colour")
    colour.set("red")
    seen: list[str] = []

    async def child() -> None:
        seen.append(colour.get())
        colour.set("blue")
        await asyncio.sleep(0)
        seen.append(colour.get())

    await asyncio.wait_for(until_down(spawn(child)), 5)
    assert seen == ["red", "blue"]
    assert colour.get() == "red"


async def until_down(pid: Pid) -> Any:
    monitor(pid)
    return (await receive(lambda message: isinstance(message, Down) and message.process is pid)).reason


def test_everything_works_on_uvloop() -> None:
    """Timeouts, groups, sockets and calls under uvloop's event loop."""

    async def main() -> list[Any]:
        seen: list[Any] = [type(asyncio.get_running_loop()).__module__]
        counter = await Counter.start(1)
        assert counter is not None

        async def body(back: Pid) -> None:
            results: list[Any] = [await call(counter, Read())]
            try:
                async with asyncio.timeout(0.01):
                    await receive()
            except TimeoutError:
                results.append("timed out")
            async with asyncio.TaskGroup() as group:
                task = group.create_task(asyncio.sleep(0.001, "slept"))
            results.append(task.result())
            ours, theirs = socket.socketpair()
            reader, writer = await asyncio.open_connection(sock=ours)
            theirs.sendall(b"hi\n")
            results.append(await reader.readline())
            writer.close()
            theirs.close()
            send(back, results)

        spawn(body, self_pid())
        seen += await receive(timeout_s=5)
        try:
            await receive(timeout_s=0.01)
        except ReceiveTimeout:
            seen.append("nothing more")
        return seen

    async def entered() -> list[Any]:
        async with Runtime():
            return await main()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(entered()) == ["uvloop", 1, "timed out", "slept", b"hi\n", "nothing more"]


def test_asyncio_in_debug_mode_finds_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """The loop's debug checks raise no objection, and nothing is reported as forgotten."""

    async def main() -> int:
        counter = await Counter.start(3)
        assert counter is not None

        async def idle() -> None:
            await asyncio.Event().wait()

        for _ in range(3):
            spawn(idle)
            spawn(receive_for_ever)
        await asyncio.sleep(0)
        return int(await call(counter, Read()))

    assert run(main, debug=True) == 3
    gc.collect()
    output = capfd.readouterr()
    assert "never" not in output.err
    assert "pending" not in output.err
    assert sys.unraisablehook is not None
