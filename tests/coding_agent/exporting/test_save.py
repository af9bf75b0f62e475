"""Where an export goes."""

import stat

import pytest

from coding_agent.exporting import save
from coding_agent.exporting.save import save_html, save_markdown
from tests.coding_agent.exporting.sample import KEY, build


@pytest.fixture
def manager(tmp_path):
    with build(tmp_path / "sessions") as made:
        yield made


@pytest.mark.parametrize(("write", "suffix"), [(save_html, ".html"), (save_markdown, ".md")])
def test_an_export_without_a_name_is_called_like_its_session(manager, tmp_path, monkeypatch, write, suffix):
    """It lands in the working folder, is private, and a second one takes another name."""
    monkeypatch.chdir(tmp_path)
    first, second = write(manager), write(manager)
    assert first == tmp_path / (manager.path.stem + suffix)
    assert second == tmp_path / f"{manager.path.stem}-2{suffix}"
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert "All tests pass now." in first.read_text()


def test_a_file_that_is_there_is_never_written_over(manager, tmp_path):
    """An error, and the file is as it was."""
    (tmp_path / "x.html").write_text("mine")
    with pytest.raises(FileExistsError):
        save_html(manager, tmp_path / "x.html")
    assert (tmp_path / "x.html").read_text() == "mine"


def test_an_export_that_fails_leaves_no_half_page(manager, tmp_path, monkeypatch):
    """What was begun is removed."""

    def breaks(*_, **__):
        yield "<!doctype html>"
        raise OSError("the disk is full")

    monkeypatch.setattr(save, "page_parts", breaks)
    with pytest.raises(OSError, match="the disk is full"):
        save_html(manager, tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()


@pytest.mark.requirement("BR-183", "BR-184")
def test_markdown_is_as_clean_as_the_page(manager, tmp_path):
    """No key, no terminal codes, no turned text; untrusted content says so."""
    text = save_markdown(manager, tmp_path / "x.md").read_text()
    assert KEY not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "## Result of web_fetch, untrusted content" in text
