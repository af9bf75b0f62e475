"""A program for a pseudo terminal: the terminal on a host that says one of a few things. `python -m ... SCENE`."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from coding_agent.terminal.app import run_terminal
from coding_agent.terminal.options import options_from
from lemon_otp import run, spawn
from tests.coding_agent.terminal.fakes import FakeChannel, assistant, delta, question, user_said

MARKDOWN = """## What I found

The module `paste.py` has **two** jobs, see [the docs](https://example.org/docs):

1. fold long text
2. find pictures
   - by suffix
   - by their first bytes

| file | lines | note |
|------|------:|------|
| paste.py | 130 | pure, but for files |
| history.py | 60 | private |

```python
def fold(text: str) -> str:
    return text[:10]  # the rest is kept
```

> Anything else is left as it is.
"""
DIFF = "@@ -1,4 +1,4 @@\n def main():\n-    print('hello')\n+    print('hello, world')\n     return 0\n"


async def streamed(channel: FakeChannel, text: str, pause_s: float = 0.0, size: int = 7) -> None:
    message = assistant(text, usage={"totalTokens": 24_500, "cost": {"total": 0.002}})
    channel.say({"type": "message_start", "message": assistant("")})
    for at in range(0, len(text), size):
        channel.say(delta(text[at : at + size]))
        await asyncio.sleep(pause_s)
    channel.say({"type": "message_end", "message": message})


async def tour(channel: FakeChannel, prompt: str) -> None:
    for event in user_said(prompt):
        channel.say(event)
    channel.say({"type": "turn_start"})
    channel.say({"type": "message_start", "message": assistant("")})
    for _ in range(4):
        channel.say(delta("I should look at the files first. ", "thinking_delta"))
        await asyncio.sleep(0.02)
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "pytest -q"}}
    channel.say({"type": "message_end", "message": {"role": "assistant", "content": [call], "stopReason": "toolUse"}})
    args = {"command": "pytest -q tests/coding_agent"}
    channel.say({"type": "tool_execution_start", "toolCallId": "c1", "toolName": "bash", "args": args})
    output = ""
    for number in range(30):
        output += f"tests/test_{number}.py .....\n"
        partial = {"content": [{"type": "text", "text": output}]}
        channel.say({"type": "tool_execution_update", "toolCallId": "c1", "toolName": "bash", "partialResult": partial})
        await asyncio.sleep(0.005)
    result: dict[str, Any] = {"content": [{"type": "text", "text": output}], "details": {"exit_code": 0}}
    channel.say({"type": "tool_execution_end", "toolCallId": "c1", "toolName": "bash", "result": result})
    args = {"path": "src/main.py"}
    channel.say({"type": "tool_execution_start", "toolCallId": "c2", "toolName": "edit", "args": args})
    result = {"content": [{"type": "text", "text": "edited"}], "details": {"diff": DIFF}}
    channel.say({"type": "tool_execution_end", "toolCallId": "c2", "toolName": "edit", "result": result})
    await streamed(channel, MARKDOWN)


async def asks(channel: FakeChannel, prompt: str) -> None:
    await asyncio.sleep(0.3)
    channel.say(question())


async def long(channel: FakeChannel, prompt: str) -> None:
    await streamed(channel, "word " * 4000 + "THE-END", 0.001, 20)


async def hangs(channel: FakeChannel, prompt: str) -> None:
    channel.say({"type": "queue_update", "steering": ["look at the tests too"], "followUp": ["then commit"]})
    args = {"command": "make test"}
    channel.say({"type": "tool_execution_start", "toolCallId": "c1", "toolName": "bash", "args": args})
    text = "".join(f"step {number} of 9\n" for number in range(1, 9))
    partial = {"content": [{"type": "text", "text": text}]}
    channel.say({"type": "tool_execution_update", "toolCallId": "c1", "toolName": "bash", "partialResult": partial})
    await asyncio.sleep(3600)


async def hostile(channel: FakeChannel, prompt: str) -> None:
    await streamed(
        channel,
        "red \x1b[31mtext\x1b[0m \x1b]0;owned\x07 and \u202eback\u202c \x9b2J end\n\n```\n\x1b[2J\n```\n",
        size=1,
    )
    channel.say(
        {"type": "tool_execution_start", "toolCallId": "c1", "toolName": "bash\x1b[2J", "args": {"command": "\x1b[5n"}}
    )
    result = {"content": [{"type": "text", "text": "out\x1b[2Jput\x1b]52;c;aGk=\x07 fin"}], "isError": False}
    channel.say({"type": "tool_execution_end", "toolCallId": "c1", "toolName": "bash\x1b[2J", "result": result})
    channel.say({"type": "extension_ui_request", "method": "setTitle", "id": "n1", "title": "evil\x1b]0;x\x07\x9c"})
    channel.say(
        {"type": "extension_ui_request", "method": "setStatus", "id": "n2", "statusKey": "s", "statusText": "st\x1b[2J"}
    )
    channel.say({"type": "extension_ui_request", "method": "notify", "id": "n3", "message": "not\x1b[2Jice"})


async def dialogs(channel: FakeChannel, prompt: str) -> None:
    def ask(method: str, **more: Any) -> None:
        channel.say({"type": "extension_ui_request", "id": method, "method": method, "title": f"a {method}", **more})

    ask("setWidget", widgetKey="w", widgetLines=["a widget line"])
    ask("setStatus", statusKey="s", statusText="a status")
    ask("select", options=["red", "green", "blue"])
    ask("confirm", message="really?")
    ask("input", placeholder="a placeholder")
    ask("editor", prefill="some text")
    while len(channel.posted) < 4:
        await asyncio.sleep(0.02)


SCENES = {each.__name__: each for each in (tour, asks, long, hangs, hostile, dialogs)}


async def main(scene: str) -> int:
    channel = FakeChannel()

    async def play(prompt: str) -> None:
        channel.say({"type": "agent_start"})
        await SCENES[scene](channel, prompt)
        if scene not in ("asks",):
            channel.say({"type": "settled", "outcome": "completed"})

    def on_command(command: dict[str, Any]) -> None:
        if command["type"] == "prompt" and command["message"] == "/crash":
            asyncio.get_running_loop().call_soon(sys.exit, 3)  # a fault that ends the program from within the loop
        elif command["type"] == "prompt":
            spawn(play, command["message"])
        if command["type"] == "abort":
            channel.say({"type": "settled", "outcome": "aborted"})

    channel.on_command = on_command
    import os

    options = options_from(os.environ, Path.cwd(), no_colour="--no-colour" in sys.argv)
    code = await run_terminal(channel, options=options)
    for message in channel.posted:
        print("POSTED", message)
    return code


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1]))
