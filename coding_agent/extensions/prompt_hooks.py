"""Edge. What extensions do with what a person types: `HostRun.hooks`. Nothing raises; failures are told to the desk."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from coding_agent.errors import CodingAgentError
from coding_agent.events import ExtensionFailed, SessionEvent
from coding_agent.extensions import hooks
from coding_agent.extensions.api import Extension, Handler
from coding_agent.extensions.calling import RENDER_S, HandlerFailed, call_handler
from coding_agent.extensions.joining import handle
from coding_agent.extensions.runner import Extensions
from coding_agent.extensions.session_handle import SessionHandle
from coding_agent.hosting.input import CommandInfo, Continue, Handled, Images, PromptDesk, ShortcutInfo
from coding_agent.messages import CustomMessage, RenderedMessage
from lemon_otp import OtpError, spawn


@frozen
class ExtensionPrompts:
    """The extensions of a start, as `coding_agent.hosting.input.PromptHooks`."""

    extensions: Extensions

    def commands(self) -> Sequence[CommandInfo]:
        """The commands they have registered."""
        return self.extensions.listed_commands()

    async def run_command(self, name: str, args: str, desk: PromptDesk) -> bool:
        """Run one; False when there is none of that name. It may take as long as it likes."""
        found = self.extensions.commands.get(name)
        if found is None:
            return False
        extension, command = found
        await self._run(extension, f"/{name}", command.run, (args,), desk)
        return True

    async def _run(
        self, extension: Extension, name: str, run: Handler, args: tuple[str, ...], desk: PromptDesk
    ) -> None:
        session = await self._session(desk)
        if session is None:
            self._failed(desk, ExtensionFailed(extension.path, name, "there is no session to run it for"))
            return
        try:
            answer = await call_handler(run, *args, session, limit_s=None)
            if isinstance(answer, str) and answer:
                session.ui.notify(answer)
        except HandlerFailed as error:
            self._failed(desk, ExtensionFailed(extension.path, name, str(error)))

    def shortcuts(self) -> Sequence[ShortcutInfo]:
        """The keys they have registered."""
        return [
            ShortcutInfo(key, shortcut.description, extension.path)
            for key, (extension, shortcut) in self.extensions.shortcuts.items()
        ]

    async def run_shortcut(self, key: str, desk: PromptDesk) -> bool:
        """Run what a key stands for; False when it stands for nothing. It may take as long as it likes."""
        found = self.extensions.shortcuts.get(key)
        if found is not None:
            extension, shortcut = found
            await self._run(extension, key, shortcut.run, (), desk)
        return found is not None

    def renders(self, message: object) -> bool:
        """Does one of them say how this is shown?"""
        return (
            isinstance(message, CustomMessage) and message.display and message.custom_type in self.extensions.renderers
        )

    async def rendered(self, message: Any, desk: PromptDesk) -> Any:
        """Such a message with what is shown of it; as it was where the renderer failed."""
        extension, render = self.extensions.renderers[message.custom_type]
        try:
            shown = await call_handler(render, message, limit_s=RENDER_S)
            if not isinstance(shown, str):
                raise HandlerFailed("a renderer answers a text")
        except HandlerFailed as error:
            self._failed(desk, ExtensionFailed(extension.path, f"renderer of {message.custom_type}", str(error)))
            return message
        fields = (message.custom_type, message.content, message.display, message.details, message.timestamp)
        return RenderedMessage(*fields, shown=shown)

    async def on_input(self, text: str, images: Images, desk: PromptDesk) -> Continue | Handled:
        """Let them see a prompt before it is expanded."""
        if not self.extensions.wants("input"):
            return Continue(text, images)
        found = await self._ask(hooks.InputEvent(text, images), desk)
        if found.get("handled"):
            return Handled()
        return Continue(found.get("text", text), tuple(found.get("images", images)))

    async def may_leave(self, reason: str, target: str | None, desk: PromptDesk) -> bool:
        """May the desk go to another session?"""
        event: Any = hooks.BeforeFork(target) if reason == "fork" else hooks.BeforeSwitch(reason, target)
        if not self.extensions.wants(event.type):
            return True
        return not (await self._ask(event, desk)).get("cancel")

    def has_gone(self, reason: str, desk: PromptDesk) -> None:
        """Let them hear that the desk looks at another session, in a process of its own."""
        name = "session_fork" if reason in ("fork", "clone") else "session_switch"
        if self.extensions.wants(name):
            event = hooks.SessionChanged(name, reason, desk.session_id)
            session = handle(self.extensions, desk.session_pid, desk.cwd, desk.dialogs)
            spawn(self._tell, event, session, desk, label=f"hooks[{name}]")

    async def _tell(self, event: hooks.SessionChanged, session: SessionHandle, desk: PromptDesk) -> None:
        await self.extensions.tell(event.type, event, session, lambda failed: self._failed(desk, failed))

    async def on_bash(self, command: str, desk: PromptDesk) -> Mapping[str, Any] | None:
        """An extension's own result for a command of the user's; None runs it."""
        if not self.extensions.wants("user_bash"):
            return None
        found = await self._ask(hooks.UserBash(command), desk)
        if not found:
            return None
        code = found.get("exit_code", 0)
        return {
            "output": str(found.get("output", "")),
            "exitCode": code if isinstance(code, int) else 0,
            "cancelled": False,
            "truncated": False,
        }

    async def _ask(self, event: Any, desk: PromptDesk) -> Mapping[str, Any]:
        session = await self._session(desk)
        if session is None:
            return {}
        return await self.extensions.ask(event, session, lambda failed: self._failed(desk, failed))

    async def _session(self, desk: PromptDesk) -> SessionHandle | None:
        try:
            return handle(self.extensions, await desk.pid(), desk.cwd, desk.dialogs)
        except (CodingAgentError, OtpError):
            return None

    def _failed(self, desk: PromptDesk, failed: ExtensionFailed) -> None:
        desk.tell(SessionEvent(desk.session_id, failed))
