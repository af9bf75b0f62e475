"""Extensions as functions of a test, and what they said."""

import pytest
from attrs import evolve

from coding_agent import client
from coding_agent.events import ExtensionFailed, SessionEvent
from coding_agent.extensions.api import Extension
from coding_agent.extensions.joining import with_extensions
from coding_agent.extensions.runner import Extensions
from coding_agent.session_supervisor import start_session
from lemon_ai.testing import ScriptedModel
from lemon_otp import self_pid


@pytest.fixture
def extended(host):
    """Starts a session with these registrations and listens to it."""

    async def start(*registrations, turns=(), ui=None, handler_s=5.0, **changes):
        loaded = []
        for number, register in enumerate(registrations):
            extension = Extension(f"x{number}", f"/x{number}.py")
            register(extension)
            loaded.append(extension)
        extensions = Extensions(loaded, handler_s=handler_s, event_s=handler_s)
        start.model = ScriptedModel(*turns)
        start.extensions = extensions
        options = evolve(await host.options(start.model), **changes)
        session = await start_session(with_extensions(options, extensions, ui))
        await client.subscribe(session, self_pid())
        return session

    return start


def failures(events: list[SessionEvent]) -> list[tuple[str, str, str]]:
    return [
        (event.event.path, event.event.event, event.event.error)
        for event in events
        if isinstance(event.event, ExtensionFailed)
    ]
