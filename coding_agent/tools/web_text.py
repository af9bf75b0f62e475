"""Pure. The body of a web page as Markdown or plain text: by markdownify, and what that cannot take, by hand."""

import re
from html.parser import HTMLParser
from typing import Final, Literal, TypeAlias

from attrs import frozen

Form: TypeAlias = Literal["markdown", "text", "html"]

HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
TEXT_TYPES: Final = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|x-yaml|toml|javascript|x-javascript|ecmascript|graphql|x-sh|sql)"
    r"|application/(?:x-ndjson|jsonl|rtf|x-www-form-urlencoded)|image/svg\+xml"
)
CONVERTED_MAX: Final = 1_000_000
TAGS_MAX: Final = 20_000
DEPTH_MAX: Final = 200
"""HTML beyond these is only stripped of its tags: building a tree of it would hold everybody up."""
TAG: Final = re.compile(r"<(/?)([a-zA-Z][^\s>/]*)")
NO_CONTENT: Final = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
DROPPED: Final = (
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "iframe",
    "object",
    "canvas",
    "nav",
    "form",
    "dialog",
)
BLOCKS: Final = frozenset(
    (
        *("p", "div", "section", "article", "header", "footer", "main", "aside", "h1", "h2", "h3", "h4", "h5", "h6"),
        *("li", "ul", "ol", "table", "tr", "pre", "blockquote", "br", "hr", "dt", "dd"),
    )
)
CHARSET: Final = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w:.-]+)", re.IGNORECASE)
BLANK_LINES: Final = re.compile(r"\n[ \t]*(?:\n[ \t]*){2,}")
HIDING: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?!\.?[1-9])", re.IGNORECASE)


@frozen
class Extract:
    """What a page says.

    Attributes:
        title: Of an HTML page, else empty.
        extractor: How the text was got: "markdownify", "stripped", "raw".
    """

    title: str
    text: str
    extractor: str


class NotReadable(ValueError):
    """The body is no text."""


def extract(body: bytes, content_type: str, charset: str | None, form: Form) -> Extract:
    """The page as text.

    Raises:
        NotReadable: It is a picture, an archive, or something else that is no text.
    """
    html = content_type in HTML_TYPES or (not content_type and b"<html" in body[:1000].lower())
    if not html and content_type and TEXT_TYPES.fullmatch(content_type) is None:
        raise NotReadable(content_type)
    if not html and b"\0" in body[:8192] and not body.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise NotReadable(content_type or "unknown type")
    text = decoded(body, charset)
    if not html:
        return Extract("", text, "raw")
    if form == "html":
        return Extract(title_of(text), text, "raw")
    return from_html(text, form)


def decoded(body: bytes, charset: str | None) -> str:
    """The text, in the encoding that the header, the page or the bytes themselves name."""
    named = CHARSET.search(body[:4096])
    for name in (charset, named[1].decode("ascii", "replace") if named else None):
        if name:
            try:
                return body.decode(name, errors="replace")
            except LookupError:
                continue
    from coding_agent.tools.text_file import NotText, decode

    try:
        return decode(body).text
    except NotText:
        return body.decode(errors="replace")


def from_html(html: str, form: Form) -> Extract:
    """An HTML page's content without what is not shown."""
    if is_tame(html):
        try:
            return converted(html, form)
        except (ImportError, RecursionError, ValueError, AttributeError, TypeError):
            pass  # no library, or a page made to break it
    stripper = Stripper()
    stripper.feed(html)
    stripper.close()
    return Extract(stripper.title.strip(), tidied("".join(stripper.parts)), "stripped")


def is_tame(html: str) -> bool:
    """Small and shallow enough to be turned into a tree."""
    if len(html) > CONVERTED_MAX:
        return False
    depth = 0
    for count, (closing, name) in enumerate(TAG.findall(html)):
        if closing:
            depth = max(0, depth - 1)
        elif name.lower() not in NO_CONTENT:
            depth += 1
        if depth > DEPTH_MAX or count > TAGS_MAX:
            return False
    return True


def converted(html: str, form: Form) -> Extract:
    """By markdownify, after everything was taken out that a reader would not see."""
    from bs4 import BeautifulSoup, Comment
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for tag in soup(list(DROPPED)):
        tag.decompose()
    for comment in soup.find_all(string=lambda text: isinstance(text, Comment)):
        comment.extract()
    for tag in soup.find_all(True):
        if not tag.decomposed and (tag.has_attr("hidden") or HIDING.search(str(tag.get("style") or ""))):
            tag.decompose()
    if form == "text":
        return Extract(title, tidied(soup.get_text("\n", strip=True)), "markdownify")
    root = soup.find("main") or soup.find("article") or soup.body or soup
    if len(root.get_text(strip=True)) < 200:
        root = soup.body or soup
    converter = MarkdownConverter(heading_style="ATX", bullets="-")
    return Extract(title, tidied(converter.convert_soup(root)), "markdownify")


def title_of(html: str) -> str:
    """The page's title, by a look at its head."""
    match = re.search(r"<title[^>]*>(.*?)</title", html[:100_000], re.IGNORECASE | re.DOTALL)
    import html as entities

    return " ".join(entities.unescape(match[1]).split()) if match else ""


def tidied(text: str) -> str:
    """Without trailing blanks and heaps of empty lines."""
    return BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip()


class Stripper(HTMLParser):
    """Collects the text between tags; needs no tree, so nothing in a page can make it slow or deep."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.title = ""
        self._dropped: str | None = None
        self._depth = 0
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._dropped is not None:
            self._depth += tag == self._dropped
        elif tag in DROPPED:
            self._dropped, self._depth = tag, 1
        elif tag == "title":
            self._in_title = True
        elif tag in BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if self._dropped is not None:
            self._depth -= tag == self._dropped
            if self._depth <= 0:
                self._dropped = None
        elif tag == "title":
            self._in_title = False
        elif tag in BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif self._dropped is None:
            self.parts.append(data)
