"""Edge. One conversation as a terminal holds it: what was typed goes down, what happens comes up, whatever the screen.

It knows no terminal: a `Front` (the screen, or plain lines) shows what it is given.
"""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from attrs import define, field

from coding_agent.errors import CommandFailed
from coding_agent.release import release
from coding_agent.terminal import actions
from coding_agent.terminal.blocks import Banner, Block, Notice, ShellRan
from coding_agent.terminal.channel import Channel, Message, ask
from coding_agent.terminal.options import TerminalOptions
from coding_agent.terminal.paste import Picture
from coding_agent.terminal.questions import Question, response_to
from coding_agent.terminal.slash import Typed, understood
from coding_agent.terminal.view import Running, View
from coding_agent.terminal.view_messages import history_blocks
from lemon_otp import Pid, exit_signal, monotonic_s, spawn

HISTORY_MAX: Final = 60
"""Messages of an older conversation that are shown at the start."""
PROTOCOL_VERSION: Final = 1

_log: Final = logging.getLogger(__name__)


class Front(Protocol):
    """What shows a conversation to a person."""

    def show(self, blocks: Sequence[Block]) -> None:
        """Print these for good."""

    def changed(self) -> None:
        """What is on its way, a question or the status is another now."""

    def put_text(self, text: str) -> None:
        """Put a text where the person types."""

    def to_clipboard(self, text: str) -> None:
        """Give a text to the clipboard."""

    def leave(self, code: int) -> None:
        """End with this exit code."""


@define(eq=False)
class Conversation:
    """A session at the other end of a channel.

    Attributes:
        commands: What the host offers after a slash, beside the terminal's own.
        shortcuts: The keys that its extensions have registered.
    """

    channel: Channel
    options: TerminalOptions
    front: Front
    view: View = field(factory=lambda: View(phase="starting"))
    commands: list[Message] = field(factory=list)
    shortcuts: list[Message] = field(factory=list)
    _answers: "dict[int, asyncio.Future[Any]]" = field(factory=dict)
    _jobs: set[Pid] = field(factory=set)
    _held: list[Message] | None = None
    """Events that wait until what was before them is shown."""

    # Up.

    async def open(self) -> None:
        """Say hello, show what there is, listen.

        Raises:
            CommandFailed: The host does not take this terminal.
        """
        self._held = []
        self.channel.listen(self.take)
        hello = await ask(self.channel, "hello", version=PROTOCOL_VERSION, client="terminal", rpcDeltas=True)
        self.view.session_id = str(hello.get("sessionId") or "")
        await self._load_state()
        self.view.cwd = self.view.cwd or str(hello.get("cwd") or self.options.cwd)
        self.front.show([Banner(release(), self.view.model, self.view.cwd, self.view.name)])
        self.front.show([Notice(line) for line in self.options.notices])
        await self._show_history()
        await self.load_commands()

    def take(self, event: Message) -> None:
        """An event came."""
        if self._held is not None and event.get("type") != "connection_closed":
            self._held.append(event)
            return
        blocks = self.view.take(event, monotonic_s())
        if blocks:
            self.front.show(blocks)
        if self.view.editor_text is not None:
            text, self.view.editor_text = self.view.editor_text, None
            self.front.put_text(text)
        if event.get("type") == "commands_update":
            self.begin(self.load_commands)
        if self.view.elsewhere:
            self._go_there()
        elif self.view.needs_refresh:
            self.view.needs_refresh = False
            self.begin(self._load_state)
        if self.view.close_reason is not None:
            self.front.leave(0 if self.options.is_guest else 1)
        self.front.changed()

    def _go_there(self) -> None:
        """Begin anew with what is looked at now; what happens meanwhile is held back until it is shown."""
        where = self.view.elsewhere
        self._held = []
        self.view = View(model=self.view.model, cwd=self.view.cwd, questions=list(self.view.questions))
        self.begin(self._show_anew, where)

    async def _show_anew(self, where: str) -> None:
        cwd = self.view.cwd
        try:
            await self._load_state()
            place = f" in {self.view.cwd}" if self.view.cwd != cwd else ""
            name = f": {self.view.name}" if self.view.name else ""
            self.front.show([Notice(f"{where}{place}{name}")])
        finally:
            await self._show_history()
            await self.load_commands()

    async def _show_history(self) -> None:
        """Show what was said before, then what happened since it was asked for."""
        messages: list[Message] = []
        try:
            messages = list((await ask(self.channel, "get_messages")).get("messages") or ())
            hidden = len(messages) - HISTORY_MAX
            if hidden > 0:
                self.front.show([Notice(f"{hidden} earlier messages are not shown; /export writes all of them")])
            self.front.show(history_blocks(messages[-HISTORY_MAX:]))
        finally:
            held, self._held = self._held or [], None
            for event in not_in(messages, held):
                self.take(event)

    # Down.

    async def submit(self, text: str, pictures: Sequence[Picture] = (), *, later: bool = False) -> None:
        """Do what was typed.

        Args:
            text: A prompt, a command after a slash, a shell command after an exclamation mark.
            pictures: Go with a prompt.
            later: While the model works: when it is done, not at the next chance.
        """
        typed = understood(text)
        match typed.kind:
            case "nothing" if not pictures:
                return
            case "command":
                await actions.ACTIONS[typed.command](self, typed.text)
            case "shell" | "quiet_shell":
                await self._shell(typed)
            case _:
                await self._prompt(typed.text, pictures, later=later)

    async def _prompt(self, text: str, pictures: Sequence[Picture], *, later: bool) -> None:
        images = [
            {"type": "image", "data": base64.b64encode(each.data).decode(), "mimeType": each.mime_type}
            for each in pictures
        ]
        try:
            await ask(
                self.channel,
                "prompt",
                message=text,
                images=images or None,
                streamingBehavior="followUp" if later else "steer",
            )
        except CommandFailed as failed:
            self.front.show([Notice(str(failed), "error")])
            if text:
                self.front.put_text(text)

    async def _shell(self, typed: Typed) -> None:
        if self.view.shell is not None:
            self.front.show([Notice("a command is running; Esc stops it", "warning")])
            return
        self.view.shell = Running("$", {"command": typed.text}, monotonic_s())
        kept_out = typed.kind == "quiet_shell"
        self.front.changed()
        try:
            done = await ask(self.channel, "bash", command=typed.text, excludeFromContext=kept_out or None)
        finally:
            self.view.shell = None
        ran = ShellRan(
            typed.text,
            str(done.get("output") or ""),
            done.get("exitCode"),
            cancelled=bool(done.get("cancelled")),
            truncated=bool(done.get("truncated")),
            kept_out=kept_out,
        )
        self.front.show([ran])

    def stop(self) -> None:
        """Stop what is being done, if anything is."""
        if self.view.shell is not None:
            self.begin(self.told, "abort_bash")
        if self.view.is_running:
            if self.view.phase == "retrying":
                self.begin(self.told, "abort_retry")
            else:
                self.begin(self._stop_run)

    async def _stop_run(self) -> None:
        """End the run; what had waited for the model comes back to the person."""
        done = await self.told("abort")
        waited = [str(text) for name in ("clearedSteering", "clearedFollowUp") for text in done.get(name) or ()]
        if waited:
            self.front.put_text("\n".join(waited))

    async def told(self, command: str, /, **fields: Any) -> Message:
        """The answer to a command of the protocol."""
        return await ask(self.channel, command, **fields)

    # Questions.

    @property
    def question(self) -> Question | None:
        """What is asked now; others wait behind it."""
        return self.view.questions[0] if self.view.questions else None

    async def choose(self, question: Question) -> Any:
        """The answer to a question of our own; None when there is none."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[id(question)] = answer
        at = 1 if self.view.questions and not self.view.questions[0].is_ours else 0
        self.view.questions.insert(at, question)
        self.front.changed()
        return await answer

    def answer(self, question: Question, value: Any) -> None:
        """A question is answered; None is no answer. One that is not open any more is left alone."""
        if not any(each is question for each in self.view.questions):
            return
        self.view.questions[:] = [each for each in self.view.questions if each is not question]
        if question.is_ours:
            waiting = self._answers.pop(id(question), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(value)
        else:
            self.channel.post(response_to(question, value))
        self.front.changed()

    def drop_expired(self, now_s: float) -> None:
        """Take away questions that nobody waits for any more."""
        for question in list(self.view.questions):
            if question.expires_s is not None and now_s >= question.expires_s:
                self.view.questions.remove(question)
                self.front.show([Notice(f"not answered in time: {question.title}", "warning")])

    # Work beside.

    def begin(self, work: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> None:
        """Do this beside everything else; what fails is shown."""

        async def job() -> None:
            try:
                await work(*args, **options)
            except CommandFailed as failed:
                self.front.show([Notice(str(failed), "error")])
            except Exception as error:
                _log.exception("the terminal failed at %s", getattr(work, "__qualname__", work))
                self.front.show([Notice(f"a fault of the terminal's own: {type(error).__name__}: {error}", "error")])
            finally:
                self._jobs.discard(pid)
                self.front.changed()

        pid = spawn(job, label="terminal_job")
        self._jobs.add(pid)

    def close(self) -> None:
        """End what is still being done."""
        for pid in list(self._jobs):
            exit_signal(pid, "kill")

    async def _load_state(self) -> None:
        state = await ask(self.channel, "get_state")
        view = self.view
        model = state.get("model") or {}
        if model:
            view.model = f"{model.get('provider')}/{model.get('id')}"
            view.context_window = int(model.get("contextWindow") or 0)
        if view.phase == "starting":
            view.phase = "idle"
        view.thinking_level = str(state.get("thinkingLevel") or "off")
        view.session_id = str(state.get("sessionId") or view.session_id)
        view.cwd = str(state.get("cwd") or view.cwd)
        view.name = str(state.get("sessionName") or "")
        view.message_count = int(state.get("messageCount") or 0)
        if state.get("isStreaming") and not view.is_running:
            view.phase, view.run_since_s = "waiting", monotonic_s()
        try:
            view.permission_mode = str((await ask(self.channel, "get_permissions")).get("mode") or "")
            stats = await ask(self.channel, "get_session_stats")
        except CommandFailed:  # a host that knows less
            return
        view.cost = float(stats.get("cost") or 0)
        usage = stats.get("contextUsage") or {}
        if usage.get("tokens") is not None:
            view.context_tokens = int(usage["tokens"])
        view.context_window = int(usage.get("contextWindow") or view.context_window)

    async def load_commands(self) -> None:
        """Learn what the host offers after a slash, and which keys its extensions have."""
        self.commands = await self._listed("commands")
        self.shortcuts = await self._listed("shortcuts")

    async def _listed(self, what: str) -> list[Message]:
        try:
            return list((await ask(self.channel, f"get_{what}")).get(what) or ())
        except CommandFailed:  # an older host
            return []

    async def press(self, key: str) -> None:
        """Have an extension do what it has registered a key for."""
        await self.told("run_shortcut", key=key)


def not_in(messages: Sequence[Message], events: Sequence[Message]) -> list[Message]:
    """The events that tell more than the messages do: those of messages and calls that are among them are left out."""
    calls = {message.get("toolCallId") for message in messages if message.get("role") == "toolResult"}
    known = 0
    for number, event in enumerate(events, 1):
        is_known_message = event.get("type") == "message_end" and event.get("message") in messages
        if is_known_message or (event.get("type") == "tool_execution_end" and event.get("toolCallId") in calls):
            known = number
    told = ("message_", "tool_execution_")
    return [*(each for each in events[:known] if not str(each.get("type")).startswith(told)), *events[known:]]
