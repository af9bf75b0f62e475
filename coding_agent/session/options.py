"""Values. What a session is started with, and what that makes of its agent and its file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from attrs import evolve, field, frozen

import lemon_ai
from coding_agent.errors import UnknownTool
from coding_agent.prompts import context_files, system_prompt
from coding_agent.session.compaction import CompactionSettings
from coding_agent.session.guardrails import Guard, Guardrails
from coding_agent.session.patience import with_patience
from coding_agent.session.protocol import Notice, model_name
from coding_agent.session.retrying import Retries, with_retries_told
from coding_agent.storage.jsonl import FsyncPolicy
from coding_agent.storage.session_manager import SessionManager
from lemon_agent import AgentKey, AgentMessage, AgentOptions, AgentTool
from lemon_ai import Model, StreamOptions, UnknownModel, find_model
from lemon_otp import Pid, self_pid

if TYPE_CHECKING:
    from coding_agent.resources import Resources
    from coding_agent.session.budget import Account
    from coding_agent.session.fallback import Candidate
    from coding_agent.session.hooks import SessionHooks

SessionTool: TypeAlias = Callable[[Pid], AgentTool]
"""Makes a tool for one session, given its process."""

ToolBinder: TypeAlias = Callable[[tuple[AgentTool, ...], Pid], tuple[AgentTool, ...]]
"""Makes of tools those of one session, given its process; those of another session are made this one's."""

Tell: TypeAlias = Callable[[Notice], None]

Companion: TypeAlias = Callable[[Pid, Path, Tell], Mapping[str, Any]]
"""Something that goes along with a session: told its process, its file and where to tell the subscribers something when
it begins, and again when it is reset. Answers further fields of `AgentOptions`; those it answers later are not used.
It is a method of what goes along; where that stands in front of others, they are its `inner`."""

K = TypeVar("K")


@frozen(kw_only=True)
class SessionOptions:
    """What a session process is started with.

    Attributes:
        cwd: The folder the agent works in.
        model: Answers when the file names no model, or one nobody knows.
        session_file: The file to open, or to make when it is not there; the conversation in it goes on.
        session_id: Goes into the header of a file that is made.
        override_model: `model` answers even when the file names another.
        tools: Everything the session has; those the model is offered are the active ones.
        extra_prompt: Put into the system prompt after the agent's identity.
        agent_settings: Further fields of `lemon_agent.AgentOptions`, hooks above all.
        get_api_key: The credential for a provider's name, asked before each request.
        parent_session: The file of the session this one came from.
        fsync: When a written line is forced to the disk: `none`, `turn` or `entry`.
        compaction: When and how the conversation is made shorter.
        session_tools: Tools that are made for this one session when it begins, each given the session's process.
        account: What it may use up; None for no limit.
        guardrails: What one message may take up of a model call.
        fallback: Who else may answer, while nothing useful has come of a call.
        owner: When this process ends, however it does, so does the session.
        agent_key: What its agent is called in the agent registry, for one that is another session's subagent.
        companions: What goes along with it: permissions, checkpoints.
        tool_binders: Each makes of the tools those of this one session, given its process; for subagents too.
        resources: What the person and the project say in files; without it, the project's context files are read anew
            for each prompt.
        hooks: Who has a say before runs, compactions and moves in the tree.
    """

    cwd: Path
    model: Model
    session_file: Path
    session_id: str
    override_model: bool = False
    tools: tuple[AgentTool, ...] = ()
    thinking_level: str | None = None
    extra_prompt: str = ""
    get_api_key: Callable[[str], str | Awaitable[str | None] | None] | None = field(default=None, repr=False)
    stream_options: StreamOptions = field(factory=StreamOptions, repr=False)
    agent_settings: Mapping[str, Any] = field(factory=dict, repr=False)
    parent_session: str | None = None
    fsync: FsyncPolicy = "turn"
    compaction: CompactionSettings = field(factory=CompactionSettings)
    session_tools: tuple[SessionTool, ...] = field(default=(), repr=False)
    account: Account | None = None
    guardrails: Guardrails = field(factory=Guardrails)
    fallback: tuple[Candidate, ...] = ()
    owner: Pid | None = None
    agent_key: AgentKey | None = None
    companions: tuple[Companion, ...] = field(default=(), repr=False)
    tool_binders: tuple[ToolBinder, ...] = field(default=(), repr=False)
    resources: Resources | None = field(default=None, repr=False)
    hooks: SessionHooks | None = field(default=None, repr=False)

    def companion(self, kind: type[K]) -> K | None:
        """What goes along with the session and is of this kind, whatever stands in front of it; None if nothing is."""
        return next((owner for owner in _owners(self.companions) if isinstance(owner, kind)), None)

    def with_session_tools(self, makers: Sequence[SessionTool]) -> SessionOptions:
        """The same options, with these tools to make as well."""
        return evolve(self, session_tools=(*self.session_tools, *makers))

    def begun(self, session: Pid) -> SessionOptions:
        """The same options with the tools made, or bound, that are for one session."""
        made = tuple(make(session) for make in self.session_tools)
        kept = tuple(tool for tool in self.tools if tool.name not in {tool.name for tool in made})
        tools = (*kept, *made) if made else self.tools
        for bind in self.tool_binders:
            tools = bind(tools, session)
        return self if tools is self.tools else evolve(self, tools=tools)

    def model_for(self, stored: str | None, *, current: Model | None = None) -> Model:
        """The model to use where the file names `stored`; `current` or the session's own when nobody knows that one."""
        fallback = current or self.model
        if stored is None or (self.override_model and current is None):
            return fallback
        if stored == model_name(fallback):
            return fallback
        try:
            return find_model(stored)
        except UnknownModel:
            return fallback

    def active_tools(self, stored: tuple[str, ...] | None) -> tuple[str, ...]:
        """The names to offer the model, given those the file names; tools that are no more are passed over."""
        names = tuple(tool.name for tool in self.tools)
        return names if stored is None else tuple(name for name in stored if name in names)

    def tools_named(self, names: tuple[str, ...]) -> tuple[AgentTool, ...]:
        """The tools of these names, in this order.

        Raises:
            UnknownTool: The session has no tool of such a name, or a name stands twice.
        """
        by_name = {tool.name: tool for tool in self.tools}
        unknown = [name for name in names if name not in by_name]
        if unknown or len(set(names)) != len(names):
            raise UnknownTool(unknown or names, sorted(by_name))
        return tuple(by_name[name] for name in names)

    def system_prompt_for(self, active: tuple[str, ...]) -> str:
        """The system prompt as of now."""
        found = self.resources
        return system_prompt(
            cwd=self.cwd,
            tools=[(tool.name, tool.description) for tool in self.tools_named(active)],
            context=context_files(self.cwd) if found is None else found.context,
            today=date.today(),
            extra="\n\n".join(part for part in (self.extra_prompt, found.append_prompt if found else "") if part),
            custom=found.system_prompt if found else None,
            skills=found.skills if found else (),
        )


def _owners(companions: Iterable[Companion]) -> Iterator[object]:
    for join in companions:
        owner = getattr(join, "__self__", None)
        yield owner
        yield from _owners(getattr(owner, "inner", ()))


def spill_folder(session_file: Path) -> Path:
    """Where what is too long for a model call lies whole: beside the session's file, as its subagents do."""
    return session_file.with_suffix("") / "spill"


def open_store(options: SessionOptions) -> SessionManager:
    """Open the session's file for writing, or set up a new one."""
    if options.session_file.exists():
        return SessionManager.open(options.session_file, fsync=options.fsync)
    return SessionManager.create(
        options.cwd,
        path=options.session_file,
        session_id=options.session_id,
        parent_session=options.parent_session,
        fsync=options.fsync,
    )


def agent_options(
    options: SessionOptions,
    session_id: str,
    model: Model,
    level: str,
    active: tuple[str, ...],
    messages: tuple[AgentMessage, ...],
    tell: Tell,
    retries: Retries | None = None,
) -> AgentOptions:
    """What the session's agent is started with; `tell` is told what happens to its model calls."""
    settings = dict(options.agent_settings)
    for join in options.companions:
        settings.update(join(self_pid(), options.session_file, tell))
    stream_fn = settings.get("stream_fn") or lemon_ai.stream
    settings["stream_fn"] = with_patience(stream_fn if retries is None else with_retries_told(retries, stream_fn, tell))
    if options.fallback:
        from coding_agent.session.fallback import with_fallback

        settings["stream_fn"] = with_fallback(options.fallback, settings["stream_fn"], tell, options.get_api_key)
    if options.account is not None:
        from coding_agent.session.budgeted import with_budget

        settings["stream_fn"] = with_budget(options.account, settings["stream_fn"])
    return AgentOptions(
        model=model,
        system_prompt=options.system_prompt_for(active),
        thinking_level=level,
        tools=options.tools_named(active),
        messages=messages,
        session_id=session_id,
        get_api_key=options.get_api_key,
        stream_options=options.stream_options,
        convert_to_llm=Guard(options.guardrails, spill_folder(options.session_file)).convert,
        **settings,
    )
