"""Pure. The pass that makes a conversation held with one model acceptable to another.

Every encoder runs `hand_over` before it maps messages to its wire. What it guarantees to the encoder:

- no assistant message that ended in an error or was aborted is left, nor anything of a role the wire does not know;
- each tool call is answered exactly once, directly after the message that made it, and each result has its call;
- call ids are unique in the whole history and pass the target's normaliser;
- nothing signed by another model is left: foreign thinking is plain text, foreign signatures are gone;
- no image is left for a model that cannot see.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from attrs import evolve

from lemon_ai.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from lemon_ai.models.model import Model
from lemon_ai.wire_text import short_hash

IdNormaliser = Callable[[str, AssistantMessage], str]
"""From a call id and the message that made the call to the id the target's wire accepts."""

NOTHING_LEFT: Final = "No text remained after provider message filtering."
NO_RESULT: Final = "No result provided"
IMAGE_OMITTED: Final = "(image omitted: model does not support images)"
_DROPPED_STOPS: Final = frozenset({"error", "aborted", "deferred"})


def hand_over(
    messages: Iterable[Any],
    model: Model,
    *,
    normalise_id: IdNormaliser | None = None,
    omitted_image_text: str | None = None,
    id_limit: int = 64,
) -> tuple[Message, ...]:
    """The history as `model` can be asked to continue it.

    Args:
        messages: Chronological history; values of unknown roles are left out.
        model: The model about to be called.
        normalise_id: The target's rule for ids of other models; None keeps them. Ids of `model` itself are kept.
        omitted_image_text: What a message says when images were all it had and the model cannot see; None drops it.
        id_limit: Longest id, for the suffix that keeps two ids apart.
    """
    ids = _Ids(normalise_id, id_limit)
    sees = model.sees_images
    out: list[Message] = []
    for head, tail in _turns(messages):
        pending: dict[str, list[str]] = {}
        calls: list[ToolCall] = []
        if head is not None:
            head = _assistant_for(head, model, ids, pending)
            if head.content:
                out.append(head)
                calls = [block for block in head.content if isinstance(block, ToolCall)]
        out.extend(_answers(calls, tail, pending, sees))
        out.extend(_prompts(tail, sees, omitted_image_text))
    return tuple(out)


def same_model(message: AssistantMessage, model: Model) -> bool:
    """Whether `message` was produced by exactly this provider, api and model."""
    return (message.provider, message.api, message.model) == (model.provider, model.api, model.id)


def _turns(messages: Iterable[Any]) -> Iterator[tuple[AssistantMessage | None, list[UserMessage | ToolResultMessage]]]:
    """Each assistant message worth keeping, with everything said before the next one."""
    head: AssistantMessage | None = None
    tail: list[UserMessage | ToolResultMessage] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            if message.stop_reason in _DROPPED_STOPS:
                continue
            yield head, tail
            head, tail = message, []
        elif isinstance(message, UserMessage | ToolResultMessage):
            tail.append(message)
    yield head, tail


class _Ids:
    """Hands out call ids so that no two calls of a history share one.

    What must differ is the part before `|`: OpenAI's Responses ids carry an item id after it, the others have none.
    """

    def __init__(self, normalise: IdNormaliser | None, limit: int) -> None:
        self._normalise = normalise
        self._limit = limit
        self._used: set[str] = set()

    def issue(self, call: ToolCall, message: AssistantMessage, *, ours: bool) -> str:
        wanted = call.id if ours or self._normalise is None else self._normalise(call.id, message)
        candidate, attempt = wanted, 0
        while not _wire_part(candidate) or _wire_part(candidate) in self._used:
            attempt += 1
            candidate = self._retry(call.id, wanted, message, attempt)
        self._used.add(_wire_part(candidate))
        return candidate

    def _retry(self, original: str, wanted: str, message: AssistantMessage, attempt: int) -> str:
        if self._normalise is not None and attempt <= len(self._used) + 1:
            head, bar, item = original.partition("|")
            return self._normalise(f"{head}#{attempt}{bar}{item}", message)
        head, bar, item = wanted.partition("|")
        suffix = f"_{short_hash(f'{original}#{attempt}', 6)}"
        return f"{head[: self._limit - len(suffix)]}{suffix}{bar}{item}"


def _wire_part(call_id: str) -> str:
    return call_id.partition("|")[0]


def _assistant_for(
    message: AssistantMessage, model: Model, ids: _Ids, pending: dict[str, list[str]]
) -> AssistantMessage:
    """`message` as `model` may read it; `pending` learns which new ids stand for which old ones."""
    ours = same_model(message, model)
    content: list[TextContent | ThinkingContent | ToolCall] = []
    for block in message.content:
        if isinstance(block, ToolCall):
            new_id = ids.issue(block, message, ours=ours)
            pending.setdefault(block.id, []).append(new_id)
            content.append(evolve(block, id=new_id, thought_signature=block.thought_signature if ours else None))
        else:
            kept = _kept(block) if ours else _foreign(block)
            if kept is not None:
                content.append(kept)
    return evolve(message, content=tuple(content))


def _kept(block: TextContent | ThinkingContent) -> TextContent | ThinkingContent | None:
    if isinstance(block, ThinkingContent) and not block.thinking_signature and not block.thinking.strip():
        return None
    return block


def _foreign(block: TextContent | ThinkingContent) -> TextContent | None:
    """What another model's block says, without what only that model can read."""
    if isinstance(block, TextContent):
        return TextContent(block.text)
    if block.redacted or not block.thinking.strip():
        return None
    return TextContent(block.thinking)


def _answers(
    calls: Sequence[ToolCall],
    tail: Iterable[UserMessage | ToolResultMessage],
    pending: dict[str, list[str]],
    sees: bool,
) -> Iterator[ToolResultMessage]:
    """One result for each call: those given, in the order given, then one that says there was none."""
    answered: set[str] = set()
    for message in tail:
        if isinstance(message, ToolResultMessage):
            waiting = pending.get(message.tool_call_id)
            if waiting:
                new_id = waiting.pop(0)
                answered.add(new_id)
                yield evolve(message, tool_call_id=new_id, content=_seen(message.content, sees, IMAGE_OMITTED))
    for call in calls:
        if call.id not in answered:
            yield ToolResultMessage(
                tool_call_id=call.id, tool_name=call.name, content=(TextContent(NO_RESULT),), is_error=True
            )


def _prompts(
    tail: Iterable[UserMessage | ToolResultMessage], sees: bool, omitted_text: str | None
) -> Iterator[UserMessage]:
    for message in tail:
        if not isinstance(message, UserMessage):
            continue
        if isinstance(message.content, str):
            yield message
            continue
        content = _seen(message.content, sees, omitted_text)
        if content:
            yield evolve(message, content=content)


def _seen(
    content: Sequence[TextContent | ImageContent], sees: bool, omitted_text: str | None
) -> tuple[TextContent | ImageContent, ...]:
    """The blocks a model can take in; `omitted_text` stands for images when nothing else is left."""
    if sees:
        return tuple(content)
    kept = tuple(block for block in content if not isinstance(block, ImageContent))
    if not kept and content and omitted_text is not None:
        return (TextContent(omitted_text),)
    return kept
