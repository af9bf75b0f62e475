"""The tool `execute_code`: scripts that share a process, and what ends it."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coding_agent.tools import Workspace, execute_code_tool
from lemon_agent import AbortSignal, AgentToolResult, ToolError
from lemon_otp import Runtime, telemetry
from tests.coding_agent.tools.support import Bench, started, text_of, until
from tests.coding_agent.tools.test_abort_storm import named


@pytest.fixture
async def desk(folder: Path) -> AsyncIterator[Bench]:
    """The tool on the working directory."""
    workspace = Workspace(folder)
    bench = Bench(folder, workspace, {"execute_code": execute_code_tool(str(folder), workspace=workspace)})
    yield bench
    await workspace.aclose()
    assert bench.survivors() == []


async def run(bench: Bench, script: str, **params: Any) -> str:
    """What one script shows."""
    return await bench.text("execute_code", script=script, **params)


async def test_variables_stay_for_the_next_script(desk: Bench) -> None:
    """And imports, functions, the last value; a reset begins anew."""
    assert await run(desk, "import math\nx = 20\ndef f(n):\n    return n + 1") == "(no output)"
    assert await run(desk, "print('x is', x)\nf(x) + math.floor(0.5)") == "x is 20\n21"
    assert await run(desk, "_ * 2") == "42"
    assert "NameError" in await run(desk, "x", reset=True)


async def test_an_error_is_shown_with_its_lines_only(desk: Bench) -> None:
    """It is no error of the tool, and the process goes on."""
    await run(desk, "kept = 1")
    result = await desk.call("execute_code", script="def g():\n    raise ValueError('no')\ng()")

    assert 'File "<script>", line 3, in <module>' in text_of(result)
    assert "kernel_main" not in text_of(result)
    assert result.details["how"] == "raised"
    assert "SyntaxError" in await run(desk, "def (:")
    assert await run(desk, "import sys; sys.exit(3)") == "(no output)"
    assert await run(desk, "kept") == "1"


async def test_everything_a_script_prints_is_shown_in_order(desk: Bench) -> None:
    """Its standard error and what its children print too; there is no input."""
    text = await run(
        desk, "import os, sys\nprint('a')\nprint('b', file=sys.stderr)\nos.system('echo c; echo d >&2')\ninput()"
    )

    assert text.startswith("a\nb\nc\nd\n")
    assert "EOFError" in text


async def test_long_output_is_cut_and_kept(desk: Bench) -> None:
    """Two fifths from the beginning, the rest from the end."""
    result = await desk.call("execute_code", script="for n in range(4000): print(n, 'x' * 50)")
    text = text_of(result)

    assert text.startswith("0 xxx")
    assert "\n3999 xxx" in text
    assert 15_000 < text.index("[...") < 21_000
    assert Path(result.details["full_output_path"]).read_text().count("\n") == 4_000


async def test_scripts_call_tools(desk: Bench) -> None:
    """Their text comes back, their refusals are exceptions."""
    (desk.folder / "f.txt").write_text("one\ntwo needle\n")
    script = (
        "print(read('f.txt', limit=1).split(chr(10))[0])\nprint(grep('needle'))\nprint(find('*.txt'))\nprint(ls())\n"
        "try:\n    read('/etc/passwd')\nexcept ToolFailed as error:\n    print('refused:', error)\n"
    )
    result = await desk.call("execute_code", script=script)

    assert text_of(result).startswith("1: one\nFound 1 match.\nf.txt:2: two needle\nf.txt\n")
    assert "refused: Not allowed: reading /etc/passwd" in text_of(result)
    assert result.details["tool_calls"] == 5


async def test_calls_are_limited_and_may_be_forbidden(folder: Path) -> None:
    """In number; and each is judged by itself."""

    async def permit(name: str, arguments: Mapping[str, Any]) -> str | None:
        return "not this one" if arguments.get("path") == "secret" else None

    workspace = Workspace(folder)
    tool = execute_code_tool(str(folder), workspace=workspace, permit=permit)
    bench = Bench(folder, workspace, {"execute_code": tool})
    result = await bench.call("execute_code", script="for n in range(101):\n    ls()")
    assert "a script may call tools 100 times" in text_of(result)
    result = await bench.call("execute_code", script="read(path='secret')")
    assert "ToolFailed: not this one" in text_of(result)
    assert result.details["tool_calls_denied"] == 1
    await workspace.aclose()


async def test_a_timeout_ends_the_process_with_all_it_started(desk: Bench) -> None:
    """Its variables are lost, which is said; the next script works."""
    token = f"lemonkernel{os.getpid()}"
    await run(desk, "x = 1")
    script = (
        "import subprocess, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('before', flush=True)\n"
        f"subprocess.run(['bash', '-c', 'exec -a {token} sleep 600'])"
    )
    result = await desk.call("execute_code", script=script, timeout_ms=1000)

    assert text_of(result).startswith("before\n\nThe script timed out after 1 seconds.")
    assert not named(token)
    assert "NameError" in await run(desk, "x")


async def test_an_abort_ends_the_script(desk: Bench) -> None:
    """Even one that never gives way; by the signal or by cancelling the call."""
    stop = AbortSignal()
    task = started(desk.call("execute_code", script="while True: pass", abort=stop))
    await until(lambda: bool(desk.survivors()), "it runs")
    stop.abort()
    result = await asyncio.wait_for(task, 5)
    assert result.details["how"] == "aborted"
    assert desk.survivors() == []

    task = started(desk.call("execute_code", script="while True: pass"))
    await until(lambda: bool(desk.survivors()), "it runs")
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    assert desk.survivors() == []
    assert await run(desk, "1") == "1"


@pytest.mark.parametrize(
    "script",
    [
        "import os; os._exit(7)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "import ctypes; ctypes.string_at(0)",
    ],
)
async def test_a_crash_is_told(desk: Bench, script: str) -> None:
    """And the next script has a new process."""
    result = await desk.call("execute_code", script=script)

    assert result.details["how"] == "crashed"
    assert "variables of earlier scripts are gone" in text_of(result)
    assert await run(desk, "1") == "1"


async def test_a_fork_does_not_answer_in_its_parents_place(desk: Bench) -> None:
    """A script that forks and lets the copy come to the end confuses nobody."""
    await run(desk, "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('here')")

    assert await run(desk, "2 + 2") == "4"


async def test_scripts_wait_for_their_turn(desk: Bench) -> None:
    """One at a time, a few in line, and then no more."""
    tasks = [
        started(desk.call("execute_code", script=f"import time; time.sleep(0.1); {number}")) for number in range(8)
    ]
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert "8 scripts are waiting already" in await desk.refusal("execute_code", script="1")
    assert [text_of(result) for result in await asyncio.gather(*tasks)] == [str(number) for number in range(8)]


async def test_updates_come_while_a_script_runs(desk: Bench) -> None:
    """All there is so far."""
    updates: list[AgentToolResult] = []
    await desk.call(
        "execute_code", script="import time\nprint('a')\ntime.sleep(0.3)\nprint('b')", on_update=updates.append
    )

    assert text_of(updates[0]) == "a\n"


async def test_no_secret_of_ours_reaches_a_script(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment is that of every program."""
    monkeypatch.setenv("OPENAI_API_KEY", "canary-91")
    workspace = Workspace(folder)
    bench = Bench(folder, workspace, {"execute_code": execute_code_tool(str(folder), workspace=workspace)})
    text = await bench.text("execute_code", script="import os; print(os.environ); open('/proc/self/environ').read()")
    await workspace.aclose()

    assert "canary-91" not in text


async def test_what_makes_no_sense_is_said(desk: Bench) -> None:
    """No script, one too long, too short a time, no Python."""
    assert await desk.refusal("execute_code") == "script is required"
    assert "longer than" in await desk.refusal("execute_code", script="#" * 200_001)
    assert "timeout_ms must be at least 1000" in await desk.refusal("execute_code", script="1", timeout_ms=10)
    tool = execute_code_tool(str(desk.folder), workspace=desk.workspace, python="no-such-python")
    with pytest.raises(ToolError, match="Cannot run no-such-python"):
        await Bench(desk.folder, desk.workspace, {"execute_code": tool}).call("execute_code", script="1")


async def test_telemetry_tells_how_a_script_ended(runtime: Runtime, desk: Bench) -> None:
    """Without its text."""
    heard: list[Mapping[str, Any]] = []
    telemetry.attach(
        "x", ("coding_agent", "execute_code", "stop"), lambda _event, _numbers, facts, *_: heard.append(facts)
    )
    await run(desk, "ls()")

    assert heard == [{"rpc_calls": 1, "rpc_denied": 0, "exit_code": None, "how": "done"}]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.text(max_size=60) | st.binary(max_size=40).map(lambda data: data.decode("latin-1")))
async def test_any_text_is_a_script_with_an_answer(desk: Bench, script: str) -> None:
    """Mostly a syntax error; the process answers each time."""
    if script:
        result = await desk.call("execute_code", script=script)
        assert result.details["how"] in ("done", "raised")
