"""Edge. What a page asks about one process or one session, and what it wants done.

Looking at a process and acting on it are the operations of `lemon_otp.repl`, the same that a terminal uses. They are
asked from the page's thread: a process can be looked at while the host's loop is held up, a session cannot.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from attrs import frozen

from coding_agent import client, session_registry
from coding_agent.json_form import to_json
from coding_agent.messages import message_to_json
from lemon_agent import AgentMessage
from lemon_otp import OtpError, Pid, repl

SESSION_S: Final = 3.0
MESSAGES_MAX: Final = 200
TEXT_MAX: Final = 20_000
STEER_CHARS_MAX: Final = 20_000

PROCESS_ACTS: Final = ("kill", "stop", "restart", "suspend", "resume")
SESSION_ACTS: Final = ("abort", "steer")

T = TypeVar("T")


@frozen
class Problem(Exception):
    """What cannot be done, in words for the person who asked, and the status of the answer."""

    status: int
    text: str


async def node(host: repl.FromThread, number: int) -> dict[str, Any]:
    """Everything known of one process: what it is, where it stands, what it holds, what waits for it.

    Raises:
        Problem: There is no such process.
    """
    answers = {op: await host.ask({"op": op, "target": number}) for op in ("info", "stack", "state", "messages")}
    if not answers["info"].get("ok"):
        raise Problem(404, str(answers["info"].get("error", "there is no such process")))
    return answers


async def session(host: repl.FromThread, session_id: str, have: str = "") -> dict[str, Any]:
    """How a session stands, and what was said in it; of a long one the last of that.

    Args:
        host: The way to the tree.
        session_id: Which.
        have: The `mark` of an answer that the asker has. Where that is still the beginning of the conversation, only
            what came after it is told, and `goes_on` is true.

    Raises:
        Problem: No such session runs, or it does not answer.
    """

    async def read() -> tuple[Any, Sequence[AgentMessage]]:
        pid = _session(session_id)
        return await client.get_state(pid), await client.get_messages(pid)

    state, messages = await _of_session(host, read)
    told = dict(to_json(state))
    known = _known(messages, have)
    first = max(known, len(messages) - MESSAGES_MAX)
    return {
        "id": session_id,
        "state": {name: told[name] for name in ("cwd", "model", "phase", "name", "message_count") if name in told},
        "mark": _mark(messages, len(messages)),
        "goes_on": known > 0 and first == known,
        "left_out": first if first != known else 0,
        "messages": [_short(message_to_json(message)) for message in messages[first:]],
    }


def _known(messages: Sequence[AgentMessage], have: str) -> int:
    """How many of the messages an asker has; none where they are others by now, after a compaction for example."""
    count = have.partition("-")[0]
    known = int(count) if count.isdigit() and len(count) < 10 else 0
    return known if 0 < known <= len(messages) and _mark(messages, known) == have else 0


def _mark(messages: Sequence[AgentMessage], count: int) -> str:
    """What tells the first `count` messages from others: when the first and the last of them were said."""
    if not count:
        return "0"
    return f"{count}-{getattr(messages[0], 'timestamp', 0)}-{getattr(messages[count - 1], 'timestamp', 0)}"


async def act(host: repl.FromThread, request: Mapping[str, Any]) -> dict[str, Any]:
    """Do what a page asks for and say what came of it.

    Raises:
        Problem: The request makes no sense, or what it names is not there.
    """
    op = request.get("op")
    if op in PROCESS_ACTS:
        target = request.get("target")
        if isinstance(target, bool) or not isinstance(target, int | str) or target == "":
            raise Problem(400, "say which process: its number")
        done = await host.ask({"op": op, "target": target})
        if not done.get("ok"):
            raise Problem(409, str(done.get("error", "it was refused")))
        return {"text": str(done.get("text", "done"))}
    if op in SESSION_ACTS:
        return await _act_on_session(host, str(op), str(request.get("session", "")), request.get("text"))
    raise Problem(400, f"op must be one of {', '.join((*PROCESS_ACTS, *SESSION_ACTS))}")


async def _act_on_session(host: repl.FromThread, op: str, session_id: str, text: Any) -> dict[str, Any]:
    async def abort() -> None:
        client.abort_async(_session(session_id), "aborted")

    async def steer() -> None:
        await client.steer(_session(session_id), text)

    if op == "abort":
        await _of_session(host, abort)
        return {"text": "asked for the end of the run"}
    if not isinstance(text, str) or not text.strip() or len(text) > STEER_CHARS_MAX:
        raise Problem(400, "steering needs a text, and not a very long one")
    await _of_session(host, steer)
    return {"text": "the model reads it before its next call"}


async def _of_session(host: repl.FromThread, work: Callable[[], Awaitable[T]]) -> T:
    try:
        return await host.do(work, SESSION_S)
    except repl.LoopHeld as held:
        raise Problem(503, f"{held}; a session says nothing until it goes on") from None
    except TimeoutError:
        raise Problem(504, "no answer in time; it may be stuck") from None
    except OtpError as error:
        raise Problem(409, str(error)) from error


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
