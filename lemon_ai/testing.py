"""Edge. For tests of programs that call models, and of providers: a model that plays a script, and the contract.

    scripted = ScriptedModel(["Hello"], [Call("read", {"path": "a.txt"})], [Fail("overloaded", times=1), Say("done")])
    await scripted.install()
    message = await lemon_ai.complete(scripted.model, context)

`ProviderContract` is a test class: what every provider must do, whoever wrote it. Derive from it in a test module.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from itertools import count
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast

import pytest
from attrs import evolve

from lemon_ai.errors import AuthFailed, ProviderError, RateLimited, StreamTruncated
from lemon_ai.events import (
    StreamDone,
    StreamError,
    StreamEvent,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from lemon_ai.messages import UserMessage, get_text, get_tool_calls
from lemon_ai.models.model import Model, ModelCost
from lemon_ai.provider import Provider, ProviderRequest
from lemon_ai.provider_registry import ProviderRegistry
from lemon_ai.providers.script import Call, Count, Crash, Delay, Fail, Say, Step, Stop, Think, Truncate, Turn
from lemon_ai.providers.scripted import FINISHED, ScriptedProvider
from lemon_ai.stream_options import Context, StreamOptions, Tool

__all__ = [
    "Call",
    "Case",
    "Count",
    "Crash",
    "Delay",
    "Fail",
    "HttpProviderContract",
    "ProviderContract",
    "Say",
    "ScriptedModel",
    "Stop",
    "Think",
    "Truncate",
    "Turn",
    "check_events",
    "collect",
    "loopback",
]

Playable: TypeAlias = "str | Step | Iterable[Step | str] | Callable[[ProviderRequest], Turn]"
Case: TypeAlias = Literal["text", "tools", "auth", "rate_limit", "truncated", "stalled"]

_names = count(1)


class ScriptedModel:
    """A model that plays turns, one a call, whatever it is asked.

    Attributes:
        model: What to call.
        provider: Plays it; can be used without any running application.
        requests: What it was asked, in order. A call that is tried again is there again.
    """

    def __init__(self, *turns: Playable, chunk_delay_ms: int = 0, **model: Any) -> None:
        """A model of these turns.

        Args:
            turns: Each a text, a step, several steps, or a function of the request. After the last one it says so.
            chunk_delay_ms: Time between two pieces, on the runtime's clock.
            model: Fields of the model, such as `reasoning=True`.
        """
        name = f"scripted_{next(_names)}"
        plain: dict[str, Any] = {"id": "test", "provider": "scripted", "context_window": 200_000, "max_tokens": 8_192}
        self.model = Model(**{**plain, "api": name, **model})
        self.provider = ScriptedProvider(turns=self._next, chunk_delay_ms=chunk_delay_ms)
        self.requests: list[ProviderRequest] = []
        self._turns = list(turns)

    async def install(self) -> Model:
        """Register the model's provider in the running application and return the model."""
        await ProviderRegistry.register(self.model.api, self.provider)
        return self.model

    def add(self, *turns: Playable) -> None:
        """Play these after the others."""
        self._turns.extend(turns)

    @property
    def remaining(self) -> int:
        """How many turns were not played yet."""
        return len(self._turns)

    def _next(self, request: ProviderRequest) -> Turn:
        self.requests.append(request)
        if not self._turns:
            return (Say(FINISHED),)
        turn = self._turns.pop(0)
        if callable(turn):
            return turn(request)
        if isinstance(turn, str):
            return (Say(turn),)
        if isinstance(turn, Iterable):
            return tuple(Say(step) if isinstance(step, str) else step for step in turn)
        return (turn,)


async def collect(provider: Provider, request: ProviderRequest) -> list[StreamEvent]:
    """All events of one call, made without any application."""
    return [event async for event in provider.stream(request)]


@asynccontextmanager
async def loopback(
    status: int, headers: Mapping[str, str], body: bytes, *, then: Literal["end", "stall"] = "end"
) -> AsyncIterator[str]:
    """A server on this machine that answers every request alike; its address.

    With `stall` the body never ends.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
            await reader.readexactly(int(length.partition(b":")[2]))
            lines = [f"HTTP/1.1 {status} Answer", *(f"{name}: {value}" for name, value in headers.items())]
            writer.write("\r\n".join([*lines, "connection: close", "", ""]).encode() + body)
            await writer.drain()
            if then == "stall":
                await reader.read(1)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.close()
        await server.wait_closed()


def check_events(events: list[StreamEvent]) -> None:
    """Fail unless the events are in an order every reader may count on, and agree with the message at their end."""
    *before, last = events
    assert isinstance(last, StreamDone | StreamError), f"the last event is {last.type}"
    starts = [event for event in before if isinstance(event, StreamStart)]
    assert len(starts) <= 1
    assert not before or isinstance(before[0], StreamStart), "a block came before the start"
    open_blocks: dict[int, str] = {}
    said: dict[int, str] = {}
    for event in before:
        _check_block(event, open_blocks, said)
    assert isinstance(last, StreamError) or not open_blocks, f"never ended: {open_blocks}"
    assert isinstance(last, StreamError) or len(last.message.content) == len(said)


def _check_block(event: StreamEvent, open_blocks: dict[int, str], said: dict[int, str]) -> None:
    match event:
        case TextStart() | ThinkingStart() | ToolCallStart():
            kind = event.type.removesuffix("_start")
            assert event.index == len(said), "blocks are numbered in the order they open"
            assert kind == "tool_call" or not open_blocks.keys() - _calls(open_blocks), "the block before is still open"
            open_blocks[event.index], said[event.index] = kind, ""
        case TextDelta() | ThinkingDelta() | ToolCallDelta():
            assert open_blocks.get(event.index) == event.type.removesuffix("_delta")
            said[event.index] += event.delta
            if not isinstance(event, ToolCallDelta):
                block = event.partial.content[event.index]
                assert getattr(block, "text", None) == said[event.index] or (
                    getattr(block, "thinking", None) == said[event.index]
                ), "a partial holds what was said until then"
        case TextEnd() | ThinkingEnd() | ToolCallEnd():
            assert open_blocks.pop(event.index, None) == event.type.removesuffix("_end")


def _calls(open_blocks: Mapping[int, str]) -> set[int]:
    return {index for index, kind in open_blocks.items() if kind == "tool_call"}


TOOLS: Final = (
    Tool("ls", "List a folder", {"type": "object", "properties": {"path": {"type": "string"}}}),
    Tool("read", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}}),
)


@pytest.mark.asyncio
class ProviderContract(ABC):
    """What every provider must do. Derive a class `Test...` and say how each case comes about."""

    secret: ClassVar[str] = "sk-test-0123456789abcdef"

    @abstractmethod
    def case(self, name: Case) -> AbstractAsyncContextManager[tuple[Provider, ProviderRequest]]:
        """A provider, and a request that makes it do what the case is about.

        - `text`: it says "Hello world" in two pieces or more; 10 tokens in, 5 out.
        - `tools`: it calls `ls` with {"path": "."} and `read` with {"path": "README.md"}.
        - `auth`: it refuses the key `secret`, with status 401 where there is a status.
        - `rate_limit`: it asks to wait 7 seconds.
        - `truncated`: it says "Hel", begins a tool call where its wire can, and breaks off.
        - `stalled`: it says "Hel" and then nothing for ever.
        """

    async def events(self, name: Case) -> list[StreamEvent]:
        """The events of a case; a failure before the first of them as its terminal event."""
        async with self.case(name) as (provider, request):
            try:
                return await collect(provider, request)
            except ProviderError as error:
                message = StreamStart().partial
                return [StreamError("error", evolve(message, stop_reason="error"), error)]

    async def test_text_arrives_in_pieces_and_as_a_whole(self) -> None:
        """Start, a text block in pieces, done; the message says all of it, stamped and counted."""
        events = await self.events("text")
        check_events(events)
        done = events[-1]
        assert isinstance(done, StreamDone)
        assert done.reason == "stop"
        assert get_text(done.message) == "Hello world"
        assert sum(isinstance(event, TextDelta) for event in events) >= 2
        assert (done.message.usage.input, done.message.usage.output) == (10, 5)
        assert done.message.api
        assert done.message.provider
        assert done.message.model

    async def test_two_tool_calls_come_whole_and_in_order(self) -> None:
        """Both calls have an id of their own and their arguments as an object; the answer ends for its tools."""
        events = await self.events("tools")
        check_events(events)
        done = events[-1]
        assert isinstance(done, StreamDone)
        assert done.reason == "tool_use"
        calls = get_tool_calls(done.message)
        assert [(call.name, dict(call.arguments)) for call in calls] == [
            ("ls", {"path": "."}),
            ("read", {"path": "README.md"}),
        ]
        assert len({call.id for call in calls}) == 2
        assert all(call.id and call.invalid is None for call in calls)

    async def test_a_refused_key_is_told_without_the_key(self) -> None:
        """The failure is an AuthFailed that is not tried again, and nothing about it shows the key."""
        failure = self._failure(await self.events("auth"))
        assert isinstance(failure, AuthFailed)
        assert not failure.retryable
        assert self.secret not in f"{failure} {failure!r} {failure.provider_message}"

    async def test_a_wait_asked_for_reaches_the_caller(self) -> None:
        """The failure is a RateLimited that carries the seconds."""
        failure = self._failure(await self.events("rate_limit"))
        assert isinstance(failure, RateLimited)
        assert failure.retry_after_s == pytest.approx(7.0)

    async def test_an_answer_that_breaks_off_is_an_error_and_none_of_its_calls_can_run(self) -> None:
        """The last event is an error with what was said so far; a call that was cut is marked invalid."""
        events = await self.events("truncated")
        check_events(events)
        last = events[-1]
        assert isinstance(last, StreamError)
        assert isinstance(last.error, StreamTruncated)
        assert last.message.stop_reason == "error"
        assert get_text(last.message) == "Hel"
        assert all(call.invalid is not None for call in get_tool_calls(last.message))

    async def test_closing_the_generator_ends_the_call_at_once(self) -> None:
        """A reader that leaves a silent stream waits for nothing."""
        async with self.case("stalled") as (provider, request):
            stream = cast("Any", provider.stream(request))
            async with asyncio.timeout(10), aclosing(stream) as events:
                async for event in events:
                    if isinstance(event, TextDelta) and get_text(event.partial) == "Hel":
                        break

    @staticmethod
    def _failure(events: list[StreamEvent]) -> Any:
        last = events[-1]
        assert isinstance(last, StreamError), f"the last event is {last.type}"
        return last.error


class HttpProviderContract(ProviderContract):
    """The contract for a provider over HTTP: say what its wire looks like in each case."""

    @abstractmethod
    def provider(self) -> Provider:
        """The provider."""

    @abstractmethod
    def wire(self, name: Case) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of the answer; for `stalled` the part before the silence."""

    def model(self, base_url: str) -> Model:
        """The model to ask, served at `base_url`."""
        return Model(
            id="test-model",
            api=self.provider().api,
            provider="openai",
            base_url=base_url,
            cost=ModelCost(1, 2, 0.1, 1.25),
            context_window=100_000,
            max_tokens=4_096,
        )

    def options(self) -> StreamOptions:
        """The options of the call."""
        return StreamOptions(api_key=self.secret)

    def case(self, name: Case) -> AbstractAsyncContextManager[tuple[Provider, ProviderRequest]]:
        """See `ProviderContract.case`."""
        return self._served(name)

    @asynccontextmanager
    async def _served(self, name: Case) -> AsyncIterator[tuple[Provider, ProviderRequest]]:
        status, headers, body = self.wire(name)
        async with loopback(status, headers, body, then="stall" if name == "stalled" else "end") as url:
            context = Context("Be brief.", (UserMessage("Hi"),), TOOLS)
            yield self.provider(), ProviderRequest(self.model(url), context, self.options())
