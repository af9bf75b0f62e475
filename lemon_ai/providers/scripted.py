"""Edge. The embedded models: `scripted/echo`, `scripted/demo`, `scripted/script` and `scripted/FILE.jsonl`.

In-process, deterministic, streaming in pieces as a real model does. What they play is written into the prompt, into
a script file, or handed over by a program; the grammar is in docs/reference/scripted.md. Time passes only on the
runtime's clock.
"""

from __future__ import annotations

import os
from asyncio import sleep as give_way
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final

from attrs import field

from lemon_ai.classify import SAYS, truncated
from lemon_ai.errors import (
    AuthFailed,
    BadRequest,
    BadScript,
    ContentRefused,
    ContextOverflow,
    ProviderError,
    ProviderUnavailable,
    ProviderUnreachable,
    QuotaExhausted,
    RateLimited,
    ServerFailed,
)
from lemon_ai.events import StreamEvent
from lemon_ai.fold import Fold
from lemon_ai.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ToolResultMessage,
    UserMessage,
    get_text,
)
from lemon_ai.provider import ProviderRequest, used_tool_ids
from lemon_ai.providers import demo
from lemon_ai.providers.script import (
    Call,
    Count,
    Crash,
    Delay,
    Fail,
    Say,
    Step,
    Stop,
    StopWord,
    Think,
    Truncate,
    Turn,
    parse_file,
    parse_prompt,
    pieces,
)
from lemon_ai.stream_options import Context
from lemon_otp import define, sleep_s

SCRIPT_VARIABLE: Final = "LEMON_SCRIPT"
"""Names the file that `scripted/script` plays, unless the options do."""

FINISHED: Final = "(the script has no more turns)"
_STATUS: Final[dict[str, tuple[type[ProviderError], int | None, str]]] = {
    "rate_limit": (RateLimited, 429, "You are sending requests too fast."),
    "quota": (QuotaExhausted, 429, "You have used up your monthly usage limit."),
    "auth": (AuthFailed, 401, "Invalid API key."),
    "client": (BadRequest, 400, "The request is not valid."),
    "context": (ContextOverflow, 400, "The prompt is too long for this model."),
    "server": (ServerFailed, 500, "Something went wrong on our side."),
    "overloaded": (ProviderUnavailable, 529, "Overloaded."),
    "unreachable": (ProviderUnreachable, None, "Connection refused."),
    "refused": (ContentRefused, None, "I will not help with that."),
}
_REMEMBERED_FAILURES: Final = 1_000
_EVENTS_A_TURN: Final = 16


@define(eq=False)
class ScriptedProvider:
    """Plays scripts.

    Attributes:
        turns: What a program wants played, asked anew for each call; None plays what the request says.
        chunk_delay_ms: Time between two pieces.
    """

    api: ClassVar[str] = "scripted"
    turns: Callable[[ProviderRequest], Turn] | None = None
    chunk_delay_ms: int = 0
    _failures: OrderedDict[object, int] = field(factory=OrderedDict, init=False, repr=False)

    async def stream(self, request: ProviderRequest) -> AsyncIterator[StreamEvent]:
        """See `Provider.stream`."""
        turn = self.turns(request) if self.turns is not None else turn_for(request)
        fold = Fold(request.model, taken_ids=used_tool_ids(request.context))
        told = 0
        for number, step in enumerate(turn):
            if isinstance(step, Delay):
                await sleep_s(step.ms / 1000)
            elif isinstance(step, Fail) and not self._fails(step, (_moment(request), number)):
                continue
            for events in _played(step, number, fold, request):
                for event in events:
                    yield event
                told += 1
                if self.chunk_delay_ms:
                    await sleep_s(self.chunk_delay_ms / 1000)
                elif told % _EVENTS_A_TURN == 0:
                    await give_way(0)
            if fold.finished:
                return
        _count(turn, fold, request)
        for event in fold.done(_stop_of(turn)):
            yield event

    def _fails(self, step: Fail, place: object) -> bool:
        """Whether the failure at this place of a conversation still happens."""
        if step.times is None:
            return True
        happened = self._failures.pop(place, 0)
        self._failures[place] = happened + 1
        if len(self._failures) > _REMEMBERED_FAILURES:
            self._failures.popitem(last=False)
        return happened < step.times


def turn_for(request: ProviderRequest) -> Turn:
    """What a scripted model answers to a request that no program speaks for.

    Raises:
        BadScript: The prompt or the file cannot be read as a script.
    """
    context, model = request.context, request.model
    if model.id == "script" or model.id.endswith((".json", ".jsonl")):
        return _nth(_file_turns(request), _assistants(context.messages))
    written = parse_prompt(_last_prompt(context))
    if written is not None:
        return _nth(written, _answers_since_prompt(context))
    return demo.answer(context) if model.id == "demo" else echo(context)


def echo(context: Context) -> Turn:
    """The last thing the user said; after tools ran, what they returned."""
    results = [message for message in _after_prompt(context) if isinstance(message, ToolResultMessage)]
    if results:
        said = [f"{result.tool_name}{' failed' if result.is_error else ''}: {_text(result)}" for result in results]
        return (Say("\n".join(said)),)
    prompt = _last_prompt(context)
    return (Say(prompt),) if prompt else ()


def _played(step: Step, number: int, fold: Fold, request: ProviderRequest) -> Iterator[Iterable[StreamEvent]]:
    match step:
        case Say(text):
            yield fold.start()
            for piece in pieces(text):
                yield fold.text(piece, ("text", number))
        case Think(thinking):
            for piece in pieces(thinking):
                yield fold.thinking(piece, ("thinking", number), signature="scripted")
        case Call(name=name, id=call_id):
            yield fold.tool_start(number, call_id or _call_id(request, number), name)
            for piece in pieces(step.raw):
                yield fold.tool_args(number, piece)
        case Fail():
            yield fold.fail("error", failure(step, request.model.provider, in_stream=fold.has_content))
        case Truncate():
            yield fold.fail("error", truncated(request.model.provider))
        case Crash(message):
            raise RuntimeError(message)
        case Delay() | Count() | Stop():
            yield fold.start()


def failure(step: Fail, provider: str, *, in_stream: bool = False) -> ProviderError:
    """The error a failing step stands for."""
    cls, status, said = _STATUS[step.kind]
    said = step.message or said
    start = SAYS.get(cls, "Request failed") + (f" (HTTP {status})" if status else "")
    return cls(
        provider=provider,
        message=f"{start}: {said}",
        status=None if in_stream else status,
        type=step.kind,
        provider_message=said,
        retry_after_s=step.retry_after_s,
        in_stream=in_stream,
    )


def _stop_of(turn: Turn) -> StopWord:
    return next((step.reason for step in reversed(turn) if isinstance(step, Stop)), "stop")


def _count(turn: Turn, fold: Fold, request: ProviderRequest) -> None:
    """Tokens: what the turn says, else four characters each."""
    said = sum(len(step.text) for step in turn if isinstance(step, Say))
    said += sum(len(step.thinking) for step in turn if isinstance(step, Think))
    said += sum(len(step.name) + len(step.raw) for step in turn if isinstance(step, Call))
    told = next((step for step in reversed(turn) if isinstance(step, Count)), Count())
    fold.usage(
        input=_shown(request.context) // 4 if told.input is None else told.input,
        output=said // 4 if told.output is None else told.output,
        cache_read=told.cache_read or 0,
        cache_write=told.cache_write or 0,
    )


def _shown(context: Context) -> int:
    """Characters a context holds."""
    total = len(context.system_prompt or "") + sum(len(tool.name) + len(tool.description) for tool in context.tools)
    return total + sum(len(get_text(message)) for message in context.messages)


def _nth(turns: Sequence[Turn], number: int) -> Turn:
    return turns[number] if number < len(turns) else (Say(FINISHED),)


def _file_turns(request: ProviderRequest) -> list[Turn]:
    told = request.options.for_provider("scripted").get("script")
    if isinstance(told, list):
        return [tuple(turn) for turn in told]
    if request.model.id != "script":
        told = request.model.id
    path = str(told or os.environ.get(SCRIPT_VARIABLE, ""))
    if not path:
        raise BadScript(source="scripted/script", problem=f"needs a script: set {SCRIPT_VARIABLE}, or name the file")
    try:
        return parse_file(Path(path).read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise BadScript(source=path, problem=f"cannot be read: {error}") from None


def _last_prompt(context: Context) -> str:
    for message in reversed(context.messages):
        if isinstance(message, UserMessage):
            return get_text(message)
    return ""


def _after_prompt(context: Context) -> list[object]:
    after: list[object] = []
    for message in reversed(context.messages):
        if isinstance(message, UserMessage):
            break
        after.insert(0, message)
    return after


def _answers_since_prompt(context: Context) -> int:
    return _assistants(_after_prompt(context))


def _assistants(messages: Iterable[object]) -> int:
    return sum(isinstance(m, AssistantMessage) and m.stop_reason not in ("error", "aborted") for m in messages)


def _moment(request: ProviderRequest) -> object:
    """Names a place in a conversation: the same for each try of one call, another for every other call."""
    last = request.context.messages[-1].timestamp if request.context.messages else 0
    return request.options.session_id, last, len(request.context.messages)


def _call_id(request: ProviderRequest, number: int) -> str:
    return f"call_{len(request.context.messages)}_{number}"


def _text(message: ToolResultMessage) -> str:
    parts = [block.text if isinstance(block, TextContent) else _image(block) for block in message.content]
    return "\n".join(parts)


def _image(block: ImageContent) -> str:
    return f"[{block.mime_type}]"
