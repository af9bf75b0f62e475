"""Pure. What is known of a conversation from its events: what is final goes out as blocks, what is on its way stays."""

from typing import Any, Final, Literal, TypeAlias

from attrs import define, field

from coding_agent.terminal import view_messages as messages
from coding_agent.terminal.blocks import Asked, Block, Notice, Prose, Summary, Thought, ToolRan
from coding_agent.terminal.channel import Message
from coding_agent.terminal.markdown_stream import MarkdownStream
from coding_agent.terminal.questions import Question, question_from

Phase: TypeAlias = Literal[
    "starting",
    "idle",
    "waiting",
    "thinking",
    "answering",
    "calling",
    "tools",
    "retrying",
    "compacting",
    "shell",
    "closed",
]
ELSEWHERE: Final = {
    "new": "a new session",
    "switch": "another session",
    "fork": "a new session that begins as the other did",
    "clone": "a new session that goes on from here",
    "reset": "a new session",
    "crash": "the session was started again from its file",
}
SHELL_OUTPUT_MAX: Final = 100_000


@define
class Answer:
    """An answer on its way."""

    text: MarkdownStream = field(factory=MarkdownStream)
    is_seen: bool = False
    """Whether any of it came in parts; else its end has all of it."""
    thinking: list[str] = field(factory=list)
    thinking_since_s: float | None = None
    call_characters: int = 0


@define
class Running:
    """A tool at work."""

    name: str
    args: dict[str, Any]
    since_s: float
    output: str = ""


@define
class View:
    """What a terminal knows. `take` is told of each event in turn; the fields are for whoever draws."""

    model: str = ""
    context_window: int = 0
    context_tokens: int = 0
    thinking_level: str = "off"
    cost: float = 0.0
    name: str = ""
    cwd: str = ""
    """The folder it works in."""
    session_id: str = ""
    message_count: int = 0
    permission_mode: str = ""
    phase: Phase = "idle"
    run_since_s: float | None = None
    retry_at_s: float | None = None
    retry_text: str = ""
    answer: Answer | None = None
    tools: dict[str, Running] = field(factory=dict)
    steering: tuple[str, ...] = ()
    follow_up: tuple[str, ...] = ()
    shell: Running | None = None
    statuses: dict[str, str] = field(factory=dict)
    widgets: dict[str, tuple[str, ...]] = field(factory=dict)
    title: str = ""
    editor_text: str | None = None
    """What an extension wants in the editor; the terminal takes it from here."""
    questions: list[Question] = field(factory=list)
    needs_refresh: bool = False
    """Something changed that only the host can say: it is to be asked for its state."""
    elsewhere: str = ""
    """What is looked at from here on, in words: another session, or another place of it. All of this is made anew."""
    close_reason: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether a prompt sent now has to wait for its turn."""
        return self.run_since_s is not None and self.phase not in ("starting", "idle", "closed")

    def take(self, event: Message, now_s: float) -> list[Block]:
        """What can be printed now for good. An event nobody knows changes nothing."""
        handler = HANDLERS.get(str(event.get("type")))
        age_ms = event.get("ageMs")  # of what had happened before this terminal came
        happened_s = now_s - age_ms / 1000 if isinstance(age_ms, int) else now_s
        return handler(self, event, happened_s) if handler is not None else []

    # The run.

    def _begins(self, _event: Message, now_s: float) -> list[Block]:
        self.phase = "waiting"
        self.run_since_s = now_s if self.run_since_s is None else min(self.run_since_s, now_s)
        self.retry_at_s = None
        return []

    def _turn_begins(self, event: Message, now_s: float) -> list[Block]:
        return self._begins(event, now_s)

    def _settles(self, event: Message, _now_s: float) -> list[Block]:
        blocks = self._finish_answer(None)
        blocks += [ToolRan(each.name, each.args, each.output, is_error=True) for each in self.tools.values()]
        self.phase, self.run_since_s, self.retry_at_s = "idle", None, None
        self.tools.clear()
        self.questions[:] = [each for each in self.questions if each.kind != "permit"]
        self.needs_refresh = True
        return blocks + messages.outcome_notice(event)

    # Messages.

    def _message_begins(self, event: Message, now_s: float) -> list[Block]:
        if messages.role_of(event) != "assistant":
            return []
        self.answer = Answer()
        self.phase = "waiting"
        content = (event.get("message") or {}).get("content")
        blocks: list[Block] = []
        for part in content if isinstance(content, list) else ():  # some of it was said before this terminal came
            blocks += self._said_before(self.answer, part, now_s)
        return blocks

    def _said_before(self, answer: Answer, part: Message, now_s: float) -> list[Block]:
        """Take a part of a message that is being said, as it is by now; its last one may yet grow."""
        blocks = [*self._part_ends(answer, "thinking_end", now_s), *self._part_ends(answer, "text_end", now_s)]
        match part.get("type"):
            case "text":
                blocks += self._answer_grows(answer, str(part.get("text") or ""), now_s)
            case "thinking":
                self._thinking_grows(answer, str(part.get("thinking") or ""), None)
            case "toolCall":
                self.phase = "calling"
        return blocks

    def _message_grows(self, event: Message, now_s: float) -> list[Block]:
        part = event.get("assistantMessageEvent") or {}
        answer, kind, delta = self.answer, part.get("type"), part.get("delta")
        if answer is None:  # a host that does not say what was said before: `message_end` says all of it
            return []
        if kind == "text_delta" and delta:
            return self._answer_grows(answer, delta, now_s)
        if kind == "thinking_delta" and delta:
            self._thinking_grows(answer, delta, now_s)
        elif kind in ("text_end", "thinking_end"):
            return self._part_ends(answer, kind, now_s)
        elif kind in ("toolcall_start", "toolcall_delta"):
            self.phase = "calling"
            answer.call_characters += len(delta or "")
            return self._end_thinking(answer, now_s)
        return []

    def _answer_grows(self, answer: Answer, text: str, now_s: float) -> list[Block]:
        self.phase = "answering"
        blocks = self._end_thinking(answer, now_s)
        answer.text.feed(text)
        answer.is_seen = answer.is_seen or bool(text)
        return blocks

    def _thinking_grows(self, answer: Answer, text: str, began_s: float | None) -> None:
        self.phase = "thinking"
        if not answer.thinking:
            answer.thinking_since_s = began_s
        answer.thinking.append(text)
        answer.is_seen = answer.is_seen or bool(text)

    def _part_ends(self, answer: Answer, kind: str, now_s: float) -> list[Block]:
        if kind == "thinking_end":
            return self._end_thinking(answer, now_s)
        return [Prose(piece.text, piece.joined) for piece in answer.text.finish()]

    def _end_thinking(self, answer: Answer, now_s: float) -> list[Block]:
        text = "".join(answer.thinking)
        if not text.strip():
            return []
        began = answer.thinking_since_s
        answer.thinking, answer.thinking_since_s = [], None
        return [Thought(text, None if began is None else now_s - began)]

    def _message_ends(self, event: Message, now_s: float) -> list[Block]:
        message = event.get("message") or {}
        if messages.role_of(event) != "assistant":
            return messages.blocks_of(message)
        blocks = self._finish_answer(now_s) if self.answer is not None and self.answer.is_seen else None
        if blocks is None:  # nothing of it was seen on its way
            self.answer = None
            blocks = messages.blocks_of(message)
        else:
            blocks += messages.stop_notice(message)
        self._count(message)
        self.phase = "waiting" if self.phase != "idle" else "idle"
        return blocks

    def _finish_answer(self, now_s: float | None) -> list[Block]:
        answer, self.answer = self.answer, None
        if answer is None:
            return []
        blocks = self._end_thinking(answer, now_s if now_s is not None else answer.thinking_since_s or 0.0)
        return blocks + [Prose(piece.text, piece.joined) for piece in answer.text.finish()]

    def _count(self, message: Message) -> None:
        usage = message.get("usage") or {}
        total = usage.get("totalTokens") or sum(
            usage.get(key) or 0 for key in ("input", "output", "cacheRead", "cacheWrite")
        )
        if total:
            self.context_tokens = int(total)
        self.cost += float((usage.get("cost") or {}).get("total") or 0)

    # Tools.

    def _tool_begins(self, event: Message, now_s: float) -> list[Block]:
        args = event.get("args")
        self.tools[str(event.get("toolCallId"))] = Running(
            str(event.get("toolName")), args if isinstance(args, dict) else {}, now_s
        )
        self.phase = "tools"
        return []

    def _tool_says(self, event: Message, _now_s: float) -> list[Block]:
        running = self.tools.get(str(event.get("toolCallId")))
        if running is not None:
            running.output = messages.text_of((event.get("partialResult") or {}).get("content"))
        return []

    def _tool_ends(self, event: Message, now_s: float) -> list[Block]:
        running = self.tools.pop(str(event.get("toolCallId")), None)
        if not self.tools and self.phase == "tools":
            self.phase = "waiting"
        return [messages.tool_ran(event, running.args if running else {}, now_s - running.since_s if running else None)]

    def _shell_says(self, event: Message, _now_s: float) -> list[Block]:
        if self.shell is not None:
            self.shell.output = (self.shell.output + str(event.get("delta") or ""))[-SHELL_OUTPUT_MAX:]
        return []

    # What happens beside.

    def _queue_changes(self, event: Message, _now_s: float) -> list[Block]:
        self.steering = tuple(map(str, event.get("steering") or ()))
        self.follow_up = tuple(map(str, event.get("followUp") or ()))
        return []

    def _model_changes(self, event: Message, _now_s: float) -> list[Block]:
        self.model = f"{event.get('provider')}/{event.get('modelId')}"
        self.needs_refresh = True
        return []

    def _thinking_changes(self, event: Message, _now_s: float) -> list[Block]:
        self.thinking_level = str(event.get("level") or "off")
        return []

    def _compaction_begins(self, _event: Message, now_s: float) -> list[Block]:
        self.phase = "compacting"
        self.run_since_s = self.run_since_s if self.run_since_s is not None else now_s
        return []

    def _compaction_ends(self, event: Message, _now_s: float) -> list[Block]:
        self.phase = "waiting" if self.tools or self.answer else "idle"
        self.run_since_s = self.run_since_s if self.phase != "idle" else None
        self.needs_refresh = True
        if event.get("aborted"):
            return [Notice("the compaction was stopped; nothing changed", "warning")]
        if error := event.get("errorMessage"):
            return [Notice(f"the conversation could not be compacted: {error}", "error")]
        if tokens := event.get("tokensAfter"):
            self.context_tokens = int(tokens)
        before = event.get("tokensBefore") or 0
        return [Summary(f"compacted: about {before:,} tokens into a summary", str(event.get("summary") or ""))]

    def _retry_waits(self, event: Message, now_s: float) -> list[Block]:
        self.phase = "retrying"
        delay_s = (event.get("delayMs") or 0) / 1000
        self.retry_at_s = now_s + delay_s
        self.retry_text = f"try {event.get('attempt', '?')} of {event.get('maxAttempts', '?')}"
        return [Notice(f"{event.get('errorMessage') or 'the model call failed'}; trying again", "warning")]

    def _retry_ends(self, event: Message, _now_s: float) -> list[Block]:
        self.retry_at_s = None
        if event.get("success", True):
            return []
        return [Notice(f"gave up: {event.get('finalError') or 'the model call keeps failing'}", "error")]

    def _asks(self, event: Message, now_s: float) -> list[Block]:
        method = event.get("method")
        if method in ("select", "confirm", "input", "editor"):
            return self._question(event, now_s)
        if method == "notify":
            level = event.get("notifyType")
            return [Notice(str(event.get("message") or ""), level if level in ("warning", "error") else "info")]
        if method == "setStatus":
            _set_or_drop(self.statuses, str(event.get("statusKey")), event.get("statusText"))
        elif method == "setWidget":
            lines = event.get("widgetLines")
            _set_or_drop(self.widgets, str(event.get("widgetKey")), tuple(map(str, lines)) if lines else None)
        elif method == "setTitle":
            self.title = str(event.get("title") or "")
        elif method == "set_editor_text":
            self.editor_text = str(event.get("text") or "")
        return []

    def _question(self, event: Message, now_s: float) -> list[Block]:
        question = question_from(event, now_s)
        if question is None or any(each.id == question.id for each in self.questions):
            return []
        self.questions.append(question)
        if question.kind != "permit":
            return []
        rules = tuple(map(str, event.get("rules") or ()))
        shown = str(event.get("shown") or event.get("title") or "")
        return [Asked(str(event.get("toolName") or "the tool"), shown, str(event.get("reason") or ""), rules)]

    def _decided(self, event: Message, _now_s: float) -> list[Block]:
        call = event.get("toolCallId")
        self.questions[:] = [each for each in self.questions if not (call and each.tool_call_id == call)]
        if event.get("decision") == "allowed":
            by_hand = event.get("by") == "user"
            return [Notice(f"allowed: {event.get('toolName')} {event.get('subject')}")] if by_hand else []
        return [Notice(f"not allowed: {event.get('toolName')}: {event.get('reason')}", "warning")]

    def _withdrawn(self, event: Message, _now_s: float) -> list[Block]:
        self.questions[:] = [each for each in self.questions if each.id != event.get("id")]
        return []

    def _moves(self, event: Message, _now_s: float) -> list[Block]:
        if event.get("reason") != "start":
            self.elsewhere = ELSEWHERE.get(str(event.get("reason")), "another place of the conversation")
        return []

    def _session_ends(self, event: Message, now_s: float) -> list[Block]:
        blocks = self._settles({}, now_s)
        self.needs_refresh = False
        reason = event.get("reason")
        return [
            *blocks,
            Notice(f"the session ended: {reason}; what it had said is stored, go on with a prompt", "error"),
        ]

    def _notices(self, event: Message, _now_s: float) -> list[Block]:
        return messages.notice(event)

    def _closes(self, event: Message, now_s: float) -> list[Block]:
        blocks = self._settles({}, now_s)
        self.phase = "closed"
        self.needs_refresh = False  # nobody is there to be asked
        self.questions.clear()
        self.close_reason = str(event.get("reason") or "the connection ended")
        return blocks


def _set_or_drop(where: dict[str, Any], key: str, value: Any) -> None:
    if value is None or value == "":
        where.pop(key, None)
    else:
        where[key] = value


HANDLERS: Final = {
    "agent_start": View._begins,
    "turn_start": View._turn_begins,
    "settled": View._settles,
    "message_start": View._message_begins,
    "message_update": View._message_grows,
    "message_end": View._message_ends,
    "tool_execution_start": View._tool_begins,
    "tool_execution_update": View._tool_says,
    "tool_execution_end": View._tool_ends,
    "bash_execution_update": View._shell_says,
    "queue_update": View._queue_changes,
    "model_update": View._model_changes,
    "thinking_level_update": View._thinking_changes,
    "compaction_start": View._compaction_begins,
    "compaction_end": View._compaction_ends,
    "auto_retry_start": View._retry_waits,
    "auto_retry_end": View._retry_ends,
    "extension_ui_request": View._asks,
    "extension_ui_closed": View._withdrawn,
    "permission_decided": View._decided,
    "session_tree": View._moves,
    "session_opened": View._moves,
    "session_ended": View._session_ends,
    "branch_summarized": View._notices,
    "storage_failed": View._notices,
    "provider_switched": View._notices,
    "rate_limit_paused": View._notices,
    "extension_error": View._notices,
    "connection_closed": View._closes,
}
"""Closed for what changes the view; events that are not here are none of its business."""
