"""Edge. A `stream_fn` that asks a proxy for the model's answer instead of the provider.

The proxy holds the credentials: it is sent the model, the conversation and a few options, and streams back events
without the growing message, which is put together here. A connection that closes before the answer is complete is an
error, not an end.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

from attrs import field

from lemon_agent.abort_signal import AbortSignal
from lemon_agent.loop.interruption import Interrupted, Interruptible
from lemon_ai import (
    AssistantMessage,
    Context,
    Fold,
    Model,
    StreamEvent,
    StreamOptions,
    message_to_wire,
    model_to_wire,
    redact,
    usage_from_wire,
)
from lemon_otp import frozen

ABORTED: Final = "Request aborted by user"


@frozen
class ProxyStream:
    """A `stream_fn`: `AgentOptions(stream_fn=ProxyStream(url, token))`.

    Attributes:
        url: The proxy's address; requests go to `/api/stream` below it.
        auth_token: Sent as a bearer token.
        connect_timeout_s: Seconds allowed to reach the proxy. How long an answer takes nobody limits here.
    """

    url: str
    auth_token: str = field(repr=False)
    connect_timeout_s: float = 10.0

    async def __call__(
        self, model: Model, context: Context, options: StreamOptions, *, signal: AbortSignal | None = None
    ) -> AsyncIterator[StreamEvent]:
        """The events of one call; see `_stream`. Nothing is sent before the first is asked for."""
        return self._stream(model, context, options, signal)

    async def _stream(
        self, model: Model, context: Context, options: StreamOptions, signal: AbortSignal | None
    ) -> AsyncIterator[StreamEvent]:
        fold = Fold(model)
        reader = _Reader(fold)
        chunks = self._chunks(model, context, options)
        try:
            while not fold.finished:
                try:
                    with Interruptible(signal):
                        chunk = await anext(chunks, None)
                except Interrupted:
                    failed = fold.fail("aborted", ABORTED)
                except _Refused as refused:
                    failed = fold.fail("error", redact(str(refused), (self.auth_token,)))
                else:
                    failed = fold.fail("error", "Proxy error: the connection closed early") if chunk is None else []
                    for event in reader.read(chunk or b""):
                        yield event
                for event in failed:
                    yield event
        finally:
            await chunks.aclose()  # type: ignore[attr-defined]

    async def _chunks(self, model: Model, context: Context, options: StreamOptions) -> AsyncIterator[bytes]:
        """The body of the proxy's answer as it comes. Raises `_Refused` for everything that goes wrong."""
        import httpx

        timeout = httpx.Timeout(None, connect=self.connect_timeout_s)
        headers = {"authorization": f"Bearer {self.auth_token}", "accept": "text/event-stream"}
        body = request_body(model, context, options)
        try:
            async with (
                httpx.AsyncClient(timeout=timeout) as client,
                client.stream("POST", f"{self.url.rstrip('/')}/api/stream", headers=headers, json=body) as answer,
            ):
                if answer.status_code != 200:
                    raise _Refused(f"Proxy error: {_error_of(await answer.aread()) or answer.status_code}")
                async for chunk in answer.aiter_bytes():
                    yield chunk
        except httpx.HTTPError as error:
            raise _Refused(f"Proxy connection error: {error or type(error).__name__}") from error


class _Refused(Exception):
    """The proxy did not answer, or not with a stream."""


class _Reader:
    """Turns the proxy's lines into events, whatever the pieces they come in."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._rest = b""

    def read(self, chunk: bytes) -> Iterator[StreamEvent]:
        """The events of every line that `chunk` completes; what cannot be read is passed over."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                try:
                    said = json.loads(line[5:])
                except ValueError:
                    continue
                if isinstance(said, dict):
                    yield from self._event(said)

    def _event(self, said: Mapping[str, Any]) -> list[StreamEvent]:
        fold, key = self._fold, said.get("contentIndex", 0)
        text = str(said.get("delta") or "")
        match said.get("type"):
            case "start":
                return fold.start()
            case "text_start":
                return fold.text_start(key)
            case "text_delta":
                return fold.text(text, key)
            case "thinking_start":
                return fold.thinking_start(key)
            case "thinking_delta":
                return fold.thinking(text, key)
            case "toolcall_start":
                return fold.tool_start(key, said.get("id"), said.get("toolName") or said.get("name"))
            case "toolcall_delta":
                return fold.tool_args(key, text)
            case "text_end" | "thinking_end" | "toolcall_end":
                return fold.end(key, signature=said.get("contentSignature"))
            case "done":
                self._count(said)
                return fold.done("length" if said.get("reason") == "length" else "stop")
            case "error":
                self._count(said)
                words = str(said.get("errorMessage") or "the proxy gave no reason")
                return fold.fail("aborted" if said.get("reason") == "aborted" else "error", words)
            case _:
                return []

    def _count(self, said: Mapping[str, Any]) -> None:
        told = said.get("usage") or (said.get("message") or {}).get("usage")
        if isinstance(told, Mapping):
            usage = usage_from_wire(told)
            self._fold.usage(
                input=usage.input,
                output=usage.output,
                cache_read=usage.cache_read,
                cache_write=usage.cache_write,
                total_tokens=usage.total_tokens,
            )


def request_body(model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
    """What the proxy is sent: model, conversation and options in the spelling of the wire. No credential is in it."""
    wanted = {"temperature": options.temperature, "maxTokens": options.max_tokens, "reasoning": options.reasoning}
    return {
        "model": model_to_wire(model),
        "context": {
            "systemPrompt": context.system_prompt,
            "messages": [_message(message) for message in context.messages],
            "tools": [
                {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
                for tool in context.tools
            ],
        },
        "options": {name: value for name, value in wanted.items() if value is not None},
    }


def _message(message: Any) -> dict[str, Any]:
    wire: dict[str, Any] = message_to_wire(message)
    if isinstance(message, AssistantMessage) and message.stop_reason == "redirected":
        wire["stopReason"] = "stop"
    return wire


def _error_of(body: bytes) -> str:
    try:
        said = json.loads(body)
    except ValueError:
        return ""
    return str(said.get("error") or "") if isinstance(said, dict) else ""
