"""Edge. The web application of the observer: the page, its feed, its questions. The guard stands before it."""

import asyncio
import json
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from coding_agent.observer import questions
from coding_agent.observer.feed import Feed
from coding_agent.observer.questions import Problem

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from coding_agent.observer.watching import Watching

BODY_MAX: Final = 64 * 1024
BODY_S: Final = 10.0
"""What the rest of a request may take."""
TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def page_files() -> dict[str, tuple[str, bytes]]:
    """The files of the page by name: their type and what is in them."""
    found = {}
    for entry in files("coding_agent.observer").joinpath("page").iterdir():
        kind = TYPES.get(entry.name.rpartition(".")[2])
        if kind is not None:
            found[entry.name] = (kind, entry.read_bytes())
    return found


def application(watching: "Watching") -> "Starlette":
    """The application that shows what `watching` knows."""
    from starlette.applications import Starlette
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    page = page_files()

    async def show(request: "Request") -> "Response":
        found = page.get(request.path_params.get("name", "index.html"))
        return Response("not found\n", 404) if found is None else Response(found[1], media_type=found[0])

    async def follow(request: "Request") -> "Response":
        feed = Feed(watching.whole)
        if not watching.add(feed):
            return _problem(Problem(503, "too many pages look at this host already"))

        async def told() -> AsyncIterator[bytes]:
            try:
                async for message in feed.read():
                    yield message
            finally:
                watching.remove(feed)

        return StreamingResponse(told(), media_type="text/event-stream")

    async def ask_node(request: "Request") -> "Response":
        return await _answered(questions.in_process(lambda: questions.node(request.path_params["number"])))

    async def ask_session(request: "Request") -> "Response":
        return await _answered(questions.session(request.path_params["session_id"]))

    async def act(request: "Request") -> "Response":
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _problem(Problem(415, "the request must be JSON"))
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > BODY_MAX:
                        return _problem(Problem(413, "the request is too long"))
        except TimeoutError:
            return _problem(Problem(408, "the request did not come to its end"))
        try:
            wanted = json.loads(bytes(body))
        except (ValueError, RecursionError):
            wanted = None
        if not isinstance(wanted, dict):
            return _problem(Problem(400, "the request must be a JSON object"))
        return await _answered(questions.act(wanted))

    def _problem(problem: Problem) -> "Response":
        return Response(_json({"error": problem.text}), problem.status, media_type="application/json")

    async def _answered(question: Any) -> "Response":
        try:
            return Response(_json(await question), media_type="application/json")
        except Problem as problem:
            return _problem(problem)

    return Starlette(
        routes=[
            Route("/", show),
            Route("/api/events", follow),
            Route("/api/node/{number:int}", ask_node),
            Route("/api/session/{session_id}", ask_session),
            Route("/api/act", act, methods=["POST"]),
            Route("/{name}", show),
        ]
    )


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace")
