"""Pure. The search services that the environment names."""

from collections.abc import Mapping

from coding_agent.tools.search_perplexity import Perplexity
from coding_agent.tools.search_providers import Brave, DuckDuckGo, SearchProvider, SearXNG, Tavily


def configured(environment: Mapping[str, str]) -> list[SearchProvider]:
    """The services that the environment names, the first choice first."""
    found: list[SearchProvider] = []
    if environment.get("SEARXNG_URL"):
        found.append(SearXNG(environment["SEARXNG_URL"]))
    if environment.get("BRAVE_API_KEY"):
        found.append(Brave(environment["BRAVE_API_KEY"]))
    if environment.get("TAVILY_API_KEY"):
        found.append(Tavily(environment["TAVILY_API_KEY"]))
    if environment.get("PERPLEXITY_API_KEY"):
        found.append(Perplexity(environment["PERPLEXITY_API_KEY"]))
    wanted = environment.get("WEB_SEARCH_PROVIDER", "").strip().lower()
    if wanted == "duckduckgo":
        found.append(DuckDuckGo())
    return sorted(found, key=lambda provider: provider.name != wanted)
