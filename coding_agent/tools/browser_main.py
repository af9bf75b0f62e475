"""Edge. The program that has a browser: Playwright, its driver and Chromium, all below this process.

It runs in an interpreter of its own (`python -P browser_main.py SETTINGS`) with an environment without secrets, so
that none of it is in the host and all of it can be killed at once. One JSON object a line, both ways:

    host ─▶ {"id": 1, "do": "navigate", "args": {...}, "timeout_s": 30}      host ◀─ {"id": 1, "done": {...}}
    host ─▶ {"stop": 1}                                                      host ◀─ {"id": 1, "error": "..."}
    host ◀─ {"ask": 7, "url": "..."} or {"ask": 7, "host": "...", "port": 443, "scheme": "https"}
    host ─▶ {"ask": 7, "addresses": [...]} or {"ask": 7, "refused": "..."}

It begins with {"ready": true} or {"failed": "why"}. An action that takes too long ends the program: a page whose script
never rests answers nothing any more, and a fresh browser is one second away.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Download, Locator, Page, Playwright, Route

    from coding_agent.tools.browser_proxy import Proxy, Refused
else:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from browser_proxy import Proxy, Refused

LINE_MAX: Final = 4 * 1024 * 1024
HTML_MAX: Final = 3_000_000
PAGES_MAX: Final = 5
NOTES_MAX: Final = 20
NOTE_CHARACTERS: Final = 300
ELEMENTS_MAX: Final = 150
SETTLE_MS: Final = 300
LOAD_MS: Final = 5_000
READ_S: Final = 5.0
"""Of an action's time, kept for looking at the page once it is done or its own time is up."""
FULL_PAGE_HEIGHT_MAX: Final = 8_000
ATTEMPTS: Final = 3
INSIDE: Final = ("data:", "blob:", "about:")
WIDTH, HEIGHT = 1280, 800

NOWHERE: Final = "0.0.0.0"
"""What the browser would talk to by itself, its maker's services, is looked for here."""

ARGUMENTS: Final = (
    "--disable-quic",
    "--dns-prefetch-disable",
    "--no-pings",
    "--no-first-run",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--mute-audio",
    f"--gaia-url=http://{NOWHERE}",
    f"--google-url=http://{NOWHERE}",
    f"--component-updater=url-source=http://{NOWHERE}/",
    f"--apps-gallery-update-url=http://{NOWHERE}/",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
"""Nothing leaves but through the proxy, and names are not looked up here."""

LIST_ELEMENTS: Final = """
([most]) => {
  const wanted = 'a[href],button,input:not([type=hidden]),select,textarea,summary,[role=button],[role=link],' +
    '[role=tab],[role=checkbox],[role=menuitem],[contenteditable=true],[onclick]';
  const found = [];
  for (const element of document.querySelectorAll(wanted)) {
    const box = element.getBoundingClientRect();
    if (box.width <= 0 || box.height <= 0) continue;
    const ref = String(found.length + 1);
    element.setAttribute('data-lemon-ref', ref);
    const name = element.getAttribute('aria-label') || element.innerText || element.placeholder ||
      element.getAttribute('alt') || element.title || element.name || '';
    found.push([
      'e' + ref, element.tagName.toLowerCase(), element.getAttribute('type') || element.getAttribute('role') || '',
      String(name).trim().slice(0, 100), String(element.href || '').slice(0, 300),
    ]);
    if (found.length >= most) break;
  }
  return found;
}
"""


class Channel:
    """The two ends that the host holds the others of."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(limit=LINE_MAX)
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)  # nobody else writes there
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self.reader), os.fdopen(os.dup(0), "rb"))

    async def receive(self) -> dict[str, Any] | None:
        """The next request; answers to what was asked are given to who asked. None when the host is gone."""
        while line := await self.reader.readline():
            message = json.loads(line)
            if "ask" not in message:
                return dict(message)
            waiting = self._asked.pop(message["ask"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        return None

    def tell(self, **message: Any) -> None:
        """Tell the host."""
        self._out.write(json.dumps(message).encode() + b"\n")
        self._out.flush()

    async def ask(self, **question: Any) -> dict[str, Any]:
        """The host's answer.

        Raises:
            Refused: It said no.
        """
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self.tell(ask=number, **question)
        try:
            found: dict[str, Any] = await answer
        finally:
            self._asked.pop(number, None)
        if "refused" in found:
            raise Refused(found["refused"])
        return found


class Unable(Exception):
    """An action cannot be done; the text is for the model."""


class Browser:
    """One browser with one context; the newest page is the one that is looked at."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.pages: list[Page] = []
        self.notes: list[str] = []
        self.action = ""

    async def start(self, playwright: Playwright, settings: dict[str, Any], port: int) -> None:
        browser = await playwright.chromium.launch(
            executable_path=settings["executable"],
            headless=True,
            chromium_sandbox=settings["sandbox"],
            args=[*ARGUMENTS, f"--proxy-server=http://127.0.0.1:{port}"],
            downloads_path=settings["folder"],
            timeout=30_000,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
        browser.on("disconnected", lambda _browser: os._exit(3))
        context = await browser.new_context(
            accept_downloads=False, service_workers="block", viewport={"width": WIDTH, "height": HEIGHT}
        )
        context.on("page", self._opened)
        context.on("dialog", self._dialog)
        await context.route("**/*", self._judge)
        await context.new_page()

    @property
    def page(self) -> Page:
        return self.pages[-1]

    def note(self, text: str) -> None:
        """Something the model should know about what happened meanwhile."""
        if len(self.notes) < NOTES_MAX and text not in self.notes:
            self.notes.append(text[:NOTE_CHARACTERS])

    # What pages do by themselves.

    async def _opened(self, page: Page) -> None:
        if self.pages and (len(self.pages) >= PAGES_MAX or self.action not in ("click", "type")):
            self.note("A page that was opened was closed again: nobody had asked for it, or there are too many.")
            with suppress(Exception):
                await page.close()
            return
        if self.pages:
            self.note("A new page was opened, and is the one that is looked at; back leads to the one before.")
        self.pages.append(page)
        page.on("close", self._closed)
        page.on("crash", lambda _page: os._exit(4))
        page.on("download", self._download)

    def _closed(self, page: Page) -> None:
        if page in self.pages:
            self.pages.remove(page)
        if not self.pages:
            os._exit(5)

    async def _dialog(self, dialog: Dialog) -> None:
        leaving = dialog.type == "beforeunload"
        if not leaving:
            self.note(f"The page showed a dialog ({dialog.type}), which was dismissed: {dialog.message}")
        with suppress(Exception):
            await (dialog.accept() if leaving else dialog.dismiss())

    async def _download(self, download: Download) -> None:
        self.note(f"A download was refused; web_download gets files: {download.url}")
        with suppress(Exception):
            await download.cancel()

    async def _judge(self, route: Route) -> None:
        url = route.request.url
        try:
            if not url.startswith(INSIDE):
                await self.channel.ask(url=url)
            await route.continue_()
        except Refused as refused:
            self.note(f"Not loaded: {url[:120]}: {refused}")
            with suppress(Exception):
                await route.abort("blockedbyclient")

    # What the model does.

    async def act(self, action: str, args: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Do it and look at the page.

        Raises:
            Unable: It cannot be done.
        """
        self.notes, self.action = [], action
        timeout_ms = timeout_s * 1000
        if action == "navigate":
            await self._navigate(args["url"], timeout_ms)
        elif action == "click":
            await self._target(args["selector"]).click(timeout=timeout_ms)
            await self._settled()
        elif action == "type":
            target = self._target(args["selector"])
            await target.fill(args["text"], timeout=timeout_ms)
            if args.get("submit"):
                await target.press("Enter", timeout=timeout_ms)
            await self._settled()
        elif action == "back":
            await self._back(timeout_ms)
        elif action == "leave":
            await self.page.goto("about:blank", timeout=timeout_ms)
        async with asyncio.timeout(READ_S):
            if action == "screenshot":
                return await self._picture(full=bool(args.get("full_page")))
            return await self._looked()

    def _target(self, selector: str) -> Locator:
        if selector[:1] == "e" and selector[1:].isdigit():
            selector = f'[data-lemon-ref="{selector[1:]}"]'
        return self.page.locator(selector)

    async def _navigate(self, url: str, timeout_ms: float, attempt: int = 1) -> None:
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as TooLate

        try:
            await self.page.goto(url, wait_until="domcontentloaded", timeout=timeout_ms)
        except TooLate:
            self.note("The page did not load completely in time.")
        except Error as error:
            if "Download is starting" in error.message:
                raise Unable(f"{url} is a file, not a page; use web_download") from error
            if attempt >= ATTEMPTS or "interrupted by another navigation" not in error.message:
                raise
            await self.page.wait_for_timeout(SETTLE_MS)  # the page before has not come to its end yet
            await self._navigate(url, timeout_ms, attempt + 1)
        await self._settled(min(timeout_ms, LOAD_MS))

    async def _back(self, timeout_ms: float) -> None:
        if await self.page.go_back(wait_until="domcontentloaded", timeout=timeout_ms) is None:
            if len(self.pages) < 2:
                raise Unable("There is no page before this one")
            await self.page.close()
        await self._settled()

    async def _settled(self, load_ms: float = LOAD_MS) -> None:
        """Let what an action started begin, then let a page that is on its way arrive, within bounds."""
        with suppress(Exception):
            await self.page.wait_for_timeout(SETTLE_MS)
            await self.page.wait_for_load_state("load", timeout=load_ms)

    async def _looked(self) -> dict[str, Any]:
        from playwright.async_api import Error

        page = self.page
        html = await page.content()
        elements: list[list[str]] = []
        with suppress(Error, TypeError, KeyError):  # of a page that has put something else in the place of the DOM
            found = await page.evaluate(LIST_ELEMENTS, [ELEMENTS_MAX])
            elements = [[str(value)[:300] for value in each[:5]] for each in found[:ELEMENTS_MAX]]
        return {
            "url": page.url,
            "title": (await page.title())[:300],
            "html": html[:HTML_MAX],
            "cut": len(html) > HTML_MAX,
            "elements": elements,
            "notes": self.notes,
        }

    async def _picture(self, *, full: bool) -> dict[str, Any]:
        page = self.page
        height = HEIGHT
        if full:
            whole = await page.evaluate("() => Number(document.documentElement.scrollHeight)")
            if isinstance(whole, int | float) and whole > height:
                height = int(min(whole, FULL_PAGE_HEIGHT_MAX))
        data = await page.screenshot(
            type="jpeg", quality=75, full_page=full, animations="disabled", timeout=READ_S * 1000,
            clip={"x": 0, "y": 0, "width": WIDTH, "height": height},
        )  # fmt: skip
        picture = base64.b64encode(data).decode()
        return {"url": page.url, "title": (await page.title())[:300], "picture": picture, "notes": self.notes}


class Worker:
    """Takes requests, one action at a time, until the host is gone."""

    def __init__(self, channel: Channel, browser: Browser) -> None:
        self.channel = channel
        self.browser = browser
        self.requests: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.dropped: set[int] = set()
        self.current: tuple[int, asyncio.Timeout] | None = None

    async def run(self) -> None:
        """Listen, and do what is wanted meanwhile."""
        await asyncio.gather(self.listen(), self.work())

    async def listen(self) -> None:
        while (message := await self.channel.receive()) is not None:
            if "stop" in message:
                self.stop(message["stop"])
            else:
                self.requests.put_nowait(message)
        os._exit(0)

    def stop(self, number: int) -> None:
        """Give an action up, at work or still waiting."""
        self.dropped.add(number)
        if self.current is not None and self.current[0] == number:
            self.current[1].reschedule(asyncio.get_running_loop().time())

    async def work(self) -> None:
        while True:
            message = await self.requests.get()
            if message["id"] not in self.dropped:
                await self.do(message["id"], message)
            self.dropped.discard(message["id"])

    async def do(self, number: int, message: dict[str, Any]) -> None:
        from playwright.async_api import Error

        timeout_s = float(message["timeout_s"])
        try:
            async with asyncio.timeout(timeout_s + 2 * READ_S) as deadline:
                self.current = number, deadline
                done = await self.browser.act(message["do"], message["args"], timeout_s)
            self.channel.tell(id=number, done=done)
        except Unable as unable:
            self.channel.tell(id=number, error=str(unable), notes=self.browser.notes)
        except Error as error:
            self.channel.tell(id=number, error=short(error.message), notes=self.browser.notes)
        except (TimeoutError, ValueError, TypeError, KeyError) as error:
            if number in self.dropped:
                return
            said = "the page does not answer any more" if isinstance(error, TimeoutError) else repr(error)
            self.channel.tell(id=number, error=f"{said}; the browser was closed", lost=True)
            os._exit(6)
        finally:
            self.current = None


def short(text: str) -> str:
    """An error of Playwright without the log of its attempts."""
    return text.partition("Call log:")[0].strip()[:500]


async def main() -> None:
    settings = json.loads(sys.argv[1])
    channel = Channel()
    await channel.open()
    try:
        from playwright.async_api import async_playwright

        playwright = await async_playwright().start()

        browser = Browser(channel)

        async def ask(host: str, port: int, scheme: str) -> list[str]:
            if host == NOWHERE:
                raise Refused("nothing is there")
            try:
                answer = await channel.ask(host=host, port=port, scheme=scheme)
            except Refused as refused:
                browser.note(f"Not connected to {host}: {refused}")
                raise
            return [str(each) for each in answer["addresses"]]

        port = await Proxy(ask).start()
        await browser.start(playwright, settings, port)
    except Exception as error:
        channel.tell(failed=short(str(error)) or type(error).__name__)
        os._exit(2)
    channel.tell(ready=True)
    await Worker(channel, browser).run()


if __name__ == "__main__":
    asyncio.run(main())
