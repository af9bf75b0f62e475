"""The colours of the terminal."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.errors import BadUsage
from coding_agent.terminal.layout import style_of
from coding_agent.terminal.markdown import markdown_lines
from coding_agent.terminal.render import Renderer
from coding_agent.terminal.theme import DARK, LIGHT, Theme, find_theme, read_theme


def put(folder: Path, document: object) -> None:
    (folder / "mine.json").write_text(document if isinstance(document, str) else json.dumps(document))


def test_a_theme_is_built_in_or_a_file(tmp_path):
    """What a file does not say is as in the theme it is based on; a colour may be named once and used by its name."""
    assert (find_theme("dark", tmp_path), find_theme("light", tmp_path)) == (DARK, LIGHT)
    put(tmp_path, {"base": "light", "vars": {"sea": "#268bd2"}, "colors": {"accent": "sea", "error": "bright_red"}})
    assert find_theme("mine", tmp_path) == Theme(
        "#268bd2", LIGHT.success, "bright_red", LIGHT.warning, LIGHT.code, LIGHT.highlight
    )


def test_a_theme_of_pis_can_be_used(tmp_path):
    """Of its many meanings ours are taken, by its names where they are others; an empty one is the terminal's own."""
    put(
        tmp_path,
        {
            "name": "p",
            "vars": {"leaf": 34},
            "colors": {"accent": "", "success": "leaf", "mdCode": 208, "borderMuted": "x", "toolDiffRemoved": 1},
        },
    )
    assert find_theme("mine", tmp_path) == Theme(success="#00af00", code="#ff8700", error="red")


@pytest.mark.parametrize(
    ("name", "document", "said"),
    [
        ("none", {}, "no theme none; there are dark, light, mine"),
        ("../mine", {}, "there is no theme"),
        ("mine", "{", "is no JSON"),
        ("mine", [], "object with colors"),
        ("mine", {"colors": {"accent": "reddish"}}, "accent must be"),
        ("mine", {"base": "grey"}, "base must be"),
    ],
)
def test_a_theme_that_cannot_be_meant_is_refused(tmp_path, name, document, said):
    """The line says what of which file, or which themes there are."""
    put(tmp_path, document)
    with pytest.raises(BadUsage, match=said):
        find_theme(name, tmp_path)


def test_everything_that_is_drawn_has_the_colours_of_the_theme():
    """Marks and code in what was said, the windows below; without colours there are none."""
    theme = Theme(code="#ff8700", warning="#112233")

    def drawn(**options):
        renderer = Renderer(40, theme=theme, **options)
        return renderer.ansi(markdown_lines(renderer, "some `code`"))

    assert "38;2;255;135;0" in drawn(depth="truecolor")
    assert "38;" not in drawn(depth="truecolor", colour=False)
    assert dict(style_of(theme).style_rules)["ask"] == "fg:#112233 bold"
    assert dict(style_of(LIGHT).style_rules)["ask"] == "fg:ansimagenta bold"


def test_more_than_sixteen_colours_are_used_where_the_terminal_has_them():
    """A theme of the terminal's own colours needs no more."""
    own = Theme(accent="#000000")
    assert DARK.depth({"COLORTERM": "truecolor"}) == "standard"
    assert (own.depth({"COLORTERM": "24bit"}), own.depth({})) == ("truecolor", "256")


@given(st.dictionaries(st.sampled_from(["accent", "success", "mdCode", "x"]), st.text() | st.integers() | st.none()))
def test_any_file_is_a_theme_or_refused(colors):
    """Nothing else ever comes of it, and what comes of it can be drawn."""
    try:
        theme = read_theme({"colors": colors}, "f")
    except BadUsage:
        return
    style_of(theme)
    Renderer(20, theme=theme).lines("x")
