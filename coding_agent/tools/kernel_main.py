"""Edge. The program that runs a model's Python scripts, one after the other, in one namespace.

Its source is given to `python -c`, so that imports look in the working directory and not here. It takes requests on
standard input and answers on standard error, a JSON object a line; a script's own output is standard output, and its
standard error goes there too. Scripts call our tools by functions that ask on the same channel.
"""

import ast
import json
import os
import sys
import traceback
from typing import Any

TOOLS = ("read", "grep", "find", "ls", "web_fetch")


class ToolFailed(Exception):
    """A tool refused or failed; the text says why."""


class Channel:
    """The two ends that the host holds the others of."""

    def __init__(self) -> None:
        self.requests = os.fdopen(os.dup(0), "r", encoding="utf-8", errors="surrogateescape")
        self.answers = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="surrogateescape")
        os.dup2(1, 2)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        sys.stdin = os.fdopen(0, "r", closefd=False)
        self.owner = os.getpid()

    def receive(self) -> Any:
        """The next message; None when the host is gone."""
        line = self.requests.readline()
        return json.loads(line) if line else None

    def send(self, message: object) -> None:
        """Tell the host."""
        self.answers.write(json.dumps(message) + "\n")
        self.answers.flush()

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """What a tool answers."""
        if os.getpid() != self.owner:
            raise ToolFailed("tools can be called from the script's own process only")
        sys.stdout.flush()
        self.send({"call": tool, "arguments": arguments})
        reply = self.receive()
        if reply is None:
            os._exit(1)
        if reply.get("error") is not None:
            raise ToolFailed(reply["error"])
        return str(reply["text"])


def tool_function(channel: Channel, name: str) -> Any:
    """The function by which scripts call a tool: its main argument first, the others by name."""

    def function(*values: Any, **arguments: Any) -> str:
        first = {"read": "path", "ls": "path", "web_fetch": "url"}.get(name, "pattern")
        if len(values) > 1:
            raise TypeError(f"{name} takes one argument without a name: {first}")
        return channel.call(name, {**dict(zip((first,), values)), **arguments})  # noqa: B905 -- runs on older Pythons

    function.__name__ = name
    function.__doc__ = f"Call the tool {name}; returns its text, raises ToolFailed."
    return function


def run(script: str, namespace: dict[str, Any]) -> bool:
    """Run a script, show the value of a last expression, print what it raises. False when it raised."""
    try:
        tree = ast.parse(script, "<script>")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<script>", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<script>", "eval"), namespace)
            if value is not None:
                namespace["_"] = value
                print(repr(value))
    except SystemExit as error:
        return error.code in (None, 0)
    except BaseException:
        kind, value, trace = sys.exc_info()
        while trace is not None and trace.tb_frame.f_code.co_filename != "<script>":
            trace = trace.tb_next
        traceback.print_exception(kind, value, trace, file=sys.stdout)
        return False
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return True


def main() -> None:
    channel = Channel()
    namespace: dict[str, Any] = {"__name__": "__main__", "ToolFailed": ToolFailed}
    namespace.update((name, tool_function(channel, name)) for name in TOOLS)
    while True:
        request = channel.receive()
        if request is None:
            return
        fine = run(request["script"], namespace)
        if os.getpid() != channel.owner:
            os._exit(0)  # a fork of the script came here
        channel.send({"done": fine})


if __name__ == "__main__":
    main()
