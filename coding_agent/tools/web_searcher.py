"""Edge. What the tool `web_search` does: ask one service after the other, not too often, and remember answers."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from attrs import frozen

from coding_agent.tools.search_providers import Digest, Hit, Query, SearchFailed, SearchProvider
from coding_agent.tools.truncate import clip_around
from coding_agent.tools.web_client import WebClient
from lemon_agent import AgentToolResult, ToolError, external_content
from lemon_otp import monotonic_s

PER_SECOND: Final = 5
CACHED_S: Final = 15 * 60
CACHED: Final = 100


@frozen
class Shape:
    """How long the answer may be, in characters, and how many pages an answer in a service's own words may name."""

    whole: int = 12_000
    snippet: int = 600
    citations: int = 8


@frozen
class Found:
    """An answer and how it was got.

    Attributes:
        ignored: What was asked for that the service does not know of.
    """

    provider: str
    answer: tuple[Hit, ...] | Digest
    failures: tuple[tuple[str, str], ...]
    took_ms: int
    ignored: tuple[str, ...] = ()


class Searcher:
    """Searches by the services it was given, the first that answers."""

    def __init__(
        self, providers: Sequence[SearchProvider], client: WebClient, *, now_s: Callable[[], float] = monotonic_s
    ) -> None:
        self.providers = tuple(providers)
        self._client = client
        self._now_s = now_s
        self._cache: OrderedDict[Query, tuple[float, Found]] = OrderedDict()
        self._recent: deque[float] = deque(maxlen=PER_SECOND)

    async def search(self, query: Query, shape: Shape) -> AgentToolResult:
        """The results.

        Raises:
            ToolError: No service answered; each one's reason is named.
        """
        known = self._cache.get(query)
        if known is not None and self._now_s() - known[0] <= CACHED_S:
            return result(query, shape, self.providers[0].name, known[1])
        found = await self._ask(query)
        self._cache[query] = (self._now_s(), found)
        while len(self._cache) > CACHED:
            self._cache.popitem(last=False)
        return result(query, shape, self.providers[0].name, found)

    async def _ask(self, query: Query) -> Found:
        began = self._now_s()
        failures: list[tuple[str, str]] = []
        for provider in self.providers:
            await self._wait_for_a_turn()
            try:
                answer = await provider.search(query, self._client)
            except SearchFailed as error:
                failures.append((provider.name, str(error)))
                continue
            took = int((self._now_s() - began) * 1000)
            kept = answer if isinstance(answer, Digest) else tuple(answer)
            ignored = tuple(query.beyond(provider.understands))
            return Found(provider.name, kept, tuple(failures), took, ignored)
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failures)
        raise ToolError(f"The search failed. {reasons}")

    async def _wait_for_a_turn(self) -> None:
        now = self._now_s()
        if len(self._recent) == PER_SECOND and (wait := 1.0 - (now - self._recent[0])) > 0:
            await asyncio.sleep(wait)
        self._recent.append(self._now_s())


def result(query: Query, shape: Shape, requested: str, found: Found) -> AgentToolResult:
    """The payload: whatever others wrote wrapped as external, within the limits."""
    first = found.failures[0] if found.failures else None
    payload: dict[str, Any] = {
        "query": query.text,
        "provider": found.provider,
        "provider_requested": requested,
        "provider_used": found.provider,
        "failover": {
            "attempted": bool(found.failures),
            "used": bool(found.failures),
            "from": first[0] if first else None,
            "to": found.provider if first else None,
            "reason": first[1] if first else None,
        },
        **(_digest(found.answer, shape) if isinstance(found.answer, Digest) else _listing(found.answer, shape)),
        "took_ms": found.took_ms,
    }
    if found.ignored:
        payload["ignored"] = list(found.ignored)
    fields = ["content", "citations[].title"] if "content" in payload else ["results[].title", "results[].description"]
    payload = external_content.with_trust_metadata("web_search", payload, wrapped_fields=fields, warning_included=False)
    return external_content.untrusted_json_result(payload)


def _listing(hits: Sequence[Hit], shape: Shape) -> dict[str, Any]:
    results: list[dict[str, Any]] = []
    room = shape.whole
    for hit in hits:
        entry = {**_page(hit), "description": wrapped(clip_around(hit.description, 0, 0, shape.snippet))}
        room -= sum(len(str(value)) for value in entry.values())
        if room < 0 and results:
            break
        results.append(entry)
    return {"count": len(results), "results": results}


def _digest(digest: Digest, shape: Shape) -> dict[str, Any]:
    content = wrapped(clip_around(digest.content, 0, 0, shape.whole))
    citations = [_page(hit) for hit in digest.citations[: shape.citations]]
    return {"count": len(citations), "content": content, "citations": citations}


def _page(hit: Hit) -> dict[str, Any]:
    return {
        "title": wrapped(clip_around(hit.title, 0, 0, 300)),
        "url": external_content.visible(hit.url)[:2000],
        "published": hit.published and external_content.visible(hit.published)[:100],
        "site_name": external_content.visible(hit.site_name),
    }


def wrapped(text: str) -> str:
    """A piece of a result as external content; nothing stays nothing."""
    return external_content.wrap_web_content(text) if text else ""
