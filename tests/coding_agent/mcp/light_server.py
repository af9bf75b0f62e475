"""A server in a few lines, without any library: knows the handshake only, one tool, and starts at once."""

import json
import subprocess
import sys

if sys.argv[1:] == ["child"]:  # as wrappers do, and out of our process group
    subprocess.Popen(["sleep", "1000"], start_new_session=True, stdin=subprocess.DEVNULL)

ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "light", "version": "1"},
    },
    "tools/list": {
        "tools": [
            {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object"}},
            {"name": "late", "inputSchema": {"type": "object"}},
        ]
    },
    "ping": {},
}
known = 1


def say(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    asked = json.loads(line)
    method, number = asked.get("method"), asked.get("id")
    if number is None:
        continue
    if method == "tools/call":
        if asked["params"]["arguments"].get("grow"):
            known = 2
            say({"method": "notifications/tools/list_changed"})
        text = json.dumps(asked["params"]["arguments"], sort_keys=True)
        say({"id": number, "result": {"content": [{"type": "text", "text": text}]}})
    elif method == "tools/list":
        say({"id": number, "result": {"tools": ANSWERS[method]["tools"][:known]}})
    elif method in ANSWERS:
        say({"id": number, "result": ANSWERS[method]})
    else:
        say({"id": number, "error": {"code": -32601, "message": "Method not found"}})
