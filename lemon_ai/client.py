"""Edge. `stream` and `complete`: one model call, admitted, run by a supervised worker, told as events.

caller ─ stream() ─▶ call_dispatcher ─▶ EventStream + worker under stream_task_supervisor ─▶ provider ─▶ wire
"""

from __future__ import annotations

import os
from asyncio import sleep as give_way
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from logging import getLogger
from typing import Any, Final, cast

from attrs import evolve, field

from lemon_ai.call_dispatcher import DEFAULT_RESULT_TIMEOUT_MS, CallDispatcher, Config
from lemon_ai.call_record import CallRecord
from lemon_ai.errors import AiError, CallCanceled, ProviderError
from lemon_ai.event_stream import ModelStream, crashed, empty_message, open_model_stream
from lemon_ai.events import StreamCanceled, StreamDone, StreamError, StreamEvent, StreamStart
from lemon_ai.messages import AssistantMessage
from lemon_ai.models.catalog import find_model
from lemon_ai.models.model import Model
from lemon_ai.provider import Provider, ProviderRequest
from lemon_ai.provider_registry import ProviderRegistry
from lemon_ai.redaction import redact, secrets_of
from lemon_ai.retry_helper import Again, RetryPolicy, decide, policy_for
from lemon_ai.stream_options import Context, StreamOptions
from lemon_otp import Pid, StreamFailed, TaskSupervisor, annotate, define, get_env, monotonic_s, sleep_s, telemetry

SUPERVISOR: Final = "stream_task_supervisor"
_PATIENCE: Final = 200

_log = getLogger(__name__)

Options = StreamOptions | Mapping[str, Any] | Iterable[tuple[str, Any]] | None


async def stream(
    model: Model | str, context: Context, options: Options = None, *, owner: Pid | None = None
) -> ModelStream:
    """A model call under way: its events come through the stream that is returned.

    The stream belongs to a process: when that ends, the call is canceled and its connection closed.

    Args:
        model: A model, or the name of one.
        context: What the model is shown.
        options: Options, or a mapping or pairs of them; unknown names are dropped.
        owner: The process it belongs to; None is the caller.

    Raises:
        UnknownModel, UnknownApi: Nothing can serve the call. Nothing was admitted.
        CircuitOpen, MaxConcurrency, RateLimitReached: It was not admitted. Nothing was sent.

    Any failure after that is the last event of the stream. Cancelling before it is returned leaves nothing behind.
    """
    return await start_call(model, context, options, owner=owner)


async def start_call(
    model: Model | str,
    context: Context,
    options: Options,
    *,
    owner: Pid | None = None,
    around: Callable[[Provider], Provider] | None = None,
) -> ModelStream:
    """What `stream` does, with the provider as `around` makes it for this call."""
    chosen = find_model(model) if isinstance(model, str) else model
    given = StreamOptions.of(options)
    registered = ProviderRegistry.require(chosen.api)
    provider = registered if around is None else around(registered)
    record = CallRecord(chosen)
    record.begin()
    if record.headers:
        given = evolve(given, headers={**given.headers, **record.headers})
    request = ProviderRequest(chosen, context, given)

    async def begin() -> ModelStream:
        return await _begin(provider, request, owner, record)

    try:
        return await CallDispatcher.dispatch(
            chosen.provider,
            begin,
            queue_timeout_ms=given.queue_timeout_ms,
            stream_result_timeout_ms=_result_timeout_ms(given.stream_timeout),
            config=get_env("lemon_ai", "admission", Config()),
        )
    except BaseException as error:
        record.end(None, error)
        raise


async def complete(model: Model | str, context: Context, options: Options = None) -> AssistantMessage:
    """The whole answer of one model call.

    Raises:
        ProviderError: It failed; `partial` holds what had been said. Half an answer is never returned.
        CallCanceled: It was canceled.

    And what `stream` raises. Cancelling cancels the call.
    """
    return await answer_of(await stream(model, context, options))


async def answer_of(running: ModelStream) -> AssistantMessage:
    """The message a call ends with; its failure or its cancel raises. Cancelling cancels the call."""
    try:
        async for _ in running.events():
            pass
        return await running.result()
    except StreamFailed as failed:
        reason = failed.reason
        if isinstance(reason, AiError):
            raise reason from None
        if isinstance(reason, tuple) and reason and reason[0] == "canceled":
            raise CallCanceled(reason=reason[1]) from None
        raise CallCanceled(reason=reason) from None
    finally:
        running.cancel("canceled")


async def _begin(provider: Provider, request: ProviderRequest, owner: Pid | None, record: CallRecord) -> ModelStream:
    running = open_model_stream(request.model, timeout_ms=request.options.stream_timeout, owner=owner)
    try:
        worker = await TaskSupervisor.start_child(
            SUPERVISOR,
            run_call,
            running,
            provider,
            request,
            record,
            label=f"client[{request.model.provider}/{request.model.id}]",
        )
    except BaseException:
        running.cancel("canceled")
        raise
    running.attach_task(worker)
    return running


def _result_timeout_ms(stream_timeout: int | None) -> int | None:
    return None if stream_timeout is None else max(stream_timeout, DEFAULT_RESULT_TIMEOUT_MS)


async def run_call(running: ModelStream, provider: Provider, request: ProviderRequest, record: CallRecord) -> None:
    """Process. The worker of one call: drives the provider, tries again what may be, ends the stream on every path."""
    model = request.model
    annotate(provider=model.provider, model=model.id)
    call = _Call(running, provider, request, policy_for(provider, request.options), record)
    try:
        await call.run_to_end()
    finally:  # also of a call that is given up
        record.end(call.answer, call.failure)


@define
class _Call:
    """One call with its retries."""

    running: ModelStream
    provider: Provider
    request: ProviderRequest
    policy: RetryPolicy
    record: CallRecord
    began_s: float = field(factory=monotonic_s)
    attempt: int = 0
    started: bool = False
    last: StreamEvent | None = None
    hasty: bool = False
    answer: AssistantMessage | None = None
    failure: AiError | None = None

    async def run_to_end(self) -> None:
        """Run it and tell how it ended, unless it is cancelled."""
        try:
            await self._run()
        except Exception as error:
            self.fail(error if isinstance(error, AiError) else crashed(self.request.model, error))
        self.tell_end()

    async def _run(self) -> None:
        while True:
            failure = await self._try_once()
            if failure is None:
                return
            verdict = decide(
                failure,
                self.attempt,
                self.policy,
                max_delay_ms=self.request.options.max_retry_delay_ms,
                elapsed_s=monotonic_s() - self.began_s,
                budget_ms=self.request.options.retry_budget_ms,
            )
            if not isinstance(verdict, Again):
                self.fail(verdict.error)
                return
            await self._wait(failure, verdict.delay_s)
            self.attempt += 1

    async def _try_once(self) -> ProviderError | None:
        """Run the provider once; a failure before any content is returned, everything else is told."""
        try:
            events = cast("AsyncGenerator[StreamEvent, None]", self.provider.stream(self.request))
            async with aclosing(events):
                async for event in events:
                    if type(event) is StreamError and isinstance(event.error, ProviderError) and not self._has_content:
                        return event.error
                    await self._tell(event)
        except ProviderError as error:
            if not self._has_content:
                return error
            raise
        if not self.running.done:
            self.fail(crashed(self.request.model, "the provider ended without a terminal event"))
        return None

    @property
    def _has_content(self) -> bool:
        return self.last is not None and type(self.last) is not StreamStart

    async def _tell(self, event: StreamEvent) -> None:
        if type(event) is StreamStart:
            if self.started:
                return
            self.started = True
        elif self.record.first_s is None:
            self.record.first_s = monotonic_s()
        self.last = event
        if self.running.push(event) == "overflow" and not self.hasty:
            self.hasty = not await self._wait_for_room(event)
        elif self.hasty and self.running.stats().queue_size < self.running.stats().max_queue:
            self.hasty = False

    async def _wait_for_room(self, event: StreamEvent) -> bool:
        """Let a reader that is only a little behind catch up; without one, what is too much is dropped."""
        for _ in range(_PATIENCE):
            await give_way(0)
            if self.running.push(event) != "overflow":
                return True
        return False

    async def _wait(self, failure: ProviderError, delay_s: float) -> None:
        model = self.request.model
        telemetry.execute(
            ("lemon_ai", "retry_helper", "retry"),
            {"attempt": self.attempt + 1, "delay_ms": round(delay_s * 1000)},
            {"provider": model.provider, "model": model.id, "category": failure.category, "status": failure.status},
        )
        if (told := self.request.options.on_retry) is not None:
            told(self.attempt + 1, self.policy.max_retries, delay_s, failure)
        await (self.request.options.retry_sleep or sleep_s)(delay_s)

    def fail(self, error: AiError) -> None:
        """End the stream with what was said so far and an error without credentials."""
        said = redact(str(error), secrets_of(self.request.options))
        if isinstance(error, ProviderError):
            error.message = said
        self.failure = error
        partial = empty_message(self.request.model)
        if self.last is not None and not isinstance(self.last, StreamDone | StreamError | StreamCanceled):
            partial = self.last.partial
        self.answer = evolve(partial, stop_reason="error", error_message=said)
        self.running.error(error, self.answer)

    def tell_end(self) -> None:
        """What is to be known afterwards: a line about a failure, and what the prompt was made of if anybody asked."""
        if type(self.last) is StreamDone or type(self.last) is StreamError:
            self.answer = self.last.message
            self.failure = getattr(self.last, "error", None)
        if isinstance(self.failure, ProviderError):
            model, error = self.request.model, self.failure
            facts = (model.provider, model.id, type(error).__name__, error.status, error.code, error.request_id)
            _log.info("%s/%s failed: %s, status %s, code %s, request id %s", *facts)
        if os.environ.get("LEMON_AI_PROMPT_DIAGNOSTICS"):
            from lemon_ai.prompt_diagnostics import record

            record(self.request, self.answer)
