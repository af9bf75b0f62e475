"""Edge. Runs as OpenTelemetry spans: invoke_agent, in it chat and execute_tool, in a tool the runs of its subagents.

Names and attributes follow OpenTelemetry's conventions for generative AI. A plain telemetry handler makes the spans;
the SDK's batch processor sends them from a thread of its own, out of a bounded queue. Where it is not started nothing
is imported and nothing costs. No span holds prompts, answers, arguments or results unless `content` was asked for, and
then without what looks like a credential.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from typing import cast as typed
from weakref import WeakValueDictionary

from attrs import define, evolve, field

import lemon_ai
from coding_agent.errors import BadUsage
from coding_agent.measuring.steps import Step, Steps
from lemon_agent import AgentTool, AgentToolResult
from lemon_ai import Context, Model, StreamOptions, message_to_wire, redact
from lemon_otp import EventStream, Pid, Task, self_pid

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer

    from coding_agent.session.options import SessionOptions

HANDLER_ID: Final = "coding_agent.traces"
TRACES: Final = "traces"
"""Where a host keeps its `Traces` in the environment of the application."""
SERVICE: Final = "lemon"
SHUTDOWN_S: Final = 3.0
"""What is still to be sent when the host ends has this long."""
CONTENT_CHARS_MAX: Final = 8_000
CONTENT_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

PROVIDERS: Final[Mapping[str, str]] = {
    "amazon_bedrock": "aws.bedrock",
    "azure_openai": "azure.ai.openai",
    "google": "gcp.gemini",
    "google_gemini_cli": "gcp.gemini",
    "google_vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "openai_codex": "openai",
    "xai": "x_ai",
}
"""Providers that the conventions call otherwise than we do."""


@define(eq=False)
class Traces:
    """The spans of one host, from `start` to `stop`.

    Attributes:
        content: Whether spans hold what was said.
    """

    content: bool
    _provider: "TracerProvider"
    _tracer: "Tracer"
    _sending: "_Sending"
    _steps: Steps = field(init=False)
    _spans: dict[Step, "Span"] = field(factory=dict)
    _calls: dict[Pid, Step] = field(factory=dict)
    _answers: WeakValueDictionary[int, EventStream[Any, Any]] = field(factory=WeakValueDictionary)

    @classmethod
    def start(cls, endpoint: str | None = None, *, environ: Mapping[str, str], content: bool = False) -> "Traces":
        """Make spans from now on and send them by OTLP over HTTP.

        Args:
            endpoint: The collector, such as `http://localhost:4318`; without one the standard `OTEL_*` variables say.
            environ: Where `TRACEPARENT` may name the span that the runs belong to.
            content: Put what was said into the spans.

        Raises:
            BadUsage: The extra is not installed, or the endpoint is no address.
            AlreadyRegistered: This runtime makes spans already.
        """
        try:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as missing:
            raise BadUsage("--otel needs an extra: pip install 'lemon-agents[otel]'") from missing
        from opentelemetry.propagate import extract
        from opentelemetry.trace import INVALID_SPAN, get_current_span

        named = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": SERVICE}
        provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
        sending = _Sending(_exporter(endpoint))
        provider.add_span_processor(BatchSpanProcessor(typed("SpanExporter", sending)))
        traces = cls(content, provider, provider.get_tracer("coding_agent"), sending)
        carried = {name.lower(): environ[name] for name in ("TRACEPARENT", "TRACESTATE") if environ.get(name)}
        around = extract(carried, context=_empty())
        outside = get_current_span(around) is not INVALID_SPAN
        traces._steps = Steps(partial(traces._begin, around if outside else None), traces._end, traces._enter)
        traces._steps.start(HANDLER_ID)
        return traces

    async def stop(self) -> int:
        """Make no more spans; what there is is sent, for at most `SHUTDOWN_S`. Returns how many nobody took."""
        self._steps.stop()
        self._spans.clear()
        flush = Task.async_(self._provider.shutdown, on="thread")
        if await flush.yield_(SHUTDOWN_S) is None:  # nobody takes them: the host ends all the same
            await flush.shutdown("brutal_kill")
        return self._sending.begun - self._sending.taken

    # From steps to spans.

    def _begin(self, around: Any, step: Step) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context

        if step.kind == "turn":
            return
        parent = None if step.parent is None else self._spans.get(step.parent) or step.parent.facts.get("span")
        context = set_span_in_context(parent, _empty()) if parent is not None else (around or _empty())
        kind = SpanKind.CLIENT if step.kind == "model" else SpanKind.INTERNAL
        span = self._tracer.start_span(_name(step), context, kind, _first_attributes(step))
        self._spans[step] = span
        if step.kind != "model":
            step.facts["span"] = span  # a subagent may begin when what asked for it is over
        if step.kind == "model":
            if self.content:
                self._calls[self_pid()] = step
            _inject(step.facts.get("headers"), span)

    def _end(self, step: Step) -> None:
        from opentelemetry.trace import Status, StatusCode

        span = self._spans.pop(step, None)
        if span is None:
            return
        span.set_attributes(_last_attributes(step))
        if step.failure is not None:
            failure = _sayable(step.failure)
            span.set_attribute("error.type", failure)
            span.set_status(Status(StatusCode.ERROR, failure))
        if self.content and step.kind == "model":
            self._calls = {pid: call for pid, call in self._calls.items() if call is not step}
            answer = self._answers.pop(step.facts["call_id"], None)
            message = None if answer is None else getattr(answer.outcome, "value", None)
            if message is not None and hasattr(message, "role"):
                span.set_attribute("gen_ai.output.messages", _shown([message_to_wire(message)]))
        span.end()

    def _enter(self, step: Step) -> None:
        """In a tool's own process: what the tool itself traces belongs to its span."""
        from opentelemetry.context import attach
        from opentelemetry.trace import set_span_in_context

        if (span := self._spans.get(step)) is not None:
            attach(set_span_in_context(span))

    # What was said, where somebody asked for it.

    def of(self, options: "SessionOptions") -> "SessionOptions":
        """The options of a session whose spans hold what was said, if that was asked for; else the same options."""
        settings = dict(options.agent_settings)
        if not self.content or hasattr(settings.get("stream_fn"), "is_traced"):  # a subagent's options are its parent's
            return options
        settings["stream_fn"] = self._spoken(settings.get("stream_fn") or lemon_ai.stream)
        tools = tuple(tool if tool.runs_on == "process" else self._told(tool) for tool in options.tools)
        return evolve(options, agent_settings=settings, tools=tools)

    def _spoken(self, stream_fn: Callable[..., Any]) -> Callable[..., Any]:
        async def speak(model: Model, context: Context, options: StreamOptions) -> Any:
            opening = stream_fn(model, context, options)
            source = await opening if hasattr(opening, "__await__") else opening
            step = self._calls.pop(self_pid(), None)
            span = None if step is None else self._spans.get(step)
            if step is not None and span is not None:
                said = [message_to_wire(message) for message in context.messages]
                span.set_attribute("gen_ai.input.messages", _shown(said))
                span.set_attribute("gen_ai.system_instructions", _shown(context.system_prompt or ""))
                if isinstance(source, EventStream):
                    self._answers[step.facts["call_id"]] = source
            return source

        speak.is_traced = True  # type: ignore[attr-defined]
        return speak

    def _told(self, tool: AgentTool) -> AgentTool:
        execute = tool.execute

        def note(arguments: Mapping[str, Any], result: Any) -> None:
            from opentelemetry.trace import get_current_span

            span = get_current_span()
            span.set_attribute("gen_ai.tool.call.arguments", _shown(dict(arguments)))
            if isinstance(result, AgentToolResult):
                span.set_attribute(
                    "gen_ai.tool.call.result", _shown([str(getattr(b, "text", "")) for b in result.content])
                )

        if tool.runs_on == "loop":

            async def told(call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> Any:
                answer = execute(call_id, params, signal, on_update)
                result = await answer if hasattr(answer, "__await__") else answer
                note(params, result)
                return result

            return evolve(tool, execute=told)

        def told_in_thread(call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> Any:
            result = execute(call_id, params, signal, on_update)
            note(params, result)
            return result

        return evolve(tool, execute=told_in_thread)


class _Sending:
    """The library's exporter, which says to a log alone that nobody took what it sent; here it is counted.

    Attributes:
        begun, taken: Spans that were to be sent, and those that a collector took. Counted by the thread that sends.
    """

    def __init__(self, exporter: Any) -> None:
        self.begun = 0
        self.taken = 0
        self._exporter = exporter

    def export(self, spans: Sequence[Any]) -> Any:
        from opentelemetry.sdk.trace.export import SpanExportResult

        self.begun += len(spans)
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.taken += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return bool(self._exporter.force_flush(timeout_millis))


def wants_content(environ: Mapping[str, str]) -> bool:
    """Whether the standard variable asks for what was said."""
    return environ.get(CONTENT_VARIABLE, "").strip().lower() in ("1", "true", "yes", "span_only", "span_and_event")


# Spans, purely.


def _name(step: Step) -> str:
    return f"{ {'run': 'invoke_agent', 'model': 'chat', 'tool': 'execute_tool'}[step.kind] } {_sayable(step.name)}"


def _sayable(value: Any) -> Any:
    """The value as it can be sent: a text with half a surrogate pair, which models may write, would lose the batch."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    return [_sayable(one) for one in value] if isinstance(value, list) else value


def _first_attributes(step: Step) -> dict[str, Any]:
    """What is known when a step begins, by the names of the conventions; samplers see these."""
    facts = step.facts
    if step.kind == "run":
        found = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": step.name,
            "gen_ai.request.model": facts.get("model"),
            "lemon.message_count": facts.get("message_count"),
            "lemon.tool_count": facts.get("tool_count"),
        }
    elif step.kind == "model":
        found = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": PROVIDERS.get(str(facts.get("provider")), facts.get("provider")),
            "gen_ai.request.model": facts.get("model"),
            "gen_ai.request.stream": True,
            "server.address": facts.get("server"),
            "lemon.api": facts.get("api"),
        }
    else:
        found = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": step.name,
            "gen_ai.tool.call.id": facts.get("tool_call_id"),
            "gen_ai.tool.type": "function",
        }
    found["gen_ai.conversation.id"] = step.session_id
    return {name: _sayable(value) for name, value in found.items() if value is not None}


def _last_attributes(step: Step) -> dict[str, Any]:
    """What is known when a step has ended."""
    facts = step.facts
    if step.kind == "run":
        found = {"lemon.outcome": facts.get("outcome"), "lemon.turns": facts.get("turns")}
    elif step.kind == "model" and "duration_s" in facts:
        read, written = facts["cache_read_tokens"], facts["cache_write_tokens"]
        found = {
            "gen_ai.response.model": facts.get("response_model"),
            "gen_ai.response.id": facts.get("response_id"),
            "gen_ai.response.finish_reasons": [str(facts["stop_reason"])],
            "gen_ai.response.time_to_first_chunk": facts.get("first_s"),
            "gen_ai.usage.input_tokens": facts["input_tokens"] + read + written,
            "gen_ai.usage.output_tokens": facts["output_tokens"],
            "gen_ai.usage.cache_read.input_tokens": read or None,
            "gen_ai.usage.cache_creation.input_tokens": written or None,
            "lemon.cost_dollars": facts.get("cost") or None,
        }
    elif step.kind == "tool":
        found = {"lemon.attempts": facts.get("attempt")}
    else:
        found = {}
    return {name: _sayable(value) for name, value in found.items() if value is not None}


def _shown(value: Any) -> str:
    """Text of a conversation as an attribute: without credentials, and not longer than it may be."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = _sayable(redact(text))
    return text if len(text) <= CONTENT_CHARS_MAX else f"{text[: CONTENT_CHARS_MAX - 1]}…"


def _inject(headers: Any, span: "Span") -> None:
    from opentelemetry.propagate import inject
    from opentelemetry.trace import set_span_in_context

    if isinstance(headers, dict):
        inject(headers, context=set_span_in_context(span, _empty()))


def _empty() -> Any:
    from opentelemetry.context import Context as OtelContext

    return OtelContext()


def _exporter(endpoint: str | None) -> Any:
    from urllib.parse import urlsplit

    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    if not endpoint:
        return OTLPSpanExporter()
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadUsage(f"--otel {endpoint!r} is no address; give one such as http://localhost:4318")
    path = parts.path.rstrip("/")
    return OTLPSpanExporter(
        endpoint=parts._replace(path=path if path.endswith("/v1/traces") else f"{path}/v1/traces").geturl()
    )
