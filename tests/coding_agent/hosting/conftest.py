"""Desks in one host, without a program around them."""

from collections.abc import AsyncIterator

import pytest_asyncio
from attrs import define, field

from coding_agent.application import APPLICATION
from coding_agent.arguments import Arguments
from coding_agent.events import Settled
from coding_agent.hosting.desk import Desk
from coding_agent.hosting.desk_events import DeskEvent
from coding_agent.hosting.running import HostRun, prepared
from coding_agent.settings import read_settings
from lemon_otp import ensure_all_started, receive, self_pid, send, stop_all


@define
class Heard:
    """What a desk has told, in order; the test process is told as well, so that it can wait."""

    events: list[DeskEvent] = field(factory=list)

    def kinds(self) -> list[str]:
        return [getattr(getattr(event, "event", event), "type", type(event).__name__) for event in self.events]

    async def until(self, kind: type) -> DeskEvent:
        """Wait for the next event of this type, one inside a session event included."""
        return await receive(lambda message: isinstance(getattr(message, "event", message), kind), timeout_s=20.0)

    async def settled(self) -> None:
        await self.until(Settled)


async def at(desk: Desk) -> Heard:
    """Listen to a desk from here on."""
    heard, me = Heard(), self_pid()

    def take(event: DeskEvent) -> None:
        heard.events.append(event)
        send(me, event)

    desk.listen(take)
    return heard


@pytest_asyncio.fixture
async def house(runtime, tmp_path, monkeypatch) -> AsyncIterator[HostRun]:
    """A started host whose model says what it is told, and that asks before it runs commands."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    arguments = Arguments(None, cwd=str(project), session_dir=str(tmp_path / "sessions"), model="scripted/echo")
    environ = {"HOME": str(tmp_path / "home")}
    settings = read_settings(environ, cwd=arguments.cwd, session_dir=arguments.session_dir, model=arguments.model)
    await ensure_all_started(APPLICATION)
    yield prepared(arguments, settings)
    await stop_all()
