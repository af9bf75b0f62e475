"""What a page holds, and what never gets into one."""

import json
import re
from html.parser import HTMLParser

import pytest

from coding_agent.exporting import markdown_html
from coding_agent.exporting.clean import Cleaner
from coding_agent.exporting.page import html_page, page_parts
from coding_agent.storage.session_manager import SessionManager
from tests.coding_agent.exporting.sample import DIFF, KEY, ODD_SECRET, asked, build, png, said
from tests.coding_agent.storage.support import HEADER, PI, entry, line


class Page(HTMLParser):
    """What a browser would make of it: elements, attributes, words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "img", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


@pytest.fixture
def text(tmp_path):
    with build(tmp_path) as manager:
        return html_page(manager, secrets=[ODD_SECRET])


@pytest.fixture
def page(text):
    return Page(text)


def test_a_page_is_well_formed_and_needs_nothing_from_outside(page):
    """Every element is closed in its order; there is no script, no frame, no form, and no address that is fetched."""
    assert page.open == []
    assert not {"script", "iframe", "link", "object", "embed", "form", "base"} & set(page.tags)
    assert all(src.startswith("data:image/png;base64,") for src in page.values("src"))
    assert len(page.values("src")) == 1
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "style"]


def test_the_policy_lets_the_page_run_and_fetch_nothing(text):
    """The header of the page forbids everything but its own style sheet and pictures that are in it."""
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy.startswith(
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src 'sha256-"
    )


def test_links_lead_to_web_pages_only(page):
    """An address that would run something stays words; the others tell their target nothing about the reader."""
    outside = [href for href in page.values("href") if not href.startswith("#n")]
    assert outside == ["https://example.com/a?b=c"]
    assert page.values("rel") == ["noopener noreferrer nofollow"]
    assert "[bad link](javascript:" in page.words


def test_every_link_inside_the_page_has_a_target(page):
    """The contents name entries that are there."""
    inside = {href[1:] for href in page.values("href") if href.startswith("#")}
    assert inside
    assert inside <= set(page.values("id"))


@pytest.mark.requirement("BR-184")
def test_what_is_invisible_or_for_a_terminal_is_not_in_the_page(text, page):
    """A turned text direction is written out as an escape, colours and links of a terminal are gone."""
    assert r"invoice\u{202e}gpj.exe" in page.words
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "red link done" in page.words
    assert "evil.test" not in text


@pytest.mark.requirement("BR-183")
def test_secrets_are_not_in_the_page(text):
    """Neither what looks like a key nor the values the caller names, wherever they stand."""
    assert KEY not in text
    assert ODD_SECRET not in text
    assert text.count("[redacted]") == 2


def test_calls_are_folded_with_their_result_difference_and_labels(text, page):
    """One block a call: an error and untrusted content show on its fold, an edit shows the lines it changed."""
    assert page.tags.count("details") - page.values("class").count("branch") - 1 == 5  # 4 calls, 1 thought
    bash = text[text.index("Call of bash") :]
    assert bash.index('badge error">error') < bash.index("</summary>")
    fetched = text[text.index("Call of web_fetch") :]
    assert fetched.index("untrusted content") < fetched.index("</summary>")
    assert '<span class="del">-    return 1</span><span class="add">+    return 2</span>' in text
    assert text.count("return 2") == 1
    read = text[text.index("Call of read") :]
    assert read.index("no result") < read.index("</summary>")
    assert "The answer ended early: aborted." in text
    assert DIFF.splitlines()[0] in page.words


def test_an_edit_without_a_result_shows_what_it_would_change(tmp_path):
    """Old and new text of the arguments, in the spellings of other programs too."""
    from lemon_ai import ToolCall

    with SessionManager.create("/p", tmp_path) as manager:
        calls = [
            ToolCall("a", "edit", {"path": "x", "edits": [{"oldText": "one", "newText": "two"}]}),
            ToolCall("b", "Edit", {"file_path": "x", "old_string": "three", "new_string": "four"}),
        ]
        manager.append_message(said(*calls, stop="tool_use"))
        text = html_page(manager)
    for old, new in (("one", "two"), ("three", "four")):
        assert f'<span class="del">-{old}</span><span class="add">+{new}</span>' in text


def test_other_branches_are_folded_in_where_they_leave(page, text):
    """The branch that was left stands behind the entry it leaves, with its size and its first words."""
    at = text.index("Another branch, 2 entries: And now the wrong way.")
    assert text.index("All tests pass now.") < at < text.index("That led nowhere.") < text.index("I see.")
    assert page.words.count("works") == 2  # the label, on its entry and in the contents


def test_what_was_used_is_added_up_over_all_branches(page):
    """Four answers of one model, in tokens and dollars."""
    assert "anthropic/claude-sonnet-4-544,8001,3603,2000$0.0400" in page.words
    assert "1,200 in, 340 out, 800 cached, $0.0100" in page.words


def test_markup_in_names_and_roles_is_words(tmp_path):
    """Everything that a file can name is escaped: ids, labels, models, tools, types, roles, folders."""
    bad = "\"><script>x</script>'"
    lines = [
        {**HEADER, "id": bad, "cwd": bad},
        entry("e1", None, bad),
        {"type": "model_change", "id": "e2", "parentId": "e1", "provider": bad, "modelId": bad},
        {"type": bad, "id": "e3", "parentId": "e2"},
        entry("e4", "e3", message={"role": bad, "content": bad}),
        entry("e5", "e4", message={"role": "assistant", "provider": bad, "model": bad, "stopReason": bad,
              "content": [{"type": "toolCall", "id": bad, "name": bad, "arguments": {bad: {bad: bad}}}]}),
        entry("e6", "e5", message={"role": "toolResult", "toolCallId": bad, "toolName": bad,
              "content": [{"type": "image", "data": bad, "mimeType": bad},
                          {"type": "image", "data": png(1, 2, 3), "mimeType": "image/svg+xml"}]}),
        {"type": "custom_message", "id": "e7", "parentId": "e6", "customType": bad, "content": bad},
        {"type": "branch_summary", "id": "e8", "parentId": "e7", "fromId": bad, "summary": bad},
        {"type": "compaction", "id": "e9", "parentId": "e8", "summary": bad, "firstKeptEntryId": "e8"},
        {"type": "label", "id": "e10", "parentId": "e9", "targetId": "e1", "label": bad},
        {"type": "session_info", "id": "e11", "parentId": "e10", "name": bad},
    ]  # fmt: skip
    file = tmp_path / "s.jsonl"
    file.write_bytes(b"".join(map(line, lines)))
    with SessionManager.open(file, read_only=True) as manager:
        page = Page(html_page(manager))
    assert page.open == []
    assert "script" not in page.tags
    assert page.values("src") == []
    assert "[an image that cannot be read]" in page.words
    assert "[an image of type image/svg+xml" in page.words


@pytest.mark.parametrize("sample", sorted(PI.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_sample_of_pi_becomes_a_well_formed_page(sample):
    """Old formats, all entry types and a large session."""
    with SessionManager.open(sample, read_only=True) as manager:
        page = Page(html_page(manager))
    assert page.open == []
    assert "article" in page.tags


def test_a_page_of_a_tree_of_any_shape_nests_little_and_shows_each_entry_once(tmp_path):
    """A thousand branches, each off the one before, are not a thousand folds deep; circles end."""
    comb = [entry("e0", None, "start")]
    for number in range(1, 2001):
        comb.append(entry(f"e{number}", f"e{number - 1}", f"step {number}."))
        comb.append(entry(f"s{number}", f"e{number - 1}", f"aside {number}."))
    circle = [entry("x", "y", "in a circle"), entry("y", "x", "also in it")]
    last = entry("z", "e0", "the end")
    file = tmp_path / "s.jsonl"
    file.write_bytes(b"".join(map(line, [HEADER, *comb, *circle, last])))
    with SessionManager.open(file, read_only=True) as manager:
        text = html_page(manager)
    depth = deepest = 0
    for tag in re.findall(r"<details|</details", text):
        depth += 1 if tag == "<details" else -1
        deepest = max(deepest, depth)
    assert depth == 0
    assert deepest <= 13
    words = [re.escape(f"<p>{kind} {number}.</p>") for kind in ("step", "aside") for number in (1, 999, 2000)]
    assert all(len(re.findall(pattern, text)) == 1 for pattern in words)
    assert text.count("<p>in a circle</p>") == 1


def test_a_page_comes_in_pieces(tmp_path):
    """So that a long session is written without being held twice in memory."""
    with SessionManager.create("/p", tmp_path) as manager:
        for number in range(50):
            manager.append_message(asked(f"prompt {number}"))
        assert max(map(len, page_parts(manager))) < 12_000


def test_without_the_markdown_library_words_are_shown_as_written(text, tmp_path, monkeypatch):
    """The base installation has no renderer; nothing is lost and nothing becomes markup."""
    monkeypatch.setattr(markdown_html, "_has_renderer", lambda: False)
    with build(tmp_path / "again") as manager:
        plain = Page(html_page(manager))
    assert plain.open == []
    assert "script" not in plain.tags
    assert "Here is the **plan** with `code`" in plain.words


@pytest.mark.parametrize("source", ["[" * 5000, "> " * 5000 + "x", "*a " * 20_000, "`" * 10_001, "- " * 3000])
def test_crooked_markdown_is_still_a_page(source):
    """Deep nesting and open ends neither fail nor take for ever."""
    assert Page(markdown_html.to_html(Cleaner().text(source))).open == []


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "JaVaScRiPt:x", "data:text/html,x", "file:///etc/passwd", "//evil.test", "http//x"],
)
def test_an_address_that_is_no_web_page_is_no_link(address):
    """Only http, https and mail can be followed."""
    assert not markdown_html.is_safe_link(address)
    assert "href" not in markdown_html.to_html(f"[words]({address}) <{address}>")


def test_half_a_surrogate_pair_and_nul_become_replacement_characters(tmp_path):
    """What no encoding can hold does not stop an export."""
    with SessionManager.create("/p", tmp_path) as manager:
        manager.append_message(asked("a\ud800b\x00c"))
        text = html_page(manager)
    assert "a?bc" in text
    text.encode("utf-8")


def test_arguments_that_are_no_text_are_shown_as_json(tmp_path):
    """Numbers, lists and objects too."""
    from lemon_ai import ToolCall

    with SessionManager.create("/p", tmp_path) as manager:
        manager.append_message(said(ToolCall("a", "x", {"n": 1, "deep": {"list": [1, "ü"]}}), stop="tool_use"))
        words = Page(html_page(manager)).words
    assert json.dumps({"list": [1, "ü"]}, indent=2, ensure_ascii=False) in words
