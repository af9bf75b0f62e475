"""Edge. Questions to whoever is connected: permissions, and what extensions ask. Fails closed.

A question is open until it is answered, its time is up, whoever asks is cancelled, or nobody is left who could answer.
Each client that listens hears of it, one that comes later too, and it is answered once. What only informs is passed on
and forgotten.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import field

from coding_agent.permissions.approver import PermissionAnswer, PermissionRequest
from lemon_otp import define, frozen

Method: TypeAlias = Literal["select", "confirm", "input", "editor"]

ALLOW_ONCE: Final = "Allow once"
DENY: Final = "Deny"
_ids: Final = itertools.count(1)


@frozen
class Question:
    """Something a client is to put to its person.

    Attributes:
        id: Of the question; the answer names it.
        method: What kind of dialog.
        fields: What the dialog shows, in the protocol's names.
        timeout_ms: When it is taken for unanswered; None waits as long as whoever asks.
    """

    id: str
    method: Method
    fields: Mapping[str, Any]
    timeout_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As the protocol asks it."""
        timeout = {} if self.timeout_ms is None else {"timeout": self.timeout_ms}
        return {"type": "extension_ui_request", "id": self.id, "method": self.method, **self.fields, **timeout}


@frozen
class Asked:
    """A question is open; to those that listen when it is put, and to each that begins to listen meanwhile."""

    question: Question


@frozen
class Closed:
    """A question is not open any more: somebody answered, or nobody will.

    Attributes:
        answered: Somebody answered.
    """

    question_id: str
    answered: bool


@frozen
class Shown:
    """Something that wants no answer, as the protocol tells it."""

    method: str
    fields: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As the protocol tells it."""
        return {"type": "extension_ui_request", "id": f"n{next(_ids)}", "method": self.method, **self.fields}


DialogEvent: TypeAlias = Asked | Closed | Shown
Listener: TypeAlias = Callable[[DialogEvent], None]


@define(eq=False)
class Dialogs:
    """The open questions of one session, and who can answer them. It is an `Approver`.

    Attributes:
        waits_for_client: A question with nobody connected stays open for whoever comes; else it is refused at once.
    """

    waits_for_client: bool = False
    _listeners: list[Listener] = field(factory=list)
    _open: "dict[str, tuple[Question, asyncio.Future[Mapping[str, Any] | None]]]" = field(factory=dict)

    # Who is there.

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener` of every question from now on and of those that are open; what is returned ends that."""
        self._listeners.append(listener)
        for question, _ in list(self._open.values()):
            listener(Asked(question))

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)
            if not self._listeners and not self.waits_for_client:
                self.refuse_all()

        return stop

    @property
    def open(self) -> tuple[Question, ...]:
        """The questions that wait."""
        return tuple(question for question, _ in self._open.values())

    def refuse_all(self) -> None:
        """Nobody will answer what is open now."""
        for _, answer in list(self._open.values()):
            if not answer.done():
                answer.set_result(None)

    def answer(self, question_id: str, response: Mapping[str, Any]) -> bool:
        """Answer a question; False when it is not open, or was answered before.

        Args:
            question_id: Its id.
            response: `value`, `confirmed` or `cancelled: true`, as the protocol has them.
        """
        found = self._open.get(question_id)
        if found is None or found[1].done():
            return False
        found[1].set_result(None if response.get("cancelled") else dict(response))
        return True

    # Asking.

    async def put(self, question: Question) -> Mapping[str, Any] | None:
        """Ask, and wait for the answer; None when there is none. Cancelling takes the question back."""
        if not self._listeners and not self.waits_for_client:
            return None
        answer: asyncio.Future[Mapping[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._open[question.id] = question, answer
        self._tell(Asked(question))
        response: Mapping[str, Any] | None = None
        try:
            async with asyncio.timeout(None if question.timeout_ms is None else question.timeout_ms / 1000):
                response = await answer
        except TimeoutError:
            pass
        finally:
            answer.cancel()
            del self._open[question.id]
            self._tell(Closed(question.id, response is not None))
        return response

    async def select(
        self, title: str, options: Sequence[str], *, timeout_ms: int | None = None, question_id: str = "", **more: Any
    ) -> str | None:
        """Which of the options a person takes; None when none. `more` goes into the request as it is."""
        fields = {"title": title, "options": list(options), **more}
        response = await self.put(Question(question_id or _new_id(), "select", fields, timeout_ms))
        value = None if response is None else response.get("value")
        return value if isinstance(value, str) and value in options else None

    async def confirm(self, title: str, message: str, *, timeout_ms: int | None = None) -> bool:
        """Whether a person says yes."""
        fields = {"title": title, "message": message}
        response = await self.put(Question(_new_id(), "confirm", fields, timeout_ms))
        return response is not None and response.get("confirmed") is True

    async def input(self, title: str, placeholder: str | None = None, *, timeout_ms: int | None = None) -> str | None:
        """A line a person types; None when they do not."""
        fields = {"title": title} if placeholder is None else {"title": title, "placeholder": placeholder}
        return _text(await self.put(Question(_new_id(), "input", fields, timeout_ms)))

    async def editor(self, title: str, prefill: str | None = None) -> str | None:
        """A text a person writes; None when they do not."""
        fields = {"title": title} if prefill is None else {"title": title, "prefill": prefill}
        return _text(await self.put(Question(_new_id(), "editor", fields)))

    # Telling.

    def notify(self, message: str, kind: Literal["info", "warning", "error"] = "info") -> None:
        """Show a person a line."""
        self.show("notify", message=message, notifyType=kind)

    def set_status(self, key: str, text: str | None = None) -> None:
        """Keep a short text in view; None takes it away."""
        self.show("setStatus", statusKey=key, **({} if text is None else {"statusText": text}))

    def set_widget(self, key: str, lines: Sequence[str] | None = None, *, placement: str = "aboveEditor") -> None:
        """Keep lines in view; None takes them away."""
        shown = {} if lines is None else {"widgetLines": list(lines)}
        self.show("setWidget", widgetKey=key, widgetPlacement=placement, **shown)

    def set_title(self, title: str) -> None:
        """Name the window."""
        self.show("setTitle", title=title)

    def set_editor_text(self, text: str) -> None:
        """Put a text where a person types."""
        self.show("set_editor_text", text=text)

    def show(self, method: str, **fields: Any) -> None:
        """Tell every client something that wants no answer."""
        self._tell(Shown(method, fields))

    def _tell(self, event: DialogEvent) -> None:
        for listener in list(self._listeners):
            listener(event)

    # Permissions.

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        """Put a permission question; whatever is no clear yes is a no."""
        rules = [str(rule) for rule in request.rules]
        always = f"Always allow {', '.join(rules)}"
        options = [ALLOW_ONCE, *([always] if rules else []), DENY]
        chosen = await self.select(
            request.shown or request.tool_name,
            options,
            question_id=request.id,
            kind="permission",
            toolName=request.tool_name,
            toolCallId=request.tool_call_id,
            shown=request.shown,
            reason=request.reason,
            rules=rules,
        )
        if chosen == ALLOW_ONCE:
            return PermissionAnswer("once", request.seal)
        if chosen == always and rules:
            return PermissionAnswer("always", request.seal)
        return PermissionAnswer("deny", request.seal, "" if chosen == DENY else "nobody answered")


def _new_id() -> str:
    return f"q{next(_ids)}"


def _text(response: Mapping[str, Any] | None) -> str | None:
    value = None if response is None else response.get("value")
    return value if isinstance(value, str) else None
