"""Edge. Acting on a process: kill, stop, restart, suspend, resume, send; and `eval`, for who allows it.

Each is one thing that any process may do with another, done in a process of its own, and waits for the outcome only as
long as it takes: what has not happened yet is said, not waited for.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Mapping
from typing import Any, Final

from lemon_otp import introspect, sys
from lemon_otp.bounded import bounded
from lemon_otp.children import Child
from lemon_otp.dynamic_supervisor import Crowd, DynamicSupervisor
from lemon_otp.errors import CallTimeout, ReceiveTimeout
from lemon_otp.exits import Down
from lemon_otp.gen_server import stop as stop_server
from lemon_otp.machine import Process
from lemon_otp.pid import ALIVE, Pid
from lemon_otp.process import current_runtime, exit_signal, monitor, receive, send
from lemon_otp.repl.finding import child_id, find, supervised, tree_id
from lemon_otp.repl.operations import Answer, Refusal
from lemon_otp.server_process import ServerProcess
from lemon_otp.supervisor import Supervisor

OUTCOME_S: Final = 1.0
"""How long the outcome of an exit signal is waited for."""
STOP_S: Final = 8.0
RESULT_MAX: Final = 10_000


async def kill(request: Mapping[str, Any]) -> Answer:
    """End a process at once, whatever it does; its supervisor starts it again if its spec says so."""
    process = find(request.get("target"), alive=True, exact=True)
    found = supervised(process)
    name = tree_id(process)
    reason = await _signal(process, "kill")
    if process.exit_reason is ALIVE:
        return {"text": f"{name} was sent the signal and has not ended yet", "ended": False}
    left = " A thread of it goes on: threads cannot be killed." if process in current_runtime().orphans else ""
    return {"text": f"killed {name} (pid {process.id}).{left}{await _successor(found, process)}", "reason": reason}


async def stop(request: Mapping[str, Any]) -> Answer:
    """Ask a process to end in order; a child of a supervisor stays stopped until `restart`."""
    process = find(request.get("target"), alive=True, exact=True)
    found = supervised(process)
    name = tree_id(process)
    try:
        if found is not None and _is_dynamic(found[0]):
            await DynamicSupervisor.terminate_child(found[0], process, timeout_s=STOP_S)
        elif found is not None:
            await Supervisor.terminate_child(found[0], found[1].spec.id, timeout_s=STOP_S)
        elif isinstance(process, ServerProcess):
            await stop_server(process, "shutdown", timeout_s=STOP_S)
        else:
            await _signal(process, "shutdown")
    except CallTimeout:
        return {"text": f"{name} has not ended within {STOP_S:g} s; `kill` ends it", "ended": False}
    if process.exit_reason is ALIVE:
        return {"text": f"{name} goes on after a request to shut down; `kill` ends it", "ended": False}
    again = "" if found is None or _is_dynamic(found[0]) else f"; `restart {child_id(found[1])}` starts it again"
    return {"text": f"stopped {name} (pid {process.id}){again}", "reason": bounded(process.exit_reason, 200)}


async def restart(request: Mapping[str, Any]) -> Answer:
    """Stop a child of a supervisor and start it again; one that is stopped is started."""
    target = request.get("target")
    stopped = _stopped_child(str(target))
    if stopped is not None:
        supervisor, child = stopped
        pid = await Supervisor.restart_child(supervisor, child.spec.id, timeout_s=STOP_S)
        return {"text": f"started {child_id(child)} again as pid {_number(pid)}", "pid": _number(pid)}
    process = find(target, alive=True, exact=True)
    found = supervised(process)
    if found is None:
        raise Refusal(f"{tree_id(process)} has no supervisor that could start it again", "not_supervised")
    supervisor, child = found
    if _is_dynamic(supervisor):
        if child.spec.restart == "temporary":
            raise Refusal(f"{child_id(child)} is temporary: its supervisor does not start it again", "temporary")
        await _signal(process, "kill")
        return {"text": f"killed {child_id(child)} (pid {process.id}).{await _successor(found, process)}"}
    if child.spec.restart == "temporary":
        raise Refusal(f"{child_id(child)} is temporary: its supervisor would forget it", "temporary")
    await Supervisor.terminate_child(supervisor, child.spec.id, timeout_s=STOP_S)
    pid = await Supervisor.restart_child(supervisor, child.spec.id, timeout_s=STOP_S)
    return {"text": f"restarted {child_id(child)}: pid {process.id} is now {_number(pid)}", "pid": _number(pid)}


async def suspend(request: Mapping[str, Any]) -> Answer:
    """Hold a server: its messages wait until `resume`."""
    return await _hold(request, sys.suspend, "suspended")


async def resume(request: Mapping[str, Any]) -> Answer:
    """Let a suspended server go on."""
    return await _hold(request, sys.resume, "resumed")


async def _hold(request: Mapping[str, Any], how: Any, word: str) -> Answer:
    process = find(request.get("target"), alive=True, exact=True)
    if not isinstance(process, ServerProcess):
        raise Refusal(f"{tree_id(process)} is no server; only a server can be {word}", "no_server")
    try:
        await how(process, timeout_s=OUTCOME_S)
    except CallTimeout:
        return {"text": f"{tree_id(process)} is in the middle of a message; it is {word} after that", "waits": True}
    return {"text": f"{word} {tree_id(process)} (pid {process.id})"}


async def send_message(request: Mapping[str, Any]) -> Answer:
    """Put a message into a mailbox: a Python literal, or else the text itself."""
    process = find(request.get("target"), alive=True, exact=True)
    text = str(request.get("message", ""))
    try:
        message = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        message = text
    send(process, message)
    return {"text": f"sent {bounded(message, 200)} to {tree_id(process)} (pid {process.id})"}


async def evaluate(request: Mapping[str, Any]) -> Answer:
    """Run Python in the host, in a process of its own; `pid(12)` is a process, `state(12)` what it holds."""
    code = str(request.get("code", ""))
    names: dict[str, Any] = {"pid": find, "state": _state_of, "runtime": current_runtime(), "asyncio": asyncio}
    try:
        parsed = ast.parse(code, "<eval>", "exec")
        last = parsed.body.pop() if parsed.body and isinstance(parsed.body[-1], ast.Expr) else None
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        await _run(compile(parsed, "<eval>", "exec", flags), names)
        if last is None:
            return {"text": ""}
        value = await _run(compile(ast.Expression(last.value), "<eval>", "eval", flags), names)  # type: ignore[attr-defined]
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # `exit()` is a slip of the fingers: the host goes on
        raise Refusal(f"{type(error).__name__}: {error}"[:RESULT_MAX], "raised") from error
    return {"text": bounded(value, RESULT_MAX)}


async def _run(code: Any, names: dict[str, Any]) -> Any:
    value = eval(code, names)  # it is what was asked for, and both sides have allowed it
    return await value if inspect.iscoroutine(value) else value


def _state_of(target: Any) -> Any:
    return getattr(find(target), "state", None)


async def _signal(process: Process, reason: str) -> str | None:
    """Send an exit signal and wait a moment for the end it leads to."""
    ref = monitor(process)
    exit_signal(process, reason)
    try:
        down: Down = await receive(lambda m: isinstance(m, Down) and m.ref is ref, timeout_s=OUTCOME_S)
    except ReceiveTimeout:
        return None
    await asyncio.sleep(0)  # its supervisor hears of it, too
    return bounded(down.reason, 200)


async def _successor(found: tuple[Process, Child] | None, before: Process) -> str:
    """What its supervisor has made of the end of a child."""
    if found is None:
        return ""
    supervisor, child = found
    for _ in range(20):
        if child.pid is not before or child.spec.restart == "temporary":
            break
        await asyncio.sleep(0.005)
    if child.spec.restart == "temporary":
        return " It is temporary and stays away."
    if isinstance(child.pid, Pid) and child.pid is not before and child.pid.alive:
        return f" Its supervisor has started it again as pid {child.pid.id}."
    return f" Its supervisor {tree_id(supervisor)} has not started it again (yet)."


def _stopped_child(target: str) -> tuple[Process, Child] | None:
    """The child of this id that has no process now, and its supervisor."""
    for process in current_runtime().live():
        kept = introspect.children_kept_by(process)
        if kept is not None and not isinstance(kept, Crowd):
            for child in kept.listed():
                if child.pid is None and not child.restarting and child_id(child) == target:
                    return process, child
    return None


def _is_dynamic(supervisor: Process) -> bool:
    return isinstance(introspect.children_kept_by(supervisor), Crowd)


def _number(pid: Any) -> int | None:
    return pid.id if isinstance(pid, Pid) else None
