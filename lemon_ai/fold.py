"""Pure. Provider events to a partial, then a final, message: the one place where an answer grows.

A decoder says what it saw (`text`, `thinking`, `tool_start`, `tool_args`, `end`, `usage`, `done`, `fail`) and gets
back the events to emit. A block's pieces are only ever appended, each with the number of the moment it came at, so
an event needs no copy of anything: it remembers its moment, and `partial_at` joins what was there by then. The
cost of a delta is the same for the first and for the fifty-thousandth.

A key names a block on the wire: Anthropic's index, "text", a tool call's index. A block's place in the message is
its own affair.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Literal

from attrs import evolve

from lemon_ai.block import Block, Facts, Kind
from lemon_ai.errors import ProviderError, StreamTruncated
from lemon_ai.events import (
    StreamDone,
    StreamError,
    StreamEvent,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from lemon_ai.messages import (
    NO_USAGE,
    AssistantContent,
    AssistantMessage,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
)
from lemon_ai.models.model import Model, calculate_cost
from lemon_ai.partial_json import parse_arguments
from lemon_otp import wall_ms

_START_EVENTS: Mapping[Kind, type[TextStart] | type[ThinkingStart] | type[ToolCallStart]] = {
    "text": TextStart,
    "thinking": ThinkingStart,
    "tool": ToolCallStart,
}


class Fold:
    """One answer while it arrives. Made by a provider for each call, and handed to its decoder."""

    def __init__(self, model: Model, *, taken_ids: Iterable[str] = (), timestamp: int | None = None) -> None:
        """Start an answer of `model`.

        Args:
            model: Gives api, provider, id and prices.
            taken_ids: Tool-call ids of the conversation; an id made up here is none of them. Read once, and only
                when the provider left an id out.
            timestamp: When the call began, in Unix milliseconds; now, when left out.
        """
        self.model = model
        self.finished = False
        self._started = False
        self._at = 0
        self._blocks: list[Block] = []
        self._by_key: dict[Hashable, Block] = {}
        self._taken_ids = taken_ids
        self._tokens: dict[str, int] = {}
        self._multiplier = 1.0
        self._usage: list[tuple[int, Usage]] = []
        self._response_id: str | None = None
        self._lost: ProviderError | None = None
        self._timestamp = wall_ms() if timestamp is None else timestamp

    # What a decoder tells.

    def start(self) -> list[StreamEvent]:
        """The provider began to answer. Only the first call says anything."""
        if self._started or self.finished:
            return []
        self._started = True
        return [StreamStart(source=self, at=self._moment())]

    def text(self, delta: str, key: Hashable = "text") -> list[StreamEvent]:
        """More text; opens the block if it is not open."""
        block = self._by_key.get(key)
        if block is None or block.closed_at is not None or block.kind != "text":
            if not delta or self.finished:
                return []
            return [*self.text_start(key), *self.text(delta, key)]
        if not delta.isascii() or block.half:
            delta = block.whole(delta)
        if not delta or self.finished:
            return []
        self._at = at = self._at + 1
        block.parts.append(delta)
        block.marks.append(at)
        return [TextDelta(block.index, delta, source=self, at=at)]

    def text_start(self, key: Hashable = "text", *, signature: str | None = None) -> list[StreamEvent]:
        """A text block opens, and the text or thinking before it ends."""
        return self._open("text", key, Facts(signature=signature))

    def thinking(self, delta: str, key: Hashable = "thinking", *, signature: str | None = None) -> list[StreamEvent]:
        """More thinking; opens the block if it is not open. `signature` is used for the opening only."""
        block = self._by_key.get(key)
        if block is None or block.closed_at is not None or block.kind != "thinking":
            if not delta or self.finished:
                return []
            return [*self.thinking_start(key, signature=signature), *self.thinking(delta, key)]
        if not delta.isascii() or block.half:
            delta = block.whole(delta)
        if not delta or self.finished:
            return []
        self._at = at = self._at + 1
        block.parts.append(delta)
        block.marks.append(at)
        return [ThinkingDelta(block.index, delta, source=self, at=at)]

    def thinking_start(
        self, key: Hashable = "thinking", *, signature: str | None = None, redacted: bool = False
    ) -> list[StreamEvent]:
        """A thinking block opens, and the text or thinking before it ends."""
        return self._open("thinking", key, Facts(signature=signature, redacted=redacted))

    def tool_start(
        self, key: Hashable, call_id: str | None = "", name: str | None = "", *, thought_signature: str | None = None
    ) -> list[StreamEvent]:
        """A tool call opens, and open text or thinking ends; for a call already open, its id and name came late."""
        block = self._by_key.get(key)
        if block is not None and block.kind == "tool" and block.closed_at is None:
            self.tool_facts(key, call_id=call_id, name=name, thought_signature=thought_signature)
            return []
        return self._open("tool", key, Facts(call_id or "", name or "", thought_signature))

    def tool_args(self, key: Hashable, fragment: str) -> list[StreamEvent]:
        """More of a call's arguments; opens the call if its id has not come yet."""
        block = self._by_key.get(key)
        if self.finished:
            return []
        if block is None or block.closed_at is not None or block.kind != "tool":
            return [*self.tool_start(key), *self.tool_args(key, fragment)]
        if not fragment.isascii() or block.half:
            fragment = block.whole(fragment)
        if not fragment or self.finished:
            return []
        self._at = at = self._at + 1
        block.parts.append(fragment)
        block.marks.append(at)
        return [ToolCallDelta(block.index, fragment, source=self, at=at)]

    def tool_facts(
        self,
        key: Hashable,
        *,
        call_id: str | None = None,
        name: str | None = None,
        thought_signature: str | None = None,
    ) -> None:
        """What became known of an open call; blank values change nothing."""
        block = self._by_key[key]
        now = block.facts[-1][1]
        self._learn(
            block,
            evolve(
                now,
                id=call_id or now.id,
                name=name or now.name,
                signature=thought_signature or now.signature,
            ),
        )

    def sign(self, key: Hashable, signature: str, *, append: bool = False) -> None:
        """A block's signature, open or not; `append` adds to what came before. A key never opened is ignored."""
        block = self._by_key.get(key)
        if block is None or not signature:
            return
        now = block.facts[-1][1]
        self._learn(block, evolve(now, signature=(now.signature or "") + signature if append else signature))

    def end(
        self,
        key: Hashable,
        *,
        content: str | None = None,
        signature: str | None = None,
        arguments: str | None = None,
        call_id: str | None = None,
    ) -> list[StreamEvent]:
        """A block is complete. What is passed here replaces what was streamed.

        Args:
            key: The block; one that is not open is ignored.
            content: The whole text or thinking.
            signature: The block's signature.
            arguments: The whole text of a call's arguments.
            call_id: The call's id.
        """
        block = self._by_key.get(key)
        if block is None or block.closed_at is not None or self.finished:
            return []
        now = block.facts[-1][1]
        facts = evolve(now, signature=signature or now.signature, id=call_id or now.id)
        if facts != now:
            self._learn(block, facts)
        whole = arguments if block.kind == "tool" else content
        return [self._close(block, whole)]

    def end_all(self) -> list[StreamEvent]:
        """Every open block is complete; their ends come in the order of the content."""
        return [self._close(block, None) for block in self._blocks if block.closed_at is None]

    def usage(
        self,
        *,
        input: int | None = None,  # noqa: A002 - the field it becomes
        output: int | None = None,
        cache_read: int | None = None,
        cache_write: int | None = None,
        total_tokens: int | None = None,
        multiplier: float | None = None,
    ) -> None:
        """Tokens as known now; None leaves what was known. The cost follows at once."""
        told = {
            "input": input,
            "output": output,
            "cache_read": cache_read,
            "cache_write": cache_write,
            "total_tokens": total_tokens,
        }
        self._tokens.update({name: max(0, int(count)) for name, count in told.items() if count is not None})
        self._multiplier = self._multiplier if multiplier is None else multiplier
        counted: dict[str, Any] = dict(self._tokens)
        counted.setdefault("total_tokens", sum(self._tokens.values()))
        usage = Usage(**counted)
        cost = calculate_cost(self.model, usage, multiplier=self._multiplier)
        self._usage.append((self._at, evolve(usage, cost=cost)))

    def response_id(self, response_id: str | None) -> None:
        """The provider's id for the answer."""
        self._response_id = response_id or self._response_id

    def done(self, reason: Literal["stop", "length", "tool_use"]) -> list[StreamEvent]:
        """The answer is complete: what is open ends, then the terminal event.

        Whether the answer stopped for its tools is read from the answer: vendors say "stop" with calls present.
        """
        if self.finished:
            return []
        events = [*self.start(), *self.end_all()]
        if reason != "length":
            reason = "tool_use" if any(block.kind == "tool" for block in self._blocks) else "stop"
        message = self._message(reason)
        self.finished = True
        return [*events, StreamDone(reason, message)]

    def fail(self, reason: Literal["error", "aborted"], error: ProviderError | str) -> list[StreamEvent]:
        """The answer ends here, badly. A call whose end was not seen is kept for display and marked invalid."""
        if self.finished:
            return []
        if isinstance(error, StreamTruncated) and self._lost is not None:
            error = self._lost
        for block in self._blocks:
            if block.closed_at is None and block.kind == "tool":
                self._close(block, None, cut=True)
        message = evolve(self._message(reason), error_message=str(error))
        self.finished = True
        if isinstance(error, str):
            error = ProviderError(provider=self.model.provider, message=error)
        error.partial = message
        return [StreamError(reason, message, error if reason == "error" else None)]

    def lost(self, error: ProviderError) -> None:
        """The connection broke. The decoder says whether that cut the answer short; if so, `error` tells it."""
        self._lost = error

    # What a decoder, or an event, may ask.

    @property
    def started(self) -> bool:
        """Whether `start` has been said."""
        return self._started

    @property
    def has_content(self) -> bool:
        """Whether any block was opened: from then on a failed call is not repeated."""
        return bool(self._blocks)

    def is_open(self, key: Hashable) -> bool:
        """Whether a block of this key is open."""
        block = self._by_key.get(key)
        return block is not None and block.closed_at is None

    def streamed(self, key: Hashable) -> str:
        """What a block was fed so far: text, thinking, or the raw text of arguments."""
        block = self._by_key.get(key)
        return "" if block is None else block.text_at(self._at)

    def tool_name(self, key: Hashable) -> str:
        """The name of a call as far as it came."""
        block = self._by_key.get(key)
        return "" if block is None else block.facts[-1][1].name

    def tool_key(self, call_id: str) -> Hashable | None:
        """The key of the call that has this id."""
        for key, block in self._by_key.items():
            if block.kind == "tool" and block.facts[-1][1].id == call_id:
                return key
        return None

    @property
    def message(self) -> AssistantMessage:
        """The message as of now."""
        return self.partial_at(self._at)

    def partial_at(self, at: int) -> AssistantMessage:
        """The message as it was at moment `at`."""
        return self._message("stop", at)

    # Helpers.

    def _moment(self) -> int:
        self._at += 1
        return self._at

    def _learn(self, block: Block, facts: Facts) -> None:
        if block.closed_at is not None:
            block.final = _signed(block.final, facts.signature)
        block.facts.append((self._moment(), facts))

    def _open(self, kind: Kind, key: Hashable, facts: Facts) -> list[StreamEvent]:
        if self.finished:
            return []
        events: list[StreamEvent] = self.start()
        before = self._by_key.get(key)
        in_the_way = [b for b in self._blocks if b.closed_at is None and (b.kind != "tool" or b is before)]
        events.extend(self._close(block, None) for block in in_the_way)
        block = Block(kind, len(self._blocks), self._moment(), facts)
        self._blocks.append(block)
        self._by_key[key] = block
        events.append(_START_EVENTS[kind](block.index, source=self, at=block.opened_at))
        return events

    def _close(self, block: Block, whole: str | None, *, cut: bool = False) -> StreamEvent:
        if block.half:  # of a character whose other half never came
            block.parts.append("\ufffd")
            block.marks.append(self._moment())
        text = block.text_at(self._at) if whole is None else whole
        at = block.closed_at = self._moment()
        facts = block.facts[-1][1]
        if block.kind == "text":
            block.final = TextContent(text, facts.signature)
            return TextEnd(block.index, text, source=self, at=at)
        if block.kind == "thinking":
            block.final = ThinkingContent(text, facts.signature, facts.redacted)
            return ThinkingEnd(block.index, text, source=self, at=at)
        arguments, invalid = ({}, text) if cut else parse_arguments(text)
        call_id = self._unique_id(block, facts.id)
        call = ToolCall(call_id, facts.name or "unknown_tool", arguments, facts.signature, invalid)
        block.facts.append((at, evolve(facts, id=call_id)))
        block.final = call
        return ToolCallEnd(block.index, call, source=self, at=at)

    def _unique_id(self, block: Block, wanted: str) -> str:
        others = {other.facts[-1][1].id for other in self._blocks if other.index < block.index and other.kind == "tool"}
        if not wanted:
            wanted = f"call_stream_{block.index}"
            others |= set(self._taken_ids)
        unique, attempt = wanted, 0
        while unique in others:
            attempt += 1
            unique = f"{wanted}_{block.index}_{attempt}"
        return unique

    def _message(self, reason: StopReason, at: int | None = None) -> AssistantMessage:
        moment = self._at if at is None else at
        usage = NO_USAGE
        for since, counted in reversed(self._usage):
            if since <= moment:
                usage = counted
                break
        return AssistantMessage(
            content=tuple(block.content_at(moment) for block in self._blocks if block.opened_at <= moment),
            api=self.model.api,
            provider=self.model.provider,
            model=self.model.id,
            usage=usage,
            stop_reason=reason,
            response_id=self._response_id,
            timestamp=self._timestamp,
        )


def _signed(content: AssistantContent | None, signature: str | None) -> AssistantContent | None:
    match content:
        case TextContent():
            return evolve(content, text_signature=signature)
        case ThinkingContent():
            return evolve(content, thinking_signature=signature)
        case ToolCall():
            return evolve(content, thought_signature=signature)
    return content
