"""Pure. The offline assistant behind `scripted/demo`: a handful of rules that look at a conversation and answer it.

It is no model. It lets the whole road run without a key: it asks for tools the context offers, quotes what they
really returned, and remembers what was said before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lemon_ai.messages import (
    AssistantMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    get_text,
    get_tool_calls,
)
from lemon_ai.providers.script import Call, Say, Think, Turn
from lemon_ai.stream_options import Context

_RECALL: Final = re.compile(
    r"\b(?:did|have) i (?:\w+ )?(?:ask(?:ed)?|sa(?:y|id)|told|tell|want(?:ed)?)\b"
    r"|\b(?:asked|said) (?:you )?(?:before|earlier)\b"
    r"|\b(?:recall|remember|my (?:last|first|previous|earlier)|previous(?:ly)? (?:question|prompt|message))",
    re.IGNORECASE,
)
_LOOK: Final = re.compile(
    r"\b(?:repo(?:sitory)?|project|folder|directory|files?|code(?:base)?|workspace|readme|here)\b", re.IGNORECASE
)
_RUN: Final = re.compile(r"\b(?:run|execute)\b[^`\n]*`([^`]+)`|^\s*\$ (.+)$", re.IGNORECASE | re.MULTILINE)
_SEARCH: Final = re.compile(r"\b(?:search|grep|look) (?:for )?[`\"']([^`\"'\n]+)[`\"']", re.IGNORECASE)
_WRITE: Final = re.compile(r"\bwrite [`\"'](.+?)[`\"'] to [`\"']?([\w./-]+\.\w+)[`\"']?", re.IGNORECASE | re.DOTALL)
_FILE: Final = re.compile(r"(?<![\w/.-])((?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,5})(?![\w/-])")
_ENTRY: Final = re.compile(r"^\s*(?:[d-] )?")
_ABOUT_LIST: Final = re.compile(r":\s*$|^\d+ entr(?:y|ies)\b|^No files found")
"""Lines of a listing that are no entry of it."""
_QUOTE_LINES: Final = 6
_QUOTE_WIDTH: Final = 160
_LISTED: Final = 12


def answer(context: Context) -> Turn:
    """What the assistant does next."""
    results = _latest_results(context)
    if results:
        return (Say(_report(results, _calls_by_id(context))),)
    asked = _asked(context)
    if not asked:
        return (Say("There is no question yet. Ask me what is in this repository."),)
    if _RECALL.search(asked[-1]):
        return (Say(_recall(asked[:-1])),)
    calls = _calls_for(asked[-1], {tool.name: tool.parameters for tool in context.tools})
    if calls:
        names = " and ".join(dict.fromkeys(call.name for call in calls))
        return (
            Think(f"The question is about what is on disk, so I look with {names} instead of guessing."),
            Say("Let me look."),
            *calls,
        )
    return (Say(_small_talk(asked[-1], len(asked), bool(context.tools))),)


def _calls_for(prompt: str, tools: Mapping[str, Mapping[str, Any]]) -> list[Call]:
    """The calls a prompt asks for, as far as the context offers the tools."""
    wanted: list[tuple[str, dict[str, str]]] = []
    if (run := _RUN.search(prompt)) is not None:
        wanted.append(("bash", {"command": (run.group(1) or run.group(2)).strip()}))
    elif (write := _WRITE.search(prompt)) is not None:
        wanted.append(("write", {"path": write.group(2), "content": write.group(1)}))
    elif (search := _SEARCH.search(prompt)) is not None:
        wanted += [("grep", {"pattern": search.group(1), "path": "."}), ("find", {"pattern": "*", "path": "."})]
    elif files := list(dict.fromkeys(_FILE.findall(prompt))):
        wanted += [("read", {"path": path}) for path in files[:4]]
    elif _LOOK.search(prompt):
        wanted += [("ls", {"path": "."}), ("read", {"path": "README.md"}), ("find", {"pattern": "*.toml", "path": "."})]
    return [Call(name, _fitting(arguments, tools[name])) for name, arguments in wanted if name in tools]


def _fitting(arguments: Mapping[str, str], schema: Mapping[str, Any]) -> dict[str, str]:
    """Only the arguments a tool declares, under the name it declares for a path."""
    declared = schema.get("properties")
    if not isinstance(declared, Mapping) or not declared:
        return dict(arguments)
    fitting: dict[str, str] = {}
    for name, value in arguments.items():
        known = name if name in declared else next((n for n in ("path", "file_path", "file") if n in declared), "")
        if known and (name in declared or name == "path"):
            fitting[known] = value
    return fitting


def _asked(context: Context) -> list[str]:
    """What the user said, oldest first."""
    return [text for m in context.messages if isinstance(m, UserMessage) and (text := get_text(m).strip())]


def _latest_results(context: Context) -> list[ToolResultMessage]:
    """The tool results the conversation ends with."""
    results: list[ToolResultMessage] = []
    for message in reversed(context.messages):
        if not isinstance(message, ToolResultMessage):
            break
        results.insert(0, message)
    return results


def _calls_by_id(context: Context) -> dict[str, ToolCall]:
    assistants = [message for message in context.messages if isinstance(message, AssistantMessage)]
    return {call.id: call for message in assistants for call in get_tool_calls(message)}


def _recall(before: Sequence[str]) -> str:
    if not before:
        return "This is the first thing you said to me in this conversation."
    said = "\n".join(f"{number}. {_shortened(text)}" for number, text in enumerate(before, 1))
    return f"Before this you said to me:\n{said}"


def _report(results: Sequence[ToolResultMessage], calls: Mapping[str, ToolCall]) -> str:
    parts = [_told(result, calls.get(result.tool_call_id)) for result in results]
    return "\n\n".join(["Here is what I found.", *parts])


def _told(result: ToolResultMessage, call: ToolCall | None) -> str:
    text = "\n".join(block.text for block in result.content if isinstance(block, TextContent)).strip()
    lines = [line for line in text.splitlines() if line.strip()]
    about = _about(result.tool_name, call)
    if result.is_error:
        return f"{about} failed: {_shortened(lines[0]) if lines else 'no reason given'}"
    if not lines:
        return f"{about} returned nothing."
    if result.tool_name in ("ls", "find"):
        lines = [_ENTRY.sub("", line) for line in lines if not _ABOUT_LIST.search(line)]
        if not lines:
            return f"{about} finds nothing."
        more = f" and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
        counted = f"{len(lines)} {'entry' if len(lines) == 1 else 'entries'}"
        return f"{about} lists {counted}: {', '.join(line.strip() for line in lines[:_LISTED])}{more}."
    if len(lines) == 1:
        return f"{about} says: {_shortened(lines[0])}"
    quoted = "\n".join(_shortened(line) for line in lines[:_QUOTE_LINES])
    fence = "~~~" if "```" in quoted else "```"
    more = f"\n\n({len(lines) - _QUOTE_LINES} more lines)" if len(lines) > _QUOTE_LINES else ""
    return f"{about} says:\n\n{fence}text\n{quoted}\n{fence}{more}"


def _about(name: str, call: ToolCall | None) -> str:
    first = next((str(value) for value in call.arguments.values()), "") if call is not None else ""
    return f"`{name} {_shortened(first)}`" if first else f"`{name}`"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _QUOTE_WIDTH else line[: _QUOTE_WIDTH - 1] + "…"


def _small_talk(prompt: str, count: int, has_tools: bool) -> str:
    offer = "what is in this repository, or for a file by its name" if has_tools else "to repeat what you said before"
    return (
        f"You said: {_shortened(prompt)}\n\nI am a scripted stand-in that runs without any model, and this is prompt "
        f"number {count} of our conversation. Ask me {offer}."
    )
