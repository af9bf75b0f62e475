"""Pure. A question on the screen: what may be answered, where the cursor is, and when keys begin to count.

A question can appear while somebody is typing. So that a key meant for something else never answers it, keys count only
after it has been on the screen for a moment in which none was pressed.
"""

from typing import Any, Final, Literal, TypeAlias

from attrs import define, field, frozen

from coding_agent.terminal.channel import Message

Kind: TypeAlias = Literal["permit", "pick", "confirm", "line", "text"]
QUIET_S: Final = 0.6
"""So long nobody may have pressed a key before one counts."""
PERMIT_KEYS: Final = (("allow once", "y"), ("always", "a"), ("deny", "n"))


@frozen
class Option:
    """One possible answer.

    Attributes:
        label: What it is called.
        value: What is answered.
        note: Said beside it.
        key: Chooses it at once.
        depth: How far it is indented, for trees.
    """

    label: str
    value: Any
    note: str = ""
    key: str = ""
    depth: int = 0


@define
class Question:
    """What is asked now.

    Attributes:
        id: Of the request it answers; empty for the terminal's own.
        tool_call_id: Of the call that waits for it.
        text: What a field begins with.
        at: The option under the cursor, among the visible ones.
        typed: What the options are narrowed down by.
        quiet_since_s: When it appeared, or the last key that did not count was pressed.
        expires_s: After that nobody waits for the answer any more.
    """

    kind: Kind
    title: str
    options: tuple[Option, ...] = ()
    id: str = ""
    tool_call_id: str = ""
    message: str = ""
    text: str = ""
    at: int = 0
    typed: str = ""
    quiet_since_s: float | None = None
    expires_s: float | None = None
    _armed: bool = field(default=False, init=False)

    @property
    def is_field(self) -> bool:
        """Whether text is typed as an answer."""
        return self.kind in ("line", "text")

    @property
    def is_ours(self) -> bool:
        """Whether the user asked for it himself, so that keys count at once."""
        return not self.id

    def appeared(self, now_s: float) -> None:
        """It is on the screen."""
        if self.quiet_since_s is None:
            self.quiet_since_s = now_s

    def arm(self, now_s: float) -> bool:
        """Whether keys count now; looked at before each drawing, not at a key, so that what is seen is what holds."""
        if not self._armed and self.quiet_since_s is not None:
            self._armed = self.is_ours or now_s - self.quiet_since_s >= QUIET_S
        return self._armed

    @property
    def is_armed(self) -> bool:
        """As the screen shows it."""
        return self._armed

    def too_early(self, now_s: float) -> None:
        """A key was pressed that does not count."""
        self.quiet_since_s = now_s

    def visible(self) -> list[Option]:
        """The options that hold every word typed."""
        words = self.typed.casefold().split()
        if not words:
            return list(self.options)
        return [each for each in self.options if all(w in f"{each.label} {each.note}".casefold() for w in words)]

    def move(self, by: int) -> None:
        """The cursor goes up or down and stays inside."""
        count = len(self.visible())
        self.at = max(0, min(count - 1, self.at + by)) if count else 0

    def narrow(self, typed: str) -> None:
        """Other words to narrow the options down by."""
        self.typed, self.at = typed, 0

    def chosen(self) -> Option | None:
        """The option under the cursor."""
        visible = self.visible()
        return visible[self.at] if self.at < len(visible) else None

    def by_key(self, key: str) -> Option | None:
        """The option that a key stands for."""
        return next((each for each in self.options if each.key and each.key == key.lower()), None)


def question_from(request: Message, now_s: float) -> Question | None:
    """The question a request of the host's puts, None where nothing is asked.

    A select for a permission has `kind: "permission"`; its options get the keys y, a and n.
    """
    method = request.get("method")
    timeout_ms = request.get("timeout")
    expires_s = now_s + timeout_ms / 1000 if isinstance(timeout_ms, int | float) and timeout_ms > 0 else None
    given = [str(each) for each in request.get("options") or ()]

    def asked(
        kind: Kind, options: tuple[Option, ...] = (), *, message: str = "", text: str = "", at: int = 0
    ) -> Question:
        return Question(
            kind,
            str(request.get("title") or ""),
            options,
            id=str(request.get("id", "")),
            tool_call_id=str(request.get("toolCallId") or ""),
            message=message,
            text=text,
            at=at,
            expires_s=expires_s,
        )

    if method == "select" and request.get("kind") == "permission":
        options = tuple(Option(label, label, key=permit_key(label)) for label in given)
        return asked("permit", options, at=len(options) - 1)
    if method == "select":
        return asked("pick", tuple(Option(label, label) for label in given))
    if method == "confirm":
        options = (Option("Yes", True, key="y"), Option("No", False, key="n"))
        return asked("confirm", options, message=str(request.get("message") or ""), at=1)
    if method == "input":
        return asked("line", message=str(request.get("placeholder") or ""))
    if method == "editor":
        return asked("text", text=str(request.get("prefill") or ""))
    return None


def permit_key(label: str) -> str:
    """The key for an answer to a question for permission."""
    return next((key for start, key in PERMIT_KEYS if label.casefold().startswith(start)), "")


def response_to(question: Question, answer: Any) -> Message:
    """What is sent back; None is no answer."""
    response: Message = {"type": "extension_ui_response", "id": question.id}
    if answer is None:
        return response | {"cancelled": True}
    if question.kind == "confirm":
        return response | {"confirmed": bool(answer)}
    return response | {"value": answer}
