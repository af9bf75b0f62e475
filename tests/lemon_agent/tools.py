"""Tools that tests give to agents."""

import asyncio
from typing import Any

from lemon_agent import AgentTool, text_result
from lemon_otp import sleep_s


def schema(**properties: str) -> dict[str, Any]:
    """An object whose properties are all required."""
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }


async def _echo(call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> Any:
    on_update(text_result(params["text"][:1]))
    return text_result(params["text"], {"length": len(params["text"])})


ECHO = AgentTool("echo", "Says it again.", schema(text="string"), _echo)


def tool(name: str, execute: Any = None, /, *, options: dict[str, Any] | None = None, **properties: str) -> AgentTool:
    """A tool of that name; unless told otherwise it lets the others run for `ticks` turns and says its call id."""

    async def wait(call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> Any:
        for _ in range(params.get("ticks", 0)):
            await asyncio.sleep(0)
            await sleep_s(0)
        return text_result(call_id)

    return AgentTool(name, "", schema(**properties), execute or wait, **(options or {}))


def adding(seen: list[Any], name: str = "note") -> AgentTool:
    """A tool that adds its parameters to a list."""

    async def execute(call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> Any:
        seen.append(params)
        return text_result("noted")

    return AgentTool(name, "", schema(text="string"), execute)
