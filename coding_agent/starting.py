"""What a session is started with, worked out from the settings: its file, its tools, its credentials."""

from pathlib import Path
from typing import TYPE_CHECKING

from coding_agent.errors import NoSuchSession
from coding_agent.model_choice import ModelChoice
from coding_agent.safety import HEADLESS, Safety, gate_for, guarded
from coding_agent.session.options import SessionOptions
from coding_agent.settings import Settings
from coding_agent.storage.session_manager import new_session_file, newest_session
from coding_agent.subagents.delegate import with_subagents

if TYPE_CHECKING:
    from coding_agent.permissions.approver import Approver
    from coding_agent.permissions.gate import PermissionGate


def session_options(
    settings: Settings,
    choice: ModelChoice,
    *,
    resume: bool = False,
    session: str | None = None,
    safety: Safety = HEADLESS,
    approver: "Approver | None" = None,
    gate: "PermissionGate | None" = None,
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
    tools, companions = guarded(settings, safety, gate or gate_for(settings, safety, approver))
    options = SessionOptions(
        cwd=settings.cwd,
        model=choice.model,
        override_model=choice.asked_for,
        session_file=file,
        session_id=session_id,
        tools=tools,
        thinking_level=settings.thinking_level,
        agent_settings={} if approver is None and gate is None else {"hook_timeout_ms": None},
        companions=companions,
    )
    return with_subagents(options)
