import json
from html.parser import HTMLParser

import pytest

from coding_agent.exporting.formats import FORMATS, export, to_document
from coding_agent.storage.session_manager import SessionManager
from tests.coding_agent.storage.support import PI, answer, user


@pytest.fixture
def sample():
    with SessionManager.open(PI / "v3-all-entry-types.jsonl", read_only=True) as manager:
        yield manager


def test_a_file_of_the_present_format_is_exported_as_it_is(sample):
    """
    Every entry keeps its bytes.
    """
    assert export(sample, "jsonl").split("\n")[1:] == sample.path.read_text(encoding="utf-8").split("\n")[1:]


def test_an_older_file_is_exported_in_the_present_format(tmp_path):
    """
    What pi of today opens.
    """
    with SessionManager.open(PI / "v1-compaction-index.jsonl", read_only=True) as old:
        text = export(old, "jsonl")
        context = old.build_context()
    (tmp_path / "new.jsonl").write_text(text, encoding="utf-8")
    with SessionManager.open(tmp_path / "new.jsonl") as new:
        assert new.report.version == 3
        assert new.build_context() == context


def test_the_document_holds_every_branch(sample):
    """
    One object with header, leaf, name, labels and all entries.
    """
    document = json.loads(export(sample, "json"))
    assert document == to_document(sample)
    assert len(document["entries"]) == 23
    assert document["leafId"] == "a0000017"


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_text_to_read_has_the_current_branch(sample, form):
    """
    Words, calls, results and summaries, in order.
    """
    text = export(sample, form)
    assert "Fix tests" in text
    text = text.partition("<main>")[2] or text
    wanted = [
        "Which tests fail?",
        "Call of bash",
        "1 failed",
        "test_add fails.",
        "Explored a fix",
        "Other way",
    ]
    places = [text.index(words) for words in wanted]
    assert places == sorted(places)


def test_words_cannot_become_markup(tmp_path):
    """
    A conversation about HTML and Markdown is still only text.
    """
    with SessionManager.create("/p", tmp_path) as manager:
        manager.append_message(user("<script>alert(1)</script>"))
        manager.append_message(answer("b", "```\nfence"))
        page, text = export(manager, "html"), export(manager, "markdown")

    tags = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            tags.append(tag)

    Tags().feed(page)
    assert "script" not in tags
    assert "````" in text
    assert set(FORMATS) == {"json", "jsonl", "markdown", "html"}
