"""A server made with the library's own `MCPServer`: run as a program over stdio, or over HTTP on a loopback port."""

import asyncio
import base64
import json
import os
import subprocess
import sys

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

server = MCPServer("demo", instructions="Adds things.")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def picture() -> Image:
    """One pixel."""
    return Image(data=PIXEL, format="png")


@server.tool()
def environment() -> str:
    """Every variable's name."""
    return " ".join(sorted(os.environ))


@server.tool()
def flood(size: int) -> str:
    """So many characters, with hidden ones among them."""
    return "\u200bstart" + "x" * size + "end\x1b[31m"


@server.tool()
def fails() -> str:
    """Never works."""
    raise ToolError("no such thing")


@server.tool()
async def slow(ctx: Context, note: str) -> str:
    """Reports once and then takes its time; writes down that it was told to stop."""
    await ctx.report_progress(1, 2, "half")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        with open(note, "w", encoding="utf-8") as file:
            file.write("cancelled")
        raise
    return "done"


@server.tool()
async def grow(ctx: Context) -> str:
    """Gets one more tool."""

    def late() -> str:
        """Came later."""
        return "late"

    server.add_tool(late)
    await ctx.session.send_tool_list_changed()  # to those who did the handshake
    await ctx.notify_tools_changed()  # to those who listen
    return "grown"


@server.tool()
def crash() -> str:
    """Ends the server."""
    os._exit(3)


@server.resource("demo://readme")
def readme() -> str:
    """A text."""
    return "Read me."


@server.prompt()
def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}."


def without_greeting() -> None:
    """Stand before the server and refuse `initialize`."""
    inner = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE)
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if asked.get("method") == "initialize":
            refused = {"code": -32601, "message": "Method not found"}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": refused}), flush=True)
        else:
            inner.stdin.write(line)
            inner.stdin.flush()
    inner.stdin.close()
    inner.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    elif sys.argv[1:2] == ["sse"]:
        server.run("sse", host="127.0.0.1", port=int(sys.argv[2]))
    elif sys.argv[1:2] == ["modern"]:  # one that knows nothing of the old greeting
        without_greeting()
    else:
        if sys.argv[1:2] == ["child"]:  # as wrappers do, and out of our process group
            subprocess.Popen(["sleep", "1000"], start_new_session=True, stdin=subprocess.DEVNULL)
        server.run("stdio")
