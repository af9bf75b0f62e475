"""Edge. What a server says it serves: for servers on this machine, whose models nobody lists, and for keys that may not
use every model of a catalogue.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from lemon_ai.environment import canonical, find_api_key
from lemon_ai.errors import UnknownModel
from lemon_ai.model_cache import DEFAULT_TTL_MS, ModelCache
from lemon_ai.models.catalog import LOCAL_BASE_URLS, Catalog, current_catalog
from lemon_ai.models.model import Model
from lemon_ai.network import is_loopback, is_offline
from lemon_ai.stream_options import StreamOptions
from lemon_otp import OtpError

TIMEOUT_S: Final = 4.0


async def discover(
    provider: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    ttl_ms: int = DEFAULT_TTL_MS,
    timeout_s: float = TIMEOUT_S,
) -> tuple[Model, ...]:
    """The models of a provider that can be called now.

    A server on this machine, or at a `base_url`, is believed whole; of a vendor's list those count that the catalogue
    knows. The answer is kept in `ModelCache` while the application runs, and asked for again after `ttl_ms`.

    Args:
        provider: Whose models.
        base_url: Where to ask; None is the provider's own address.
        api_key: None looks in the environment.
        ttl_ms: How old an answer may be that is given without asking.
        timeout_s: Seconds for the whole question, which is asked once.

    Returns:
        The models; where the server does not answer, says nonsense or offers nothing, what it said before, else what
        the catalogue lists. Never raises for what a server does.

    Cancelling leaves what is known as it was.
    """
    name, catalog = canonical(provider), current_catalog()
    kept_as = name if base_url is None else f"{name}@{base_url.rstrip('/')}"
    known = ModelCache.read(kept_as, ttl_ms=ttl_ms)
    if known is not None and known.fresh:
        return known.models
    address = _address(name, base_url, catalog)
    ids = await _ask(name, address, api_key, timeout_s) if address else ()
    is_trusted = base_url is not None or name in LOCAL_BASE_URLS
    found = tuple(model for one in ids if (model := _model(catalog, name, one, base_url, listed=not is_trusted)))
    if not found:
        return known.models if known is not None else catalog.models(name)
    with suppress(OtpError):  # without the application there is nobody to remember it
        await ModelCache.write(kept_as, found, authoritative=True)
    return found


def _address(name: str, base_url: str | None, catalog: Catalog) -> str:
    """Where the provider's list of models is; empty when nobody knows."""
    listed = next(iter(catalog.models(name)), None)
    base = base_url or LOCAL_BASE_URLS.get(name) or (listed.base_url if listed is not None else "")
    base = base.rstrip("/")
    if base and not urlsplit(base).path:
        base += "/v1"
    return f"{base}/models" if base else ""


async def _ask(name: str, url: str, api_key: str | None, timeout_s: float) -> tuple[str, ...]:
    import httpx

    if is_offline() and not is_loopback(url):
        return ()
    asking = Model(id="", api="openai_completions", provider=name, base_url=url)
    try:
        key = find_api_key(asking, StreamOptions(api_key=api_key), base_url=url)
        headers = {"authorization": f"Bearer {key}"} if key else {}
        async with httpx.AsyncClient(trust_env=not is_loopback(url), timeout=timeout_s, headers=headers) as http:
            answer = await http.get(url)
        answer.raise_for_status()
        return tuple(dict.fromkeys(str(entry["id"]) for entry in answer.json()["data"] if entry["id"]))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError):
        return ()


def _model(catalog: Catalog, name: str, model_id: str, base_url: str | None, *, listed: bool) -> Model | None:
    if listed:
        return catalog.get(name, model_id)
    try:
        return catalog.find(f"{name}/{model_id}", base_url=base_url)
    except UnknownModel:
        return None
