"""Edge. One conversation as a terminal holds it: what was typed goes down, what happens comes up, whatever the screen.

It knows no terminal: a `Front` (the screen, or plain lines) shows what it is given.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from attrs import define, field

from coding_agent.terminal import actions
from coding_agent.terminal.blocks import Banner, Block, Notice, ShellRan
from coding_agent.terminal.channel import Channel, CommandFailed, Message, ask
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
    """

    channel: Channel
    options: TerminalOptions
    front: Front
    view: View = field(factory=View)
    commands: list[Message] = field(factory=list)
    _answers: "dict[int, asyncio.Future[Any]]" = field(factory=dict)
    _jobs: set[Pid] = field(factory=set)
    _is_open: bool = False

    # Up.

    async def open(self) -> None:
        """Say hello, show what there is, listen.

        Raises:
            CommandFailed: The host does not take this terminal.
        """
        self.channel.listen(self.take)
        hello = await ask(self.channel, "hello", version=PROTOCOL_VERSION, client="terminal", rpcDeltas=True)
        self.view.session_id = str(hello.get("sessionId") or "")
        await self._load_state()
        await self._load_commands()
        from importlib.metadata import PackageNotFoundError, version

        try:
            release = version("lemon-agents")
        except PackageNotFoundError:  # a checkout that is not installed
            release = ""
        cwd = str(hello.get("cwd") or self.options.cwd)
        self.front.show([Banner(release, self.view.model, cwd, self.view.name)])
        self.front.show([Notice(line) for line in self.options.notices])
        await self._show_history()
        self._is_open = True
        self.front.changed()

    def take(self, event: Message) -> None:
        """An event came."""
        blocks = self.view.take(event, monotonic_s())
        if blocks:
            self.front.show(blocks)
        if self.view.editor_text is not None:
            text, self.view.editor_text = self.view.editor_text, None
            self.front.put_text(text)
        if self.view.needs_refresh and self._is_open:
            self.view.needs_refresh = False
            self.begin(self._load_state)
        if self.view.close_reason is not None:
            self.front.leave(0 if self.options.is_guest else 1)
        self.front.changed()

    async def reopened(self) -> None:
        """Another session is looked at, or another place of it: show that."""
        old = self.view
        self.view = View(model=old.model, questions=[each for each in old.questions if not each.is_ours])
        await self._load_state()
        self.front.show([Notice(f"session {self.view.name or self.view.session_id}")])
        await self._show_history()
        self.front.changed()

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
            self.begin(self.told, "abort_retry" if self.view.phase == "retrying" else "abort")

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
        view.thinking_level = str(state.get("thinkingLevel") or "off")
        view.session_id = str(state.get("sessionId") or view.session_id)
        view.name = str(state.get("sessionName") or "")
        if state.get("isStreaming") and not view.is_running:
            view.phase, view.run_since_s = "waiting", monotonic_s()
        await self._load_usage()

    async def _load_usage(self) -> None:
        try:
            stats = await ask(self.channel, "get_session_stats")
        except CommandFailed:
            return
        self.view.cost = float(stats.get("cost") or 0)
        usage = stats.get("contextUsage") or {}
        if usage.get("tokens") is not None:
            self.view.context_tokens = int(usage["tokens"])
        self.view.context_window = int(usage.get("contextWindow") or self.view.context_window)

    async def _load_commands(self) -> None:
        try:
            self.commands = list((await ask(self.channel, "get_commands")).get("commands") or ())
        except CommandFailed:
            self.commands = []

    async def _show_history(self) -> None:
        messages = list((await ask(self.channel, "get_messages")).get("messages") or ())
        hidden = len(messages) - HISTORY_MAX
        if hidden > 0:
            self.front.show([Notice(f"{hidden} earlier messages are not shown; /export writes all of them")])
        self.front.show(history_blocks(messages[-HISTORY_MAX:]))

    reload_commands = _load_commands
