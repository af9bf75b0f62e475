"""What the RPC protocol costs: from a prompt to its first event, over pipes to a child, beside the same in one process.

The difference is set beside a bare child that sends each line back, because how fast two processes take turns is the
machine's doing: the limit is 5 ms on an idle machine, and on a busy one as many echoes more as the echo is slower.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS = 40
WARM_UP = 5
LIMIT_US = 5_000.0
IDLE_ECHO_US = 100.0
"""What an echo takes on an idle machine, about."""

ECHO = [sys.executable, "-u", "-c", "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line)"]
HOST = [
    sys.executable, "-m", "coding_agent", "--mode", "rpc", "--rpc-deltas", "--model", "scripted/echo",
]  # fmt: skip
PROMPT = {"type": "prompt", "message": "hi"}


def environment(home: str) -> dict[str, str]:
    return {**os.environ, "HOME": home, "LEMON_RUNTIME_DIR": f"{home}/run", "LEMON_SESSION_DIR": f"{home}/sessions"}


class Child:
    """A child that is talked to in lines."""

    def __init__(self, command: list[str], home: str) -> None:
        self.process = subprocess.Popen(
            command, env=environment(home), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout

    def send(self, message: dict[str, Any]) -> None:
        self.input.write(json.dumps(message).encode() + b"\n")
        self.input.flush()

    def until(self, kind: str) -> None:
        for line in self.output:
            if json.loads(line).get("type") == kind:
                return
        raise RuntimeError("the child has ended")

    def close(self) -> None:
        self.input.close()
        self.output.close()
        self.process.wait()


def echoes(home: str) -> list[float]:
    """Seconds of a line there and back."""
    child = Child(ECHO, home)
    found = []
    for _ in range(ROUNDS + WARM_UP):
        began = time.perf_counter()
        child.send(PROMPT)
        child.until("prompt")
        found.append(time.perf_counter() - began)
    child.close()
    return found[WARM_UP:]


def over_pipes(home: str) -> list[float]:
    """Seconds from a prompt to its first event, with a host as a child."""
    child = Child(HOST, home)
    found = []
    for _ in range(ROUNDS + WARM_UP):
        began = time.perf_counter()
        child.send(PROMPT)
        child.until("agent_start")
        found.append(time.perf_counter() - began)
        child.until("agent_settled")
    child.close()
    return found[WARM_UP:]


def in_process(home: str) -> list[float]:
    """The same without the protocol: a desk in the host's own process, and when it hears of the event."""
    from coding_agent.arguments import Arguments
    from coding_agent.hosting.desk import Desk
    from coding_agent.hosting.running import HostRun, prepared, run_host
    from coding_agent.settings import read_settings

    found: list[float] = []

    async def body(host: HostRun) -> int:
        desk = await Desk.start(host)
        await desk.open()
        began = 0.0
        settled = asyncio.Event()

        def take(event: Any) -> None:
            kind = getattr(getattr(event, "event", None), "type", "")
            if kind == "agent_start":
                found.append(time.perf_counter() - began)
            elif kind == "settled":
                settled.set()

        desk.listen(take)
        for _ in range(ROUNDS + WARM_UP):
            settled.clear()
            began = time.perf_counter()
            await desk.submit("hi")
            await settled.wait()
        await desk.close()
        return 0

    arguments = Arguments(None, model="scripted/echo", session_dir=f"{home}/sessions", cwd=home)
    settings = read_settings(environment(home), cwd=home, session_dir=arguments.session_dir, model=arguments.model)
    run_host(body, prepared(arguments, settings))
    return found[WARM_UP:]


def rows() -> list[dict[str, object]]:
    """One row: the median overhead, its limit, and how many echoes it is."""
    with tempfile.TemporaryDirectory(prefix="lemon-") as home:
        Path(home, "run").mkdir(mode=0o700)
        echo, pipes, inside = (statistics.median(measure(home)) * 1e6 for measure in (echoes, over_pipes, in_process))
    overhead = max(0.0, pipes - inside)
    return [
        {
            "metric": "RPC: prompt to first event, over in-process",
            "value_us": round(overhead),
            "limit": "5 ms, on a busy machine as many times as its echo is slower",
            "limit_us": round(LIMIT_US * max(1.0, echo / IDLE_ECHO_US)),
            "ratio": f"{overhead / echo:.1f} echoes of {echo:.0f} us ({pipes:.0f} over pipes, {inside:.0f} in-process)",
        }
    ]
