"""Pure. What the model is told about a page: its text as Markdown, its elements, what happened, or a picture of it.

A payload carries its trust metadata in both spellings, because readers look for either.
"""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from coding_agent.tools.web_text import from_html
from lemon_agent import AgentToolResult, ToolError, external_content
from lemon_ai import ImageContent

if TYPE_CHECKING:
    from coding_agent.tools.browser_worker import Failed

CUT: Final = "\n[... cut ...]"
PICTURE_BYTES_MAX: Final = 4_500_000


def result(action: str, page: Mapping[str, Any], limit: int) -> AgentToolResult:
    """The page after an action, its text within `limit` characters. Takes a while for a large page."""
    extract = from_html(str(page.get("html") or ""), "markdown")
    text, truncated = wrapped(extract.text, limit)
    payload = {
        "tool": "browser",
        "action": action,
        "url": external_content.visible(str(page.get("url")))[:2000],
        "title": external_content.visible(str(page.get("title")))[:300],
        "text": text,
        "truncated": truncated or bool(page.get("cut")),
        "length": len(extract.text),
        "elements": [described(each) for each in page.get("elements") or () if isinstance(each, list)],
        "notes": notes_of(page),
    }
    return external_content.untrusted_json_result(with_trust(payload, ["text"]))


def picture_result(page: Mapping[str, Any]) -> AgentToolResult:
    """A picture of the page, with its address; the payload holds no picture.

    Raises:
        ToolError: It is too large.
    """
    data = str(page.get("picture") or "")
    if len(data) > PICTURE_BYTES_MAX:
        raise ToolError("The picture is too large; take one without fullPage")
    payload = {
        "tool": "browser",
        "action": "screenshot",
        "url": external_content.visible(str(page.get("url")))[:2000],
        "title": external_content.visible(str(page.get("title")))[:300],
        "bytes": len(base64.b64decode(data)),
        "notes": notes_of(page),
    }
    shown = external_content.untrusted_json_result(with_trust(payload, []))
    return evolve(shown, content=(*shown.content, ImageContent(data, "image/jpeg")))


def with_trust(payload: Mapping[str, Any], fields: list[str]) -> dict[str, Any]:
    """The payload with what it says about its own trust."""
    return external_content.with_trust_metadata("browser", payload, source="web_fetch", wrapped_fields=fields)


def wrapped(text: str, limit: int) -> tuple[str, bool]:
    """The text between markers it cannot close, cut to `limit` characters with them; whether it was cut."""
    whole = external_content.wrap_external_content(text, source="web_fetch", include_warning=False)
    room = len(text)
    while len(whole) > limit and room > 0:  # escapes make the text longer
        room = max(0, min(room, limit) - max(1, (len(whole) - limit) // 2) - len(CUT))
        whole = external_content.wrap_external_content(text[:room] + CUT, source="web_fetch", include_warning=False)
    return whole, room < len(text)


def described(element: Any) -> str:
    """One element on a line: its ref, what it is, what it is called, where it leads."""
    ref, tag, kind, name, target = (*map(str, element), "", "", "", "", "")[:5]
    what = f"{tag}[{kind}]" if kind else tag
    line = " ".join(part for part in (ref, what, " ".join(name.split()), f"-> {target}" if target else "") if part)
    return external_content.visible(line)[:400]


def notes_of(page: Mapping[str, Any]) -> list[str]:
    """What happened meanwhile, in words that a page may have chosen."""
    return [external_content.visible(" ".join(str(note).split()))[:300] for note in page.get("notes") or ()]


def refusal(action: str, failed: "Failed") -> str:
    """Why an action could not be done."""
    notes = [external_content.visible(note)[:300] for note in failed.notes]
    text = external_content.visible(failed.text)
    if "sandbox" in text.lower() and "start" in text.lower():
        text += " (Chromium's own sandbox does not work here; chromium_sandbox=False does without it)"
    return "\n".join([f"Cannot {action}: {text}" if not text.startswith("The browser") else text, *notes])
