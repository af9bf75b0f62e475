"""Edge. What a session process holds: its file, its agent, its subscribers, and how the three are kept in step."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from attrs import define, evolve, field

from coding_agent.errors import BudgetExceeded, SessionError, SessionFileChanged, SessionReadOnly, SessionWriteFailed
from coding_agent.events import QueueUpdate, SessionEvent, SessionNotice, StorageFailed, ToolsUpdate
from coding_agent.messages import BashExecutionMessage, CustomMessage
from coding_agent.session import protocol
from coding_agent.session.auto_compaction import AutoCompaction
from coding_agent.session.notifier import Notifier
from coding_agent.session.options import SessionOptions
from coding_agent.session.retrying import Retries
from coding_agent.session.summary_job import SummaryJob
from coding_agent.session.writes import PendingWrites, Write, WriteCustomMessage, WriteMessage
from coding_agent.storage.session_manager import SessionManager
from lemon_agent import Agent, AgentEnd, AgentEvent, AgentTool, MessageEnd, MessageStart
from lemon_ai import AssistantMessage, Model
from lemon_otp import Caller, MonitorRef, Pid, monotonic_s, wall_ms

NOTHING_QUEUED: Final = QueueUpdate((), ())


@define
class Conversation:
    """The state of a session process.

    Attributes:
        pending: What was asked to be stored from outside during a run.
        next_turn: Texts that go in front of the next prompt.
        waiters: Callers that are answered when the session is idle, each with its answer.
        asking: The process that asks the session's hooks, and what about.
        job: A summary in the making; `caller` is who asked for it, None when nobody did.
        compaction: What automatic compaction has done since the user last spoke.
        unstored: Why what is said does not reach the disk, as the subscribers were last told; None while it does.
        out_of_time: What a run is told to have ended of, when its session's time is over.
        owner_watch: Notices the end of the process the session lives for.
        news: What came while it could start no run; the next one begins with it.
        handed_on: News that the agent has in its queue; whatever its run did not come to starts another.
        held_back: A prompt that waits for a compaction, or the end of a run that is tried again behind one.
        after_run: How a run ended that is followed by a compaction: its outcome and reason, told once that is done.
        commands: What the user ran during a run; stored once it is over, so that it stands in no turn.
        retries: The tries of the model call that is going on.
        started_at: When the process began, in Unix milliseconds; `began_s` on the runtime's clock.
        queues: What waits in the queues of the run, as the subscribers were last told.
    """

    options: SessionOptions
    store: SessionManager
    agent: Pid
    notifier: Notifier
    model: Model
    thinking_level: str
    active_tools: tuple[str, ...]
    restored: protocol.Restored | None = None
    phase: protocol.Phase = "idle"
    turn_index: int = 0
    pending: PendingWrites = field(factory=PendingWrites)
    next_turn: list[str] = field(factory=list)
    waiters: list[tuple[Caller, Any]] = field(factory=list)
    asking: tuple[Pid, Any] | None = None
    job: SummaryJob | None = None
    caller: Caller | None = None
    compaction: AutoCompaction = field(factory=AutoCompaction)
    unstored: str | None = None
    out_of_time: BudgetExceeded | None = None
    owner_watch: MonitorRef | None = None
    news: list[CustomMessage] = field(factory=list)
    handed_on: list[CustomMessage] = field(factory=list)
    held_back: protocol.Prompt | AgentEnd | None = None
    after_run: tuple[str, Any] | None = None
    commands: list[BashExecutionMessage] = field(factory=list)
    retries: Retries = field(factory=Retries)
    queues: QueueUpdate = NOTHING_QUEUED
    started_at: int = field(factory=wall_ms)
    began_s: float = field(factory=monotonic_s)

    # Telling.

    def notify(self, event: AgentEvent | SessionNotice, *, entry_id: str | None = None) -> None:
        """Tell every subscriber."""
        self.notifier.broadcast(SessionEvent(self.notifier.session_id, event, entry_id))

    async def notify_queues(self) -> None:
        """Tell every subscriber what waits in the queues, if that is not what they were told last."""
        queues = await Agent.queued(self.agent)
        now = QueueUpdate(queues.steering, queues.follow_up)
        if now != self.queues:
            self.queues = now
            self.notify(now)

    # Storing.

    def append(self, message: Any) -> str | None:
        """Store what the run said; the id of its entry, or None when it did not reach the disk yet."""
        try:
            entry_id = self.store.append_message(message)
        except SessionError as error:
            self.storage_failed(error)
            return None
        self.unstored = None
        return entry_id

    def store_now(self, write: Callable[[], str | None]) -> str | None:
        """Make an entry of another kind; its id, also when it waits in memory, which is then told.

        Raises:
            SessionError: There is no such entry, neither on disk nor in memory.
        """
        try:
            return write()
        except SessionWriteFailed as error:
            if error.entry_id is None:
                raise
            self.storage_failed(error)
            return error.entry_id

    async def store_or_defer(self, write: Write, *, now: bool = False) -> str | None:
        """Store it now when idle, else at the end of the turn; the id of its entry when it was stored now."""
        self.pending.add(write)
        if self.phase != "idle" and not now:
            return None
        stored = await self.flush()
        return stored[-1] if stored else None

    async def flush(self, *, aside: bool = False) -> tuple[str, ...]:
        """Store everything that waits, in order, and let the agent know the messages among it.

        Subscribers are told the custom ones: nobody else said those. A disk may take its time: with `aside` a thread
        waits for it, and everybody else goes on.
        """
        said = [_said(write) for write in self.pending]
        flushed = self.pending.flush(self.store)
        if aside:
            self._report(flushed.failures, await self._forced())
        else:
            self.end_turn(flushed.failures)
        ids = (None,) * len(said) if flushed.failures else flushed.entry_ids
        for message, entry_id in zip(said, ids, strict=True):
            if message is not None:
                await Agent.append_message(self.agent, message)
            if isinstance(message, CustomMessage):
                self.notify(MessageStart(message))
                self.notify(MessageEnd(message), entry_id=entry_id)
        return flushed.entry_ids

    async def store_commands(self) -> None:
        """Store what the user ran meanwhile; the model reads it with the next prompt."""
        commands, self.commands = self.commands, []
        for command in commands:
            await self.store_or_defer(WriteMessage(command), now=True)

    def end_turn(self, failures: tuple[SessionError, ...] = ()) -> None:
        """Force the turn to the disk at once, if the policy is to, and report what did not get there."""
        try:
            self.store.turn_end()
        except SessionError as error:
            self._report(failures, error)
        else:
            self._report(failures, None)

    async def _forced(self) -> SessionError | None:
        """Force the turn to the disk, if the policy is to; why it did not get there, when it did not.

        A process that is killed meanwhile closes its file, which forces it as well; what the thread says is lost.
        """
        try:
            self.store.flush()
            if self.store.is_force_due:
                await asyncio.to_thread(self.store.force)
        except SessionError as error:
            return error
        return None

    def _report(self, failures: tuple[SessionError, ...], error: SessionError | None) -> None:
        """Tell what did not get to the disk."""
        for failure in failures:
            self.storage_failed(failure)
        if error is None:
            self.unstored = None
        else:
            self.storage_failed(error)

    def storage_failed(self, error: SessionError) -> None:
        """Tell the subscribers that something is not on disk; when the file was taken from us, go on in a new one.

        They are told once, and again when the reason is another or everything was on disk meanwhile.
        """
        words = str(error)
        if isinstance(error, SessionFileChanged):
            try:
                self.notify(StorageFailed(f"{error}; going on in {self.store.rescue()}", 0))
                return
            except OSError as refused:
                words = f"{error}; no new file either: {refused}"
        if isinstance(error, SessionWriteFailed | SessionReadOnly):
            reason = error.detail if isinstance(error, SessionWriteFailed) else words
            if reason == self.unstored:
                return
            self.unstored = reason
        self.notify(StorageFailed(words, error.unsaved if isinstance(error, SessionWriteFailed) else 0))

    # Keeping agent and file in step.

    async def reload(self) -> None:
        """Give the agent the conversation as the current leaf has it: messages, model, thinking level, tools."""
        context = self.store.build_context()
        self.model = self.options.model_for(context.model, current=self.model)
        self.thinking_level = context.thinking_level
        self.active_tools = self.options.active_tools(context.active_tools)
        await Agent.replace_messages(self.agent, context.messages)
        await self.configure_agent()

    async def forget_failure(self) -> None:
        """Take an answer that failed out of the agent's conversation, not out of the file."""
        messages = (await Agent.get_state(self.agent)).messages
        if messages and isinstance(last := messages[-1], AssistantMessage) and last.stop_reason == "error":
            await Agent.replace_messages(self.agent, messages[:-1])

    async def configure_agent(self) -> None:
        """Let the agent's next run use the session's model, thinking level, tools and prompt."""
        await Agent.set_model(self.agent, self.model)
        await Agent.set_thinking_level(self.agent, self.thinking_level)
        await Agent.set_tools(self.agent, self.options.tools_named(self.active_tools))
        await Agent.set_system_prompt(self.agent, self.options.system_prompt_for(self.active_tools))

    async def take_tools(self, prefix: str, tools: tuple[AgentTool, ...]) -> None:
        """Have these instead of the tools whose names begin with `prefix`; what is new is offered to the model.

        Where the user chose which tools are offered, it is only offered when it is among them.
        """
        others = tuple(tool for tool in self.options.tools if not tool.name.startswith(prefix))
        if tuple(tool for tool in self.options.tools if tool.name.startswith(prefix)) == tools:
            return
        known = {tool.name for tool in self.options.tools}
        self.options = evolve(self.options, tools=(*others, *tools))
        chosen = self.store.chosen().active_tools
        fresh = (tool.name for tool in tools if tool.name not in known and (chosen is None or tool.name in chosen))
        names = {tool.name for tool in self.options.tools}
        self.active_tools = (*(name for name in self.active_tools if name in names), *fresh)
        await Agent.set_tools(self.agent, self.options.tools_named(self.active_tools))
        self.notify(ToolsUpdate(self.active_tools))

    async def describe(self) -> protocol.SessionState:
        """How things stand."""
        agent = await Agent.get_state(self.agent)
        direct, streams = self.notifier.count()
        queues = await Agent.queued(self.agent)
        return protocol.SessionState(
            session_id=self.notifier.session_id,
            file=str(self.store.path),
            cwd=str(self.options.cwd),
            model=protocol.model_name(self.model),
            thinking_level=self.thinking_level,
            active_tools=self.active_tools,
            phase=self.phase,
            turn_index=self.turn_index,
            message_count=len(agent.messages),
            pending_tool_calls=frozenset(agent.pending_tool_calls),
            pending_writes=len(self.pending),
            queued_next_turn=len(self.next_turn),
            direct_subscribers=direct,
            stream_subscribers=streams,
            agent=self.agent,
            agent_alive=self.agent.alive,
            restored=self.restored,
            name=self.store.name,
            pending_messages=len(queues.steering_messages) + len(queues.follow_up_messages),
            steering_mode=await Agent.get_steering_mode(self.agent),
            follow_up_mode=await Agent.get_follow_up_mode(self.agent),
            auto_compaction=self.options.compaction.enabled,
            auto_retry=self.retries.enabled,
            steering_queue_size=len(queues.steering_messages),
            follow_up_queue_size=len(queues.follow_up_messages),
            started_at=self.started_at,
            uptime_ms=round((monotonic_s() - self.began_s) * 1000),
            created_at=self.store.header.timestamp,
        )


def _said(write: Write) -> Any:
    """The message a write adds to the conversation, if any."""
    match write:
        case WriteMessage(message):
            return message
        case WriteCustomMessage(custom_type, content, display, details):
            return CustomMessage(custom_type, content, display, details, wall_ms())
        case _:
            return None
