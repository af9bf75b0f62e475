"""Edge, over pure rules. What a server asks a person, put as the same questions permissions are asked with.

A form is asked field by field, so that every client can show it. The first question says who asks and can be declined;
what is left open ends the form as cancelled. Nothing is ever filled in for a person.
"""

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.schemas import description

if TYPE_CHECKING:
    from coding_agent.hosting.dialogs import Dialogs

FIELDS_MAX: Final = 20
CHOICES_MAX: Final = 100
TRIES_MAX: Final = 3
"""How often a field is asked for whose answer does not fit."""
QUESTION_MS: Final = 600_000
ANSWER: Final = "Answer"
DECLINE: Final = "Decline"
OPENED: Final = "I have opened it"
SKIP: Final = "(leave it out)"
DONE: Final = "(no more)"

_KINDS: Final = {"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "yes or no"}


class BadForm(ValueError):
    """A form asks for something that no person can be asked."""


class DoesNotFit(ValueError):
    """An answer is not what a field takes; the text says what it takes."""


class LeftOpen(Exception):
    """A person does not answer."""


@frozen
class FormField:
    """One thing a form asks for.

    Attributes:
        kind: `string`, `integer`, `number`, `boolean`, or `several` of its choices.
        choices: What can be answered, by what is shown; empty for what is typed.
        least, most: Of a number its bounds, of a text its lengths, of several choices how many.
    """

    name: str
    kind: str
    title: str = ""
    description: str = ""
    required: bool = False
    choices: Mapping[str, str] = {}
    least: float = -math.inf
    most: float = math.inf

    def read(self, text: str) -> Any:
        """What a person typed as the value it stands for.

        Raises:
            DoesNotFit: It is no such value.
        """
        if self.kind == "string":
            if not self.least <= len(text) <= self.most:
                raise DoesNotFit(f"{self.bounds} characters")
            return text
        try:
            number = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            raise DoesNotFit(_KINDS[self.kind]) from None
        if not (self.least <= number <= self.most and math.isfinite(number)):
            raise DoesNotFit(f"{_KINDS[self.kind]}, {self.bounds}")
        return number

    @property
    def bounds(self) -> str:
        """The bounds, in words."""
        parts = [f"at least {self.least:g}"] if self.least > -math.inf else []
        return " and ".join([*parts, *([f"at most {self.most:g}"] if self.most < math.inf else [])])


def form_fields(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """What a form asks for.

    Raises:
        BadForm: It holds something nested or unknown, or too much.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or len(properties) > FIELDS_MAX:
        raise BadForm("a form has properties, not too many")
    required = schema.get("required") or ()
    return tuple(_field(str(name), raw, name in required) for name, raw in properties.items())


def _field(name: str, raw: Any, required: bool) -> FormField:
    if not isinstance(raw, Mapping):
        raise BadForm(f"{name} is no field")
    kind = raw.get("type")
    several = kind == "array"
    source = raw.get("items") if several else raw
    choices = _choices(source) if isinstance(source, Mapping) else {}
    if several and not choices:
        raise BadForm(f"{name} is a list of anything")
    if not several and kind not in _KINDS:
        raise BadForm(f"{name} is of no kind a person is asked for")
    low, high = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}.get(
        str(kind), ("minimum", "maximum")
    )
    return FormField(
        name=name,
        kind="several" if several else str(kind),
        title=_line(raw.get("title")) or _line(name),
        description=_line(raw.get("description")),
        required=required,
        choices=choices,
        least=_number(raw.get(low), -math.inf),
        most=_number(raw.get(high), math.inf),
    )


def _choices(raw: Mapping[str, Any]) -> dict[str, str]:
    """`enum` with or without names, or a list of constants with titles."""
    listed = raw.get("oneOf") or raw.get("anyOf")
    if isinstance(listed, list):
        pairs = [(each.get("title"), each.get("const")) for each in listed if isinstance(each, Mapping)]
    else:
        values = raw.get("enum")
        values = values if isinstance(values, list) else []
        names = raw.get("enumNames")
        shown_as = names if isinstance(names, list) and len(names) == len(values) else values
        pairs = list(zip(shown_as, values, strict=True))
    if len(pairs) > CHOICES_MAX:
        raise BadForm("too many choices")
    found: dict[str, str] = {}
    for shown, value in pairs:
        if isinstance(value, str):
            found.setdefault(_line(shown) or _line(value), value)
    return found


def _number(raw: Any, otherwise: float) -> float:
    return float(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) else otherwise


def _line(text: Any) -> str:
    return " ".join(description(text).split())[:200] if isinstance(text, str) else ""


# Asking.


async def elicited(dialogs: "Dialogs", entry: ServerEntry, asked: Any) -> Any:
    """The library's `ElicitResult` for what a server asks: what a person answered, declined or left open."""
    from mcp_types import ElicitResult

    said = entry.masked(description(asked.message))
    if asked.mode == "url":
        return ElicitResult(action=await _opened(dialogs, entry, said, asked.url))
    try:
        fields = form_fields(asked.requested_schema)
    except BadForm:
        return ElicitResult(action="decline")
    first = await dialogs.select(
        f"The MCP server {entry.name} asks: {said}", [ANSWER, DECLINE], timeout_ms=QUESTION_MS, kind="elicitation"
    )
    if first != ANSWER:
        return ElicitResult(action="cancel" if first is None else "decline")
    content: dict[str, Any] = {}
    try:
        for field in fields:
            value = await _answered(dialogs, entry, field)
            if value is not None:
                content[field.name] = value
    except LeftOpen:
        return ElicitResult(action="cancel")
    return ElicitResult(action="accept", content=content)


async def _opened(dialogs: "Dialogs", entry: ServerEntry, said: str, url: str) -> Any:
    """Whether a person goes to an address; it is only shown, and never opened by itself."""
    if not re.match(r"https?://[^/\s]", url) or url != description(url):
        return "decline"
    chosen = await dialogs.select(
        f"The MCP server {entry.name} wants you to open {url} in a browser: {said}",
        [OPENED, DECLINE],
        timeout_ms=QUESTION_MS,
        kind="elicitation",
        url=url,
    )
    return {OPENED: "accept", DECLINE: "decline"}.get(chosen or "", "cancel")


async def _answered(dialogs: "Dialogs", entry: ServerEntry, field: FormField) -> Any:
    """A person's answer for one field; None for one that is left out.

    Raises:
        LeftOpen: There is none.
    """
    title = f"{entry.name}: {field.title}"
    title = f"{title} ({field.description})" if field.description else title
    if field.kind == "several":
        return await _several(dialogs, title, field)
    if field.kind == "boolean" or field.choices:
        choices = field.choices or {"Yes": "yes", "No": "no"}
        chosen = await _chosen(dialogs, title, [*choices, *([] if field.required else [SKIP])])
        if chosen == SKIP:
            return None
        return choices[chosen] if field.kind != "boolean" else chosen == "Yes"
    return await _typed(dialogs, title, field)


async def _typed(dialogs: "Dialogs", title: str, field: FormField) -> Any:
    hint = _KINDS[field.kind] + ("" if field.required else ", or nothing")
    for _try in range(TRIES_MAX):
        text = await dialogs.input(title, hint, timeout_ms=QUESTION_MS)
        if text is None:
            raise LeftOpen
        if not text.strip() and not field.required:
            return None
        try:
            return field.read(text.strip() if field.kind != "string" else text)
        except DoesNotFit as wanted:
            hint = str(wanted)
    raise LeftOpen


async def _several(dialogs: "Dialogs", title: str, field: FormField) -> list[str]:
    """Some of the choices, taken one after the other."""
    taken: list[str] = []
    while len(taken) < min(len(field.choices), field.most):
        left = [shown for shown, value in field.choices.items() if value not in taken]
        enough = len(taken) >= max(field.least, 1 if field.required else 0)
        chosen = await _chosen(dialogs, f"{title}, {len(taken)} taken", [*left, *([DONE] if enough else [])])
        if chosen == DONE:
            break
        taken.append(field.choices[chosen])
    return taken


async def _chosen(dialogs: "Dialogs", title: str, options: list[str]) -> str:
    chosen = await dialogs.select(title, options, timeout_ms=QUESTION_MS, kind="elicitation")
    if chosen is None:
        raise LeftOpen
    return chosen
