"""How long the program takes to start: a whole process that answers one prompt, beside a bare import of libraries."""

import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 7
LIMIT_RATIO = 3.0
BASE = [sys.executable, "-c", "import asyncio, httpx, attrs"]
HOST = [sys.executable, "-m", "coding_agent", "-p", "hi", "--model", "scripted/echo", "--quiet"]


def seconds(command: list[str], home: str) -> float:
    """Wall time of one whole process."""
    env = {**os.environ, "HOME": home, "LEMON_RUNTIME_DIR": f"{home}/run", "LEMON_SESSION_DIR": f"{home}/sessions"}
    began = time.perf_counter()
    nothing = subprocess.DEVNULL
    subprocess.run(command, env=env, check=True, stdin=nothing, stdout=nothing, stderr=nothing)
    return time.perf_counter() - began


def rows() -> list[dict[str, object]]:
    """One row: the median start, its limit measured in the same run, and their ratio."""
    with tempfile.TemporaryDirectory() as home:
        for command in (BASE, HOST):
            seconds(command, home)
        pairs = [(seconds(BASE, home), seconds(HOST, home)) for _ in range(ROUNDS)]
    base, host = (statistics.median(column) for column in zip(*pairs, strict=True))
    return [
        {
            "metric": "start-up: one prompt, whole process",
            "value_us": round(host * 1e6),
            "limit": f"{LIMIT_RATIO:g}x import asyncio, httpx, attrs",
            "limit_us": round(base * LIMIT_RATIO * 1e6),
            "ratio": round(host / base, 2),
        }
    ]
