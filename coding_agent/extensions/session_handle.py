"""Edge. What an extension can do with the session an event or command is about."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from attrs import frozen

from coding_agent import client
from coding_agent.hosting.input import CommandInfo, commands_of
from coding_agent.session.protocol import Deliver, SessionState
from coding_agent.tools.environment import child_environment
from lemon_agent import AgentMessage, AgentTool
from lemon_ai import find_model
from lemon_otp import Pid, cast

OUTPUT_BYTES_MAX: Final = 1_000_000


class UserInterface(Protocol):
    """Questions to the person, and what they are shown; `coding_agent.hosting.dialogs.Dialogs` is one."""

    async def select(self, title: str, options: Sequence[str], *, timeout_ms: int | None = None) -> str | None: ...

    async def confirm(self, title: str, message: str, *, timeout_ms: int | None = None) -> bool: ...

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout_ms: int | None = None
    ) -> str | None: ...

    async def editor(self, title: str, prefill: str | None = None) -> str | None: ...

    def notify(self, message: str, kind: Literal["info", "warning", "error"] = "info") -> None: ...

    def set_status(self, key: str, text: str | None = None) -> None: ...

    def set_widget(self, key: str, lines: Sequence[str] | None = None, *, placement: str = "aboveEditor") -> None: ...

    def set_title(self, title: str) -> None: ...

    def set_editor_text(self, text: str) -> None: ...


class NobodyThere:
    """With -p there is no person: every question is answered with nothing, and what is shown is seen by nobody."""

    async def select(self, title: str, options: Sequence[str], *, timeout_ms: int | None = None) -> str | None:
        return None

    async def confirm(self, title: str, message: str, *, timeout_ms: int | None = None) -> bool:
        return False

    async def input(self, title: str, placeholder: str | None = None, *, timeout_ms: int | None = None) -> str | None:
        return None

    async def editor(self, title: str, prefill: str | None = None) -> str | None:
        return None

    def notify(self, message: str, kind: Literal["info", "warning", "error"] = "info") -> None: ...

    def set_status(self, key: str, text: str | None = None) -> None: ...

    def set_widget(self, key: str, lines: Sequence[str] | None = None, *, placement: str = "aboveEditor") -> None: ...

    def set_title(self, title: str) -> None: ...

    def set_editor_text(self, text: str) -> None: ...


@frozen
class Ran:
    """How a program ended that an extension ran; `killed` when it took too long."""

    code: int
    stdout: str
    stderr: str
    killed: bool = False


@frozen
class SessionHandle:
    """One session, as an extension sees it. What it asks is asked of the session's process: it may refuse, or be gone.

    Attributes:
        pid: The session's process, for what `coding_agent` can do with one.
        cwd: Its working folder.
        ui: Questions to the person.
        has_ui: Somebody could answer.
        registered: The commands of extensions.
    """

    pid: Pid
    cwd: Path
    ui: UserInterface
    has_ui: bool = False
    registered: Callable[[], Sequence[CommandInfo]] = tuple

    async def state(self) -> SessionState:
        """How it stands."""
        return await client.get_state(self.pid)

    async def messages(self) -> tuple[AgentMessage, ...]:
        """The conversation so far."""
        return await client.get_messages(self.pid)

    # Saying something.

    async def send_message(
        self,
        custom_type: str,
        content: str,
        *,
        details: Any = None,
        deliver_as: Literal["steer", "follow_up", "next_turn"] = "next_turn",
    ) -> None:
        """Let the model read this, as the extension's and not the person's.

        Args:
            custom_type: What kind of message it is.
            content: The text.
            details: For programs.
            deliver_as: `steer` before its next call and `follow_up` when the run would end; both start a run when none
                is going on. `next_turn` with the next prompt.
        """
        if deliver_as == "next_turn":
            await client.append_custom_message_entry(self.pid, custom_type, content, details=details)
        else:
            cast(self.pid, Deliver(custom_type, content, details, deliver_as))

    async def send_user_message(
        self, text: str, *, deliver_as: Literal["steer", "follow_up", "next_turn"] | None = None
    ) -> None:
        """Say this as if the person had. Without `deliver_as` it starts a run.

        Raises:
            SessionBusy: A run is going on and `deliver_as` does not say what to do.
        """
        match deliver_as:
            case None:
                await client.prompt(self.pid, text)
            case "steer":
                await client.steer(self.pid, text)
            case "follow_up":
                await client.follow_up(self.pid, text)
            case "next_turn":
                await client.next_turn(self.pid, text)

    async def append_entry(self, custom_type: str, data: Any = None) -> str | None:
        """Store something the model never sees; its id, or None when it waits for the end of the turn."""
        return await client.append_custom_entry(self.pid, custom_type, data)

    async def set_session_name(self, name: str) -> None:
        """Name the session."""
        await client.append_session_name(self.pid, name)

    async def set_label(self, entry_id: str, label: str | None) -> None:
        """Set a bookmark on an entry, or take it away."""
        await client.append_label(self.pid, entry_id, label)

    async def commands(self) -> list[CommandInfo]:
        """What a person can type behind a slash: commands of extensions, templates, skills."""
        listed = (await client.get_options(self.pid)).resources
        return [*self.registered(), *commands_of(listed, None)]

    # What it works with.

    async def active_tools(self) -> tuple[str, ...]:
        """The names of the tools the model is offered."""
        return (await self.state()).active_tools

    async def set_active_tools(self, names: Sequence[str]) -> None:
        """Offer the model these. Raises `UnknownTool` for one the session has not got."""
        await client.set_active_tools(self.pid, tuple(names))

    async def all_tools(self) -> tuple[AgentTool, ...]:
        """Every tool the session has."""
        tools: tuple[AgentTool, ...] = (await client.get_options(self.pid)).tools
        return tools

    async def set_model(self, name: str) -> None:
        """Let `provider/model` answer from the next request on. Raises `UnknownModel` when there is none."""
        await client.switch_model(self.pid, find_model(name))

    async def thinking_level(self) -> str:
        """How hard it thinks."""
        return (await self.state()).thinking_level

    async def set_thinking_level(self, level: str) -> None:
        """Think so hard from the next request on."""
        await client.set_thinking_level(self.pid, level)

    def abort(self) -> None:
        """Ask for the run to end; harmless when none is going on."""
        client.abort_async(self.pid)

    # Programs.

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run a program, without a shell; it and what it started are killed when it takes too long.

        Without `env` it gets the environment that tools give to programs: what it needs to work, and no secrets.

        Raises:
            OSError: It cannot be started.
        """
        program = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd or self.cwd,
            env=child_environment(os.environ) if env is None else dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        killed = False
        try:
            async with asyncio.timeout(timeout_s):
                out, err = await program.communicate()
        except TimeoutError:
            killed = True
            out = err = b""
        finally:
            if program.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGKILL)
                await program.wait()
        return Ran(program.returncode or 0, _text(out), _text(err), killed)


def _text(raw: bytes) -> str:
    return raw[:OUTPUT_BYTES_MAX].decode("utf-8", errors="replace")
