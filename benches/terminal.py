"""The interactive terminal on a real pseudo terminal, with a model behind real HTTP: what it costs, how soon it shows.

The whole program is measured, provider, session and protocol included: the CPU time it uses while an answer of 10,000
deltas comes at 500 a second, as a part of one core; and the time from Enter to the first token on the screen, beside
the time from the call to the first token of a bare `lemon_ai` stream from the same server in the same run. The server
takes 200 ms to begin, as a quick model does.
"""

import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

DELTAS = 10_000
RATE = 500
CORE_LIMIT = 0.50
FIRST_MS = 200
ROUNDS = 9
FIRST_LIMIT = 1.2
ROOT = Path(__file__).resolve().parents[1]

SERVER = r"""
import asyncio, json, sys, time

WORDS = "the quick **brown** fox jumps over `the` lazy dog and then goes on to look at another one".split()

def chunk(text, finish=None):
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "choices": [choice]}).encode() + b"\n\n"

def word(number):
    if number % 960 == 700:
        return "\n\n```python\nfor each in range(10):\n    print(each)\n```\n\n"
    if number % 480 == 300:
        return "\n\n- an item\n- another\n\n"
    return "\n\n" if number % 120 == 119 else WORDS[number % len(WORDS)] + " "

async def serve(reader, writer):
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(next(l for l in head.lower().split(b"\r\n") if l.startswith(b"content-length")).split(b":")[1])
        asked = json.loads(await reader.readexactly(length))["messages"][-1]["content"]
        asked = asked if isinstance(asked, str) else asked[-1]["text"]
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        if asked == "long":
            began = time.monotonic()
            for number in range(DELTAS):
                late = began + number / RATE - time.monotonic()
                if late > 0:
                    await asyncio.sleep(late)
                writer.write(chunk(word(number)))
                await writer.drain()
            writer.write(chunk("THE-END"))
        else:
            await asyncio.sleep(FIRST_MS / 1000)
            writer.write(chunk(asked.replace("say-", "token-") + " and so on"))
        writer.write(chunk("", "stop") + b"data: [DONE]\n\n")
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # whoever connected asked nothing, or has gone
    finally:
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@contextmanager
def server() -> Iterator[str]:
    """A process that serves Chat Completions; the address."""
    code = SERVER.replace("DELTAS", str(DELTAS)).replace("RATE", str(RATE)).replace("FIRST_MS", str(FIRST_MS))
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


class Program:
    """The program on a pseudo terminal of 100 by 40, read as fast as it writes."""

    def __init__(self, home: Path, base_url: str) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = {
                **os.environ, "HOME": str(home), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT),
                "OPENAI_API_KEY": "none",
                "LEMON_SESSION_DIR": str(home / "sessions"), "LEMON_RUNTIME_DIR": str(home / "run"),
            }  # fmt: skip
            os.chdir(home)
            named = ["--model", "openai/bench", "--base-url", base_url]
            os.execve(sys.executable, [sys.executable, "-m", "coding_agent", *named], env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.read = b""

    def until(self, text: bytes, timeout_s: float = 120) -> None:
        """Read until this was written."""
        deadline = time.perf_counter() + timeout_s
        seen = len(self.read)
        while text not in self.read[max(0, seen - 200) :]:
            if time.perf_counter() > deadline or not select.select([self.fd], [], [], 10)[0]:
                raise TimeoutError(f"{text!r} never came; the end was {self.read[-500:]!r}")
            try:
                self.read += os.read(self.fd, 65_536)
            except OSError as error:
                raise RuntimeError(f"the program ended: {self.read[-2000:]!r}") from error

    def send(self, keys: bytes) -> None:
        self.read = b""
        os.write(self.fd, keys)

    def end(self) -> None:
        os.write(self.fd, b"\x04")
        try:
            while os.read(self.fd, 65_536):
                pass
        except OSError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def core_share(home: Path, base_url: str) -> tuple[float, float]:
    """The part of a core that is used while the long answer comes, and the deltas a second that came."""
    program = Program(home, base_url)
    try:
        program.until(b"ready")
        process = psutil.Process(program.pid)
        used, began = cpu_s(process), time.perf_counter()
        program.send(b"long\r")
        program.until(b"THE-END")
        used, took = cpu_s(process) - used, time.perf_counter() - began
    finally:
        program.end()
    return used / took, DELTAS / took


def cpu_s(process: psutil.Process) -> float:
    """CPU time of the process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def first_tokens_s(home: Path, base_url: str) -> tuple[float, float]:
    """From Enter to the first token on the screen, and from the call to that of a bare stream, by turns.

    Of each the lower quartile: what other programs of the machine take in between is not what is compared.
    """
    screen, bare = [], []
    program = Program(home, base_url)
    try:
        program.until(b"ready")
        for number in range(ROUNDS + 2):
            bare.append(first_of_stream_s(base_url))
            program.send(f"say-{number}x".encode())
            program.until(f"{number}x".encode())
            time.sleep(0.1)
            program.send(b"\r")
            began = time.perf_counter()
            program.until(f"token-{number}x".encode())
            screen.append(time.perf_counter() - began)
            program.until(b"ready")
    finally:
        program.end()
    return statistics.quantiles(screen[2:])[0], statistics.quantiles(bare[2:])[0]


def first_of_stream_s(base_url: str) -> float:
    """Time from the call to the first token of a bare stream, the second call of its runtime."""
    import lemon_ai
    from lemon_otp import ensure_all_started, run, stop_application

    async def once(model: lemon_ai.Model) -> float:
        began = time.perf_counter()
        stream = await lemon_ai.stream(model, lemon_ai.Context(None, (lemon_ai.UserMessage("say-it"),)))
        async for event in stream.events():
            if event.type == "text_delta":
                return time.perf_counter() - began
        raise AssertionError("no token came")

    async def main() -> float:
        await ensure_all_started(lemon_ai.APPLICATION)
        model = lemon_ai.Model(id="bench", api="openai_completions", provider="local", base_url=base_url)
        await once(model)
        found = await once(model)
        await stop_application("lemon_ai")
        return found

    return run(main)


def rows() -> list[dict[str, object]]:
    """All rows of this module."""
    with tempfile.TemporaryDirectory() as folder, server() as base_url:
        home = Path(folder)
        share, rate = core_share(home, base_url)
        screen_s, bare_s = first_tokens_s(home, base_url)
    return [
        {
            "metric": f"terminal: {DELTAS:,} deltas at {rate:.0f} a second, CPU",
            "value_us": round(share * 100, 1),
            "limit": f"{CORE_LIMIT:.0%} of one core",
            "limit_us": CORE_LIMIT * 100,
            "ratio": round(share / CORE_LIMIT, 2),
            "unit": "%",
        },
        {
            "metric": "terminal: Enter to first token on the screen",
            "value_us": round(screen_s * 1e6),
            "limit": f"{FIRST_LIMIT:g}x the first token of a bare stream",
            "limit_us": round(bare_s * FIRST_LIMIT * 1e6),
            "ratio": round(screen_s / bare_s, 3),
        },
    ]


if __name__ == "__main__":
    for row in rows():
        print(json.dumps(row))
