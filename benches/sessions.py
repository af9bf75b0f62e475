"""What a session on disk costs, against the least that could be done with the same bytes in the same run.

Appending is measured with messages of a real session where the sample is there, made ones of the same size otherwise.
Opening is measured on a made session of 100 MB and 100,000 entries without a compaction, which is the worst case: all
of it is the context.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coding_agent.messages import message_to_json
from coding_agent.storage.listing import list_sessions
from coding_agent.storage.session_manager import SessionManager
from lemon_ai import AssistantMessage, Cost, TextContent, ToolCall, ToolResultMessage, Usage, UserMessage

SAMPLE = Path(__file__).resolve().parents[1] / ".." / "shared" / "samples" / "pi" / "v1-large-session.jsonl"
ROUNDS = 15
OPEN_ROUNDS = 4
ENTRIES = 100_000
SESSIONS = 1_000
APPEND_LIMIT = 2.0
OPEN_LIMIT = 3.0
MEMORY_LIMIT = 2.0
LIST_LIMIT = 3.0

Row = dict[str, object]


def made_messages(count: int, words: int, chance: random.Random) -> list[Any]:
    """Turns of a question, a call, its result and an answer."""
    vocabulary = [f"w{chance.randrange(10**6)}" for _ in range(5_000)]
    made: list[Any] = []
    for at in range(count):
        text = (TextContent(" ".join(chance.choices(vocabulary, k=words))),)
        stamp = 1_767_323_042_000 + at
        if at % 4 == 0:
            made.append(UserMessage(text, stamp))
        elif at % 4 == 2:
            made.append(ToolResultMessage(f"toolu_{at - 1}", "bash", text, timestamp=stamp))
        else:
            calls = (ToolCall(f"toolu_{at}", "bash", {"command": "pytest -q"}),) if at % 4 == 1 else ()
            usage = Usage(10 + at, 500, 1_000 + at, 300, 1_810 + 2 * at, Cost(0.001, 0.002, 0.003, 0.004, 0.01))
            reason: Any = "tool_use" if calls else "stop"
            content = text + calls
            made.append(
                AssistantMessage(
                    content, "anthropic_messages", "anthropic", "claude-sonnet-4-5", usage, reason, timestamp=stamp
                )
            )
    return made


def sample_messages() -> Sequence[Any]:
    if not SAMPLE.exists():
        return made_messages(900, 70, random.Random(7))
    with SessionManager.open(SAMPLE, read_only=True) as manager:
        return manager.build_context(repaired=False).messages


def large_session(path: Path) -> None:
    """A session of 100 MB whose whole length is its context."""
    chance = random.Random(7)
    texts = made_messages(4_000, 95, chance)
    header = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-02T03:04:00.000Z", "cwd": "/p"}
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(header) + "\n")
        for at in range(ENTRIES):
            message = {**message_to_json(texts[at % len(texts)]), "timestamp": 1_767_323_042_000 + at}
            entry = {"type": "message", "id": f"{at:08x}", "parentId": f"{at - 1:08x}" if at else None}
            entry |= {"timestamp": "2026-01-02T03:04:05.678Z", "message": message}
            file.write(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n")


# Appending.


def bare_appends(folder: str, entries: Sequence[Any]) -> float:
    with (Path(folder) / "bare").open("w") as file:
        began = time.perf_counter()
        for entry in entries:
            file.write(json.dumps(entry))
            file.flush()
        return (time.perf_counter() - began) / len(entries)


def our_appends(folder: str, messages: Sequence[Any]) -> float:
    with SessionManager.create("/p", Path(folder), fsync="none") as manager:
        manager.append_message(messages[0])
        began = time.perf_counter()
        for message in messages:
            manager.append_message(message)
        return (time.perf_counter() - began) / len(messages)


def append_row() -> Row:
    messages = sample_messages()
    entry = {"type": "message", "id": "a0000001", "parentId": "a0000000", "timestamp": "2026-01-02T03:04:05.678Z"}
    entries = [{**entry, "message": message_to_json(message)} for message in messages]
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(bare_appends(folder, entries), our_appends(folder, messages)) for _ in range(ROUNDS)]
    return _row("session: append one message, fsync none", pairs, APPEND_LIMIT, "file.write(json.dumps(x)) and flush")


# Opening.


def bare_parse(path: Path) -> float:
    began = time.process_time()
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
    return time.process_time() - began


def our_open(path: Path) -> float:
    began = time.process_time()
    with SessionManager.open(path) as manager:
        context = manager.build_context()
        spent = time.process_time() - began
    if len(context.messages) != ENTRIES:
        raise RuntimeError(f"{len(context.messages)} messages of {ENTRIES}")
    return spent


PEAK = """
import sys
from pathlib import Path
from coding_agent.storage.session_manager import SessionManager
with SessionManager.open(sys.argv[1]) as manager:
    context = manager.build_context()
# Not `ru_maxrss`: that begins with what the program was that started this one.
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(int(status["VmHWM"].split()[0]) * 1024)
"""


def open_rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.jsonl"
        large_session(path)
        size = path.stat().st_size
        pairs = [(bare_parse(path), our_open(path)) for _ in range(OPEN_ROUNDS)]
        done = subprocess.run([sys.executable, "-c", PEAK, str(path)], check=True, capture_output=True, text=True)
    title = f"session: open {size / 1e6:.0f} MB, {ENTRIES:,} entries, to its context"
    peak = int(done.stdout)
    memory: Row = {
        "metric": f"{title}: peak memory of the whole process",
        "value_us": peak,
        "unit": "bytes",
        "limit": f"{MEMORY_LIMIT:g}x the file",
        "limit_us": round(size * MEMORY_LIMIT),
        "ratio": round(peak / size, 2),
    }
    return [_row(title, pairs, OPEN_LIMIT, "json.loads over its lines"), memory]


# Listing.


def bare_headers(folder: Path) -> float:
    began = time.perf_counter()
    for entry in os.scandir(folder):
        with open(entry.path, "rb") as file:
            json.loads(file.readline())
    return time.perf_counter() - began


def our_listing(folder: Path) -> float:
    began = time.perf_counter()
    if len(list_sessions(folder)) != SESSIONS:
        raise RuntimeError("a session is missing")
    return time.perf_counter() - began


def listing_row() -> Row:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(SESSIONS):
            header = {"type": "session", "version": 3, "id": f"s{number}", "timestamp": number, "cwd": "/p"}
            (folder / f"{number}.jsonl").write_bytes(json.dumps(header).encode() + b"\n" + b"x" * 200_000)
        pairs = [(bare_headers(folder), our_listing(folder)) for _ in range(ROUNDS)]
    title = f"session: list {SESSIONS:,} sessions of 200 kB, headers only"
    return _row(title, pairs, LIST_LIMIT, "readline and json.loads of each")


def _row(metric: str, pairs: Sequence[tuple[float, float]], limit: float, base: str) -> Row:
    least, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {
        "metric": metric,
        "value_us": round(ours * 1e6, 1),
        "limit": f"{limit:g}x {base}",
        "limit_us": round(least * limit * 1e6, 1),
        "ratio": round(statistics.median(ours / least for least, ours in pairs), 2),
    }


def rows() -> list[Row]:
    """Appending, opening (time and memory) and listing, each beside its limit."""
    return [append_row(), *open_rows(), listing_row()]


if __name__ == "__main__":
    for row in rows():
        print(json.dumps(row))
