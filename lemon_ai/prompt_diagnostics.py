"""Edge. For who wants to know what a model call was made of: sizes, counts and hashes, never a word of it.

Off unless the variable LEMON_AI_PROMPT_DIAGNOSTICS is 1, true, yes or on. Then each model call that ended gives one
line of log and one telemetry event. LEMON_AI_PROMPT_DIAGNOSTICS_TOP_N (1 to 49, default 5) is how many of the largest
messages are listed, LEMON_AI_PROMPT_DIAGNOSTICS_LOG_LEVEL (default info) how the line is logged. What fails in here is
logged and forgotten: the call does not notice.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lemon_ai.codec import message_to_wire
from lemon_ai.messages import AssistantMessage
from lemon_ai.provider import ProviderRequest
from lemon_otp import frozen, telemetry

VARIABLE: Final = "LEMON_AI_PROMPT_DIAGNOSTICS"
DEFAULT_TOP_N: Final = 5
_MOST_TOP_N: Final = 49
_ON: Final = frozenset({"1", "true", "yes", "on"})
_NAMES: Final = {"session": "x-lemon-session-key", "agent": "x-lemon-agent-id", "run": "x-lemon-run-id"}

_log = logging.getLogger(__name__)


@frozen
class Part:
    """One piece of a prompt: its length in bytes and the SHA-256 of it."""

    bytes: int
    sha256: str


@frozen
class LargeMessage:
    """One of a prompt's largest messages."""

    index: int
    role: str
    bytes: int


@frozen
class PromptReport:
    """What a model call was made of.

    Attributes:
        by_role: For each role, how many messages and how many bytes.
        largest: The largest messages, the largest first.
        tokens: About how many tokens it all is: a quarter of its bytes, rounded up.
    """

    system: Part
    messages: Part
    tools: Part
    message_count: int
    tool_count: int
    by_role: Mapping[str, tuple[int, int]]
    largest: tuple[LargeMessage, ...]
    tokens: int


def measure(request: ProviderRequest, *, top_n: int = DEFAULT_TOP_N) -> PromptReport:
    """What the prompt of a request is made of. Equal parts have equal hashes, in every process."""
    context = request.context
    sizes: list[LargeMessage] = []
    by_role: dict[str, tuple[int, int]] = {}
    encoded: list[bytes] = []
    for index, message in enumerate(context.messages):
        raw = _stable(message_to_wire(message))
        encoded.append(raw)
        sizes.append(LargeMessage(index, message.role, len(raw)))
        count, size = by_role.get(message.role, (0, 0))
        by_role[message.role] = (count + 1, size + len(raw))
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in context.tools
    ]
    parts = (
        _part([(context.system_prompt or "").encode("utf-8", "replace")]),
        _part(encoded),
        _part([_stable(tool) for tool in tools]),
    )
    return PromptReport(
        *parts,
        message_count=len(context.messages),
        tool_count=len(tools),
        by_role=by_role,
        largest=tuple(sorted(sizes, key=lambda message: (-message.bytes, message.index))[:top_n]),
        tokens=(sum(part.bytes for part in parts) + 3) // 4,
    )


def record(request: ProviderRequest, answer: AssistantMessage | None, environ: Mapping[str, str] = os.environ) -> None:
    """Tell what a call that ended was made of, if anybody wants to know. Never raises.

    Args:
        request: The call.
        answer: What it ended with; None when it was canceled before it said anything.
        environ: Where the settings are looked up.
    """
    if environ.get(VARIABLE, "").strip().lower() not in _ON:
        return
    try:
        _tell(request, answer, environ)
    except Exception as error:
        _log.warning("No diagnostics of a prompt: %s", type(error).__name__)


def _tell(request: ProviderRequest, answer: AssistantMessage | None, environ: Mapping[str, str]) -> None:
    report = measure(request, top_n=_top_n(environ))
    measurements = {
        "system_bytes": report.system.bytes,
        "messages_bytes": report.messages.bytes,
        "tools_bytes": report.tools.bytes,
        "message_count": report.message_count,
        "tool_count": report.tool_count,
        "approx_tokens": report.tokens,
        **_used(answer),
    }
    metadata = {
        "api": request.model.api,
        "provider": request.model.provider,
        "model": request.model.id,
        "stop_reason": answer.stop_reason if answer is not None else None,
        "system_sha256": report.system.sha256,
        "messages_sha256": report.messages.sha256,
        "tools_sha256": report.tools.sha256,
        "by_role": {role: {"count": count, "bytes": size} for role, (count, size) in report.by_role.items()},
        "largest": [{"index": item.index, "role": item.role, "bytes": item.bytes} for item in report.largest],
        **_names(request.options.headers),
    }
    telemetry.execute(("lemon_ai", "prompt_diagnostics", "llm_call"), measurements, metadata)
    _log.log(_level(environ), "prompt diagnostics %s", json.dumps(metadata | measurements, sort_keys=True, default=str))


def _used(answer: AssistantMessage | None) -> dict[str, int]:
    if answer is None:
        return {}
    usage = answer.usage
    total = usage.input + usage.cache_read + usage.cache_write
    return {"input": usage.input, "output": usage.output, "cache_read": usage.cache_read, "total_input": total}


def _names(headers: Mapping[str, str]) -> dict[str, str | None]:
    """Whose call it was, where the caller said so in its headers."""
    given = {name.lower(): value for name, value in headers.items()}
    return {what: given.get(header) for what, header in _NAMES.items()}


def _top_n(environ: Mapping[str, str]) -> int:
    told = environ.get(f"{VARIABLE}_TOP_N", "").strip()
    return int(told) if told.isdecimal() and 1 <= int(told) <= _MOST_TOP_N else DEFAULT_TOP_N


def _level(environ: Mapping[str, str]) -> int:
    told = logging.getLevelName(environ.get(f"{VARIABLE}_LOG_LEVEL", "info").strip().upper())
    return told if isinstance(told, int) else logging.INFO


def _stable(document: Any) -> bytes:
    """Equal documents give equal bytes; when they were said makes no difference."""
    if isinstance(document, dict):
        document = {name: value for name, value in document.items() if name != "timestamp"}
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode("utf-8", "replace")


def _part(pieces: Iterable[bytes]) -> Part:
    from hashlib import sha256

    whole = b"\n".join(pieces)
    return Part(len(whole), sha256(whole).hexdigest())
