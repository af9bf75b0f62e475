"""Edge. A busy tree with things gone wrong in it, for demonstrations and for tests: no key, no network, no files kept.

Tree:  coding_agent.supervisor / demo_supervisor, with `flaky[n]` that crash and come back, and `slow_reader`, whose
       mailbox grows; under session_supervisor the sessions of `SESSIONS`, each at something else
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from attrs import evolve, frozen

from coding_agent import client
from coding_agent.application import add_child
from coding_agent.models.model_choice import ModelChoice
from coding_agent.permissions.approver import PermissionAnswer, PermissionRequest
from coding_agent.safety import HEADLESS, Safety
from coding_agent.session.options import SessionOptions
from coding_agent.session_supervisor import start_session
from coding_agent.settings import Settings
from coding_agent.starting import session_options
from lemon_agent import AgentTool, AgentToolResult, text_result
from lemon_otp import (
    CallFailed,
    DynamicSupervisor,
    GenServer,
    NoReply,
    Pid,
    mailbox_length,
    self_pid,
    send,
    send_after,
    send_interval,
    sleep_s,
    spawn,
    whereis,
)

SUPERVISOR: Final = "demo_supervisor"
CRASH_EVERY_S: Final = 4.0
FLAKY: Final = 3
BACKLOG_MAX: Final = 500
PAUSE_S: Final = 0.5
STUCK_TOOL: Final = "index_repository"

_log: Final = logging.getLogger("coding_agent")


@frozen
class Part:
    """One session of the demo: what it is called, what it is told, and what stands in its way."""

    name: str
    prompt: str
    safety: Safety = HEADLESS
    asks: bool = False
    again: bool = False


SESSIONS: Final = (
    Part("stuck", f'Index everything.\n@tool {STUCK_TOOL} {{"path": "src", "depth": 3}}\n@turn\n@text Indexed.'),
    Part("building", '@tool bash {"command": "sleep 3600"}\n@turn\n@text Built.'),
    Part("waiting", '@tool bash {"command": "rm -rf build"}\n@turn\n@text Cleaned.', Safety("ask"), asks=True),
    Part("thinking", "@think Let me think about this\n@delay 3600000\n@text There it is."),
    Part(
        "delegating",
        '@tool task {"prompt": "@delay 3600000\\n@text done", "description": "read the docs"}\n@turn\n@text Ok',
    ),
    Part("talking", "@text A few words.\n@delay 100\n@text And a few more.", again=True),
)


class _NeverAnswers:
    """A person who has gone for lunch."""

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("unreachable")


async def wait_for_index_lock(path: str) -> AgentToolResult:
    """Waits for a lock that nobody ever gives back: this is where the stuck tool stands."""
    lock = asyncio.Event()
    await lock.wait()
    return text_result(f"{path} is indexed")


async def _index(_call_id: str, params: Mapping[str, Any], _signal: Any, _on_update: Any) -> AgentToolResult:
    return await wait_for_index_lock(str(params.get("path", "")))


def stuck_tool() -> AgentTool:
    """A tool with a mistake in it: it waits for something that does not come."""
    return AgentTool(
        name=STUCK_TOOL,
        description="Make an index of a folder.",
        parameters={"type": "object", "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}},
        execute=_index,
        main_argument="path",
    )


class Flaky(GenServer[int, Any, Any, int]):
    """Crashes every few seconds and is started again."""

    async def init(self, arg: int) -> int:
        send_after(self_pid(), "crash", CRASH_EVERY_S * (1 + arg / FLAKY))
        return arg

    async def handle_info(self, message: Any, state: int) -> NoReply[int]:
        raise ConnectionError(f"the index server number {state} hung up")


class SlowReader(GenServer[None, Any, Any, int]):
    """Takes a message now and then; more come than it takes."""

    async def init(self, arg: None) -> int:
        send_interval(self_pid(), "feed", 0.05)
        return 0

    async def handle_info(self, message: Any, state: int) -> NoReply[int]:
        if message == "feed" and mailbox_length(self_pid()) < BACKLOG_MAX:
            send(self_pid(), ("line", state))
            send(self_pid(), ("line", state + 1))
        await sleep_s(0.04)
        return NoReply(state + 1)


async def start_demo(settings: Settings, choice: ModelChoice) -> dict[str, Pid]:
    """Start everything below the calling process; the sessions by what they are called.

    Args:
        settings: Where sessions are kept and work.
        choice: The scripted model.
    """
    sessions = {}
    for part in SESSIONS:
        sessions[part.name] = pid = await start_session(_options(part, settings, choice))
        spawn(_talk, pid, part, label=f"demo[{part.name}]")
    often = DynamicSupervisor.child_spec(id=SUPERVISOR, name=SUPERVISOR, max_restarts=1_000, max_seconds=1.0)
    await add_child(often)
    for number in range(FLAKY):
        await DynamicSupervisor.start_child(SUPERVISOR, Flaky.child_spec(number, id=f"flaky[{number}]"))
    await DynamicSupervisor.start_child(SUPERVISOR, SlowReader.child_spec(None, id="slow_reader", name="slow_reader"))
    return sessions


def _options(part: Part, settings: Settings, choice: ModelChoice) -> SessionOptions:
    approver = _NeverAnswers() if part.asks else None
    options = session_options(settings, choice, safety=part.safety, approver=approver)
    calm = {**options.agent_settings, "follow_up_window_ms": 0}
    return evolve(options, tools=(*options.tools, stuck_tool()), agent_settings=calm)


async def _talk(session: Pid, part: Part) -> None:
    """Prompt a session; one that talks is prompted again and again."""
    with suppress(CallFailed):  # somebody has ended it
        while session.alive:
            await client.prompt(session, part.prompt)
            await client.wait_for_idle(session)
            if not part.again:
                return
            await sleep_s(PAUSE_S)


def is_running() -> bool:
    """Whether the demo runs in the calling runtime."""
    return whereis(SUPERVISOR) is not None
