"""What the packages say by telemetry, read from where they say it: `python -m tests.telemetry_catalogue --write`.

The page is made from the emit sites and from `MEANING`, a sentence for each event; an event without a sentence, a
sentence without an event, and a page that is not what would be made now are faults that tests find.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lemon_otp", "lemon_ai", "lemon_agent", "coding_agent")
PAGE = ROOT / "docs" / "reference" / "telemetry.md"


DECIDED_THERE = {
    ("lemon_ai", "circuit_breaker"): ("opened", "half_opened", "closed", "reopened"),
}
"""Events whose last word is looked up while running; each word is checked to stand in the package's source."""

MEANING: dict[str, str] = {
    "lemon_otp.supervisor.restart": "A child was started again.",
    "lemon_otp.supervisor.start_error": "A child did not start.",
    "lemon_otp.supervisor.give_up": "A supervisor ended because its children failed too often.",
    "lemon_otp.supervisor.child_ended": "A child ended.",
    "lemon_otp.process.crash": "A process ended badly.",
    "lemon_otp.process.zombie": "A dead process's coroutine swallows its cancellation.",
    "lemon_otp.process.orphan_thread": "A thread goes on although its process has ended.",
    "lemon_otp.job.stop": "A background job ended.",
    "lemon_otp.telemetry.handler_failed": "A telemetry handler raised and was detached.",
    "lemon_otp.watchdog.held": "Something held the event loop up.",
    "lemon_ai.compacting_client.request_started": "A call that may compact on overflow was sent.",
    "lemon_ai.compacting_client.request_succeeded": "It was answered.",
    "lemon_ai.compacting_client.request_failed": "It failed for good.",
    "lemon_ai.compacting_client.compaction_retry": "The conversation was too long: it was compacted and is sent again.",
    "lemon_ai.dispatcher.dispatch": "A model call was admitted.",
    "lemon_ai.dispatcher.rejected": "A model call was refused before anything was sent.",
    "lemon_ai.circuit_breaker.opened": "A provider failed too often; calls to it rest.",
    "lemon_ai.circuit_breaker.half_opened": "One call is let through to see whether the provider works again.",
    "lemon_ai.circuit_breaker.closed": "The provider works again.",
    "lemon_ai.circuit_breaker.reopened": "The call that was let through failed as well.",
    "lemon_ai.prompt_diagnostics.llm_call": "How big the prompt of a model call was, and what of it was cached.",
    "lemon_ai.model_call.start": "A model call is asked for; headers that handlers put into `headers` go with it.",
    "lemon_ai.model_call.stop": "A model call is over, however it ended; once a call.",
    "lemon_ai.retry_helper.retry": "A model call is made again after a transient failure.",
    "lemon_agent.loop.start": "A run begins; once a run.",
    "lemon_agent.loop.end": "A run is over, on whatever path; once a run. Status is completed or early_exit.",
    "lemon_agent.loop.state_transition": "A run goes from one state to another.",
    "lemon_agent.tool_schema_snapshot.created": "The set of tools a model is offered was fixed.",
    "lemon_agent.tool_task.start": "A tool call is taken up; once a call.",
    "lemon_agent.tool_task.entered": "The process of an attempt has begun; said in that process.",
    "lemon_agent.tool_task.end": "A tool returned or raised; `attempt` counts its retries.",
    "lemon_agent.tool_task.error": "A call failed otherwise: crash, abort, timeout, unknown tool, bad arguments.",
    "lemon_agent.tool_task.retry": "An idempotent tool is about to be called again.",
    "lemon_agent.tool_task.orphaned": "A tool's own code goes on although its call was ended by force.",
    "lemon_agent.tool_result.emit": "A result message went into the transcript; once a call.",
    "lemon_agent.tool_call.name_normalized": "A model's tool name matched after its white space was put in order.",
    "lemon_agent.context.size": "How big a conversation is, before each model call.",
    "lemon_agent.context.warning": "A conversation is worryingly big.",
    "lemon_agent.context.truncated": "Messages were left out of a model call.",
    "lemon_agent.subagent.spawn": "A subagent was started.",
    "lemon_agent.subagent.end": "A subagent was stopped on request; one that crashes says nothing here.",
    "lemon_agent.subscriber.coalesced": "A subscriber fell behind: it gets only the newest of updates for now.",
    "lemon_agent.subscriber.resumed": "A subscriber has caught up.",
    "lemon_agent.subscriber.out_of_credit": "A run waits for a subscriber that is out of credit.",
    "lemon_agent.model_runtime.fallback": "A model call goes on with another credential or provider.",
    "coding_agent.subagent.start": "A subagent has its seat and begins; `asked_by` is the process that wants it.",
    "coding_agent.session.overflow_recovery.attempt": "A provider refused a conversation as too long: it is compacted.",
    "coding_agent.session.overflow_recovery.success": "It was, and the run goes on.",
    "coding_agent.session.overflow_recovery.failure": "It could not be, and the run ends with the provider's error.",
    "coding_agent.rate_limit_pause.paused": "Everybody who could answer asks for a wait too long to sleep through.",
    "coding_agent.loop_lag.sampled": "How late a timer of the event loop came; only where somebody measures.",
    "coding_agent.execute_code.stop": "A piece of Python code was run.",
    "coding_agent.permission.asked": "A tool call waits for a person to allow it.",
    "coding_agent.mcp_server.changed": "A server of the Model Context Protocol stands otherwise now.",
    "coding_agent.permission.decided": "A tool call was allowed or refused, and by whom.",
}


@frozen
class Site:
    """One place that executes an event; "*" stands for a part that is decided there."""

    event: tuple[str, ...]
    module: str
    measurements: tuple[str, ...]
    metadata: tuple[str, ...]
    line: int


@cache
def sites(package: str) -> tuple[Site, ...]:
    """Every call of `execute` and `span` in a package."""
    found: list[Site] = []
    for path in sorted((ROOT / package).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        source = path.read_text(encoding="utf-8")
        if "telemetry" in source:
            found.extend(_sites_of(source, module))
    return tuple(found)


def emitted(package: str) -> list[tuple[str, ...]]:
    """The names of what a package says, each once, sorted."""
    return sorted({site.event for site in sites(package)})


def _sites_of(source: str, module: str) -> Iterator[Site]:
    tree = ast.parse(source)
    names = _constants(tree)
    choices = _choices(tree)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and _called(node.func) in ("execute", "execute_in", "span")):
            continue
        args = node.args[1:] if _called(node.func) == "execute_in" else node.args
        if not args:
            continue
        for event in _events(args[0], names, choices, span=_called(node.func) == "span"):
            measurements = _keys(args[1], names) if len(args) > 2 else ()
            metadata = _keys(args[2] if len(args) > 2 else args[-1], names) if len(args) > 1 else ()
            yield Site(event, module, measurements, metadata, node.lineno)


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _constants(tree: ast.AST) -> dict[str, ast.expr]:
    """Names that stand for a tuple or a text at the top of a module."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found[node.target.id] = node.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    return found


def _choices(tree: ast.AST) -> dict[str, set[str]]:
    """For a parameter that is the last part of an event's name: what callers in the same module pass for it."""
    parameters: dict[str, list[str]] = {}
    calls: list[ast.Call] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parameters[node.name] = [argument.arg for argument in node.args.args if argument.arg != "self"]
        elif isinstance(node, ast.Call):
            calls.append(node)
    passed: dict[str, set[str]] = {}
    for call in calls:
        for argument, value in zip(parameters.get(_called(call.func), ()), call.args, strict=False):
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                passed.setdefault(argument, set()).add(value.value)
    return passed


def _events(
    node: ast.expr, names: dict[str, ast.expr], choices: dict[str, set[str]], *, span: bool = False
) -> list[tuple[str, ...]]:
    if isinstance(node, ast.Name) and node.id in names:
        node = names[node.id]
    if not isinstance(node, ast.Tuple):
        return []
    events: list[tuple[str, ...]] = [()]
    for part in node.elts:
        options = _parts(part, names, choices)
        events = [(*event, *option) for event in events for option in options]
    if span:
        return [(*event, stage) for event in events for stage in ("start", "stop", "exception")]
    return [named for event in events for named in _named(event)]


def _named(event: tuple[str, ...]) -> list[tuple[str, ...]]:
    if event[-1:] != ("*",) or event[:-1] not in DECIDED_THERE:
        return [event]
    source = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / event[0]).rglob("*.py")))
    words = DECIDED_THERE[event[:-1]]
    assert all(re.search(rf'"{word}"', source) for word in words), f"{event}: not all of {words} stand in the source"
    return [(*event[:-1], word) for word in words]


def _parts(node: ast.expr, names: dict[str, ast.expr], choices: dict[str, set[str]]) -> list[tuple[str, ...]]:
    match node:
        case ast.Constant(value=str() as value):
            return [(value,)]
        case ast.Starred(value=inner):
            return _events(inner, names, choices)
        case ast.IfExp(body=body, orelse=orelse):
            return [*_parts(body, names, choices), *_parts(orelse, names, choices)]
        case ast.Name(id=name) if name in choices:
            return [(value,) for value in sorted(choices[name])]
        case ast.Name(id=name) if isinstance(names.get(name), ast.Constant):
            constant = names[name]
            assert isinstance(constant, ast.Constant)
            return [(str(constant.value),)]
        case _:
            return [("*",)]


def _keys(node: ast.expr, names: dict[str, ast.expr]) -> tuple[str, ...]:
    if isinstance(node, ast.Name) and isinstance(names.get(node.id), ast.Dict):
        node = names[node.id]
    if not isinstance(node, ast.Dict):
        return ()
    keys: list[str] = []
    for key in node.keys:
        if isinstance(key, ast.Constant):
            keys.append(str(key.value))
        elif key is None:
            keys.append("...")
    return tuple(keys)


def page() -> str:
    """The reference page as it should be."""
    lines = [
        "# Telemetry",
        "",
        "Every event the packages execute, read from the places that do. `python -m tests.telemetry_catalogue --write`",
        "makes this page and a test compares it with the source. Handlers are attached with",
        "`lemon_otp.telemetry.attach` and called at once, in the process that speaks; one that raises is detached. No",
        "event carries prompts, answers, arguments, results or credentials. `...` stands for more that depends on the",
        "event.",
    ]
    for package in PACKAGES:
        of_package = sites(package)
        if not of_package:
            continue
        lines += ["", f"## {package}", "", "| event | measurements | metadata | says | from |", "|---|---|---|---|---|"]
        lines += [_row(event, of_package) for event in emitted(package)]
    return "\n".join([*lines, ""])


def _row(event: tuple[str, ...], of_package: tuple[Site, ...]) -> str:
    mine = [site for site in of_package if site.event == event]
    measurements = dict.fromkeys(key for site in mine for key in site.measurements)
    metadata = dict.fromkeys(key for site in mine for key in site.metadata)
    places = ", ".join(f"`{module}`" for module in dict.fromkeys(site.module for site in mine))
    name = ".".join(event)
    says = MEANING.get(name, "")
    return f"| `{name}` | {', '.join(measurements)} | {', '.join(metadata)} | {says} | {places} |"


def faults() -> list[str]:
    """What keeps the page from being the truth."""
    names = {".".join(event) for package in PACKAGES for event in emitted(package)}
    found = [f"{name} is executed and has no sentence in MEANING" for name in sorted(names - MEANING.keys())]
    found += [f"{name} has a sentence in MEANING and is not executed" for name in sorted(MEANING.keys() - names)]
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        found.append(
            f"{PAGE.relative_to(ROOT)} is not what the source says: python -m tests.telemetry_catalogue --write"
        )
    return found


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    for fault in faults():
        print(fault)
