"""A session with a coordinator, on a model that does what it is told in the prompt."""

from collections.abc import AsyncIterator

import pytest_asyncio
from attrs import define

from coding_agent.coordinator import Coordinator
from coding_agent.session.options import SessionOptions
from coding_agent.session_supervisor import list_sessions, start_session
from coding_agent.subagents.definitions import Definition, Definitions, load_definitions
from coding_agent.subagents.delegate import SubagentSettings, subagents_of, with_subagents
from coding_agent.subagents.protocol import SubagentSpec
from lemon_ai import TextContent, UserMessage
from lemon_ai.testing import Call, Delay, Fail, Say, ScriptedModel
from lemon_otp import Pid
from lemon_otp.testing import settle
from tests.coding_agent.conftest import Host

MANY = 400


def last_words(request) -> str:
    """The text of the last message of a user, or of a custom message told as one."""
    for message in reversed(request.context.messages):
        if isinstance(message, UserMessage):
            content = message.content
            return content if isinstance(content, str) else "".join(
                block.text for block in content if isinstance(block, TextContent)
            )  # fmt: skip
    return ""


def obedient(request):
    """A turn that does what the prompt says: say X, wait X, partly X, fail, or call TOOL."""
    word, _, rest = last_words(request).partition(" ")
    if request.context.messages[-1].role == "tool_result":
        return (Say("Done."),)
    match word:
        case "wait":
            return (Delay(600_000), Say(rest))
        case "partly":
            return (Say(rest), Delay(600_000))
        case "fail":
            return (Fail("auth"),)
        case "call":
            return (Call(rest, {}),)
        case _:
            return (Say(rest or word),)


def said(text: str, **more) -> SubagentSpec:
    return SubagentSpec(prompt=text, **more)


@define
class Team:
    """A session, its coordinator, and what is left of its subagents."""

    host: Host
    session: Pid
    coordinator: Pid
    options: SessionOptions

    async def run(self, *specs, **how):
        return await Coordinator.run_subagents(self.coordinator, specs, **how)

    async def sessions(self) -> list[Pid]:
        """The sessions of subagents that run now."""
        return [pid for pid in await list_sessions() if pid != self.session]

    async def quiet(self) -> None:
        """Return when no session of a subagent is left."""
        while await self.sessions():
            await settle()


def definitions(*extra: Definition):
    def read(cwd) -> Definitions:
        found = load_definitions(cwd, cwd / "no-home")
        return Definitions({**found.by_name, **{one.name: one for one in extra}}, found.problems)

    return read


async def team_of(host: Host, *, turns=None, depth=1, extra=(), timeout_ms=None, **changes) -> Team:
    """A session with a coordinator that has started no subagent yet."""
    options = await host.options(ScriptedModel(*(turns or [obedient] * MANY)), **changes)
    settings = SubagentSettings(definitions=definitions(*extra), depth=depth, timeout_ms=timeout_ms)
    session = await start_session(with_subagents(options, settings))
    subagents = subagents_of(session, options.session_id, settings)
    return Team(host, session, await subagents.coordinator(), options)


@pytest_asyncio.fixture
async def team(host) -> AsyncIterator[Team]:
    """A session with a coordinator."""
    yield await team_of(host)
