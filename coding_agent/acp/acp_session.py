"""Edge. One session of a client: a desk, the turn that is going on, and what the client is told of it.

Tree:  acp_session, linked to the process that reads: makes the desk, so that the session ends with the connection
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from attrs import evolve

from coding_agent import client
from coding_agent.acp import choices
from coding_agent.acp.client_calls import Capabilities, ClientCalls
from coding_agent.acp.client_tools import with_client_tools
from coding_agent.acp.questions import Questions
from coding_agent.acp.replay import replayed
from coding_agent.acp.turns import Turn
from coding_agent.acp.updates import Update, Updates, chunk
from coding_agent.acp.wire import Wire
from coding_agent.errors import BadUsage, CodingAgentError, SessionBusy
from coding_agent.events import CommandsUpdate, ModelUpdate, SessionEvent, Settled, ThinkingLevelUpdate
from coding_agent.hosting.desk import Desk
from coding_agent.hosting.desk_events import DeskEvent, Ended
from coding_agent.hosting.dialogs import Asked, Closed, Dialogs, Shown
from coding_agent.hosting.host_parts import Wanted
from coding_agent.hosting.running import HostRun
from coding_agent.mcp.session_servers import close_servers
from coding_agent.permissions.policy import MODES, Mode, Policy
from coding_agent.rpc.models_json import available, levels_of, nearest_level
from coding_agent.session.options import SessionOptions
from coding_agent.storage.session_manager import SessionManager
from coding_agent.tools import Workspace
from lemon_agent import AgentEnd, AgentStart, MessageEnd
from lemon_ai import AssistantMessage, ImageContent, Model, UnknownModel, UserMessage, get_text
from lemon_otp import CallFailed, Pid, ReceiveTimeout, down_of, monitor, receive, self_pid, send, spawn

NEXT_TURN_S: Final = 30.0
"""How long a prompt waits for the end of one that was cancelled."""
ANNOUNCED_S: Final = 3.0
"""How long a question waits for the client to have been told of the call it is about."""
CLOSE_S: Final = 15.0
TITLE_MAX: Final = 80


class _Close:
    """To the owner: the client does not want the session any more."""


class AcpSession:
    """A session as one client has it.

    Attributes:
        cwd: Its folder; relative paths begin there.
        desk: Holds the conversation.
    """

    def __init__(self, host: HostRun, wire: Wire, can: Capabilities) -> None:
        self.host = host
        self.cwd = str(host.settings.cwd)
        self.desk: Desk = Desk(host)
        self.calls = ClientCalls(wire)
        self._can = can
        self._before: dict[str, str] = {}
        self._updates = Updates(self.cwd, lambda call_id: self._before.pop(call_id, None))
        self._turn: Turn | None = None
        self._turn_over = asyncio.Event()
        self._turn_over.set()
        self._questions = Questions(self.calls, can, self.announced, self._answer)
        self._heard = asyncio.Event()
        self._silent = True
        self._titled = False
        self._owner: Pid | None = None

    # Beginning and end.

    async def open(self, wanted: Wanted) -> str:
        """Start the session and return its id. It ends when `close` is called or the calling process's parent dies."""
        self.host.extras.append(self._with_client_tools)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = spawn(self._own, wanted, ready, label="acp_session")
        try:
            await ready
        except BaseException:  # whoever asked has gone: what is being opened is nobody's
            send(self._owner, _Close())
            raise
        return self.calls.session_id

    async def _own(self, wanted: Wanted, ready: "asyncio.Future[None]") -> None:
        """Process. The desk lives as long as this."""
        try:
            self.desk = await Desk.start(self.host)
            state = await self.desk.open(wanted)
            self.calls.session_id = state.session_id
            self.desk.listen(self._hear)
        except BaseException as error:
            with suppress(CallFailed):
                await self.desk.close()
            if not ready.done():
                ready.set_exception(error if isinstance(error, Exception) else BadUsage("the session was not opened"))
            return
        if not ready.done():  # whoever asked may have gone meanwhile
            ready.set_result(None)
        await receive(lambda message: isinstance(message, _Close))
        await self.desk.close()

    async def close(self) -> None:
        """End the session; what it was doing is aborted and stored first."""
        self.cancel()
        owner, self._owner = self._owner, None
        if owner is not None and owner.alive:
            with suppress(TimeoutError):
                async with asyncio.timeout(NEXT_TURN_S):
                    await self._turn_over.wait()
            if self.desk.has_session:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_S):
                        await close_servers(self.desk.session.options)
            ended = monitor(owner)
            send(owner, _Close())
            with suppress(ReceiveTimeout):
                await receive(down_of(ended), timeout_s=CLOSE_S)
            await self.host.finish()

    # What the client is told at once.

    async def state(self) -> dict[str, Any]:
        """Modes and options, as the answers that open a session hold them."""
        return {"modes": choices.modes(self.mode), "configOptions": await self.options()}

    @property
    def mode(self) -> str:
        """What may be done without asking."""
        policy = self.desk.session.gate.policy
        return "full" if policy is None else policy.mode

    async def options(self) -> list[dict[str, Any]]:
        """What can be chosen, with what is chosen."""
        pid = await self.desk.pid()
        model = (await client.get_options(pid)).model
        state = await client.get_state(pid)
        chosen = choices.options(self.mode, model, available(self.host.known, model), state.thinking_level)
        return [*chosen, choices.compaction(state.auto_compaction)] if self._can.switches else chosen

    def introduce(self) -> None:
        """Tell what can be typed behind a slash; from now on the client hears of everything."""
        self._silent = False
        self._say(self._commands())

    def _commands(self) -> Update:
        commands = [
            {"name": each.name, "description": each.description or each.name, "input": {"hint": "arguments"}}
            for each in self.desk.commands()
        ]
        return {"sessionUpdate": "available_commands_update", "availableCommands": commands}

    async def replay(self) -> None:
        """Tell the whole conversation again."""
        messages: Sequence[Mapping[str, Any]] = await self.desk.look(_stored_messages)
        for update in replayed(messages, self.cwd):
            self.calls.update(update)
        self._titled = bool(messages)

    # What the client asks.

    async def prompt(self, text: str, images: tuple[ImageContent, ...]) -> str:
        """Have the model answer; why it stopped, once every update about it is out.

        Raises:
            SessionBusy: A prompt is being worked on.
            TurnFailed: The run ended in an error.
        """
        await self._wait_for_turn()
        turn = self._turn = Turn(asker=self_pid())
        self._turn_over.clear()
        try:
            self.desk.tell_notices()
            became = await self.desk.submit(text, images, "follow_up")
            if became in ("command", "handled"):
                return "cancelled" if turn.cancelled else "end_turn"
            turn.started = turn.started or became == "follow_up"
            if turn.cancelled:
                client.abort_async(self.desk.session.pid)
            reason = await turn.done
            self._tell_title(text)
            return reason
        except CodingAgentError as error:
            if turn.cancelled:
                return "cancelled"
            raise error
        finally:
            self._turn = None
            self._turn_over.set()

    async def _wait_for_turn(self) -> None:
        """Return when no prompt is worked on; one that was cancelled is given time to end."""
        if self._turn is not None and not self._turn.cancelled:
            raise SessionBusy(self.calls.session_id, "turn")
        try:
            async with asyncio.timeout(NEXT_TURN_S):
                while self._turn is not None:
                    await self._turn_over.wait()
                    if self._turn is not None and not self._turn.cancelled:
                        raise SessionBusy(self.calls.session_id, "turn")
        except TimeoutError:
            raise SessionBusy(self.calls.session_id, "still ending what was cancelled") from None

    @property
    def busy(self) -> bool:
        """Is a prompt being worked on?"""
        return self._turn is not None

    def works_for(self, asker: Pid) -> bool:
        """Is the prompt of this process worked on?"""
        return self._turn is not None and self._turn.asker == asker

    def cancel(self) -> bool:
        """Take the prompt back that is worked on; False when there is none. It answers `cancelled`."""
        if self._turn is None:
            return False
        self._turn.cancelled = True
        self.desk.bash.abort()
        if self.desk.has_session:
            self.desk.dialogs.refuse_all()
            client.abort_async(self.desk.session.pid)
        return True

    def set_mode(self, mode: str) -> None:
        """Let something else be done without asking.

        Raises:
            BadUsage: There is no such mode.
        """
        if mode not in MODES:
            raise BadUsage(f"there is no mode {mode!r}; give one of {', '.join(MODES)}")
        gate = self.desk.session.gate
        gate.policy = evolve(gate.policy or Policy("full"), mode=cast("Mode", mode))

    async def switch(self, name: str, on: bool) -> None:
        """Switch something on or off.

        Raises:
            BadUsage: There is no such thing to switch.
        """
        if name != choices.COMPACTION:
            raise BadUsage(f"there is nothing called {name!r} to switch")
        await client.set_auto_compaction(await self.desk.pid(), on)

    async def choose(self, name: str, value: str) -> None:
        """Choose a mode, a model or a level of thinking.

        Raises:
            BadUsage: There is no such thing to choose, or no such value.
        """
        pid = await self.desk.pid()
        if name == choices.MODE:
            self.set_mode(value)
            self.calls.update({"sessionUpdate": "current_mode_update", "currentModeId": value})
        elif name == choices.MODEL:
            model = self._model(value)
            await client.switch_model(pid, model)
            await self._set_level(pid, nearest_level((await client.get_state(pid)).thinking_level, model))
        elif name == choices.THINKING:
            levels = levels_of((await client.get_options(pid)).model)
            if value not in levels:
                raise BadUsage(f"this model has no thinking level {value!r}; give one of {', '.join(levels)}")
            await self._set_level(pid, value)
        else:
            raise BadUsage(f"there is nothing called {name!r} to choose")

    @staticmethod
    async def _set_level(pid: Pid, level: str) -> None:
        if level != (await client.get_state(pid)).thinking_level:
            await client.set_thinking_level(pid, level)

    def _model(self, value: str) -> Model:
        try:
            return self.host.known.find(value)
        except UnknownModel as error:
            raise BadUsage(str(error)) from error

    # What happens. Called in the desk's process, in order; nothing here waits.

    def _hear(self, event: DeskEvent) -> None:
        match event:
            case SessionEvent():
                self._watch_turn(event)
                for update in (*self._own_updates(event), *self._updates.of(event)):
                    self._say(update)
                self._heard.set()
                self._heard = asyncio.Event()
                if isinstance(event.event, Settled) and self._turn is not None:
                    self._turn.settle(event.event.outcome, event.event.reason)
            case Asked(question):
                self._questions.put(question)
            case Closed(question_id):
                self._questions.close(question_id)
            case Shown("notify", fields):
                self._say(chunk("agent_thought_chunk", f"{fields.get('message', '')}\n"))
            case Ended(reason=reason) if self._turn is not None:
                self._turn.fail(f"the session has ended: {reason}; what it had said is stored")

    def _answer(self, question_id: str, response: Mapping[str, Any]) -> None:
        if self.desk.has_session:
            self.desk.dialogs.answer(question_id, response)

    def _say(self, update: Update) -> None:
        if not self._silent:
            self.calls.update(update)

    def _watch_turn(self, event: SessionEvent) -> None:
        turn = self._turn
        if turn is None:
            return
        match event.event:
            case AgentStart():
                turn.started = True
            case MessageEnd(AssistantMessage() as message):
                turn.last_stop, turn.said = message.stop_reason, message.error_message
            case AgentEnd(error=error):
                turn.error = error

    def _own_updates(self, event: SessionEvent) -> Iterator[Update]:
        match event.event:
            case MessageEnd(UserMessage() as message):
                turn = self._turn
                if turn is not None and not turn.echoed:
                    turn.echoed = True  # the client knows what it said itself
                elif text := get_text(message):
                    yield chunk("user_message_chunk", text)
            case MessageEnd(AssistantMessage() as message) if message.usage.total_tokens:
                yield self._usage(message)
            case CommandsUpdate():
                yield self._commands()
            case ModelUpdate() | ThinkingLevelUpdate():
                spawn(self._tell_options, label="acp_options")

    def _usage(self, message: AssistantMessage) -> Update:
        account = self.desk.session.account
        size = self._window(message)
        update: Update = {"sessionUpdate": "usage_update", "used": message.usage.total_tokens, "size": size}
        if account.spent.cost:
            update["cost"] = {"amount": account.spent.cost, "currency": "USD"}
        return update

    def _window(self, message: AssistantMessage) -> int:
        try:
            return self.host.known.catalog.find(f"{message.provider}/{message.model}").context_window
        except UnknownModel:
            return self.desk.session.options.model.context_window

    async def _tell_options(self) -> None:
        with suppress(CodingAgentError, CallFailed):
            self._say({"sessionUpdate": "config_option_update", "configOptions": await self.options()})

    def _tell_title(self, text: str) -> None:
        if not self._titled:
            self._titled = True
            line = " ".join(text.split())
            title = line if len(line) <= TITLE_MAX else line[: TITLE_MAX - 1] + "…"
            if title:
                self._say({"sessionUpdate": "session_info_update", "title": title})

    async def announced(self, call_id: str) -> None:
        """Return once the client was told of the call, or will not be."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ANNOUNCED_S):
                while call_id not in self._updates.open_calls:
                    await self._heard.wait()

    async def _with_client_tools(self, options: SessionOptions, _dialogs: Dialogs | None) -> SessionOptions:
        """The options with what the client can do for its tools, and the folders it wants worked in."""
        workspace = options.companion(Workspace)
        if workspace is not None:
            for folder in self.host.more_folders:
                workspace.guard.work_in(folder)
        options = evolve(options, extra_prompt="\n\n".join(filter(None, (options.extra_prompt, self._folders()))))
        return with_client_tools(
            options,
            self.calls,
            self._can,
            held=self._before.__setitem__,
            announced=self.announced,
            sandboxed=self.host.settings.sandbox is not None,
        )

    def _folders(self) -> str:
        named = "\n".join(f"- {folder}" for folder in self.host.more_folders)
        return f"You also work in these folders, by their absolute paths:\n{named}" if named else ""


def _stored_messages(store: SessionManager) -> list[Mapping[str, Any]]:
    """Every message of the branch, whatever was summarised since."""
    from coding_agent.storage.entries import MessageEntry

    return [entry.message for entry in store.branch() if isinstance(entry, MessageEntry)]
