"""Edge. What a session is started with, worked out from the settings: file, tools, limits, credentials."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve

from coding_agent.errors import NoSuchSession
from coding_agent.models.model_choice import ModelChoice
from coding_agent.resources import Resources, load_resources
from coding_agent.safety import HEADLESS, Safety, gate_for, guarded
from coding_agent.session.budget import NO_LIMITS, Account, Budget
from coding_agent.session.compaction import CompactionSettings
from coding_agent.session.options import SessionOptions
from coding_agent.settings import Settings
from coding_agent.storage.session_manager import new_session_file, newest_session
from coding_agent.subagents.definitions import Definitions
from coding_agent.subagents.delegate import SubagentSettings, with_subagents
from lemon_agent import AgentMessage
from lemon_ai import ImageContent, StreamOptions, TextContent

if TYPE_CHECKING:
    from coding_agent.permissions.approver import Approver
    from coding_agent.permissions.gate import PermissionGate
    from coding_agent.session.fallback import Candidate

NO_IMAGE = TextContent("[a picture was left out: the settings send none]")


def session_options(
    settings: Settings,
    choice: ModelChoice,
    *,
    resume: bool = False,
    session: str | None = None,
    safety: Safety = HEADLESS,
    approver: "Approver | None" = None,
    gate: "PermissionGate | None" = None,
    resources: Resources | None = None,
) -> SessionOptions:
    """The options of a new session, of the newest one of the folder (`resume`), or of the one in the file `session`.

    Args:
        settings: Of this start.
        choice: Who answers.
        resume: Go on with the newest session of the folder.
        session: Go on with this file.
        safety: What its tools may do.
        approver: Asks a person about what `safety` leaves open; None means that nobody is there.
        gate: Decides instead of the one made of `safety` and `approver`; whoever keeps it can change its policy later.
        resources: What the person and the project say in files; None reads it now.

    Raises:
        NoSuchSession: There is none to go on with. Nothing was made.
        BadUsage: A rule cannot be understood, or there is no sandbox here.
    """
    session_id, file = new_session_file(settings.cwd, settings.session_dir)
    if session is not None:
        file = Path(session).absolute()
        if not file.exists():
            raise NoSuchSession(f"there is no session file {file}")
    elif resume:
        newest = newest_session(settings.cwd, settings.session_dir)
        if newest is None:
            raise NoSuchSession(
                f"there is no session for {settings.cwd} yet in {settings.session_dir}; leave out --continue"
            )
        file = newest
    found = load_resources(settings, trusted=settings.trusted) if resources is None else resources
    guard = gate or gate_for(settings, safety, approver)
    found_tools = guarded(settings, safety, guard, readable=found.readable)
    goes_on = file.exists()
    budget = budget_of(settings)
    options = SessionOptions(
        cwd=settings.cwd,
        model=choice.model,
        override_model=choice.asked_for,
        session_file=file,
        session_id=session_id,
        tools=found_tools.tools,
        thinking_level=None if goes_on and not settings.thinking_asked else settings.thinking_level,
        agent_settings=_agent_settings(settings, asks=approver is not None or gate is not None),
        stream_options=stream_options_of(settings),
        compaction=compaction_of(settings),
        account=None if budget == NO_LIMITS else Account(budget),
        fallback=_fallback(choice),
        companions=found_tools.companions,
        tool_binders=found_tools.binders,
        resources=found,
    )
    return with_subagents(options, _subagents(settings, found.subagents))


def stream_options_of(settings: Settings) -> StreamOptions:
    """How a model is called, as far as the settings say."""
    retry = settings.retry
    return StreamOptions(
        max_retries=retry.max_retries if retry.enabled else 0,
        retry_base_ms=retry.base_delay_ms,
        max_retry_delay_ms=retry.max_delay_ms,
        thinking_budgets=settings.thinking_budgets,
        transport=settings.transport,
    )


def compaction_of(settings: Settings) -> CompactionSettings:
    """When a conversation is made shorter, as the settings say."""
    chosen = settings.compaction
    return CompactionSettings(
        chosen.enabled,
        chosen.reserve_tokens,
        chosen.keep_recent_tokens,
        branch_reserve_tokens=settings.branch_summary.reserve_tokens,
    )


def budget_of(settings: Settings) -> Budget:
    """What a session may use up, as the settings say."""
    chosen = settings.budget
    return Budget(
        max_tokens=chosen.max_tokens,
        max_cost=chosen.max_cost,
        max_turns=chosen.max_turns,
        max_time_s=chosen.max_seconds,
        max_children=chosen.max_children,
    )


def _agent_settings(settings: Settings, *, asks: bool) -> Mapping[str, Any]:
    given: dict[str, Any] = {
        "steering_mode": settings.steering_mode,
        "follow_up_mode": settings.follow_up_mode,
        "max_tool_turns": settings.max_tool_turns,
    }
    if asks:  # a person may take their time
        given["hook_timeout_ms"] = None
    if settings.images.block:
        given["transform_context"] = without_images
    return given


def _fallback(choice: ModelChoice) -> "tuple[Candidate, ...]":
    """Those who answer in the place of the session's model, whichever that is when they are needed."""
    if not choice.fallback:
        return ()
    from coding_agent.session.fallback import Candidate

    return tuple(Candidate(model) for model in choice.fallback)


def _subagents(settings: Settings, definitions: Definitions) -> SubagentSettings:
    chosen = settings.subagents
    fixed = SubagentSettings(definitions=partial(_same, definitions), depth=chosen.depth)
    return fixed if chosen.timeout_ms is None else evolve(fixed, timeout_ms=chosen.timeout_ms)


def _same(definitions: Definitions, _cwd: Path) -> Definitions:
    """Those that were read, and trusted, when the session began."""
    return definitions


def without_images(messages: tuple[AgentMessage, ...], _signal: Any = None) -> list[AgentMessage]:
    """The conversation for a model that is to see no pictures."""
    return [_without_images(message) for message in messages]


def _without_images(message: AgentMessage) -> AgentMessage:
    content = getattr(message, "content", None)
    if not isinstance(content, tuple) or not any(isinstance(block, ImageContent) for block in content):
        return message
    blocks = tuple(NO_IMAGE if isinstance(block, ImageContent) else block for block in content)
    return evolve(message, content=blocks)  # type: ignore[misc]  # whatever has content is an attrs value
