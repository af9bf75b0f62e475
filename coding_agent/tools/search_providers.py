"""Edge. Web search by services that others run: SearXNG, Brave, Tavily, DuckDuckGo's plain page."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
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
    """What is searched for.

    Attributes:
        country: Two letters.
        search_lang: Of the results; two letters.
        ui_lang: Of what the service says itself, such as `de-DE`.
        region: Where the person is taken to be, such as `de-de`; before the country, where a service knows regions.
        freshness: `pd`, `pw`, `pm`, `py`, or two days, `2026-01-01to2026-02-01`.
    """

    text: str
    count: int = 5
    country: str | None = None
    search_lang: str | None = None
    ui_lang: str | None = None
    region: str | None = None
    freshness: str | None = None

    def beyond(self, understood: frozenset[str]) -> list[str]:
        """What was asked for that a service does not know of."""
        given = [name for name in WISHES if getattr(self, name) and name not in understood]
        is_range = range_of(self) is not None and "range" not in understood
        return [*given, "freshness"] if is_range and "freshness" not in given else given


WISHES: Final = ("country", "search_lang", "ui_lang", "region", "freshness")
_RANGE: Final = re.compile(r"(\d{4}-\d{2}-\d{2})to(\d{4}-\d{2}-\d{2})")


def range_of(query: Query) -> tuple[str, str] | None:
    """The first and the last day, where the freshness is a range."""
    found = _RANGE.fullmatch(query.freshness or "")
    return None if found is None else (found[1], found[2])


def is_freshness(value: str) -> bool:
    """Can it be meant? A range must be two days there are, in order."""
    found = _RANGE.fullmatch(value)
    if found is None:
        return value in FRESHNESS
    try:
        return date.fromisoformat(found[1]) <= date.fromisoformat(found[2])
    except ValueError:
        return False


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


@frozen
class Digest:
    """An answer in a service's own words, and the pages it is made of."""

    content: str
    citations: tuple[Hit, ...] = ()


class SearchProvider(Protocol):
    """A service."""

    @property
    def name(self) -> str:
        """What it is called in settings and results."""
        ...

    @property
    def understands(self) -> frozenset[str]:
        """Which of `WISHES` it heeds; `range` too where it knows freshness between two days."""
        ...

    async def search(self, query: Query, client: WebClient) -> Sequence[Hit] | Digest:
        """The first results, or an answer made of them.

        Raises:
            SearchFailed: There are none to be had.
        """
        ...


@frozen
class SearXNG:
    """An instance of SearXNG that serves JSON, such as one's own at http://127.0.0.1:8080."""

    name: ClassVar[str] = "searxng"
    understands: ClassVar[frozenset[str]] = frozenset({"search_lang", "freshness"})
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
    understands: ClassVar[frozenset[str]] = frozenset({"country", "search_lang", "ui_lang", "freshness", "range"})
    key: str = field(repr=False)
    base_url: str = "https://api.search.brave.com"

    async def search(self, query: Query, client: WebClient) -> list[Hit]:
        wanted = {
            "q": query.text,
            "count": str(query.count),
            "country": query.country,
            "search_lang": query.search_lang,
            "ui_lang": query.ui_lang,
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
    understands: ClassVar[frozenset[str]] = frozenset({"freshness", "range"})
    key: str = field(repr=False)
    base_url: str = "https://api.tavily.com"

    async def search(self, query: Query, client: WebClient) -> list[Hit]:
        body: dict[str, Any] = {"query": query.text, "max_results": query.count}
        if query.freshness in FRESHNESS:
            body["time_range"] = FRESHNESS[str(query.freshness)]
        elif (days := range_of(query)) is not None:
            body["start_date"], body["end_date"] = days
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
    understands: ClassVar[frozenset[str]] = frozenset({"country", "region", "freshness", "range"})
    base_url: str = "https://html.duckduckgo.com"

    async def search(self, query: Query, client: WebClient) -> list[Hit]:
        params = {"q": query.text, "kl": (query.region or query.country or "wt-wt").lower()}
        if query.freshness in FRESHNESS:
            params["df"] = str(query.freshness)[1]
        elif (days := range_of(query)) is not None:
            params["df"] = "..".join(days)
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
