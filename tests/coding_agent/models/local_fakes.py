"""Servers that answer as Ollama, LM Studio, llama.cpp and vLLM do, on real sockets."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field


@define
class Fake:
    """Answers from `routes`: a string as it is, anything else as JSON, a pair with a status of its own."""

    routes: dict[str, Any]
    asked: list[str] = field(factory=list)
    headers: list[dict[str, str]] = field(factory=list)
    bodies: list[bytes] = field(factory=list)
    url: str = ""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@contextmanager
def serving(routes: dict[str, Any]) -> Iterator[Fake]:
    """A running server."""
    fake = Fake(routes)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.asked.append(self.path)
            fake.headers.append({name.lower(): value for name, value in self.headers.items()})
            fake.bodies.append(self.rfile.read(int(self.headers.get("content-length") or 0)))
            answer = fake.routes.get(self.path, fake.routes.get(self.path.partition("?")[0], (404, "not found")))
            if callable(answer):
                answer = answer(fake.bodies[-1])
            status, value = answer if isinstance(answer, tuple) else (200, answer)
            body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def shown(body: bytes) -> dict[str, Any]:
    """What Ollama says about a model."""
    about = {
        "small": {"capabilities": ["completion", "tools"], "parameters": "stop x\nnum_ctx 16384\n",
                  "model_info": {"llama.context_length": 131072}},
        "seeing": {"capabilities": ["completion", "vision", "thinking"], "model_info": {"q.context_length": 262144}},
        "loaded": {"capabilities": ["completion"], "model_info": {"q.context_length": 40960}},
        "nomic-embed": {"capabilities": ["embedding"], "model_info": {"n.context_length": 2048}},
    }  # fmt: skip
    return about[json.loads(body)["model"]]


OLLAMA = {
    "/": "Ollama is running",
    "/api/version": {"version": "0.12.3"},
    "/api/tags": {"models": [{"name": name} for name in ("small", "seeing", "loaded", "nomic-embed")]},
    "/api/ps": {"models": [{"name": "loaded", "context_length": 32768}]},
    "/api/show": shown,
}
LM_STUDIO = {
    "/api/v0/models": {"data": [
        {"id": "qwen", "type": "llm", "state": "loaded", "loaded_context_length": 8192, "max_context_length": 131072,
         "capabilities": ["tool_use"]},
        {"id": "gemma", "type": "vlm", "state": "not-loaded", "max_context_length": 65536},
        {"id": "nomic", "type": "embeddings", "state": "not-loaded", "max_context_length": 2048},
    ]},
    "/v1/models": {"data": [{"id": "qwen"}]},
}  # fmt: skip
LLAMA_CPP = {
    "/": "<!doctype html><title>llama.cpp</title>",
    "/props": {"default_generation_settings": {"n_ctx": 8192}, "modalities": {"vision": True},
               "chat_template_caps": {"supports_tools": True}, "build_info": "b9000"},
    "/v1/models": {"data": [{"id": "smol.gguf", "meta": {"n_ctx_train": 131072}, "owned_by": "llamacpp"}]},
}  # fmt: skip
VLLM = {
    "/version": {"version": "0.11.0"},
    "/v1/models": {"data": [{"id": "Qwen/Qwen3-8B", "owned_by": "vllm", "max_model_len": 40960}]},
}
OTHER = {"/v1/models": {"data": [{"id": "mystery", "owned_by": "me"}, {"id": "text-embedding-3"}]}}
