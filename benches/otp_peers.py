"""What other actor libraries for Python take for the same work; run by a Python that has them, prints one JSON object.

    python benches/otp_peers.py

Libraries that are not installed, or that do not run, are left out.
"""

import asyncio
import contextlib
import io
import json
import sys
import time
import types
from collections.abc import Awaitable, Callable
from typing import Any

COUNT = 1_000
ROUNDS = 5


async def best_us(work: Callable[[], Awaitable[object]], count: int = COUNT) -> float:
    """Microseconds for one of `count`, of the quickest of a few rounds."""
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await work()
        taken.append(time.perf_counter() - began)
    return min(taken) / count * 1e6


def pykka() -> dict[str, float]:
    """Threads."""
    import pykka

    class Echo(pykka.ThreadingActor):
        def on_receive(self, message: Any) -> Any:
            return message

    async def main() -> dict[str, float]:
        ref = Echo.start()

        async def casts() -> None:
            for _ in range(COUNT):
                ref.tell(1)
            ref.ask(1)

        async def calls() -> None:
            for _ in range(COUNT):
                ref.ask(1)

        async def starts() -> None:
            for _ in range(100):
                Echo.start().stop()

        figures = {
            "cast": await best_us(casts),
            "call": await best_us(calls),
            "spawn + stop, one after the other": await best_us(starts, 100),
        }
        ref.stop()
        return figures

    return asyncio.run(main())


def triotp() -> dict[str, float]:
    """trio and memory channels."""
    import trio
    from triotp import gen_server, mailbox
    from triotp.helpers import current_module  # noqa: F401 - says whether this is the right library

    module: Any = types.ModuleType("echo")

    async def init(arg: Any) -> int:
        return 0

    async def handle_call(message: Any, caller: Any, state: int) -> Any:
        return gen_server.Reply(payload=message), state

    async def handle_cast(message: Any, state: int) -> Any:
        return (gen_server.Stop() if message == "stop" else gen_server.NoReply()), state

    module.init, module.handle_call, module.handle_cast = init, handle_call, handle_cast

    async def main() -> dict[str, float]:
        mailbox._init()
        figures: dict[str, float] = {}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gen_server.start, module, None, "echo")
            await trio.sleep(0.05)

            async def casts() -> None:
                for _ in range(COUNT):
                    await gen_server.cast("echo", 1)
                await gen_server.call("echo", 1)

            async def calls() -> None:
                for _ in range(COUNT):
                    await gen_server.call("echo", 1)

            async def starts() -> None:
                for number in range(100):
                    async with trio.open_nursery() as inner:
                        inner.start_soon(gen_server.start, module, None, f"n{number}")
                        while True:
                            with contextlib.suppress(Exception):
                                await gen_server.cast(f"n{number}", "stop")
                                break
                            await trio.sleep(0)

            figures["cast"] = await best_us(casts)
            figures["call"] = await best_us(calls)
            figures["spawn + stop, one after the other"] = await best_us(starts, 100)
            nursery.cancel_scope.cancel()
        return figures

    return trio.run(main)


def fauxtp() -> dict[str, float]:
    """anyio and pattern matching."""
    import anyio
    from fauxtp import GenServer, call, cast

    class Echo(GenServer):
        async def handle_call(self, request: Any, from_ref: Any, state: Any) -> Any:
            return request, state

        async def handle_cast(self, request: Any, state: Any) -> Any:
            return state

    async def main() -> dict[str, float]:
        figures: dict[str, float] = {}
        async with anyio.create_task_group() as group:
            handle = await Echo.start_link(task_group=group)

            async def casts() -> None:
                for _ in range(COUNT):
                    await cast(handle.pid, 1)
                await call(handle.pid, 1)

            async def calls() -> None:
                for _ in range(COUNT):
                    await call(handle.pid, 1)

            async def starts() -> None:
                for _ in range(100):
                    (await Echo.start_link(task_group=group)).cancel_scope.cancel()
                    await anyio.sleep(0)

            figures["cast"] = await best_us(casts)
            figures["call"] = await best_us(calls)
            figures["spawn + stop, one after the other"] = await best_us(starts, 100)
            group.cancel_scope.cancel()
        return figures

    return anyio.run(main)


def otpylib() -> dict[str, float]:
    """A task, a queue and a registry entry each."""
    from otpylib import gen_server, process
    from otpylib.gen_server.data import Reply
    from otpylib.module import GEN_SERVER, OTPModule
    from otpylib.runtime.backends.asyncio_backend.backend import AsyncIOBackend

    class Echo(metaclass=OTPModule, behavior=GEN_SERVER, version="1.0.0"):
        async def init(self, arg: Any) -> Any:
            return 0

        async def handle_call(self, request: Any, from_: Any, state: Any) -> Any:
            return Reply(payload=request), state

        async def handle_cast(self, message: Any, state: Any) -> Any:
            from otpylib.gen_server.data import NoReply

            return NoReply(), state

        async def handle_info(self, message: Any, state: Any) -> Any:
            from otpylib.gen_server.data import NoReply

            return NoReply(), state

        async def terminate(self, reason: Any, state: Any) -> None:
            return None

    async def main() -> dict[str, float]:
        backend = AsyncIOBackend()
        await backend.initialize()
        process.use_runtime(backend)
        figures: dict[str, float] = {}
        done = asyncio.Event()

        async def body() -> None:
            try:
                pid = await gen_server.start(Echo)

                async def casts() -> None:
                    for _ in range(COUNT):
                        await gen_server.cast(pid, 1)
                    await gen_server.call(pid, 1)

                async def calls() -> None:
                    for _ in range(COUNT):
                        await gen_server.call(pid, 1)

                figures["cast"] = await best_us(casts)
                figures["call"] = await best_us(calls)
            finally:
                done.set()

        await process.spawn(body, mailbox=True)
        await done.wait()
        return figures

    return asyncio.run(main())


def mode() -> dict[str, float]:
    """Services, which have no mailbox: only what starting and stopping one takes."""
    import mode

    class Idle(mode.Service):
        pass

    async def main() -> dict[str, float]:
        async def starts() -> None:
            for _ in range(100):
                service = Idle()
                await service.start()
                await service.stop()

        return {"spawn + stop, one after the other": await best_us(starts, 100)}

    return asyncio.run(main())


def main() -> None:
    found: dict[str, dict[str, float]] = {}
    for peer in (pykka, triotp, fauxtp, otpylib, mode):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                figures = peer()
        except Exception as error:
            print(f"{peer.__name__}: {error!r}", file=sys.stderr)
            continue
        if figures:
            found[peer.__name__] = figures
    print(json.dumps(found))


if __name__ == "__main__":
    main()
