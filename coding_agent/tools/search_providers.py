"""Edge. Web search by services that others run: SearXNG, Brave, Tavily, DuckDuckGo's plain page."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol
from urllib.parse import parse_qs, urlencode, urlsplit

from attrs import field, frozen

from coding_agent.tools.web_client import FetchFailed, WebClient

ANSWER_BYTES_MAX: Final = 3_000_000
FRESHNESS: Final = {"pd": "day", "pw": "week", "pm": "month", "py": "year"}


class SearchFailed(Exception):
    """A service did not answer with results; the text says why, without its key."""


@frozen
class Query:
    """What is searched for."""

    text: str
    count: int = 5
    country: str | None = None
    search_lang: str | None = None
    freshness: str | None = None


@frozen
class Hit:
    """One result."""

    title: str
    url: str
    description: str
    published: str | None = None

    @property
    def site_name(self) -> str:
        """The host; empty when the URL is none."""
        try:
            return urlsplit(self.url).hostname or ""
        except ValueError:
            return ""


class SearchProvider(Protocol):
    """A service."""

    @property
    def name(self) -> str:
        """What it is called in settings and results."""
        ...

    async def search(self, query: Query, client: WebClient) -> Sequence[Hit]:
        """The first results.

        Raises:
            SearchFailed: There are none to be had.
        """
        ...


@frozen
class SearXNG:
    """An instance of SearXNG that serves JSON, such as one's own at http://127.0.0.1:8080."""

    name: ClassVar[str] = "searxng"
    base_url: str

    async def search(self, query: Query, client: WebClient) -> list[Hit]:
        params = {"q": query.text, "format": "json", "language": query.search_lang or "all"}
        if query.freshness in FRESHNESS:
            params["time_range"] = FRESHNESS[str(query.freshness)]
        answer = await asked(client, f"{self.base_url.rstrip('/')}/search?{urlencode(params)}", {}, trusted=True)
        found = listed(answer.get("results"))
        return [
            Hit(text(one, "title"), text(one, "url"), text(one, "content"), text(one, "publishedDate") or None)
            for one in found[: query.count]
        ]


@frozen
class Brave:
    """Brave's search API."""

    name: ClassVar[str] = "brave"
    key: str = field(repr=False)
    base_url: str = "https://api.search.brave.com"

    async def search(self, query: Query, client: WebClient) -> list[Hit]:
        wanted = {
            "q": query.text,
            "count": str(query.count),
            "country": query.country,
            "search_lang": query.search_lang,
            "freshness": query.freshness,
        }
        params = {name: value for name, value in wanted.items() if value}
        answer = await asked(
            client,
            f"{self.base_url}/res/v1/web/search?{urlencode(params)}",
            {"X-Subscription-Token": self.key},
            trusted=True,
        )
        web = answer.get("web")
        found = listed(web.get("results") if isinstance(web, Mapping) else None)
        return [
            Hit(text(one, "title"), text(one, "url"), text(one, "description"), text(one, "age") or None)
            for one in found[: query.count]
        ]


@frozen
class Tavily:
    """Tavily's search API."""

    name: ClassVar[str] = "tavily"
    key: str = field(repr=False)
    base_url: str = "https://api.tavily.com"

    async def search(self, query: Query, client: WebClient) -> list[Hit]:
        body: dict[str, Any] = {"query": query.text, "max_results": query.count}
        if query.freshness in FRESHNESS:
            body["time_range"] = FRESHNESS[str(query.freshness)]
        answer = await asked(
            client, f"{self.base_url}/search", {"Authorization": f"Bearer {self.key}"}, trusted=True, body=body
        )
        return [
            Hit(text(one, "title"), text(one, "url"), text(one, "content"), text(one, "published_date") or None)
            for one in listed(answer.get("results"))[: query.count]
        ]


@frozen
class DuckDuckGo:
    """DuckDuckGo's page for browsers without scripts. It wants no key, and may ask for patience at any time."""

    name: ClassVar[str] = "duckduckgo"
    base_url: str = "https://html.duckduckgo.com"

    async def search(self, query: Query, client: WebClient) -> list[Hit]:
        params = {"q": query.text, "kl": (query.country or "wt-wt").lower()}
        if query.freshness in FRESHNESS:
            params["df"] = str(query.freshness)[1]
        page = await fetched(client, f"{self.base_url}/html/?{urlencode(params)}", {}, trusted=True)
        hits = duckduckgo_hits(page.decode(errors="replace"))
        if not hits and b"anomaly" in page:
            raise SearchFailed("duckduckgo asks for patience")
        return hits[: query.count]


def duckduckgo_hits(html: str) -> list[Hit]:
    """The results on its page."""
    from bs4 import BeautifulSoup

    hits = []
    for one in BeautifulSoup(html, "html.parser").select(".result"):
        link = one.select_one("a.result__a")
        if link is None or "result--ad" in (one.get("class") or []):
            continue
        url = str(link.get("href") or "")
        redirected = parse_qs(url.partition("?")[2].partition("#")[0]).get("uddg")
        snippet = one.select_one(".result__snippet")
        hits.append(
            Hit(
                link.get_text(" ", strip=True),
                redirected[0] if redirected else url,
                snippet.get_text(" ", strip=True) if snippet is not None else "",
            )
        )
    return hits


async def fetched(
    client: WebClient, url: str, headers: Mapping[str, str], *, trusted: bool, body: Mapping[str, Any] | None = None
) -> bytes:
    """A service's answer.

    Raises:
        SearchFailed: It refused, or did not come.
    """
    try:
        async with client.get(url, headers=headers, trusted=trusted, json_body=body) as page:
            answer = await page.read(ANSWER_BYTES_MAX)
    except (FetchFailed, ValueError) as error:
        raise SearchFailed(str(error)) from error
    if page.status in (401, 403):
        raise SearchFailed(f"it refuses the key or the request ({page.status})")
    if page.status == 429:
        raise SearchFailed("it asks for fewer requests (429)")
    if page.status >= 400:
        raise SearchFailed(f"it answered {page.status}")
    return answer


async def asked(
    client: WebClient, url: str, headers: Mapping[str, str], *, trusted: bool, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A service's answer as an object.

    Raises:
        SearchFailed: It is none.
    """
    answer = await fetched(client, url, {"Accept": "application/json", **headers}, trusted=trusted, body=body)
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        raise SearchFailed("its answer is no JSON") from None
    if not isinstance(value, dict):
        raise SearchFailed("its answer has an unknown form")
    return value


def listed(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list; anything else is none."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def text(one: Mapping[str, Any], name: str) -> str:
    """A text field; anything else is empty."""
    value = one.get(name)
    return value if isinstance(value, str) else ""


def configured(environment: Mapping[str, str]) -> list[SearchProvider]:
    """The services that the environment names, the first choice first."""
    found: list[SearchProvider] = []
    if environment.get("SEARXNG_URL"):
        found.append(SearXNG(environment["SEARXNG_URL"]))
    if environment.get("BRAVE_API_KEY"):
        found.append(Brave(environment["BRAVE_API_KEY"]))
    if environment.get("TAVILY_API_KEY"):
        found.append(Tavily(environment["TAVILY_API_KEY"]))
    wanted = environment.get("WEB_SEARCH_PROVIDER", "").strip().lower()
    if wanted == "duckduckgo":
        found.append(DuckDuckGo())
    return sorted(found, key=lambda provider: provider.name != wanted)
