"""Pure. Markdown of a model or a person as HTML that can do nothing: no raw HTML, no outside pictures, no odd links.

`markdown-it-py` comes with the extra `terminal`. Without it, and for text that is too long or too crooked for it, the
words are shown as they were written.
"""

from __future__ import annotations

import html
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

LONGEST: Final = 200_000
"""Characters; a longer text is not Markdown somebody wrote."""

_SCHEMES: Final = frozenset({"http", "https", "mailto"})


def to_html(source: str) -> str:
    """The text, which is clean already, as block elements."""
    if len(source) <= LONGEST and _has_renderer():
        try:
            return str(_renderer().render(source))
        except (RecursionError, ValueError, IndexError):
            pass
    return f'<p class="as-written">{html.escape(source)}</p>'


def is_safe_link(address: str) -> bool:
    """Is this an address a reader may be sent to?"""
    try:
        return urlsplit(address.strip()).scheme.lower() in _SCHEMES
    except ValueError:
        return False


@lru_cache(1)
def _has_renderer() -> bool:
    return find_spec("markdown_it") is not None


@lru_cache(1)
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt

    class Safe(MarkdownIt):
        def validateLink(self, url: str) -> bool:  # noqa: N802 - the library's name
            return is_safe_link(url)

    made = Safe("commonmark", {"html": False}).enable(["table", "strikethrough"])
    made.add_render_rule("image", _image)
    made.add_render_rule("link_open", _link)
    for cell in ("th_open", "td_open"):
        made.add_render_rule(cell, _cell)
    return made


def _image(_: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    token = tokens[at]
    words = html.escape(token.content or "picture")
    return f'<span class="picture">[{words}: {html.escape(str(token.attrGet("src") or ""))}]</span>'


def _link(renderer: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    tokens[at].attrSet("rel", "noopener noreferrer nofollow")
    return str(renderer.renderToken(tokens, at, options, env))


def _cell(renderer: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    """Alignment as a class: the page allows no style of an element's own."""
    token = tokens[at]
    side = str(token.attrs.pop("style", "")).rpartition(":")[2]
    if side in ("right", "center"):
        token.attrSet("class", side)
    return str(renderer.renderToken(tokens, at, options, env))
