"""Pure. What the scripted provider plays: steps, turns, and the two ways to write them down.

A turn is one answer of the model. Its steps are said in order. People write turns into a prompt, one directive a
line, or into a file of JSON; programs build them from the values here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from attrs import field

from lemon_ai.errors import BadScript
from lemon_otp import frozen

ErrorKind: TypeAlias = Literal[
    "rate_limit",
    "quota",
    "auth",
    "client",
    "context",
    "server",
    "overloaded",
    "unreachable",
    "refused",
]
ERROR_KINDS: Final = get_args(ErrorKind)
StopWord: TypeAlias = Literal["stop", "length", "tool_use"]


@frozen
class Say:
    """Text of the answer."""

    text: str


@frozen
class Think:
    """A thought."""

    thinking: str


@frozen
class Call:
    """A tool call; `arguments` as raw text may be no JSON at all."""

    name: str
    arguments: str | Mapping[str, Any] = field(factory=dict)
    id: str = ""

    @property
    def raw(self) -> str:
        """The arguments as the wire carries them."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(dict(self.arguments))


@frozen
class Delay:
    """Nothing is said for a while, on the runtime's clock."""

    ms: int


@frozen
class Fail:
    """The call fails here.

    Attributes:
        kind: Which of the provider errors.
        retry_after_s: How long the provider asks to wait.
        times: Fail only so many times, then go on; None fails always.
        message: The provider's sentence.
    """

    kind: ErrorKind = "overloaded"
    retry_after_s: float | None = None
    times: int | None = None
    message: str = ""


@frozen
class Truncate:
    """The stream breaks off here, without an end."""


@frozen
class Crash:
    """The provider itself fails: a fault in a program, not an answer."""

    message: str = "scripted crash"


@frozen
class Count:
    """Tokens the answer claims to have used; what is not given is estimated."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None


@frozen
class Stop:
    """Why the answer ends; by default what follows from its content."""

    reason: StopWord = "stop"


Step: TypeAlias = Say | Think | Call | Delay | Fail | Truncate | Crash | Count | Stop
Turn: TypeAlias = tuple[Step, ...]
"""One answer; an empty turn is an empty answer."""

_DIRECTIVE: Final = re.compile(r"@(\w+)(?:[ \t]+(.*))?$", re.DOTALL)
_NAMES: Final = frozenset(
    {"text", "think", "tool", "delay", "error", "truncate", "crash", "empty", "usage", "stop", "turn"}
)
_SETTING: Final = re.compile(r"(\w+)=(\S+)\s*")


def parse_prompt(text: str) -> list[Turn] | None:
    """The turns written into a prompt; None when no line of it is a directive.

    Raises:
        BadScript: A directive cannot be read.
    """
    turns: list[list[Step]] = [[]]
    found = False
    for directive, rest in _directives(text):
        found = True
        if directive == "turn":
            turns.append([])
        elif directive != "empty":
            turns[-1].append(_step(directive, rest))
    return [tuple(turn) for turn in turns] if found else None


def parse_file(text: str, source: str) -> list[Turn]:
    """The turns of a script file: one JSON document, or a turn a line.

    Raises:
        BadScript: It is neither, or a step is unknown; says where.
    """
    try:
        document = json.loads(text)
    except ValueError:
        document = _lines(text, source)
    if isinstance(document, dict):
        document = document.get("turns", [document] if "steps" in document else None)
    if not isinstance(document, list):
        raise BadScript(source=source, problem="must hold a list of turns")
    return [_turn(turn, f"{source}, turn {number}") for number, turn in enumerate(document, 1)]


def _directives(text: str) -> list[tuple[str, str]]:
    """Each directive with its rest; lines that begin none belong to the one before."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        match = _DIRECTIVE.match(line.strip())
        if match and match.group(1) in _NAMES:
            found.append((match.group(1), match.group(2) or ""))
        elif found and found[-1][0] in ("text", "think", "tool"):
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line}")
    return [(directive, rest.rstrip("\n")) for directive, rest in found]


def _step(directive: str, rest: str) -> Step:
    match directive:
        case "text":
            return Say(rest)
        case "think":
            return Think(rest)
        case "tool":
            name, _, raw = rest.partition(" ")
            if not name:
                raise BadScript(source="@tool", problem="needs the name of a tool")
            return Call(name, raw.strip())
        case "delay":
            return Delay(_number(rest, "@delay"))
        case "truncate":
            return Truncate()
        case "crash":
            return Crash(rest or "scripted crash")
        case "usage":
            counts, _ = _settings(rest, Count, "@usage")
            return Count(**{name: _number(value, "@usage") for name, value in counts.items()})
        case "stop":
            return _stop(rest.strip() or "stop", "@stop")
    kind, _, more = rest.strip().partition(" ")
    settings, message = _settings(more, Fail, "@error")
    return _fail({"kind": kind or "overloaded", "message": message, **settings}, "@error")


def _settings(rest: str, cls: type, source: str) -> tuple[dict[str, str], str]:
    """`name=value` pairs at the beginning, and the words after them."""
    names = {name for name in cls.__annotations__ if not name.startswith("_")}
    settings: dict[str, str] = {}
    while (match := _SETTING.match(rest)) is not None:
        name = {"retry_after": "retry_after_s"}.get(match.group(1), match.group(1))
        if name not in names:
            raise BadScript(source=source, problem=f"knows no {match.group(1)!r}; it knows {', '.join(sorted(names))}")
        settings[name] = match.group(2)
        rest = rest[match.end() :]
    return settings, rest


def _fail(told: Mapping[str, Any], source: str) -> Fail:
    kind = told.get("kind", "overloaded")
    if kind not in ERROR_KINDS:
        raise BadScript(source=source, problem=f"knows no kind {kind!r}; it knows {', '.join(ERROR_KINDS)}")
    wait, times = told.get("retry_after_s"), told.get("times")
    try:
        return Fail(
            kind=cast("ErrorKind", kind),
            retry_after_s=None if wait is None else float(wait),
            times=None if times is None else int(times),
            message=str(told.get("message") or ""),
        )
    except (TypeError, ValueError):
        raise BadScript(source=source, problem="retry_after and times must be numbers") from None


def _stop(reason: Any, source: str) -> Stop:
    if reason not in get_args(StopWord):
        raise BadScript(source=source, problem=f"knows no reason {reason!r}")
    return Stop(cast("StopWord", reason))


def _number(text: Any, source: str) -> int:
    try:
        number = int(text)
    except (TypeError, ValueError):
        raise BadScript(source=source, problem=f"{text!r} is no whole number") from None
    if number < 0:
        raise BadScript(source=source, problem=f"{number} is negative")
    return number


def _lines(text: str, source: str) -> list[Any]:
    turns: list[Any] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                turns.append(json.loads(line))
            except ValueError as error:
                raise BadScript(source=f"{source}, line {number}", problem=f"is no JSON: {error}") from None
    return turns


def _turn(turn: Any, source: str) -> Turn:
    steps = turn.get("steps", turn) if isinstance(turn, Mapping) else turn
    if isinstance(steps, str):
        return (Say(steps),)
    if isinstance(steps, Mapping):
        steps = [steps]
    if not isinstance(steps, list):
        raise BadScript(source=source, problem="must be a list of steps")
    return tuple(_file_step(step, source) for step in steps)


def _file_step(step: Any, source: str) -> Step:
    if isinstance(step, str):
        return Say(step)
    if not isinstance(step, Mapping) or len(step) != 1:
        raise BadScript(source=source, problem=f"a step is a string or an object with one key, not {step!r}")
    ((name, value),) = step.items()
    match name:
        case "text":
            return Say(str(value))
        case "thinking" | "think":
            return Think(str(value))
        case "tool_call" | "tool":
            return _file_call(value, source)
        case "delay_ms" | "delay":
            return Delay(_number(value, source))
        case "error":
            return _fail({"kind": value} if isinstance(value, str) else _object(value, source), source)
        case "truncate":
            return Truncate()
        case "crash":
            return Crash(value if isinstance(value, str) else "scripted crash")
        case "usage":
            counts = _object(value, source)
            return Count(**{key: _number(item, source) for key, item in counts.items() if key in Count.__annotations__})
        case "stop":
            return _stop(value, source)
    raise BadScript(source=source, problem=f"knows no step {name!r}")


def _file_call(value: Any, source: str) -> Call:
    call = _object(value, source)
    arguments = call.get("arguments", {})
    if not isinstance(call.get("name"), str) or not isinstance(arguments, (str, dict)):
        raise BadScript(source=source, problem="a tool call needs a name, and arguments that are an object or raw text")
    return Call(call["name"], arguments, str(call.get("id") or ""))


def _object(value: Any, source: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadScript(source=source, problem=f"{value!r} must be an object")
    return value


def pieces(text: str, size: int = 6) -> Sequence[str]:
    """Text cut as a model's tokens come: about a word each, nothing lost."""
    return re.findall(rf"\s?\w{{1,{size}}}|\s?[^\w\s]{{1,3}}|\s+", text)
