"""A client inside this process: what it sends, and everything that comes back, checked against the schema."""

import asyncio
import json
from pathlib import Path
from typing import Any

from attrs import define, field
from jsonschema import Draft202012Validator

from coding_agent.acp.agent import Agent

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / ".." / "shared" / "samples" / "acp" / "v1" / "schema.json").resolve().read_text())
PATIENCE_S = 20.0


def fits(definition: str, value: Any) -> None:
    """It is what the schema says; anything else raises with what is wrong."""
    validator = Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": SCHEMA["$defs"]})
    errors = [error.message for error in validator.iter_errors(value)]
    assert not errors, (definition, value, errors[:3])


@define
class Connection:
    """An agent, and what it has written."""

    agent: Agent
    cwd: str
    written: list[dict] = field(factory=list)
    answers: dict[str, Any] = field(factory=dict)
    _number: int = 0
    _news: asyncio.Event = field(factory=asyncio.Event)

    def write(self, message: dict) -> None:
        self.written.append(json.loads(json.dumps(message)))
        self._news.set()

    async def send(self, **message: Any) -> None:
        await self.agent.wire.take(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def ask(self, method: str, **params: Any) -> dict:
        number = await self.post(method, **params)
        return await self.until(lambda message: message.get("id") == number and "method" not in message)

    async def post(self, method: str, **params: Any) -> str:
        self._number += 1
        await self.send(id=f"r{self._number}", method=method, params=params)
        return f"r{self._number}"

    async def until(self, fits: Any) -> dict:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                self._news.clear()
                for message in self.written:
                    if fits(message):
                        return message
                await self._news.wait()

    def chunks(self) -> list[dict]:
        """What the model has said, piece by piece."""
        updates = [message["params"]["update"] for message in self.written if message.get("method") == "session/update"]
        return [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]

    def said(self) -> str:
        """All of it."""
        return "".join(update["content"]["text"] for update in self.chunks())

    async def open(self, **capabilities: Any) -> str:
        await self.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)
        answer = await self.ask("session/new", cwd=self.cwd, mcpServers=[])
        return str(answer["result"]["sessionId"])


def text(words: str) -> list[dict]:
    return [{"type": "text", "text": words}]
