"""A running host without a program around it: the three applications, and sessions on scripted models."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from attrs import define, evolve

from coding_agent import client
from coding_agent.application import APPLICATION
from coding_agent.events import SessionEvent, Settled
from coding_agent.session.options import SessionOptions
from coding_agent.session_supervisor import start_session
from coding_agent.storage.locations import new_session_file
from lemon_ai.testing import ScriptedModel
from lemon_otp import Pid, ensure_all_started, receive, self_pid, stop_all


@define
class Host:
    """Starts sessions in one folder, and reads what they say."""

    folder: Path

    async def options(self, model: ScriptedModel, **changes) -> SessionOptions:
        session_id, file = new_session_file(self.folder, self.folder / "sessions")
        options = SessionOptions(
            cwd=self.folder, model=await model.install(), override_model=True, session_file=file, session_id=session_id
        )
        return evolve(options, **changes)

    async def session(self, *turns, restart="temporary", **changes) -> Pid:
        """A session on a model that plays these turns, with the test as a direct subscriber."""
        session = await start_session(await self.options(ScriptedModel(*turns), **changes), restart=restart)
        await client.subscribe(session, self_pid())
        return session

    async def run(self, session: Pid, prompt: str) -> list[SessionEvent]:
        """Prompt and read every event until the session has settled."""
        await client.prompt(session, prompt)
        return await self.until_settled()

    async def until_settled(self) -> list[SessionEvent]:
        return await self.until(Settled)

    async def until(self, kind: type) -> list[SessionEvent]:
        seen = []
        while not seen or not isinstance(seen[-1].event, kind):
            seen.append(await receive(lambda message: isinstance(message, SessionEvent), timeout_s=20.0))
        return seen


@pytest_asyncio.fixture
async def host(runtime, tmp_path) -> AsyncIterator[Host]:
    """A host with nothing running but its standing processes."""
    await ensure_all_started(APPLICATION)
    yield Host(tmp_path)
    await stop_all()


def kinds(events: list[SessionEvent]) -> list[str]:
    """The types of events, without those that say how the loop works inside."""
    inner = {"loop_state_transition", "tool_schema_snapshot", "message_update", "queue_update"}
    return [event.event.type for event in events if event.event.type not in inner]
