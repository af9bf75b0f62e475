"""Two hundred model calls at once over real sockets, and how long a heartbeat beside them has to wait.

The server is another process, so that what is measured is this side: admission, HTTP, decoding, events and readers.
"""

import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import lemon_ai
from lemon_ai import APPLICATION, Config, Context, DispatcherPolicy, Model, RatePolicy, UserMessage
from lemon_otp import Application, ensure_all_started, run, spawn, stop_application

STREAMS = 200
DELTAS = 300
BEAT_S = 0.005
LAG_LIMIT_MS = 20.0

SERVER = """
import asyncio, json, random, sys

def chunk(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "choices": [choice]}).encode() + b"\\n\\n"

async def serve(reader, writer):
    try:
        head = await reader.readuntil(b"\\r\\n\\r\\n")
        length = int(next(l for l in head.lower().split(b"\\r\\n") if l.startswith(b"content-length")).split(b":")[1])
        await reader.readexactly(length)
        writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\nconnection: close\\r\\n\\r\\n")
        for number in range(DELTAS):
            writer.write(chunk({"content": "word "}))
            await writer.drain()
            await asyncio.sleep(random.uniform(0.015, 0.045))
        writer.write(chunk({}, "stop") + b"data: [DONE]\\n\\n")
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # whoever connected asked nothing, or has gone
    finally:
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(json.dumps(server.sockets[0].getsockname()[1]), flush=True)
    await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


async def _call(model: Model, done: list[int]) -> None:
    message = await lemon_ai.complete(model, Context(None, (UserMessage("hi"),)))
    done.append(len(lemon_ai.get_text(message)))


async def _measure(port: int) -> dict[str, Any]:
    admission = Config(
        dispatcher=DispatcherPolicy(default_cap=STREAMS, max_queue_length=STREAMS), limiter=RatePolicy(1e6, 1e6)
    )
    await ensure_all_started(Application("lemon_ai", APPLICATION.start, env={"admission": admission}))
    model = Model(id="m", api="openai_completions", provider="local", base_url=f"http://127.0.0.1:{port}/v1")
    await _call(model, [])  # what is imported and read once is not what is measured
    gc.collect()
    gc.freeze()  # as a host does once it is up: what stays for ever need not be looked through again
    done: list[int] = []
    began = time.perf_counter()
    for _ in range(STREAMS):
        spawn(_call, model, done)
    lags: list[float] = []
    while len(done) < STREAMS:
        before = time.perf_counter()
        await asyncio.sleep(BEAT_S)
        lags.append((time.perf_counter() - before - BEAT_S) * 1000)
    elapsed = time.perf_counter() - began
    await stop_application("lemon_ai")
    assert set(done) == {DELTAS * 5}
    return {"lags": lags, "elapsed_s": elapsed}


def rows() -> list[dict[str, object]]:
    """All rows of this module."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER.replace("DELTAS", str(DELTAS))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    try:
        measured = run(_measure, json.loads(server.stdout.readline()))
    finally:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
        server.stdout.close()
    p99 = statistics.quantiles(measured["lags"], n=100)[98]
    return [
        {
            "metric": f"ai: heartbeat beside {STREAMS} streams of {DELTAS} deltas, p99 lag",
            "value_us": round(p99, 2),
            "unit": "ms",
            "limit": f"{LAG_LIMIT_MS:g} ms",
            "limit_us": LAG_LIMIT_MS,
            "ratio": round(p99 / LAG_LIMIT_MS, 3),
            "events_a_second": round(STREAMS * DELTAS / measured["elapsed_s"]),
        }
    ]


if __name__ == "__main__":
    for row in rows():
        print(json.dumps(row))
