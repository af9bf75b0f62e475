"""Edge. Web search by Perplexity, which answers with a text of its own and the pages it is made of."""

from typing import Any, ClassVar, Final

from attrs import field, frozen

from coding_agent.tools.search_providers import (
    FRESHNESS,
    Digest,
    Hit,
    Query,
    SearchFailed,
    asked,
    listed,
    range_of,
    text,
)
from coding_agent.tools.web_client import WebClient

MODEL: Final = "sonar"


@frozen
class Perplexity:
    """Perplexity's API."""

    name: ClassVar[str] = "perplexity"
    understands: ClassVar[frozenset[str]] = frozenset({"country", "search_lang", "freshness", "range"})
    key: str = field(repr=False)
    base_url: str = "https://api.perplexity.ai"

    async def search(self, query: Query, client: WebClient) -> Digest:
        """Its answer, and the pages it names.

        Raises:
            SearchFailed: There is none to be had.
        """
        body: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": query.text}]}
        if query.freshness in FRESHNESS:
            body["search_recency_filter"] = FRESHNESS[str(query.freshness)]
        elif (days := range_of(query)) is not None:
            body["search_after_date_filter"], body["search_before_date_filter"] = (_american(day) for day in days)
        if query.country:
            body["web_search_options"] = {"user_location": {"country": query.country.upper()}}
        if query.search_lang:
            body["search_language_filter"] = [query.search_lang.lower()]
        headers = {"Authorization": f"Bearer {self.key}"}
        answer = await asked(client, f"{self.base_url}/chat/completions", headers, trusted=True, body=body)
        choice = next(iter(listed(answer.get("choices"))), {})
        message = choice.get("message")
        content = text(message, "content") if isinstance(message, dict) else ""
        if not content.strip():
            raise SearchFailed("it answered nothing")
        return Digest(content, tuple(_pages(answer)))


def _pages(answer: dict[str, Any]) -> list[Hit]:
    """What the answer was made of: with titles where it gives them, else the addresses alone."""
    results = listed(answer.get("search_results"))
    told = [Hit(text(one, "title"), text(one, "url"), "", text(one, "date") or None) for one in results]
    if told:
        return told
    addresses = answer.get("citations")
    return [Hit("", one, "") for one in addresses if isinstance(one, str)] if isinstance(addresses, list) else []


def _american(day: str) -> str:
    year, month, date = day.split("-")
    return f"{int(month)}/{int(date)}/{year}"
