"""Edge. One model call: the conversation goes out, provider events come in, agent events and one message come of it."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Sequence
from functools import lru_cache
from types import AsyncGeneratorType
from typing import Any, Final, Literal

from attrs import evolve

from lemon_agent.abort_signal import is_aborted
from lemon_agent.context import SIZE, WARNING_CHARS, report_size, warn_size
from lemon_agent.errors import InvalidTranscript, LoopFailed, words_of
from lemon_agent.events import MessageEnd, MessageStart, MessageUpdate
from lemon_agent.loop.config import GetApiKey, StreamFn, convert_to_llm
from lemon_agent.loop.interruption import Cause, Interrupted, Interruptible
from lemon_agent.loop.run import Run
from lemon_agent.loop.transcript import checked
from lemon_agent.security.external_content import shield
from lemon_agent.stream_source import events_of, let_go
from lemon_ai import (
    AssistantMessage,
    Context,
    Message,
    StreamCanceled,
    StreamDone,
    StreamError,
    StreamOptions,
    StreamStart,
    TextContent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingContent,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from lemon_otp import describe, self_pid, telemetry

GROWTH: Final = frozenset(
    {
        TextStart,
        TextDelta,
        TextEnd,
        ThinkingStart,
        ThinkingDelta,
        ThinkingEnd,
        ToolCallStart,
        ToolCallDelta,
        ToolCallEnd,
    }
)
"""The events that say a message has grown."""

TURN_EVENTS: Final = 64
"""Events read without a pause before others get their turn."""

EMPTY_RESPONSE: Final = "The provider returned an empty assistant response."
ABORTED: Final = "Request was aborted"
EARLY_END: Final = "The stream ended early."
ABORT_REASONS: Final = frozenset({"aborted", "canceled", "user_abort"})


async def stream_response(run: Run) -> AssistantMessage:
    """Call the model once and return what it said, which then is part of the conversation.

    The message's `stop_reason` says how the call went; "aborted" and "redirected" keep what had been said.

    Raises:
        LoopFailed: No message came of it: a hook failed, the transcript is invalid, or the call could not be made.
    """
    if run.signal.aborted:
        return _aborted_before(run)
    run.show_model()
    _report_size(run)
    config, conversation = run.config, run.conversation
    try:
        if config.transform_context is None:
            conversation.check()
        if config.transform_context is None and config.convert_to_llm is convert_to_llm:
            context = _shown(run, conversation.llm)
        else:
            context = await _transformed(run)
        get_api_key = config.get_api_key
        options = run.stream_options if get_api_key is None else await _with_key(run, get_api_key)
        if is_aborted(run.signal):  # while the hooks were asked
            return _aborted_before(run)
        return await _call(run, context, options)
    except InvalidTranscript as error:
        raise LoopFailed(("invalid_tool_transcript", error.violations), str(error)) from error
    except Interrupted:
        return _aborted_before(run)


def _aborted_before(run: Run) -> AssistantMessage:
    """What is said when the run was aborted before the model could say anything."""
    message = run.own_words("aborted", ABORTED)
    run.say(message)
    return message


async def _transformed(run: Run) -> Context:
    """What the model is shown this time, where hooks have a say in that."""
    conversation, transform = run.conversation, run.config.transform_context
    if transform is None:
        return _shown(run, await _converted(run, conversation.messages))
    transformed = await run.ask(transform, tuple(conversation.messages), run.signal)
    checked(transformed)
    return _shown(run, await _converted(run, transformed))


def _report_size(run: Run) -> None:
    chars = run.conversation.chars + len(run.system_prompt or "")
    if telemetry.heard(SIZE):
        report_size(chars, len(run.conversation), has_system_prompt=bool(run.system_prompt))
    if chars > WARNING_CHARS:
        warn_size(chars)


async def _converted(run: Run, messages: Sequence[Any]) -> list[Message]:
    return shield(await run.ask(run.config.convert_to_llm, tuple(messages)))


def _shown(run: Run, messages: Sequence[Message]) -> Context:
    return Context(run.system_prompt, tuple(messages), run.tools.shown)


async def _with_key(run: Run, get_api_key: GetApiKey) -> StreamOptions:
    """The options of this one call; the key is asked for each time because keys expire."""
    key = await run.ask(get_api_key, run.model.provider)
    return evolve(run.stream_options, api_key=key) if key else run.stream_options


async def _call(run: Run, context: Context, options: StreamOptions) -> AssistantMessage:
    reading = run.reading = _Reading(run)
    source: Any = None
    try:
        with Interruptible(run.signal, redirect=True):
            source = await _opened(run, context, options)
            if not await reading.read(events_of(source)):
                reading.stopped("no_response" if reading.untouched else "end_of_stream")
    except Interrupted as interrupted:
        reading.interrupted(interrupted.cause)
    except LoopFailed:
        raise
    except BaseException as error:  # the stream itself broke, between two events
        if not self_pid().alive:
            raise  # the run's process is being ended
        reading.broke(error)
    finally:
        if source is not None:
            await let_go(source, finished=reading.saw_terminal)
    return reading.finish()


async def _opened(run: Run, context: Context, options: StreamOptions) -> Any:
    """The stream of a call, once it is open."""
    extra = {"signal": run.signal} if _takes_signal(run.stream_fn) else {}
    try:
        source = run.stream_fn(run.model, context, options, **extra)
        if type(source) is not AsyncGeneratorType and inspect.isawaitable(source):
            source = await source
    except Exception as error:
        raise LoopFailed(getattr(error, "reason", error), words_of(error)) from error
    if not (hasattr(source, "events") or hasattr(source, "__aiter__")):
        raise LoopFailed(("invalid_stream", source), f"stream_fn returned no stream: {describe(source)}")
    return source


def _takes_signal(stream_fn: StreamFn) -> bool:
    """Has it a parameter for the run's signal?"""
    try:
        return _known_to_take_signal(stream_fn)
    except TypeError:  # it cannot be hashed, so nothing can be remembered of it
        return _known_to_take_signal.__wrapped__(stream_fn)


@lru_cache(maxsize=64)
def _known_to_take_signal(stream_fn: StreamFn) -> bool:
    try:
        return "signal" in inspect.signature(stream_fn).parameters
    except (TypeError, ValueError):
        return False


class _Reading:
    """Reads one stream and knows what to say when it stops."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._started = False
        self.latest: Any = None
        self._final: AssistantMessage | None = None
        self.saw_terminal = False

    @property
    def untouched(self) -> bool:
        """Has nothing come at all?"""
        return self.latest is None

    async def read(self, events: AsyncIterator[Any]) -> bool:
        """Read to the terminal event and say what comes; False when the stream stopped without one.

        Raises:
            Interrupted: The run was aborted or redirected between two events.
        """
        run, signal, gate = self._run, self._run.signal, self._run.feed.gate
        emit, listeners = run.emit, run.feed.listeners
        left = TURN_EVENTS
        event: Any
        async for event in events:
            if signal.aborted:
                raise Interrupted("aborted")
            if signal.redirect_requested:
                raise Interrupted("redirected")
            kind = event.__class__
            if kind in GROWTH:
                self.latest = event
                if self._started and listeners:
                    emit(MessageUpdate(event))
            elif self._other(event):
                return True
            if run.backlog is not None:
                await run.flush()
            if gate is not None and (wait := gate()) is not None:
                await wait
            left -= 1
            if left == 0:
                left = TURN_EVENTS
                await asyncio.sleep(0)  # one pass of the event loop, without a timer for it
        return False

    def _other(self, event: Any) -> bool:
        """Take an event that is no growth; True when it is the last."""
        match event:
            case StreamStart():
                self.latest = event
                if not self._started:
                    self._started = True
                    if self._run.feed.listeners:
                        self._run.emit(MessageStart(event.partial))
                return False
            case StreamDone() | StreamError():
                self.saw_terminal = True
                self._final = self._reconciled(event.message)
                self._run.provider_error = event.error if isinstance(event, StreamError) else None
                return True
            case StreamCanceled():
                self.saw_terminal = True
                self.stopped(event.reason)
                return True
            case _:
                return False

    def interrupted(self, cause: Cause) -> None:
        """The run gave the call up."""
        self.stopped("redirected" if cause == "redirected" else "aborted")

    def stopped(self, reason: Any) -> None:
        """The stream stopped without a message of its own: make one of what there is."""
        if reason == "no_response":
            raise LoopFailed("no_response", "The model's stream ended without a response.")
        if reason == "aborted" and self.untouched:
            self._final = self._run.own_words("aborted", ABORTED)
        elif reason == "end_of_stream":
            self._final = _cut_off(self._partial())
        else:
            self._final = _canceled(self._partial(), reason)

    def broke(self, error: BaseException) -> None:
        """The stream raised instead of saying how it ended."""
        words = words_of(error)
        if self.untouched:
            raise LoopFailed(error, words) from error
        self._run.provider_error = error
        self._final = evolve(self._partial(), stop_reason="error", error_message=words)

    def finish(self) -> AssistantMessage:
        """Say the message as it ended and make it part of the conversation."""
        assert self._final is not None
        message = _never_empty(self._final)
        self._run.reading = None
        if not self._started and self._run.feed.listeners:
            self._run.emit(MessageStart(message))
        self._run.emit(MessageEnd(message))
        self._run.keep(message)
        return message

    def _partial(self) -> AssistantMessage:
        if self.latest is not None:
            partial: AssistantMessage = self.latest.partial
            return partial
        return self._run.own_words("error", EARLY_END)

    def _reconciled(self, message: AssistantMessage) -> AssistantMessage:
        """The final message; one without content keeps what was streamed."""
        if message.content or self.latest is None:
            return message
        return evolve(message, content=self.latest.partial.content)


def _cut_off(message: AssistantMessage) -> AssistantMessage:
    """What there is of a message whose stream just stopped. Its calls may be half of what was meant: none may run."""
    if not any(isinstance(block, ToolCall) for block in message.content):
        return message
    return evolve(message, stop_reason="error", error_message=EARLY_END)


def _canceled(message: AssistantMessage, reason: Any) -> AssistantMessage:
    """What there is of a message whose stream was cancelled."""
    if reason == "redirected":
        kept = tuple(block for block in message.content if not isinstance(block, ToolCall))
        return evolve(message, content=kept or (TextContent(" "),), stop_reason="redirected", error_message=None)
    stop: Literal["aborted", "error"] = "aborted" if reason in ABORT_REASONS else "error"
    words = reason if isinstance(reason, str) else describe(reason)
    return evolve(message, stop_reason=stop, error_message=f"Stream canceled: {words}")


def _never_empty(message: AssistantMessage) -> AssistantMessage:
    """A message that says nothing and asks for nothing is a failure of the provider, and says so."""
    if message.stop_reason != "stop" or any(map(_says_something, message.content)):
        return message
    return evolve(
        message,
        content=(TextContent(EMPTY_RESPONSE),),
        stop_reason="error",
        error_message="empty_assistant_response",
    )


def _says_something(block: TextContent | ThinkingContent | ToolCall) -> bool:
    return isinstance(block, ToolCall) or (isinstance(block, TextContent) and bool(block.text.strip()))
