"""Edge. The web application of the observer: the page, its feed, its questions. The guard stands before it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from coding_agent.observer import questions
from coding_agent.observer.feed import Feed
from coding_agent.observer.questions import Problem
from lemon_otp import repl

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


def application(watching: "Watching", host: repl.FromThread) -> "Starlette":
    """The application that shows what `watching` knows, and asks `host` what else there is to know."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    answers = Answers(watching, host, page_files())
    return Starlette(
        routes=[
            Route("/", answers.show),
            Route("/api/events", answers.follow),
            Route("/api/node/{number:int}", answers.ask_node),
            Route("/api/session/{session_id}", answers.ask_session),
            Route("/api/act", answers.act, methods=["POST"]),
            Route("/{name}", answers.show),
        ]
    )


@frozen
class Answers:
    """What is answered at each route.

    Attributes:
        watching: What is known of the tree.
        host: The way to the tree.
        page: The files of the page by name: their type and what is in them.
    """

    watching: "Watching"
    host: repl.FromThread
    page: Mapping[str, tuple[str, bytes]]

    async def show(self, request: "Request") -> "Response":
        """A file of the page."""
        from starlette.responses import Response

        found = self.page.get(request.path_params.get("name", "index.html"))
        return Response("not found\n", 404) if found is None else Response(found[1], media_type=found[0])

    async def follow(self, request: "Request") -> "Response":
        """What happens, for as long as the page is open."""
        from starlette.responses import StreamingResponse

        feed = Feed(self.watching.whole)
        if not self.watching.add(feed):
            return _problem(Problem(503, "too many pages look at this host already"))

        async def told() -> AsyncIterator[bytes]:
            try:
                async for message in feed.read():
                    yield message
            finally:
                self.watching.remove(feed)

        return StreamingResponse(told(), media_type="text/event-stream")

    async def ask_node(self, request: "Request") -> "Response":
        """One process."""
        return await _answered(questions.node(self.host, request.path_params["number"]))

    async def ask_session(self, request: "Request") -> "Response":
        """One session; with `have` only what the asker has not yet."""
        have = request.query_params.get("have", "")
        return await _answered(questions.session(self.host, request.path_params["session_id"], have))

    async def act(self, request: "Request") -> "Response":
        """Something is to be done."""
        return await _answered(_done(self.host, request))


async def _done(host: repl.FromThread, request: "Request") -> Any:
    """Do what the body of a request asks for.

    Raises:
        Problem: It is no JSON object, does not come to its end, or cannot be done.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Problem(415, "the request must be JSON")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_MAX:
                    raise Problem(413, "the request is too long")
    except TimeoutError:
        raise Problem(408, "the request did not come to its end") from None
    try:
        wanted = json.loads(bytes(body))
    except (ValueError, RecursionError):
        wanted = None
    if not isinstance(wanted, dict):
        raise Problem(400, "the request must be a JSON object")
    return await questions.act(host, wanted)


async def _answered(question: Awaitable[Any]) -> "Response":
    from starlette.responses import Response

    try:
        return Response(_json(await question), media_type="application/json")
    except Problem as problem:
        return _problem(problem)


def _problem(problem: Problem) -> "Response":
    from starlette.responses import Response

    return Response(_json({"error": problem.text}), problem.status, media_type="application/json")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace")
