"""What every provider must do, for each wire of this folder: `lemon_ai.testing.HttpProviderContract`."""

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from lemon_ai.errors import StreamTruncated
from lemon_ai.events import StreamError
from lemon_ai.provider import Provider
from lemon_ai.providers.anthropic_messages import AnthropicProvider
from lemon_ai.providers.azure_openai import AzureCompletionsProvider, AzureResponsesProvider
from lemon_ai.providers.bedrock_converse import BedrockProvider, BedrockWholeProvider
from lemon_ai.providers.bedrock_invoke import BedrockInvokeProvider
from lemon_ai.providers.google_gemini_cli import GeminiCliProvider
from lemon_ai.providers.google_generative_ai import GoogleProvider
from lemon_ai.providers.google_vertex import AnthropicVertexProvider, VertexProvider
from lemon_ai.providers.mistral import MistralProvider
from lemon_ai.providers.ollama import OllamaProvider
from lemon_ai.providers.openai_codex import CLAIM, CodexProvider
from lemon_ai.providers.openai_responses import OpenAIResponsesProvider
from lemon_ai.stream_options import StreamOptions
from lemon_ai.testing import Case, HttpProviderContract
from tests.lemon_ai.providers.wires import aws_frame, sse

Json = dict[str, Any]
Wire = tuple[int, Mapping[str, str], bytes]

STREAM = {"content-type": "text/event-stream"}
LIMITED = {"retry-after": "7"}
LS, README = {"path": "."}, {"path": "README.md"}


class SseContract(HttpProviderContract):
    """A wire of events, each a JSON document: `said` gives them, `refused` what stands in an error body."""

    refusal: ClassVar[Json] = {"error": {"type": "authentication_error", "message": "invalid x-api-key"}}
    slow_down: ClassVar[Json] = {"error": {"type": "rate_limit_error", "message": "Slow down"}}

    def said(self, name: Case) -> list[Json]:
        raise NotImplementedError

    def body(self, events: list[Json]) -> bytes:
        return sse(*events)

    def wire(self, name: Case) -> Wire:
        if name == "auth":
            refusal = self.refusal | {"note": f"you sent {self.secret}"}
            return 401, {}, json.dumps(refusal).encode()
        if name == "rate_limit":
            return 429, LIMITED, json.dumps(self.slow_down).encode()
        return 200, STREAM, self.body(self.said(name))


class AnthropicWire(SseContract):
    """Anthropic's events."""

    def said(self, name: Case) -> list[Json]:
        events: list[Json] = [{"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 10}}}]
        if name == "tools":
            events += [*self._call(0, "t1", "ls", LS), *self._call(1, "t2", "read", README)]
            return [*events, *self._ending("tool_use")]
        events.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
        pieces = ("Hel", "lo ", "world") if name == "text" else ("Hel",)
        events += [self._delta(0, type="text_delta", text=piece) for piece in pieces]
        if name == "text":
            return [*events, {"type": "content_block_stop", "index": 0}, *self._ending("end_turn")]
        return events if name == "stalled" else [*events, *self._call(1, "t1", "ls", LS)[:2]]

    @staticmethod
    def _delta(index: int, **delta: str) -> Json:
        return {"type": "content_block_delta", "index": index, "delta": delta}

    def _call(self, index: int, call_id: str, tool: str, arguments: Json) -> list[Json]:
        raw = json.dumps(arguments)
        block = {"type": "tool_use", "id": call_id, "name": tool, "input": {}}
        return [
            {"type": "content_block_start", "index": index, "content_block": block},
            self._delta(index, type="input_json_delta", partial_json=raw[:5]),
            self._delta(index, type="input_json_delta", partial_json=raw[5:]),
            {"type": "content_block_stop", "index": index},
        ]

    @staticmethod
    def _ending(reason: str) -> list[Json]:
        stop = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}
        return [stop, {"type": "message_stop"}]


class TestAnthropic(AnthropicWire):
    def provider(self) -> Provider:
        return AnthropicProvider()


class TestAnthropicOnVertex(AnthropicWire):
    def provider(self) -> Provider:
        return AnthropicVertexProvider()

    def options(self) -> StreamOptions:
        return StreamOptions(access_token=self.secret, project="p", location="l")


class TestAnthropicOnBedrock(AnthropicWire):
    def provider(self) -> Provider:
        return BedrockInvokeProvider()

    def body(self, events: list[Json]) -> bytes:
        chunks = ({"bytes": base64.b64encode(json.dumps(event).encode()).decode()} for event in events)
        return b"".join(aws_frame("chunk", chunk) for chunk in chunks)


class ResponsesWire(SseContract):
    """OpenAI's Responses events."""

    def said(self, name: Case) -> list[Json]:
        events: list[Json] = [{"type": "response.created", "response": {"id": "r"}}]
        if name == "tools":
            events += [*self._call(0, "call_1", "ls", LS), *self._call(1, "call_2", "read", README)]
            return [*events, self._ending()]
        pieces = ("Hel", "lo ", "world") if name == "text" else ("Hel",)
        events += [{"type": "response.output_text.delta", "output_index": 0, "delta": piece} for piece in pieces]
        if name == "text":
            item = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hello world"}]}
            return [*events, {"type": "response.output_item.done", "output_index": 0, "item": item}, self._ending()]
        return events if name == "stalled" else [*events, *self._call(1, "call_1", "ls", LS)[:2]]

    @staticmethod
    def _call(index: int, call_id: str, tool: str, arguments: Json) -> list[Json]:
        raw = json.dumps(arguments)
        item = {"type": "function_call", "id": f"fc_{index}", "call_id": call_id, "name": tool}
        delta = {"type": "response.function_call_arguments.delta", "output_index": index}
        return [
            {"type": "response.output_item.added", "output_index": index, "item": item | {"arguments": ""}},
            delta | {"delta": raw[:5]},
            delta | {"delta": raw[5:]},
            {"type": "response.output_item.done", "output_index": index, "item": item | {"arguments": raw}},
        ]

    @staticmethod
    def _ending() -> Json:
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        return {"type": "response.completed", "response": {"id": "r", "status": "completed", "usage": usage}}


class TestOpenAIResponses(ResponsesWire):
    def provider(self) -> Provider:
        return OpenAIResponsesProvider()


class TestAzureResponses(ResponsesWire):
    def provider(self) -> Provider:
        return AzureResponsesProvider()


class TestCodex(ResponsesWire):
    _claims: ClassVar[bytes] = json.dumps({CLAIM: {"chatgpt_account_id": "acc-0123456789"}}).encode()
    secret: ClassVar[str] = f"e30.{base64.urlsafe_b64encode(_claims).rstrip(b'=').decode()}.c2lnbmF0dXJl"

    def provider(self) -> Provider:
        return CodexProvider()


class TestAzureCompletions(SseContract):
    def provider(self) -> Provider:
        return AzureCompletionsProvider()

    def said(self, name: Case) -> list[Json]:
        def chunk(reason: str | None = None, **delta: Any) -> Json:
            return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

        def call(index: int, tool: str, arguments: Json) -> Json:
            function = {"name": tool, "arguments": json.dumps(arguments)}
            return chunk(tool_calls=[{"index": index, "id": f"call_{index}", "function": function}])

        events: list[Json] = [{"choices": [], "prompt_filter_results": []}]
        usage = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}
        if name == "tools":
            return [*events, call(0, "ls", LS), call(1, "read", README), chunk("tool_calls"), usage]
        if name == "text":
            return [*events, *(chunk(content=piece) for piece in ("Hel", "lo ", "world")), chunk("stop"), usage]
        half = chunk(tool_calls=[{"index": 0, "id": "call_0", "function": {"name": "ls", "arguments": '{"p'}}])
        return [*events, chunk(content="Hel"), *([half] if name == "truncated" else [])]


class GoogleWire(SseContract):
    """Gemini's chunks."""

    refusal: ClassVar[Json] = {"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "No"}}
    slow_down: ClassVar[Json] = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Slow down"}}

    def said(self, name: Case) -> list[Json]:
        def chunk(*parts: Json, reason: str | None = None) -> Json:
            candidate = {"content": {"parts": list(parts)}} | ({"finishReason": reason} if reason else {})
            usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
            return {"candidates": [candidate], "usageMetadata": usage}

        def call(tool: str, arguments: Json) -> Json:
            return {"functionCall": {"name": tool, "args": arguments}}

        if name == "tools":
            return [chunk(call("ls", LS), call("read", README), reason="STOP")]
        if name == "text":
            return [chunk({"text": "Hel"}), chunk({"text": "lo "}), chunk({"text": "world"}, reason="STOP")]
        half = chunk({"functionCall": {"name": "ls", "willContinue": True}})
        return [chunk({"text": "Hel"}), *([half] if name == "truncated" else [])]


class TestGoogle(GoogleWire):
    def provider(self) -> Provider:
        return GoogleProvider()


class TestVertex(GoogleWire):
    def provider(self) -> Provider:
        return VertexProvider()

    def options(self) -> StreamOptions:
        return StreamOptions(access_token=self.secret, project="p", location="l")


class TestGeminiCli(GoogleWire):
    secret: ClassVar[str] = json.dumps({"token": "ya29.token-0123456789", "projectId": "p"})

    def provider(self) -> Provider:
        return GeminiCliProvider()

    def said(self, name: Case) -> list[Json]:
        return [{"response": chunk} for chunk in super().said(name)]


class TestMistral(SseContract):
    refusal: ClassVar[Json] = {"detail": "Invalid API Key"}
    slow_down: ClassVar[Json] = {"object": "error", "message": "Requests rate limit exceeded", "type": "x"}

    def provider(self) -> Provider:
        return MistralProvider()

    def said(self, name: Case) -> list[Json]:
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

        def chunk(content: str = "", reason: str | None = None, calls: Any = None) -> Json:
            delta = {"content": content} | ({"tool_calls": calls} if calls else {})
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            return {"id": "m", "choices": [choice]} | ({"usage": usage} if reason else {})

        def call(call_id: str, tool: str, raw: str) -> Json:
            return {"id": call_id, "function": {"name": tool, "arguments": raw}}

        if name == "tools":
            calls = [call("aaaaaaaaa", "ls", json.dumps(LS)), call("bbbbbbbbb", "read", json.dumps(README))]
            return [chunk("", "tool_calls", calls)]
        if name == "text":
            return [chunk("Hel"), chunk("lo "), chunk("world", "stop")]
        return [chunk("Hel"), *([chunk(calls=[call("aaaaaaaaa", "ls", '{"p')])] if name == "truncated" else [])]


class TestOllama(SseContract):
    refusal: ClassVar[Json] = {"error": "unauthorized"}
    slow_down: ClassVar[Json] = {"error": "too many requests"}

    def provider(self) -> Provider:
        return OllamaProvider()

    def body(self, events: list[Json]) -> bytes:
        return b"".join(json.dumps(event).encode() + b"\n" for event in events)

    def said(self, name: Case) -> list[Json]:
        last = {"message": {"content": ""}, "done": True, "prompt_eval_count": 10, "eval_count": 5}

        def call(tool: str, arguments: Json) -> Json:
            return {"function": {"name": tool, "arguments": arguments}}

        if name == "tools":
            return [{"message": {"tool_calls": [call("ls", LS), call("read", README)]}}, last]
        pieces = ("Hel", "lo ", "world") if name == "text" else ("Hel",)
        return [*({"message": {"content": piece}} for piece in pieces), *([last] if name == "text" else [])]


class ConverseWire(SseContract):
    """Bedrock's frames."""

    refusal: ClassVar[Json] = {"message": "The security token included in the request is invalid."}
    slow_down: ClassVar[Json] = {"message": "Too many requests"}

    def body(self, events: list[Json]) -> bytes:
        return b"".join(aws_frame(kind, payload) for event in events for kind, payload in event.items())

    def said(self, name: Case) -> list[Json]:
        def delta(index: int, **what: Any) -> Json:
            return {"contentBlockDelta": {"contentBlockIndex": index, "delta": what}}

        def call(index: int, tool: str, arguments: Json) -> list[Json]:
            raw = json.dumps(arguments)
            start = {"toolUse": {"toolUseId": f"t{index}", "name": tool}}
            pieces = [delta(index, toolUse={"input": piece}) for piece in (raw[:5], raw[5:])]
            begin = {"contentBlockStart": {"contentBlockIndex": index, "start": start}}
            return [begin, *pieces, {"contentBlockStop": {"contentBlockIndex": index}}]

        usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
        begin: Json = {"messageStart": {"role": "assistant"}}
        if name == "tools":
            ending = [{"messageStop": {"stopReason": "tool_use"}}, {"metadata": {"usage": usage}}]
            return [begin, *call(0, "ls", LS), *call(1, "read", README), *ending]
        pieces = ("Hel", "lo ", "world") if name == "text" else ("Hel",)
        events = [begin, *(delta(0, text=piece) for piece in pieces)]
        if name == "text":
            return [*events, {"messageStop": {"stopReason": "end_turn"}}, {"metadata": {"usage": usage}}]
        return events if name == "stalled" else [*events, *call(1, "ls", LS)[:2]]


class TestBedrock(ConverseWire):
    def provider(self) -> Provider:
        return BedrockProvider()


class TestBedrockInOnePiece(ConverseWire):
    """Converse without streaming: nothing is known before the last byte, so a cut answer said nothing yet."""

    def provider(self) -> Provider:
        return BedrockWholeProvider()

    def body(self, events: list[Json]) -> bytes:
        (event,) = events
        return json.dumps(event["document"]).encode()

    def said(self, name: Case) -> list[Json]:
        usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
        content: list[Json] = [{"text": "Hello "}, {"text": "world"}]
        if name == "tools":
            calls = (("t1", "ls", LS), ("t2", "read", README))
            content = [{"toolUse": {"toolUseId": key, "name": tool, "input": given}} for key, tool, given in calls]
        reason = "tool_use" if name == "tools" else "end_turn"
        return [{"document": {"output": {"message": {"content": content}}, "stopReason": reason, "usage": usage}}]

    def wire(self, name: Case) -> Wire:
        status, headers, body = super().wire(name)
        return status, headers, body[:30] if name in ("truncated", "stalled") else body

    async def test_an_answer_that_breaks_off_is_an_error_and_none_of_its_calls_can_run(self) -> None:
        last = (await self.events("truncated"))[-1]

        assert isinstance(last, StreamError)
        assert isinstance(last.error, StreamTruncated)
        assert last.message.content == ()

    async def test_closing_the_generator_ends_the_call_at_once(self) -> None:
        """There is no event to leave at: the caller is canceled instead, and the connection closes."""
        async with self.case("stalled") as (provider, request):
            try:
                async with asyncio.timeout(0.2):
                    async for _ in provider.stream(request):
                        raise AssertionError("nothing can be said yet")
            except TimeoutError:
                return
        raise AssertionError("the call ended by itself")
