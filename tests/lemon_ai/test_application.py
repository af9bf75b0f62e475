"""The tree of lemon_ai, and what a crash in it leaves behind."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, ClassVar

import pytest

from lemon_ai import (
    APPLICATION,
    CallDispatcher,
    Config,
    DispatcherPolicy,
    ProviderRegistry,
    UnknownApi,
    UserMessage,
    complete,
    get_text,
    new_context,
)
from lemon_ai.providers.builtin import APIS
from lemon_ai.testing import ScriptedModel
from lemon_otp import (
    Application,
    Down,
    Runtime,
    Supervisor,
    ensure_all_started,
    exit_signal,
    monitor,
    receive,
    stop_application,
    whereis,
)
from lemon_otp.testing import settle

HELLO = new_context(messages=[UserMessage("hello")])


async def killed(name: str) -> None:
    """Kill a registered process and let the tree settle."""
    pid = whereis(name)
    assert pid is not None
    ref = monitor(pid)
    exit_signal(pid, "kill")
    await receive(lambda message: isinstance(message, Down) and message.ref == ref)
    await settle()
    assert whereis(name) not in (None, pid)


async def test_the_tree_is_the_one_that_is_drawn(ai: Any) -> None:
    """Five children, in the order of the drawing; breaker and limiter come with the first call."""
    children = await Supervisor.which_children("lemon_ai.supervisor")
    assert [child.id for child in children] == [
        "provider_registry",
        "stream_task_supervisor",
        "provider_supervisor",
        "call_dispatcher",
        "model_cache",
    ]
    await complete("scripted/echo", HELLO)
    assert whereis("circuit_breaker[scripted]") is not None
    assert whereis("rate_limiter[scripted]") is not None


async def test_every_wire_format_is_registered_and_can_be_made(ai: Any) -> None:
    """Each provider is imported when it is asked for, and answers to its own api."""
    assert list(ProviderRegistry.list()) == sorted(APIS)
    for api in APIS:
        assert ProviderRegistry.require(api).api == api


class Own:
    api: ClassVar[str] = "own"

    async def stream(self, request: Any) -> Any:
        yield None


async def test_providers_come_and_go_by_name(ai: Any) -> None:
    """The last writer wins; spelling does not matter; nobody is an error that lists who is there."""
    await ProviderRegistry.register("My-Own", Own())
    assert isinstance(ProviderRegistry.get("my_own"), Own)
    assert ProviderRegistry.registered("my-own")
    made: list[Own] = []

    def make() -> Own:
        made.append(Own())
        return made[-1]

    await ProviderRegistry.register("my_own", make)
    assert ProviderRegistry.get("my_own") is ProviderRegistry.get("my_own")
    assert len(made) == 1
    assert await ProviderRegistry.unregister("my_own")
    assert not await ProviderRegistry.unregister("my_own")
    with pytest.raises(UnknownApi, match="openai_completions"):
        ProviderRegistry.require("my_own")
    await ProviderRegistry.clear()
    assert list(ProviderRegistry.list()) == []


async def test_what_was_registered_outlives_the_registry(ai: Any) -> None:
    """Reading goes on while it is started again."""
    await ProviderRegistry.register("own", Own())
    await killed("provider_registry")
    assert isinstance(ProviderRegistry.get("own"), Own)
    assert get_text(await complete("scripted/echo", HELLO)) == "hello"


@pytest.mark.parametrize("name", ["stream_task_supervisor", "provider_supervisor", "call_dispatcher"])
async def test_a_part_that_is_killed_comes_back_and_calls_go_on(ai: Any, name: str) -> None:
    """Whichever it is, the next call works."""
    assert get_text(await complete("scripted/echo", HELLO)) == "hello"
    await killed(name)
    assert get_text(await complete("scripted/echo", HELLO)) == "hello"


async def test_calls_under_way_end_as_errors_when_their_supervisor_is_killed(ai: Any) -> None:
    """A stream never just stops."""
    from lemon_ai import StreamError, stream
    from lemon_ai.testing import Delay, Say

    model = ScriptedModel([Say("so far"), Delay(60_000)])
    await model.install()
    running = await stream(model.model, HELLO)
    await settle()
    await killed("stream_task_supervisor")
    events = [event async for event in running.events()]
    assert isinstance(events[-1], StreamError)


async def test_admission_can_be_configured_before_the_start(runtime: Runtime) -> None:
    """The application's environment holds the policies."""
    config = Config(dispatcher=DispatcherPolicy(default_cap=3, caps={"groq": 1}))
    await ensure_all_started(Application("lemon_ai", APPLICATION.start, env={"admission": config}))
    state = await CallDispatcher.get_state()
    assert (state.default_cap, state.caps) == (3, {"groq": 1})
    await stop_application("lemon_ai")


async def test_it_starts_again_after_it_was_stopped(runtime: Runtime) -> None:
    """Nothing of the first life is in the way."""
    for _ in range(2):
        await ensure_all_started(APPLICATION)
        assert get_text(await complete("scripted/echo", HELLO)) == "hello"
        await stop_application("lemon_ai")
        assert whereis("lemon_ai.supervisor") is None


def test_importing_takes_along_nothing_heavy() -> None:
    """No HTTP library, no provider, no conversion library: they are imported when they are used."""
    heavy = ["httpx", "httpcore", "anyio", "cattrs", "jsonschema", "botocore", "google.auth", "pytest", "genai_prices"]
    heavy += ["lemon_ai.providers.http", "lemon_ai.providers.openai_completions", "lemon_ai.providers.scripted"]
    code = f"import sys, lemon_ai; print([name for name in {heavy!r} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[]"
