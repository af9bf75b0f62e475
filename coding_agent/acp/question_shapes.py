"""Pure. Questions and their answers in the protocol's kinds: options to choose from, forms, pages to open."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from coding_agent.acp.tool_shapes import kind_of
from coding_agent.hosting.dialogs import DENY, Question

YES: Final = "Yes"
NO: Final = "No"
FIELD: Final = "answer"
SHOWN_MAX: Final = 500


def options_of(question: Question) -> list[str]:
    """What can be chosen; nothing where words are asked for."""
    if question.method == "confirm":
        return [YES, NO]
    return [str(each) for each in question.fields.get("options") or ()]


def is_permission(question: Question) -> bool:
    """Is it about a tool call?"""
    return question.fields.get("kind") == "permission"


def offered(question: Question, options: Sequence[str]) -> list[dict[str, str]]:
    """The options of a permission request; an option's id is its place.

    Of a tool call: once, always where that can be had, and no. The protocol knows no kinds for anything else.
    """
    kinds = ["allow_once", *["allow_always"] * (len(options) - 2), "reject_once"]
    if not is_permission(question):
        kinds = ["allow_once"] * len(options)
    return [
        {"optionId": str(number), "name": name, "kind": "reject_once" if name in (DENY, NO) else kinds[number]}
        for number, name in enumerate(options)
    ]


def call_in_question(question: Question) -> dict[str, Any]:
    """The tool call a permission request is about; one of its own for a question that is about none."""
    fields = question.fields
    text = "\n\n".join(str(fields[name]) for name in ("shown", "reason", "message") if fields.get(name))
    shown = str(fields.get("shown") or fields.get("toolName") or fields.get("title", ""))
    return {
        "toolCallId": str(fields.get("toolCallId") or "") or question.id,
        "title": " ".join(shown.split())[:SHOWN_MAX],
        "kind": kind_of(str(fields.get("toolName", ""))),
        "status": "pending",
        "content": [{"type": "content", "content": {"type": "text", "text": text or shown}}],
    }


def form_of(question: Question, options: Sequence[str]) -> dict[str, Any]:
    """A form with one field: one of the options, or words."""
    fields = question.fields
    field: dict[str, Any] = {"type": "string", "title": str(fields.get("title", ""))[:SHOWN_MAX]}
    if options:
        field["enum"] = list(options)
    if hint := fields.get("placeholder") or fields.get("message"):
        field["description"] = str(hint)
    if prefill := fields.get("prefill"):
        field["default"] = str(prefill)
    schema = {"type": "object", "properties": {FIELD: field}, "required": [FIELD]}
    return {"mode": "form", "message": str(fields.get("title", "")), "requestedSchema": schema}


def page_of(question: Question, url: str) -> dict[str, Any]:
    """A page to open."""
    return {"mode": "url", "message": str(question.fields.get("title", "")), "elicitationId": question.id, "url": url}


def filled_in(answer: Mapping[str, Any]) -> str | None:
    """What a person put into the form; None when they did not."""
    content = answer.get("content")
    value = content.get(FIELD) if answer.get("action") == "accept" and isinstance(content, Mapping) else None
    return value if isinstance(value, str) else None


def response_of(question: Question, options: Sequence[str], value: str | None) -> dict[str, Any]:
    """The answer as whoever asked wants it; what is none of the options is none."""
    if value is None or (options and value not in options):
        return {"cancelled": True}
    return {"confirmed": value == YES} if question.method == "confirm" else {"value": value}
