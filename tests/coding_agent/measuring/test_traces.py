"""Runs as OpenTelemetry spans, received by a collector on this machine."""

import asyncio
import gzip
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from attrs import define, evolve, field
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from coding_agent import client
from coding_agent.errors import BadUsage
from coding_agent.measuring.traces import Traces, wants_content
from coding_agent.session_supervisor import start_session
from coding_agent.subagents.delegate import with_subagents
from lemon_agent import AgentTool, ToolError, text_result
from lemon_ai.testing import Call, Delay, Fail, Say, ScriptedModel
from lemon_otp import receive, self_pid, sleep_s, telemetry
from lemon_otp.testing import settle

SECRET = "sk-abcdefghijklmnop0123456789"


@define
class Collector:
    """What an OTLP/HTTP collector was sent."""

    url: str = ""
    spans: list = field(factory=list)
    paths: list = field(factory=list)
    raw: bytes = b""

    def named(self, name: str) -> list:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str):
        (span,) = self.named(name)
        return span

    def below(self, span) -> list[str]:
        return sorted(child.name for child in self.spans if child.parent_span_id == span.span_id)


@asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    got = Collector()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
                body = await reader.readexactly(int(headers["content-length"]))
                if headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                got.raw += body
                got.paths.append(lines[0].split()[1])
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        got.spans.extend(scope.spans)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    got.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield got
    finally:
        server.close()


def attributes(span) -> dict:
    found = {}
    for pair in span.attributes:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        found[pair.key] = [one.string_value for one in value.values] if kind == "array_value" else value
    return found


async def look(call_id, params, signal, on_update):
    if params.get("how") == "badly":
        raise ToolError(f"it failed with {SECRET}")
    return text_result(f"seen, {SECRET}")


CALM = {"follow_up_window_ms": 0}
LOOK = AgentTool("look", "Looks.", {"type": "object", "properties": {"how": {"type": "string"}}}, look)


async def test_a_run_with_a_tool_and_a_subagent_is_one_tree_of_spans(host):
    """
    invoke_agent holds chat and execute_tool; the task tool's span holds the subagent's invoke_agent, which holds its
    own chat. All are of one trace, and each has what the conventions ask for.
    """
    async with collector() as got:
        traces = Traces.start(got.url, environ={})
        model = ScriptedModel(
            [Call("look", {})], [Call("task", {"prompt": "go and see", "description": "d"})], "Child says.", "Done."
        )
        session = await start_session(with_subagents(await host.options(model, tools=(LOOK,))))
        await client.subscribe(session, self_pid())
        await host.run(session, f"please, {SECRET}")
        assert await traces.stop() == 0

    [child_run] = got.named("invoke_agent subagent")
    run = got.one("invoke_agent lemon")
    task = got.one("execute_tool task")
    assert run.parent_span_id == b""
    assert got.below(run) == ["chat test", "chat test", "chat test", "execute_tool look", "execute_tool task"]
    assert got.below(task) == ["invoke_agent subagent"]
    assert got.below(child_run) == ["chat test"]
    assert len({span.trace_id for span in got.spans}) == 1
    assert set(got.paths) == {"/v1/traces"}
    chat = attributes(got.named("chat test")[0])
    assert (chat["gen_ai.operation.name"], chat["gen_ai.provider.name"]) == ("chat", "scripted")
    assert chat["gen_ai.response.finish_reasons"] == ["tool_use"]
    assert chat["gen_ai.usage.output_tokens"] > 0
    assert attributes(got.one("execute_tool look"))["gen_ai.tool.call.id"]
    assert attributes(run)["gen_ai.conversation.id"] == attributes(task)["gen_ai.conversation.id"]
    assert attributes(run)["gen_ai.conversation.id"] != attributes(child_run)["gen_ai.conversation.id"]
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano > 0 for span in got.spans)
    assert all(span.status.code == 0 for span in got.spans)


async def test_a_subagent_that_goes_on_by_itself_stays_in_the_trace(host):
    """Its run begins when the call, and maybe the run that made it, is over: it is below what asked for it."""
    async with collector() as got:
        traces = Traces.start(got.url, environ={})
        later = [Call("task", {"prompt": "go", "description": "d", "async": True})]
        model = ScriptedModel(later, "Meanwhile.", "Child says.", "I have heard.", "More.")
        session = await start_session(with_subagents(await host.options(model, agent_settings=CALM)))
        await client.subscribe(session, self_pid())
        ended = []
        telemetry.attach("ends", ("lemon_agent", "loop", "end"), lambda *event: ended.append(event[2]["session_id"]))
        await client.prompt(session, "please")
        while len(set(ended)) < 2:
            await sleep_s(0.02)
        await client.wait_for_idle(session)
        await traces.stop()

    child = got.one("invoke_agent subagent")
    above = {span.span_id: span for span in got.spans}[child.parent_span_id]
    assert above.name in ("execute_tool task", "invoke_agent lemon")
    assert child.trace_id == above.trace_id


@pytest.mark.requirement("TEL-12")
async def test_no_span_holds_what_was_said_unless_it_was_asked_for(host):
    """Prompts, answers, arguments and results stay here; the bytes on the wire show none of them."""
    async with collector() as got:
        traces = Traces.start(got.url, environ={})
        options = await host.options(ScriptedModel([Call("look", {"how": "calmly"})], "An answer."), tools=(LOOK,))
        session = await start_session(traces.of(options))
        await client.subscribe(session, self_pid())
        await host.run(session, "a prompt")
        await traces.stop()

    assert got.spans
    for text in (b"a prompt", b"An answer", b"calmly", b"seen", SECRET.encode()):
        assert text not in got.raw


async def test_with_content_spans_hold_what_was_said_without_credentials(host):
    """Messages, arguments and results are attributes of their spans, and keys in them are hidden."""
    async with collector() as got:
        traces = Traces.start(got.url, environ={}, content=True)
        options = await host.options(ScriptedModel([Call("look", {"how": "calmly"})], "An answer."), tools=(LOOK,))
        session = await start_session(traces.of(options))
        await client.subscribe(session, self_pid())
        await host.run(session, f"a prompt with {SECRET}")
        await traces.stop()

    chats = [attributes(span) for span in got.named("chat test")]
    tool = attributes(got.one("execute_tool look"))
    assert "a prompt with" in chats[0]["gen_ai.input.messages"]
    assert "An answer." in chats[1]["gen_ai.output.messages"]
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"how": "calmly"}
    assert "seen" in tool["gen_ai.tool.call.result"]
    assert SECRET.encode() not in got.raw


@pytest.mark.parametrize(("way", "failed"), [("tool", "tool_error"), ("model", "AuthFailed"), ("abort", "aborted")])
async def test_what_fails_or_is_aborted_is_an_error_span(host, way, failed):
    """The span of what failed says so, with one word for why and without the text of the failure."""
    turns = {
        "tool": [[Call("look", {"how": "badly"})], "Done."],
        "model": [[Fail("auth", message=f"no, {SECRET}")]],
        "abort": [[Say("Hel"), Delay(60_000), Say("lo")]],
    }[way]
    async with collector() as got:
        traces = Traces.start(got.url, environ={})
        session = await host.session(*turns, tools=(LOOK,))
        await client.prompt(session, "go")
        if way == "abort":
            while (await receive()).event.type != "message_update":
                pass
            await client.abort(session)
        await host.until_settled()
        await settle()
        await traces.stop()

    name = "execute_tool look" if way == "tool" else "chat test"
    bad = [span for span in got.named(name) if span.status.code == 2]
    assert [attributes(span)["error.type"] for span in bad] == [failed]
    run = got.one("invoke_agent lemon")
    assert attributes(run)["lemon.outcome"] == {"tool": "completed", "model": "error", "abort": "aborted"}[way]
    assert (run.status.code == 2) == (way != "tool")
    assert SECRET.encode() not in got.raw


async def test_the_trace_goes_on_at_both_ends(host):
    """A TRACEPARENT of the environment is the run's parent; the model call carries a traceparent of its own."""
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    async with collector() as got:
        traces = Traces.start(got.url, environ={"TRACEPARENT": f"00-{trace}-{span}-01"})
        model = ScriptedModel("Hello.")
        session = await start_session(await host.options(model))
        await client.subscribe(session, self_pid())
        await host.run(session, "go")
        await traces.stop()

    run, chat = got.one("invoke_agent lemon"), got.one("chat test")
    assert (run.trace_id.hex(), run.parent_span_id.hex()) == (trace, span)
    sent = model.requests[0].options.headers["traceparent"]
    assert sent == f"00-{trace}-{chat.span_id.hex()}-01"


async def test_a_tools_own_spans_belong_to_its_call(host):
    """Whatever a tool traces with OpenTelemetry itself has the tool's span as its parent."""
    seen = []

    async def traced(call_id, params, signal, on_update):
        from opentelemetry.trace import get_current_span

        seen.append(get_current_span().get_span_context().span_id)
        return text_result("done")

    async with collector() as got:
        traces = Traces.start(got.url, environ={})
        session = await host.session([Call("t", {})], "Done.", tools=(evolve(LOOK, name="t", execute=traced),))
        await host.run(session, "go")
        await traces.stop()

    assert [got.one("execute_tool t").span_id.hex()] == [format(one, "016x") for one in seen]


async def test_whatever_a_model_calls_a_tool_the_spans_arrive(host):
    """Half a surrogate pair in a name cannot be encoded: it is replaced, and no other span is lost with it."""
    async with collector() as got:
        traces = Traces.start(got.url, environ={}, content=True)
        options = traces.of(
            await host.options(ScriptedModel([Call("half \ud800 pair", {"a": "\udfff"})], "Bye \ud800."))
        )
        session = await start_session(options)
        await client.subscribe(session, self_pid())
        await host.run(session, "go \ud800")
        await traces.stop()
    assert got.one("execute_tool half ? pair")
    assert len(got.named("chat test")) == 2
    assert got.one("invoke_agent lemon")


async def test_a_collector_that_is_not_there_costs_the_host_no_more_than_the_last_wait(host):
    """Spans go nowhere, nothing is raised, the run is as ever, and stopping is bounded."""
    traces = Traces.start("http://127.0.0.1:9", environ={})
    session = await host.session("Hello.")
    events = await host.run(session, "go")
    async with asyncio.timeout(20):
        lost = await traces.stop()

    assert lost == 2  # the run and its one call
    assert events[-1].event.outcome == "completed"
    assert telemetry.list_handlers() == []


@pytest.mark.parametrize("bad", ["localhost:4318", "ftp://x", "nonsense"])
async def test_an_endpoint_that_is_no_address_is_refused(host, bad):
    """One line that says what to give; nothing is attached."""
    with pytest.raises(BadUsage, match="such as http://localhost:4318"):
        Traces.start(bad, environ={})
    assert telemetry.list_handlers() == []


def test_only_a_clear_yes_asks_for_content():
    """The standard variable switches it on; anything else leaves it off."""
    name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    assert wants_content({name: "true"})
    assert not any(wants_content(environ) for environ in ({}, {name: ""}, {name: "false"}, {name: "no"}))


def test_a_host_without_traces_imports_nothing_of_opentelemetry():
    """The module that makes spans costs a start nothing until it is asked."""
    asked = "any(name.startswith('opentelemetry') for name in sys.modules)"
    code = f"import sys, coding_agent.measuring.traces; print({asked})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
