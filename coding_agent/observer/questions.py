"""Edge. What a page asks about one process or one session, and what it wants done.

Looking at a process and acting on it are the operations of `lemon_otp.repl`, the same that a terminal uses. Each runs
in a process of its own with a time limit: nothing that is looked at can hold up the observer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from attrs import frozen

from coding_agent import client, session_registry
from coding_agent.json_form import to_json
from coding_agent.messages import message_to_json
from lemon_otp import OtpError, Pid, exit_signal, repl, spawn

QUESTION_S: Final = 10.0
SESSION_S: Final = 3.0
MESSAGES_MAX: Final = 200
TEXT_MAX: Final = 20_000
STEER_CHARS_MAX: Final = 20_000

PROCESS_ACTS: Final = ("kill", "stop", "restart", "suspend", "resume")
SESSION_ACTS: Final = ("abort", "steer")


@frozen
class Problem(Exception):
    """What cannot be done, in words for the person who asked, and the status of the answer."""

    status: int
    text: str


async def in_process(ask: Callable[[], Awaitable[Any]], limit_s: float = QUESTION_S) -> Any:
    """What `ask` returns or raises, run in a process of its own, which is killed when time is up.

    Raises:
        Problem: It took too long, or its process died.
    """
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            result = await ask()
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(result)

    pid = spawn(work, label="observer_question")
    try:
        async with asyncio.timeout(limit_s):
            return await answer
    except TimeoutError:
        raise Problem(504, "no answer in time; it may be stuck or the loop may be held up") from None
    except OtpError as error:
        raise Problem(409, str(error)) from error
    finally:
        exit_signal(pid, "kill")


async def node(number: int) -> dict[str, Any]:
    """Everything known of one process: what it is, where it stands, what it holds, what waits for it.

    Raises:
        Problem: There is no such process.
    """
    answers = {op: await repl.ask({"op": op, "target": number}) for op in ("info", "stack", "state", "messages")}
    if not answers["info"].get("ok"):
        raise Problem(404, str(answers["info"].get("error", "there is no such process")))
    return answers


async def session(session_id: str) -> dict[str, Any]:
    """How a session stands and the last of what was said in it.

    Raises:
        Problem: No such session runs, or it does not answer.
    """
    pid = _session(session_id)

    async def ask() -> tuple[Any, Any]:
        return await client.get_state(pid), await client.get_messages(pid)

    state, messages = await in_process(ask, SESSION_S)
    told = dict(to_json(state))
    return {
        "id": session_id,
        "state": {name: told[name] for name in ("cwd", "model", "phase", "name", "message_count") if name in told},
        "left_out": max(0, len(messages) - MESSAGES_MAX),
        "messages": [_short(message_to_json(message)) for message in messages[-MESSAGES_MAX:]],
    }


async def act(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do what a page asks for and say what came of it.

    Raises:
        Problem: The request makes no sense, or what it names is not there.
    """
    op = request.get("op")
    if op in PROCESS_ACTS:
        target = request.get("target")
        if isinstance(target, bool) or not isinstance(target, int | str) or target == "":
            raise Problem(400, "say which process: its number")
        done = await in_process(lambda: repl.ask({"op": op, "target": target}))
        if not done.get("ok"):
            raise Problem(409, str(done.get("error", "it was refused")))
        return {"text": str(done.get("text", "done"))}
    if op in SESSION_ACTS:
        return await _act_on_session(str(op), _session(str(request.get("session", ""))), request.get("text"))
    raise Problem(400, f"op must be one of {', '.join((*PROCESS_ACTS, *SESSION_ACTS))}")


async def _act_on_session(op: str, pid: Pid, text: Any) -> dict[str, Any]:
    if op == "abort":
        client.abort_async(pid, "aborted")
        return {"text": "asked for the end of the run"}
    if not isinstance(text, str) or not text.strip() or len(text) > STEER_CHARS_MAX:
        raise Problem(400, "steering needs a text, and not a very long one")
    await in_process(lambda: client.steer(pid, text), SESSION_S)
    return {"text": "the model reads it before its next call"}


def _session(session_id: str) -> Pid:
    pid = session_registry.lookup(session_id)
    if pid is None:
        raise Problem(404, "no such session runs here")
    return pid


def _short(value: Any) -> Any:
    """JSON with its texts cut; pictures are left out."""
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]}… ({len(value)} characters)"
    if isinstance(value, Mapping):
        if value.get("type") == "image":
            return {"type": "image"}
        return {str(key): _short(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_short(inner) for inner in value]
    return value
