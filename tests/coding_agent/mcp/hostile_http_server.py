"""Answers over HTTP as no server should: `python hostile_http_server.py PORT HOW`."""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOW = sys.argv[2]
INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "hostile", "version": "1"},
}
TOOLS = {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}


class Hostile(BaseHTTPRequestHandler):
    """Greets well, and answers calls badly; with `greeting` in front it greets badly."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, number = asked.get("method"), asked.get("id")
        if number is None:
            self.respond(202, b"")
        elif method == "initialize" and not HOW.startswith("greeting-"):
            self.json(number, INITIALIZED)
        elif method == "tools/list":
            self.json(number, TOOLS)
        else:
            self.misbehave(HOW.removeprefix("greeting-"), number)

    def do_GET(self) -> None:
        self.respond(405, b"")

    def do_DELETE(self) -> None:
        self.respond(200, b"")

    def json(self, number: object, result: dict) -> None:
        self.respond(200, json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode())

    def respond(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def misbehave(self, how: str, number: object) -> None:
        if how == "hangs":
            time.sleep(1000)
        elif how == "invalid":
            self.respond(200, b'{"jsonrpc": "2.0", "id": ')
        elif how == "wrong":
            self.json(number, {"content": "not a list", "tools": 3})
        elif how == "error":
            self.respond(500, b"<html>oops</html>", "text/html")
        elif how == "redirect":
            self.send_response(307)
            self.send_header("location", "http://127.0.0.1:9/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()
        else:
            self.flood("text/event-stream" if how == "events" else "application/json")

    def flood(self, kind: str) -> None:
        """For ever, or until nobody reads."""
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        piece = b"x" * 1_000_000
        try:
            self.chunk(b"data: " if kind == "text/event-stream" else b'{"jsonrpc": "2.0", "id": 1, "x": "')
            while True:
                self.chunk(piece)
        except OSError:
            self.close_connection = True

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def log_message(self, *_args: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Hostile).serve_forever()
