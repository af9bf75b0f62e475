"""Edge. What one message may take up of a model call, however large it is in the history: the rest is kept in a file.

Tools bound what they say themselves; tools of servers, of extensions and of a program's own may not. A text that is too
long keeps its head and its tail and says where the whole of it is; the file's name comes of its content, so the same
history gives the same request, which caches at a provider rely on. The history itself is never changed.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from attrs import define, evolve, field, frozen

from coding_agent.messages import convert_to_llm
from coding_agent.private_files import replace_file
from lemon_agent import AgentMessage
from lemon_ai import AssistantMessage, ImageContent, Message, TextContent, ThinkingContent, ToolCall, ToolResultMessage
from lemon_otp import make_private

NO_IMAGE: Final = TextContent("[an earlier picture was left out]")
_EXCERPT: Final = 600


@frozen(kw_only=True)
class Guardrails:
    """Limits; None is no limit.

    Attributes:
        max_tool_result_bytes: Text of one tool result.
        max_tool_result_images: Pictures in tool results together; the newest stay.
        max_thinking_bytes: Thinking that its provider has not signed.
        max_tool_call_arg_string_bytes: One text in the arguments of a call.
    """

    max_tool_result_bytes: int | None = 60_000
    max_tool_result_images: int | None = 20
    max_thinking_bytes: int | None = 65_536
    max_tool_call_arg_string_bytes: int | None = 12_000


@define(eq=False)
class Guard:
    """The limits of one session. Attributes: `spill_dir`, where the whole of what is cut goes; None for nowhere."""

    limits: Guardrails
    spill_dir: Path | None
    _seen: dict[int, tuple[Message, Message]] = field(factory=dict, init=False)

    def convert(self, messages: Sequence[AgentMessage]) -> list[Message]:
        """The conversation as a model call has it."""
        converted = convert_to_llm(messages)
        seen, self._seen = self._seen, {}
        bounded = []
        for message in converted:
            known = seen.get(id(message))
            result = known[1] if known is not None and known[0] is message else self._bounded(message)
            self._seen[id(message)] = (message, result)
            bounded.append(result)
        return _newest_images(bounded, self.limits.max_tool_result_images)

    def _bounded(self, message: Message) -> Message:
        match message:
            case ToolResultMessage() if self.limits.max_tool_result_bytes is not None:
                return self._bounded_result(message, self.limits.max_tool_result_bytes)
            case AssistantMessage():
                blocks = tuple(
                    block for each in message.content if (block := self._bounded_block(each, message)) is not None
                )
                unchanged = len(blocks) == len(message.content) and all(map(_same, blocks, message.content))
                return message if unchanged else evolve(message, content=blocks)
            case _:
                return message

    def _bounded_result(self, message: ToolResultMessage, limit: int) -> ToolResultMessage:
        texts = [block.text for block in message.content if isinstance(block, TextContent)]
        if _size(texts, limit) <= limit:
            return message
        whole = "\n".join(texts)
        raw = whole.encode("utf-8", "replace")
        kept = f"[{message.tool_name}: {self._where(raw)}]\n{_ends(raw, limit)}"
        others = tuple(block for block in message.content if not isinstance(block, TextContent))
        return evolve(message, content=(TextContent(kept), *others))

    def _bounded_block(self, block: Any, message: AssistantMessage) -> Any:
        match block:
            case ThinkingContent(thinking=str(text), thinking_signature=None) if not block.redacted:
                limit, alone = self.limits.max_thinking_bytes, len(message.content) == 1
                return block if limit is None or alone or _size([text], limit) <= limit else None
            case ToolCall() if self.limits.max_tool_call_arg_string_bytes is not None:
                arguments = self._bounded_value(block.arguments, self.limits.max_tool_call_arg_string_bytes)
                return block if arguments is block.arguments else evolve(block, arguments=arguments)
            case _:
                return block

    def _bounded_value(self, value: Any, limit: int) -> Any:
        """The same value where nothing in it is too long."""
        match value:
            case str() if _size([value], limit) > limit:
                raw = value.encode("utf-8", "replace")
                cut: dict[str, Any] = {"_truncated": True, "bytes": len(raw), "sha256": sha256(raw).hexdigest()}
                if (path := self._spilled(raw)) is not None:
                    cut["spill_path"] = str(path)
                return cut | {"head_tail_excerpt": _ends(raw, _EXCERPT)}
            case Mapping():
                items = {key: self._bounded_value(item, limit) for key, item in value.items()}
                return value if all(items[key] is item for key, item in value.items()) else items
            case list() | tuple():
                parts = [self._bounded_value(item, limit) for item in value]
                return value if all(map(_same, parts, value)) else parts
            case _:
                return value

    def _where(self, raw: bytes) -> str:
        path = self._spilled(raw)
        kept = "" if path is None else f"; all of it is in {path}"
        return f"{len(raw)} bytes, sha256 {sha256(raw).hexdigest()}{kept}"

    def _spilled(self, raw: bytes) -> Path | None:
        """The file with all of it; None when there is none."""
        if self.spill_dir is None:
            return None
        path = self.spill_dir / f"{sha256(raw).hexdigest()}.txt"
        with suppress(OSError):
            if not path.exists():
                make_private(self.spill_dir)
                replace_file(path, raw, durable=False)
            return path
        return None


def _size(texts: Sequence[str], limit: int) -> int:
    """Bytes of texts together; as many characters where that is enough to know that they are within the limit."""
    characters = sum(map(len, texts))
    return characters if characters * 4 <= limit else sum(len(text.encode("utf-8", "replace")) for text in texts)


def _ends(raw: bytes, limit: int) -> str:
    """Head and tail of a text, about `limit` bytes together, no character cut through."""
    half = limit // 2
    head, tail = raw[:half].decode("utf-8", "ignore"), raw[-half:].decode("utf-8", "ignore")
    return f"{head}\n[... {len(raw) - 2 * half} bytes left out ...]\n{tail}"


def _newest_images(messages: list[Message], limit: int | None) -> list[Message]:
    if limit is None:
        return messages
    left = limit
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if not isinstance(message, ToolResultMessage):
            continue
        count = sum(isinstance(block, ImageContent) for block in message.content)
        if count > left:
            blocks = (NO_IMAGE if isinstance(block, ImageContent) else block for block in message.content)
            messages[at] = evolve(message, content=tuple(blocks))
            left = 0
        else:
            left -= count
    return messages


def _same(one: object, other: object) -> bool:
    return one is other
