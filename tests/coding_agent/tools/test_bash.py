"""The tool `bash`: what it tells, how it ends, what it leaves."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coding_agent.tools import Workspace, bash_tool
from coding_agent.tools.truncate import MAX_BYTES, MAX_LINES
from lemon_agent import AbortSignal, AgentToolResult
from tests.coding_agent.tools.support import Bench, call, processes, started, text_of, until


async def test_output_and_exit_code_are_told(bench: Bench) -> None:
    """Standard output and error come in the order they were written, a bad end is said, and it is no error."""
    result = await bench.call("bash", command="echo one; echo two >&2; exit 3")

    assert text_of(result) == "one\ntwo\n\nCommand exited with code 3"
    assert result.details["exit_code"] == 3


@pytest.mark.requirement("BR-082")
async def test_a_failing_command_leaves_its_siblings_alone(bench: Bench) -> None:
    """Of three commands side by side one exits with 1; that is a normal result, and the others have theirs."""
    results = await asyncio.gather(
        bench.call("bash", command="grep zzz /dev/null"),
        bench.call("bash", command="pwd"),
        bench.call("bash", command="echo hi"),
    )

    assert [result.details["exit_code"] for result in results] == [1, 0, 0]
    assert text_of(results[1]).strip() == str(bench.folder.resolve())


@pytest.mark.requirement("BR-066")
async def test_a_silent_background_process_does_not_hold_the_call(bench: Bench) -> None:
    """The call returns when the shell has ended, though something still holds its error pipe; the result says so."""
    began = time.monotonic()
    result = await bench.call("bash", command="sleep 600 </dev/null >/dev/null &")

    assert time.monotonic() - began < 1.5
    assert "still running in the background" in text_of(result)
    assert result.details["background"] is True


@pytest.mark.requirement("BR-067")
async def test_a_background_process_that_keeps_printing_does_not_hold_the_call(bench: Bench) -> None:
    """`done` comes back promptly with a bounded part of the rest, and the process goes on printing into a file."""
    began = time.monotonic()
    result = await bench.call("bash", command="(while :; do echo x; sleep 0.05; done) & echo done")
    text = text_of(result)

    assert time.monotonic() - began < 1.5
    assert text.startswith(("done", "x"))
    assert "\ndone\n" in f"\n{text}"
    log = Path(result.details["full_output_path"])
    size = log.stat().st_size
    await until(lambda: log.stat().st_size > size, "the left process prints into the file")


async def test_output_after_the_last_fork_still_arrives(bench: Bench) -> None:
    """What a pipeline's late end prints after the shell has exited is part of the result."""
    text = await bench.text("bash", command="exec 3>&1; echo early; (sleep 0.05; echo late >&3) & exit 0")

    assert text.split("\n\n")[0] == "early\nlate"


@pytest.mark.requirement("BR-071")
async def test_cancelling_ends_the_whole_tree(bench: Bench) -> None:
    """When the call is cancelled, grandchildren that were put in the background are ended too, before it returns."""
    task = started(bench.call("bash", command="(sleep 600 &) ; sleep 600"))
    await until(lambda: len(bench.survivors()) >= 2, "the tree is up")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert bench.survivors() == []


@pytest.mark.requirement("BR-072")
async def test_the_abort_signal_reaches_processes_that_changed_their_session(bench: Bench) -> None:
    """`setsid`, a double fork and a cleared environment do not help a process to outlive its call."""
    stop = AbortSignal()
    marker = str(bench.folder / "escaped")
    command = (
        "setsid sleep 601 & (setsid setsid sleep 602 &) ; "
        f"env -i setsid bash -c 'exec -a {marker} sleep 603' & nohup sleep 604 >/dev/null 2>&1 & sleep 605"
    )
    task = started(bench.call("bash", command=command, abort=stop))
    await until(lambda: len(bench.survivors()) >= 4 and running(marker), "all of them are up")
    stop.abort("aborted")
    result = await task

    assert text_of(result).startswith("Command cancelled.")
    assert result.details["cancelled"] is True
    assert bench.survivors() == []
    assert not running(marker)


def running(name: str) -> bool:
    """Is there a process of this name?"""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().startswith(name.encode()):
                return True
        except OSError:
            continue
    return False


@pytest.mark.requirement("BR-070")
async def test_a_timeout_stops_the_work(bench: Bench) -> None:
    """What a command would have done after its timeout is not done, and the timeout is told as one."""
    result = await bench.call("bash", command="sleep 3; touch f", timeout=0.2)

    assert "timed out after 0.2 seconds" in text_of(result)
    assert result.details["timed_out"] is True
    assert bench.survivors() == []
    assert not (bench.folder / "f").exists()


async def test_every_call_has_a_session_of_its_own(bench: Bench) -> None:
    """The child's session and process group are not ours and not another call's."""
    ids = [
        await bench.text("bash", command="ps -o sid=,pgid= -p $$ 2>/dev/null || cut -d' ' -f5,6 /proc/$$/stat")
        for _ in "12"
    ]

    assert ids[0] != ids[1]
    assert str(os.getsid(0)) not in ids[0].split()


@pytest.mark.requirement("BR-102")
async def test_an_editor_is_not_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With vi as the user's editor a git rebase in a conflict goes on or fails at once, and whatever looks for a
    terminal finds none.
    """
    monkeypatch.setenv("EDITOR", "vi")
    monkeypatch.setenv("VISUAL", "vi")
    script = """
    git init -q . && git config user.email a@b && git config user.name n
    echo 1 > f && git add f && git commit -qm 1 && git checkout -qb side && echo 2 > f && git commit -qam 2
    git checkout -q - && echo 3 > f && git commit -qam 3 && git rebase side >/dev/null 2>&1
    echo 4 > f; git add -A && git rebase --continue >/dev/null 2>&1; echo "ended $?"
    tty; cat; test -t 0 || echo none; (exec < /dev/tty) 2>/dev/null || echo no tty
    """
    workspace = Workspace(folder)
    began = time.monotonic()
    text = text_of(await call(bash_tool(str(folder), workspace=workspace), command=script))
    await workspace.aclose()

    assert time.monotonic() - began < 20
    assert text.strip() == "ended 0\nnot a tty\nnone\nno tty"


async def test_a_terminal_is_there_when_asked_for(bench: Bench) -> None:
    """With `pty` the command runs on a terminal of its own."""
    text = await bench.text("bash", command="test -t 0 && test -t 1 && tty && (exec </dev/tty) && echo mine", pty=True)

    assert "/dev/pts/" in text
    assert "mine" in text


async def test_no_secret_of_ours_is_in_the_childs_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, tokens and passwords are not passed, nor are names that nobody knows; what programs need is."""
    for name in ("ANTHROPIC_API_KEY", "MY_TOKEN", "DB_PASSWORD", "SOMETHING_ELSE", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "canary-7f3a")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:canary-7f3a@proxy:1")
    workspace = Workspace(folder)
    text = text_of(await call(bash_tool(str(folder), workspace=workspace), command="env; cat /proc/self/environ"))
    await workspace.aclose()

    assert "canary-7f3a" not in text
    assert "PATH=" in text
    assert "HOME=" in text


async def test_a_variable_is_passed_when_the_user_names_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its full name even a secret, by a pattern only what does not look like one."""
    monkeypatch.setenv("DEPLOY_TOKEN", "wanted")
    monkeypatch.setenv("CORP_REGION", "eu")
    monkeypatch.setenv("CORP_TOKEN", "unwanted")
    workspace = Workspace(folder, pass_environment=("DEPLOY_TOKEN", "CORP_*"))
    tool = bash_tool(str(folder), workspace=workspace)
    text = text_of(await call(tool, command="echo $DEPLOY_TOKEN $CORP_REGION $CORP_TOKEN."))
    await workspace.aclose()

    assert text == "wanted eu ."


async def test_long_output_keeps_both_ends_and_all_of_it_in_a_private_file(bench: Bench) -> None:
    """The result holds the beginning and the end within the limits; the file holds everything, for us alone."""
    result = await bench.call("bash", command="seq 1 200000")
    text = text_of(result)
    kept = Path(result.details["full_output_path"])

    assert text.startswith("1\n2\n3\n")
    assert "\n199999\n200000\n" in text
    assert "left out" in text
    body = text.rpartition("\n\n[Output was")[0]
    assert len(body.encode()) <= MAX_BYTES
    assert body.count("\n") <= MAX_LINES
    assert kept.read_text() == "".join(f"{number}\n" for number in range(1, 200001))
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    assert "199999: 199999" in await bench.text("read", path=str(kept), offset=199999)


@pytest.mark.requirement("BR-106")
async def test_the_limit_counts_bytes_and_cuts_no_character(bench: Bench) -> None:
    """A million four-byte characters without a line's end: within the limit, and every character whole."""
    result = await bench.call("bash", command="""python3 -c "import sys; sys.stdout.write('\\U0001F600' * 1000000)" """)
    body = text_of(result).rpartition("\n\n[Output was")[0]

    assert len(body.encode()) <= MAX_BYTES
    assert "\ufffd" not in body
    assert set(body.replace("\U0001f600", "")) <= set("[...] lines,bytes left out0123456789\n")


async def test_output_that_is_no_text_is_shown_as_far_as_it_can_be(bench: Bench) -> None:
    """Bytes that are no UTF-8 become replacement characters; codes for terminals and carriage returns are dropped."""
    text = await bench.text("bash", command=r"printf 'a\377b \033[31mred\033[0m \033]0;title\007c\r\nd\000e\n'")

    assert text == "a\ufffdb red c\nde"


@pytest.mark.requirement("BR-184")
async def test_invisible_characters_are_shown_and_the_result_is_not_trusted(bench: Bench) -> None:
    """Tag letters and zero-width spaces come as escapes, and the result says it is untrusted."""
    result = await bench.call("bash", command=r"printf 'ok\U000E0041\U000E0042\u200B\n'")

    assert text_of(result) == r"ok\u{e0041}\u{e0042}\u{200b}"
    assert result.trust == "untrusted"


async def test_updates_show_all_there_is_so_far(bench: Bench) -> None:
    """While the command runs, each update holds the output up to then; none comes after the result."""
    updates: list[AgentToolResult] = []
    await bench.call("bash", command="echo a; sleep 0.25; echo b; sleep 0.25; echo c", on_update=updates.append)
    count = len(updates)
    await asyncio.sleep(0.2)

    texts = [text_of(update) for update in updates]
    assert texts[:2] == ["a\n", "a\nb\n"]
    assert len(updates) == count


async def test_a_flood_of_output_leaves_the_loop_responsive(bench: Bench) -> None:
    """While a command prints as fast as it can, timers on the same loop are late by little."""
    late: list[float] = []

    async def heartbeat() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            late.append(time.monotonic() - before - 0.01)

    beat = started(heartbeat())
    await bench.call("bash", command="timeout 1 yes", timeout=5)
    beat.cancel()

    assert len(late) > 10
    assert sorted(late)[int(len(late) * 0.9)] < 0.1


async def test_a_signal_that_ended_the_command_is_named(bench: Bench) -> None:
    """An end by SIGKILL is told as such."""
    result = await bench.call("bash", command="kill -9 $$")

    assert "ended by SIGKILL" in text_of(result)
    assert result.details["exit_code"] == -signal.SIGKILL


async def test_a_command_longer_than_an_argument_may_be_still_runs(bench: Bench) -> None:
    """A heredoc of 300 kB goes through a file of ours, which is gone afterwards."""
    body = "x" * 300_000
    text = await bench.text("bash", command=f"cat > big <<'END'\n{body}\nEND\nwc -c < big")

    assert text.strip() == "300001"
    assert list(bench.workspace.keeper.home.glob("script-*")) == []


async def test_aborted_before_it_began_nothing_is_run(bench: Bench) -> None:
    """With a signal already given the command is not started."""
    stop = AbortSignal()
    stop.abort()
    text = text_of(await bench.call("bash", command="touch f", abort=stop))

    assert text == "Command cancelled."
    assert not (bench.folder / "f").exists()


async def test_a_missing_working_directory_is_told(tmp_path: Path) -> None:
    """When the directory was removed under us the call says so."""
    gone = tmp_path / "gone"
    gone.mkdir()
    workspace = Workspace(gone)
    gone.rmdir()
    made = Bench(gone, workspace, {"bash": bash_tool(str(gone), workspace=workspace)})

    assert "No such file or directory" in await made.refusal("bash", command="true")
    await workspace.aclose()


async def test_arguments_that_make_no_sense_are_refused(bench: Bench) -> None:
    """An empty command, a NUL and a negative timeout are named."""
    assert await bench.refusal("bash", command="") == "Command is required"
    assert "NUL" in await bench.refusal("bash", command="echo \0")
    assert "timeout" in await bench.refusal("bash", command="true", timeout=-1)


async def test_closing_the_workspace_ends_what_was_left_behind(folder: Path) -> None:
    """Background processes of earlier calls live until the session ends, and not longer; so does the folder."""
    workspace = Workspace(folder)
    tool = bash_tool(str(folder), workspace=workspace)
    await call(tool, command="trap '' TERM; (trap '' TERM; exec sleep 600) & disown; exit 0")
    home = workspace.keeper.home
    assert any(str(folder) in process.environment for process in processes())

    await workspace.aclose()

    assert not any(str(folder) in process.environment for process in processes())
    assert not home.exists()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=3000), chunk=st.integers(1, 700))
async def test_any_bytes_can_be_printed_in_any_pieces(bench: Bench, content: bytes, chunk: int) -> None:
    """Whatever a program prints, the result is valid text within the limits, without control characters."""
    (bench.folder / "blob").write_bytes(content)
    text = await bench.text("bash", command=f"dd if=blob bs={chunk} 2>/dev/null")

    assert len(text.encode()) <= MAX_BYTES
    assert not any(ord(char) < 32 and char not in "\n\t" for char in text)


async def test_cancelling_while_a_program_is_being_started_waits_for_its_end_too(bench: Bench) -> None:
    """Whether or not the news that it runs has arrived: when the cancelled call returns, nothing of it runs."""
    await bench.call("bash", command="true")
    for pause in range(12):
        task = started(bench.call("bash", command="(sleep 600 &); sleep 600"))
        for _turn in range(pause):
            await asyncio.sleep(0)
        time.sleep(0.02)  # the program starts meanwhile, and this loop does not hear of it
        task.cancel()
        await asyncio.wait({task})
        assert bench.survivors() == []
