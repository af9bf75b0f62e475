"""Edge. `stream` and `complete` for programs without sessions: a conversation that grew too long is cut and sent again.

Whether it is too long is usually known only when the provider's answer begins, so the beginning is held back until it
shows some content; after that nothing is tried again. All tries are one call: one slot, one verdict of the breaker.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from logging import getLogger
from typing import TypeAlias, cast

from attrs import evolve, field

from lemon_ai.client import Options, answer_of, start_call
from lemon_ai.context_compactor import PRESERVE_RECENT, Compacted, Strategy, compact
from lemon_ai.errors import CannotCompact, CompactionFailed, ContextOverflow
from lemon_ai.event_stream import ModelStream
from lemon_ai.events import StreamDone, StreamError, StreamEvent, StreamStart
from lemon_ai.messages import AssistantMessage, Message
from lemon_ai.models.model import Model
from lemon_ai.provider import Provider, ProviderRequest
from lemon_ai.redaction import redact
from lemon_ai.stream_options import Context
from lemon_otp import Pid, define, frozen, telemetry

Summarize: TypeAlias = Callable[[tuple[Message, ...]], Awaitable[str]]
"""Says in few words what messages said."""

_log = getLogger(__name__)


@frozen
class CompactionPolicy:
    """What is done about a conversation that does not fit.

    Attributes:
        enabled: Without it, calls are what `lemon_ai.stream` makes of them.
        max_attempts: How often it is cut and sent again.
        strategy, preserve_recent: See `compact`; each further cut of a call keeps half as many.
        target_tokens: How long it may be after a cut; None leaves it to `preserve_recent`.
        summarize: For the strategies with a summary. One that fails leaves a cut without a summary.
    """

    enabled: bool = True
    max_attempts: int = 3
    strategy: Strategy = "truncation"
    preserve_recent: int = PRESERVE_RECENT
    target_tokens: int | None = None
    summarize: Summarize | None = field(default=None, repr=False)


class CompactingClient:
    """Model calls that shorten their conversation when it does not fit."""

    @staticmethod
    async def stream(
        model: Model | str,
        context: Context,
        options: Options = None,
        *,
        policy: CompactionPolicy | None = None,
        owner: Pid | None = None,
    ) -> ModelStream:
        """As `lemon_ai.stream`; a conversation that cannot be made to fit ends the stream with `CompactionFailed`."""
        chosen = policy or CompactionPolicy()

        def compacting(provider: Provider) -> Provider:
            return _Compacting(provider, chosen) if chosen.enabled else provider

        return await start_call(model, context, options, owner=owner, around=compacting)

    @staticmethod
    async def complete(
        model: Model | str, context: Context, options: Options = None, *, policy: CompactionPolicy | None = None
    ) -> AssistantMessage:
        """As `lemon_ai.complete`; a conversation that cannot be made to fit raises `CompactionFailed`."""
        return await answer_of(await CompactingClient.stream(model, context, options, policy=policy))


@define(eq=False)
class _Compacting:
    """A provider that cuts a conversation its own provider finds too long. It serves one call."""

    provider: Provider
    policy: CompactionPolicy
    cut: Context | None = None
    attempts: int = 0
    overflow: ContextOverflow | None = None

    @property
    def api(self) -> str:
        return self.provider.api

    @property
    def retry(self) -> object:
        """The wrapped provider's policy, if it has one."""
        return getattr(self.provider, "retry", None)

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[StreamEvent, None]:
        """See `Provider.stream`. A call that is made again after another failure goes on with the cut conversation."""
        _tell("request_started", request, self.attempts)
        while True:
            sent = request if self.cut is None else evolve(request, context=self.cut)
            async with aclosing(self._try_once(sent)) as events:
                async for event in events:
                    yield event
            if self.overflow is None:
                return
            self.cut = (await self._shortened(request, sent, self.overflow)).context
            self.attempts += 1
            _tell("compaction_retry", request, self.attempts)

    async def _try_once(self, request: ProviderRequest) -> AsyncGenerator[StreamEvent, None]:
        """One answer. One that finds the conversation too long before it says anything is kept in `overflow`."""
        self.overflow = None
        shown = False
        try:
            async with aclosing(cast("AsyncGenerator[StreamEvent, None]", self.provider.stream(request))) as events:
                async for event in events:
                    if not shown and type(event) is StreamError and isinstance(event.error, ContextOverflow):
                        self.overflow = event.error
                        return
                    shown = shown or type(event) is not StreamStart
                    if type(event) is StreamDone:
                        _tell("request_succeeded", request, self.attempts)
                    yield event
        except ContextOverflow as error:
            if shown:
                raise
            self.overflow = error

    async def _shortened(self, request: ProviderRequest, sent: ProviderRequest, overflow: ContextOverflow) -> Compacted:
        """A cut of the whole conversation that leaves less than what was sent last."""
        if self.attempts >= self.policy.max_attempts:
            raise self._given_up(request, "attempts_exhausted", overflow) from overflow
        keep = max(1, self.policy.preserve_recent >> self.attempts)
        try:
            shorter = self._compact(request.context, keep)
            if shorter.removed and self.policy.summarize is not None and self.policy.strategy != "truncation":
                shorter = self._compact(request.context, keep, await self._summary(shorter.removed))
        except CannotCompact as refused:
            raise self._given_up(request, refused.reason, overflow) from overflow
        if shorter.new_count >= len(sent.context.messages):
            raise self._given_up(request, "nothing_to_remove", overflow) from overflow
        return shorter

    def _compact(self, context: Context, keep: int, summary: str | None = None) -> Compacted:
        strategy = self.policy.strategy if summary else "truncation"
        target = self.policy.target_tokens
        return compact(context, strategy=strategy, preserve_recent=keep, target_tokens=target, summary=summary)

    async def _summary(self, removed: tuple[Message, ...]) -> str | None:
        assert self.policy.summarize is not None
        try:
            return await self.policy.summarize(removed)
        except Exception as error:
            _log.warning("No summary of what is left out of a conversation: %s", redact(str(error)))
            return None

    def _given_up(self, request: ProviderRequest, reason: str, overflow: ContextOverflow) -> CompactionFailed:
        _tell("request_failed", request, self.attempts, reason=reason)
        return CompactionFailed.after(overflow, reason=reason, attempts=self.attempts)


def _tell(what: str, request: ProviderRequest, attempts: int, reason: str | None = None) -> None:
    model = request.model
    telemetry.execute(
        ("lemon_ai", "compacting_client", what),
        {"attempt": attempts},
        {"provider": model.provider, "model": model.id, "reason": reason},
    )
