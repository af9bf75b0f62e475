"""A place where hostile commands really run: a program that nobody may run leaves a mark when it does."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from attrs import define, field

from coding_agent.permissions.actions import tool_use
from coding_agent.permissions.policy import Policy
from coding_agent.permissions.rules import parse_rule
from coding_agent.tools.paths import PathGuard

DENIED = "denied"
TOOLS = (
    "env",
    "xargs",
    "find",
    "timeout",
    "nice",
    "nohup",
    "bash",
    "sh",
    "cat",
    "sed",
    "setsid",
    "tee",
    "stdbuf",
    "awk",
)


@define
class Range:
    """A folder, a PATH with little in it, and the program.

    Attributes:
        folder: Where commands run.
        policy: Everything may run but the program.
    """

    folder: Path
    policy: Policy = field(factory=lambda: Policy("full", (parse_rule(f"bash({DENIED} *)", "deny"),)))
    count: int = 0

    def __attrs_post_init__(self) -> None:
        self.bin.mkdir(parents=True)
        self.work.mkdir()
        self.program.write_text('#!/bin/sh\n: > "$MARK"\n')
        self.program.chmod(0o755)
        for name in TOOLS:
            found = shutil.which(name)
            assert found is not None, name
            (self.bin / name).symlink_to(found)

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def program(self) -> Path:
        return self.bin / DENIED

    def verdict(self, command: str, policy: Policy | None = None) -> str:
        """What the policy says about a command."""
        use = tool_use("bash", {"command": command}, PathGuard(self.work))
        return (policy or self.policy).judge(use.actions).verdict

    def runs(self, command: str) -> bool:
        """Does bash run the program, given this command?"""
        shutil.rmtree(self.work)
        self.work.mkdir()
        self.count += 1
        mark = self.folder / f"mark-{self.count}"
        env = {"PATH": str(self.bin), "MARK": str(mark), "HOME": str(self.work), "LC_ALL": "C.UTF-8"}
        process = subprocess.Popen(
            [str(self.bin / "bash"), "--noprofile", "--norc", "-c", command],
            cwd=self.work,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        return mark.exists()
