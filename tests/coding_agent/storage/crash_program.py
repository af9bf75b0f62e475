"""A program that kills writers of a session at seeded points and looks at what they leave behind.

`python -m tests.coding_agent.storage.crash_program FOLDER FIRST COUNT` prints a JSON object: how many writers were
killed, how many messages they had acknowledged, how many files were torn, and every broken promise in words.

Each writer is a fork of this program. Half of them are killed from outside, so many acknowledgements and microseconds
after they began; the other half kill themselves inside a system call, having written only so many bytes. A session
lives through several writers, so that repairs are made of repaired files too.
"""

import json
import os
import random
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from coding_agent.storage.files import OsFiles
from coding_agent.storage.session_manager import SessionManager
from tests.coding_agent.storage.support import PI, answer, result, said, user

WRITERS_A_SESSION = 8


class Suicidal(OsFiles):
    """Kills its process at a system call, in the middle of it when it is a write."""

    def __init__(self, calls: int, share: float) -> None:
        self.calls, self.share = calls, share

    def _count(self) -> bool:
        self.calls -= 1
        return self.calls < 0

    def write(self, fd: int, data: bytes) -> int:
        if self._count():
            os.write(fd, data[: int(len(data) * self.share)])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(fd, data)

    def _die_before_or_after(self) -> bool:
        if not self._count():
            return False
        if self.share < 0.5:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    def fsync(self, fd: int) -> None:
        dying = self._die_before_or_after()
        super().fsync(fd)
        if dying:
            os.kill(os.getpid(), signal.SIGKILL)

    def truncate(self, fd: int, size: int) -> None:
        dying = self._die_before_or_after()
        super().truncate(fd, size)
        if dying:
            os.kill(os.getpid(), signal.SIGKILL)

    def replace(self, source: Path, target: Path) -> None:
        dying = self._die_before_or_after()
        super().replace(source, target)
        if dying:
            os.kill(os.getpid(), signal.SIGKILL)


def write_until_killed(path: Path, first: int, policy: Any, files: OsFiles, pipe: int) -> None:
    """Store numbered messages, each said on the pipe once it is stored."""
    if path.exists():
        manager = SessionManager.open(path, fsync=policy, files=files)
    else:
        manager = SessionManager.create("/p", path=path, fsync=policy, files=files)
    manager.repair_dangling_calls()
    number = first
    while True:
        for message in (
            user(f"#{number}"),
            answer(f"#{number + 1}", f"c{number}"),
            result(f"c{number}", f"#{number + 2}"),
        ):
            manager.append_message(message)
            os.write(pipe, b"%d\n" % number)
            number += 1
        manager.turn_end()


def run_writer(path: Path, first: int, chance: random.Random) -> list[int]:
    """Fork a writer and kill it; the numbers it had acknowledged."""
    inside = chance.random() < 0.5
    files = Suicidal(chance.randrange(12), chance.random()) if inside else OsFiles()
    policy = chance.choice(["none", "none", "turn", "entry"])
    acknowledgements, delay_s = chance.randrange(10), chance.random() * 0.0004
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            write_until_killed(path, first, policy, files, writing)
        finally:
            os._exit(1)
    os.close(writing)
    heard = b""
    if not inside:
        while heard.count(b"\n") < acknowledgements and select.select([reading], [], [], 10)[0]:
            heard += os.read(reading, 64)
        until = time.perf_counter() + delay_s
        while time.perf_counter() < until:
            pass
        os.kill(child, signal.SIGKILL)
    while more := os.read(reading, 4096):
        heard += more
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), f"the writer ended by itself: {status}"
    return [int(number) for number in heard.split()]


def numbers_in(messages: Any) -> list[int]:
    return [int(text[1:]) for text in said(messages) if text.startswith("#")]


def main(folder: Path, first_seed: int, count: int) -> dict[str, Any]:
    summary: dict[str, Any] = {"killed": 0, "acknowledged": 0, "torn": 0, "locks": 0, "broken": []}
    stored: list[int] = []
    for seed in range(first_seed, first_seed + count):
        session, turn = divmod(seed, WRITERS_A_SESSION)
        path = folder / f"{session}.jsonl"
        chance = random.Random(seed)
        if turn == 0:
            stored = []
            if session % 3 == 0:
                shutil.copyfile(PI / "v1-compaction-index.jsonl", path)
        acknowledged = run_writer(path, len(stored), chance)
        summary["killed"] += 1
        summary["acknowledged"] += len(acknowledged)
        summary["locks"] += path.with_name(path.name + ".lock").exists()
        if not path.exists():
            if acknowledged:
                summary["broken"].append(f"seed {seed}: the file is gone")
            continue
        stored = inspect(path, seed, stored + acknowledged, summary)
    return summary


def inspect(path: Path, seed: int, promised: list[int], summary: dict[str, Any]) -> list[int]:
    """Check that what was promised is there and that the session takes the next message."""
    try:
        manager = SessionManager.open(path, fsync="none")
    except Exception as error:
        if promised:
            summary["broken"].append(f"seed {seed}: {error}")
        path.unlink()
        return []
    with manager:
        found = numbers_in(manager.build_context().messages)
        summary["torn"] += manager.report.torn_tail is not None
        # One more than was acknowledged may be there: it was stored, but there was no time to say so.
        if found[: len(promised)] != promised or len(found) > len(promised) + 1:
            summary["broken"].append(f"seed {seed}: promised {promised[-3:]}, found {found[-4:]}")
        if manager.report.bad_lines or manager.report.problems.any():
            summary["broken"].append(f"seed {seed}: {list(manager.report)}")
        manager.repair_dangling_calls()
        manager.append_message(user(f"#{len(found)}"))
    with SessionManager.open(path, read_only=True) as again:
        if numbers_in(again.build_context().messages) != [*found, len(found)] or not again.report.clean():
            summary["broken"].append(f"seed {seed}: the next message is not there, or the file is not clean")
    for raw in path.read_bytes().split(b"\n")[:-1]:
        json.loads(raw)
    return [*found, len(found)]


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
