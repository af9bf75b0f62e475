"""Edge. What the tool `web_fetch` does. Loaded with the first page."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from coding_agent.tools.aborting import unless_aborted
from coding_agent.tools.web_address import AddressRefused
from coding_agent.tools.web_client import FetchFailed, Permit, WebClient
from coding_agent.tools.web_text import Extract, Form, NotReadable, extract
from lemon_agent import AbortSignal, AgentToolResult, ToolError, external_content
from lemon_otp import monotonic_s, wall_ms

BODY_MAX: Final = 5_000_000
CACHED_S: Final = 15 * 60
CACHED_PAGES: Final = 100
CUT: Final = "\n[... cut ...]"


@frozen
class Fetched:
    """A page as it was taken apart."""

    final_url: str
    status: int
    content_type: str
    extract: Extract
    raw_length: int
    body_cut: bool
    fetched_at: int
    took_ms: int


class Fetcher:
    """Fetches pages and remembers them for a while."""

    def __init__(
        self, client: WebClient, *, permit: Permit | None = None, now_s: Callable[[], float] = monotonic_s
    ) -> None:
        self._client = client
        self._permit = permit
        self._now_s = now_s
        self._cache: OrderedDict[tuple[str, str], tuple[float, Fetched]] = OrderedDict()

    async def fetch(self, url: str, form: Form, limit: int, signal: AbortSignal | None) -> AgentToolResult:
        """The page as a result.

        Raises:
            ToolError: It may not or cannot be fetched, or is no text.
        """
        page = self._cached(url, form)
        cached = page is not None
        if page is not None and self._permit is not None and page.final_url != url:
            reason = await self._permit(page.final_url)  # what was permitted then need not be now
            if reason is not None:
                raise ToolError(f"Not fetched: redirected to {page.final_url}: {reason}")
        if page is None:
            page = await unless_aborted(self._load(url, form), signal)
            self._remember(url, form, page)
        return result(url, form, limit, page, cached)

    async def _load(self, url: str, form: Form) -> Fetched:
        began = self._now_s()
        try:
            async with self._client.get(url, headers={"Accept": accepted(form)}, permit=self._permit) as page:
                body = await page.read(BODY_MAX)
        except AddressRefused as error:
            raise ToolError(f"Not fetched: {error}") from error
        except FetchFailed as error:
            raise ToolError(f"Cannot fetch {url}: {error}") from error
        charset = charset_of(page.headers.get("content-type", ""))
        try:
            taken = await asyncio.to_thread(extract, body, page.content_type, charset, form)
        except NotReadable as error:
            raise ToolError(
                f"{page.url} is no text ({error}, {len(body)} bytes or more); use web_download to get it as a file"
            ) from error
        if page.status >= 400:
            raise ToolError(f"{page.url} answered {page.status}: {taken.text[:500]}")
        took = int((self._now_s() - began) * 1000)
        return Fetched(page.url, page.status, page.content_type, taken, len(body), page.truncated, wall_ms(), took)

    def _cached(self, url: str, form: Form) -> Fetched | None:
        known = self._cache.get((url, form))
        if known is None or self._now_s() - known[0] > CACHED_S:
            return None
        return known[1]

    def _remember(self, url: str, form: Form, page: Fetched) -> None:
        self._cache[url, form] = (self._now_s(), page)
        self._cache.move_to_end((url, form))
        while len(self._cache) > CACHED_PAGES:
            self._cache.popitem(last=False)


def accepted(form: Form) -> str:
    """What to ask the server for."""
    if form == "markdown":
        return "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5"
    return "text/html, application/xhtml+xml, text/plain;q=0.9, */*;q=0.5"


def charset_of(content_type: str) -> str | None:
    """The encoding that a header names."""
    for part in content_type.split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'") or None
    return None


def result(url: str, form: Form, limit: int, page: Fetched, cached: bool) -> AgentToolResult:
    """The payload: the text wrapped as external, within the limit with its wrapper."""
    text, truncated, warned = wrapped(page.extract.text, limit)
    payload: dict[str, Any] = {
        "url": url,
        "finalUrl": page.final_url,
        "status": page.status,
        "contentType": page.content_type,
        "title": external_content.visible(page.extract.title)[:300],
        "extractMode": form,
        "extractor": page.extract.extractor,
        "truncated": truncated or page.body_cut,
        "length": len(page.extract.text),
        "rawLength": page.raw_length,
        "wrappedLength": len(text),
        "fetchedAt": page.fetched_at,
        "tookMs": page.took_ms,
        "cached": cached,
        "text": text,
    }
    payload = external_content.with_trust_metadata(
        "web_fetch", payload, wrapped_fields=["text"], warning_included=warned
    )
    return external_content.untrusted_json_result(payload)


def wrapped(text: str, limit: int) -> tuple[str, bool, bool]:
    """The text in its wrapper, within `limit` characters if that can be; whether it was cut; whether a warning fits."""
    for warning in (True, False):
        whole = external_content.wrap_external_content(text, source="web_fetch", include_warning=warning)
        if len(whole) <= limit:
            return whole, False, warning
        frame = len(external_content.wrap_external_content("", source="web_fetch", include_warning=warning))
        room = limit - frame - len(CUT)
        if room >= min(len(text), 400):
            for _round in range(20):  # escapes make the text longer
                whole = external_content.wrap_external_content(
                    text[:room] + CUT, source="web_fetch", include_warning=warning
                )
                if len(whole) <= limit:
                    return whole, True, warning
                room = max(0, room - max(1, len(whole) - limit))
    whole = external_content.wrap_external_content(CUT.strip(), source="web_fetch", include_warning=False)
    return whole, True, False
