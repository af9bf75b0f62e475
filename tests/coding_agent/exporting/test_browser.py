"""An exported page in a real browser: what it runs, what it fetches, what a person sees."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from coding_agent.exporting.save import save_html
from tests.coding_agent.exporting.sample import ODD_SECRET, build

pytestmark = pytest.mark.xdist_group("chromium")

CHROMIUM = "/usr/bin/chromium"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    with build(folder) as manager:
        return save_html(manager, folder / "page.html", secrets=[ODD_SECRET])


def opened(browser: Browser, file: Path, **options) -> tuple[Page, list[str]]:
    """The page, and everything it asked for or complained about while it was opened."""
    page = browser.new_page(**options)
    noted: list[str] = []
    page.on("request", lambda request: noted.append(request.url))
    page.on("console", lambda message: noted.append(message.text))
    page.on("pageerror", lambda error: noted.append(str(error)))
    page.on("dialog", lambda dialog: noted.append(dialog.message))
    page.goto(file.as_uri())
    return page, [note for note in noted if note != file.as_uri() and not note.startswith("data:image/png")]


def test_a_hostile_session_runs_nothing_and_fetches_nothing(browser, file):
    """Its markup is words: the title stays ours, and the only thing loaded is the page and its picture."""
    page, noted = opened(browser, file)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.title() == "Fix <the> tests & ship"
    assert noted == []
    assert page.evaluate("document.querySelectorAll('script, iframe, link').length") == 0
    assert page.evaluate("document.querySelector('img').naturalWidth") == 40
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_in_light_and_in_dark(browser, file, scheme):
    """The style sheet is applied under the page's own policy, and ink and paper differ enough."""
    page, _ = opened(browser, file, color_scheme=scheme)
    colours = page.evaluate(
        "() => [...document.querySelectorAll('article p, h2, pre, summary, dd, .badge, td, .used')].map(one => {"
        " let back = one;"
        " while (getComputedStyle(back).backgroundColor === 'rgba(0, 0, 0, 0)') back = back.parentElement;"
        " return [getComputedStyle(one).color, getComputedStyle(back).backgroundColor]; })"
    )
    assert len(colours) > 20
    assert min(contrast(*pair) for pair in colours) >= 4.5
    body = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (luminance(body) < 0.2) == (scheme == "dark")
    page.close()


def test_folds_open_and_links_of_the_contents_lead_somewhere(browser, file):
    """Without a script: what is folded can be unfolded, and a prompt is found through the contents."""
    page, _ = opened(browser, file)
    result = page.get_by_text("1 failed, 3 passed")
    assert not result.is_visible()
    page.get_by_text("Call of bash").click()
    assert result.is_visible()
    page.get_by_text("Contents").click()
    page.get_by_role("link", name="All tests pass now.").click()
    assert page.evaluate("document.querySelector(':target').innerText").startswith("Assistant, claude-sonnet-4-5")
    page.close()


@pytest.mark.parametrize("width", [320, 1400])
def test_no_width_makes_the_page_scroll_sideways(browser, file, width):
    """A telephone and a wide screen; only blocks of code scroll by themselves."""
    page, _ = opened(browser, file, viewport={"width": width, "height": 700})
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)`, as the contrast rules for the web define it."""
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(ink: str, paper: str) -> float:
    bright, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)
