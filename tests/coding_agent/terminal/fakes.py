"""A host that is none: answers commands as it was told, and sends the events a test wants."""

import asyncio
from collections.abc import Callable
from typing import Any

from attrs import define, field

Message = dict[str, Any]

MODEL = {"provider": "scripted", "id": "echo", "contextWindow": 200_000, "cost": {"input": 1, "output": 5}}
ANSWERS: dict[str, Any] = {
    "hello": {"version": 1, "sessionId": "01999999", "cwd": "/tmp/project"},
    "get_state": {"model": MODEL, "thinkingLevel": "off", "sessionId": "01999999", "isStreaming": False},
    "get_session_stats": {
        "cost": 0.0123,
        "tokens": {"input": 1200, "output": 300, "cacheRead": 0, "cacheWrite": 0, "total": 1500},
        "totalMessages": 4, "toolCalls": 1,
        "contextUsage": {"tokens": 24_000, "contextWindow": 200_000, "percent": 12},
    },
    "get_messages": {"messages": []},
    "get_commands": {"commands": [{"name": "review", "description": "look at a change", "source": "prompt"}]},
    "get_available_models": {"models": [MODEL, {**MODEL, "id": "demo"}, {**MODEL, "id": "script"}]},
    "get_available_thinking_levels": {"levels": ["off", "low", "high"]},
    "get_fork_messages": {"messages": [{"entryId": "e1", "text": "first prompt"}, {"entryId": "e2", "text": "second"}]},
    "complete_files": {"paths": ["src/", "src/main.py", "with space.txt"]},
    "get_last_assistant_text": {"text": "the last answer"},
}  # fmt: skip


@define
class FakeChannel:
    """Passes what was sent to whoever looks, and answers from a table."""

    answers: dict[str, Any] = field(factory=lambda: dict(ANSWERS))
    sent: list[Message] = field(factory=list)
    posted: list[Message] = field(factory=list)
    on_command: Callable[[Message], None] | None = None
    take: Callable[[Message], None] | None = None

    async def send(self, command: Message) -> Message:
        self.sent.append(command)
        await asyncio.sleep(0)
        if self.on_command is not None:
            self.on_command(command)
        answer = self.answers.get(command["type"], {})
        if isinstance(answer, Exception):
            return {"type": "response", "command": command["type"], "success": False, "error": str(answer)}
        return {"type": "response", "command": command["type"], "success": True, "data": answer}

    def post(self, message: Message) -> None:
        self.posted.append(message)

    def listen(self, take: Callable[[Message], None]) -> None:
        self.take = take

    def say(self, event: Message) -> None:
        assert self.take is not None
        self.take(event)

    def types(self) -> list[str]:
        return [each["type"] for each in self.sent]


def assistant(text: str, **more: Any) -> Message:
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop", **more}


def delta(text: str, kind: str = "text_delta") -> Message:
    return {"type": "message_update", "assistantMessageEvent": {"type": kind, "contentIndex": 0, "delta": text}}


def user_said(text: str) -> list[Message]:
    message = {"role": "user", "content": text}
    return [{"type": "message_start", "message": message}, {"type": "message_end", "message": message}]


def question(**more: Any) -> Message:
    shown = more.pop("shown", "bash\n  command: rm -rf build")
    return {
        "type": "extension_ui_request", "id": "q1", "method": "select", "kind": "permission", "title": "bash",
        "options": ["Allow once", "Always allow bash(rm *)", "Deny"], "toolName": "bash", "toolCallId": "c1",
        "shown": shown, "reason": "no rule allows it", "rules": ["bash(rm *)"], **more,
    }  # fmt: skip
