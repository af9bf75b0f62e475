"""The page in a real browser: headless Chromium on a host in this process."""

import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from attrs import define, field
from playwright.async_api import Page, async_playwright, expect

from coding_agent import client
from coding_agent.observer.observer import observe
from lemon_agent import AgentTool, text_result
from lemon_ai.testing import Call, Delay, Say
from lemon_otp import (
    TaskSupervisor,
    annotate,
    exit_signal,
    receive,
    sleep_s,
    spawn,
    whereis,
)
from tests.coding_agent.observer.test_observer import Page as Observed
from tests.coding_agent.observer.test_observer import hold_the_loop_while, told_of_the_holder

pytestmark = [pytest.mark.xdist_group("chromium"), pytest.mark.timeout(180)]

expect.set_options(timeout=30_000)  # a bound for a machine that is very busy, not a pace

HOSTILE = '<img src=x onerror="window.hacked=1">\u202egpj.exe\u0007'


@define
class Opened:
    """A page that is open on the running host."""

    url: str
    page: Page
    said: list[str] = field(factory=list)

    async def go(self, url: str | None = None) -> Page:
        await self.page.goto(url or self.url)
        if url is None:
            await expect(self.page.locator("body")).to_have_attribute("data-line", "on")
            await expect(self.page.locator(".row").first).to_be_visible()
        return self.page


@pytest.fixture(scope="module")
def chromium(tmp_path_factory) -> Iterator[str]:
    """A browser for all tests of this module: where it is driven from."""
    program = shutil.which("chromium")
    assert program, "the Debian package chromium is needed"
    profile = tmp_path_factory.mktemp("chromium")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0"]
    process = subprocess.Popen(
        [program, *flags, f"--user-data-dir={profile}", "about:blank"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    with process:
        try:
            found = (re.search(r"ws://\S+", line) for line in process.stderr)
            yield next(match.group() for match in found if match)
        finally:
            process.terminate()
            process.stderr.read()


@pytest_asyncio.fixture
async def opened(host, chromium) -> AsyncIterator[Opened]:
    url = await observe("")
    async with async_playwright() as driver:
        browser = await driver.chromium.connect_over_cdp(chromium)
        context = await browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
        opened = Opened(url, await context.new_page())
        opened.page.on("console", lambda message: "404" in message.text or opened.said.append(message.text))
        opened.page.on("pageerror", lambda error: opened.said.append(str(error)))
        yield opened
        await context.close()


def row(page: Page, text: str):
    return page.locator(".row:visible", has=page.locator(".name", has_text=re.compile(f"^{re.escape(text)}$")))


async def sleeper(number: int) -> None:
    annotate(job=f"item {number}")
    while True:
        await receive()


async def stuck_session(host):
    tool = AgentTool("search", "Searches.", {"type": "object"}, lambda *_: sleep_s(3600), on="loop")
    session = await host.session([Call("search", {"path": "everything"})], "Then done.", tools=(tool,))
    await client.prompt(session, "Search <b>everything</b>, please")
    while (await receive()).event.type != "tool_execution_start":
        pass
    return session


async def test_the_stuck_tool_is_found_and_killed(opened, host):
    """Find it, see where it stands, think better of it once, kill it; the run goes on with an error for that call."""
    await stuck_session(host)
    page = await opened.go()
    await page.keyboard.press("/")
    await page.keyboard.type("search busy")
    await page.keyboard.press("Enter")
    details = page.locator("#details")
    await expect(details.locator("h2")).to_have_text("tool_task[search]")
    await expect(details).to_contain_text("everything")
    await expect(details.locator(".frames")).to_contain_text("sleep_s")

    await details.get_by_role("button", name="Kill").click()
    await expect(page.locator("#confirm")).to_contain_text("Kill tool_task[search]?")
    await page.keyboard.press("Escape")
    assert len(await TaskSupervisor.children("tool_task_supervisor")) == 1

    await details.get_by_role("button", name="Kill").click()
    await page.locator("#confirm").get_by_role("button", name="Kill").click()
    await expect(page.locator("#toast")).to_contain_text("tool_task[search]")
    events = await host.until_settled()
    assert events[-1].event.outcome == "completed"
    await expect(row(page, "tool_task[search]")).to_have_count(0)
    await expect(details).to_contain_text("This process has ended.")
    assert opened.said == []


async def test_no_name_is_read_as_markup(opened, host):
    """Ids, facts and texts that are HTML or turn the direction of text are shown as what they are, and run nothing."""
    spawn(named_badly, label=HOSTILE)
    page = await opened.go()
    await page.locator("#search").fill("onerror")
    shown = page.locator(".row:visible .name").first
    await expect(shown).to_contain_text('<img src=x onerror="window.hacked=1">\\u{202e}gpj.exe\\u{7}')
    await page.locator(".row:visible", has_text="<img src=x").click()
    await expect(page.locator("#details h2")).to_contain_text("<img src=x")
    await expect(page.locator("#details")).to_contain_text("<script>window.hacked=2</script>")
    assert await page.evaluate("window.hacked") is None
    assert await page.locator("#details img, #tree img, #details script").count() == 0
    assert opened.said == []


async def named_badly() -> None:
    annotate(phase="<script>window.hacked=2</script>")
    while True:
        await receive()


async def test_five_thousand_processes_are_a_few_dozen_elements(opened, host, tmp_path):
    """Only the rows in sight exist; the end is reached, one is found, folding hides them; light and dark."""
    workers = await TaskSupervisor.start_link(name="workers")
    assert workers.alive
    for number in range(5000):
        await TaskSupervisor.start_child("workers", sleeper, number, label=f"worker[{number}]")
    page = await opened.go()
    await expect(page.locator("#shown")).to_contain_text(re.compile(r"^5,0\d\d processes"))
    assert await page.locator(".row").count() < 100
    await page.locator("#tree").focus()
    await page.keyboard.press("End")
    await expect(row(page, "attached").or_(row(page, "worker[4999]")).first).to_be_visible()
    assert await page.locator(".row").count() < 100
    await page.locator("#search").fill("worker[4321]")
    await expect(row(page, "worker[4321]")).to_be_visible()
    await expect(page.locator("#shown")).to_contain_text(re.compile("^2 of 5,0|^3 of 5,0"))
    await page.locator("#search").fill("")
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        await page.screenshot(path=tmp_path / f"{scheme}.png")
    paper = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(22, 21, 16)"
    await page.keyboard.press("t")
    assert opened.said == []


async def test_a_run_is_shown_as_bars_and_as_a_conversation(opened, host):
    """Turns, model calls and tools with their names; then what was said, as text; a failed call is marked."""

    async def look(call_id, params, signal, on_update):
        return text_result("<b>seen</b>")

    tool = AgentTool("look", "Looks.", {"type": "object"}, look)
    turns = ([Say("I look."), Call("look", {}), Call("missing", {})], [Delay(50), Say("All <i>done</i>.")])
    session = await host.session(*turns, tools=(tool,))
    page = await opened.go()
    await page.keyboard.press("2")
    await expect(page.locator("#runs")).to_contain_text("No runs yet")
    await host.run(session, "Please look")
    run = page.locator("#run")
    await expect(run.locator('.step[data-kind="turn"]')).to_have_count(2)
    await expect(run.locator('.step[data-kind="model"]')).to_have_count(2)
    await expect(run.locator('.step[data-kind="tool"]')).to_have_count(2)
    await expect(run.locator(".step.failed")).to_contain_text("missing")
    await expect(page.locator("#runs .tag")).to_have_text("done")
    await run.get_by_role("button", name="Transcript").click()
    await expect(run).to_contain_text("Please look")
    await expect(run).to_contain_text("<b>seen</b>")
    await expect(run).to_contain_text("All <i>done</i>.")
    assert opened.said == []


async def test_a_session_is_read_and_steered_from_its_process(opened, host):
    """A session's node shows what was said, and takes a text for the model."""
    session = await stuck_session(host)
    page = await opened.go()
    await page.locator("#search").fill("session[")
    await page.locator(".row:visible", has=page.locator(".name", has_text=re.compile(r"^session\["))).click()
    details = page.locator("#details")
    await details.get_by_role("button", name="Transcript").click()
    await expect(details).to_contain_text("Search <b>everything</b>, please")
    await details.get_by_role("button", name="Back").click()
    await details.get_by_role("button", name="Steer").click()
    await page.locator("#confirm-input").fill("Look in src first")
    await page.locator("#confirm").get_by_role("button", name="Send").click()
    await expect(page.locator("#toast")).to_contain_text("before its next call")
    assert (await client.get_state(session)).pending_messages == 1
    assert opened.said == []


async def test_a_restart_is_in_the_history_and_in_the_tree(opened, host):
    """What crashed, under whom, how often; the row counts it."""
    page = await opened.go()
    await page.keyboard.press("3")
    await expect(page.locator("#past")).to_contain_text("Nothing has gone wrong")
    exit_signal(whereis("todo_store"), "kill")
    await expect(page.locator("#past tbody tr").first).to_contain_text("todo_store")
    await expect(page.locator("#past tbody tr").first).to_contain_text("restart")
    await page.keyboard.press("1")
    await expect(row(page, "todo_store").locator(".c-num").nth(2)).to_have_text("1")


async def test_a_page_that_loses_the_line_finds_it_again(opened, host):
    """The observer is killed and started again: the page says so, reconnects and goes on."""
    page = await opened.go()
    exit_signal(whereis("observer"), "kill")
    await expect(page.locator("body")).to_have_attribute("data-line", "again")
    await expect(page.locator("body")).to_have_attribute("data-line", "on")
    spawn(sleeper, 1, label="newcomer")
    await expect(row(page, "newcomer")).to_be_visible()


async def test_a_loop_that_is_held_up_is_named_while_it_is(opened, host):
    """The line says who holds it and for how long, and that all is well again; the tree is still there."""
    page = await opened.go()
    await page.evaluate(
        """() => { window.lines = []; const line = document.getElementById("line");
          new MutationObserver(() => window.lines.push(line.textContent)).observe(line, {childList: true, subtree: true,
          characterData: true}); }"""
    )
    url, _, token = opened.url.partition("#token=")
    observed = Observed(url, token, None)
    hold_the_loop_while(lambda: told_of_the_holder(observed))
    await expect(page.locator("#line")).to_have_text("live")
    lines = await page.evaluate("window.lines")
    assert any(re.match(r"loop held for \d+ s by ", line) for line in lines), lines
    assert opened.said == []


async def test_the_token_leaves_the_address_and_a_missing_one_is_asked_for(opened, host):
    """After opening, the address is bare and a reload still works; without a token a dialog takes one."""
    page = await opened.go()
    assert "token" not in page.url
    await page.reload()
    await expect(page.locator("body")).to_have_attribute("data-line", "on")
    other = await page.context.new_page()
    await page.evaluate("sessionStorage.clear()")
    bare, _, token = opened.url.partition("#token=")
    await other.goto(f"{bare}#token=wrong")
    await expect(other.locator("#gate")).to_be_visible()
    await other.locator("#gate-token").fill(token)
    await other.locator("#gate").get_by_role("button", name="Connect").click()
    await expect(other.locator("body")).to_have_attribute("data-line", "on")
    await expect(other.locator(".row").first).to_be_visible()
    await other.close()


async def test_the_tree_is_walked_with_keys(opened, host):
    """Down and right go on, left folds and goes up, Enter moves to the details."""
    page = await opened.go()
    await page.locator("#tree").focus()
    await page.keyboard.press("Home")
    chosen = page.locator('.row[aria-selected="true"] .name')
    await expect(chosen).to_have_text("lemon_ai.supervisor")
    await page.keyboard.press("ArrowRight")
    await expect(chosen).to_have_text("provider_registry")
    await page.keyboard.press("ArrowLeft")
    await expect(chosen).to_have_text("lemon_ai.supervisor")
    await page.keyboard.press("ArrowLeft")
    await expect(page.locator('.row[aria-selected="true"]')).to_have_attribute("aria-expanded", "false")
    await expect(row(page, "provider_registry")).to_have_count(0)
    await page.keyboard.press("ArrowDown")
    await expect(chosen).to_have_text("lemon_agent.supervisor")
    await expect(page.locator("#details h2")).to_have_text("lemon_agent.supervisor")
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.closest('#details') !== null")
