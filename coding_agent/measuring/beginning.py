"""Edge. What a start of the host measures and shows of itself: metrics, traces, the observer page; each by its flag.

Without a flag nothing is imported, attached or listened at.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from coding_agent.arguments import Arguments
from coding_agent.errors import BadUsage
from lemon_ai import is_loopback, is_offline, redact
from lemon_otp import define, put_env

if TYPE_CHECKING:
    from coding_agent.measuring.traces import Traces


@define(eq=False)
class Measuring:
    """What was begun for one start; `end` when all else has ended, so that nothing of it is missed."""

    traces: "Traces | None" = None
    collector: str = ""

    async def end(self) -> None:
        """Send what is still to be sent, and say on standard error when nobody took it."""
        if self.traces is not None and (lost := await self.traces.stop()):
            spans = "1 span was" if lost == 1 else f"{lost} spans were"
            _say("traces", f"{spans} not taken at {self.collector}; does a collector run there?")


async def begin(arguments: Arguments, environ: Mapping[str, str]) -> Measuring:
    """Begin what the command line asks for; addresses to open are told on standard error.

    Raises:
        BadUsage: An address cannot be used, or an extra is not installed; the text says which.
    """
    measuring = Measuring()
    if arguments.otel is not None:
        from coding_agent.measuring.traces import TRACES, Traces, wants_content

        measuring.collector = _collector(arguments.otel, environ)
        content = arguments.otel_content or wants_content(environ)
        measuring.traces = Traces.start(arguments.otel or None, environ=environ, content=content)
        put_env("coding_agent", TRACES, measuring.traces)
    if arguments.metrics is not None:
        from coding_agent.measuring.loop_lag import measure_loop_lag
        from coding_agent.metrics import METRICS, Metrics

        metrics = Metrics.start()
        put_env("coding_agent", METRICS, metrics)
        await measure_loop_lag()
        if arguments.metrics:
            from coding_agent.metrics.metrics_endpoint import serve_metrics

            _say("metrics", await serve_metrics(metrics, arguments.metrics))
    if arguments.observe is not None:
        from coding_agent.observer.observer import observe

        _say("observer", await observe(arguments.observe))
    return measuring


def _collector(address: str, environ: Mapping[str, str]) -> str:
    """Where spans go, as it can be shown."""
    variables = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    target = address or next(filter(None, map(environ.get, variables)), "http://localhost:4318")
    if is_offline() and not is_loopback(target if "://" in target else f"http://{target}"):
        raise BadUsage(f"spans would go to {redact(target)}, which is on another machine, and this start is offline")
    return redact(target)


def _say(what: str, words: str) -> None:
    print(f"{what}: {words}", file=sys.stderr, flush=True)
