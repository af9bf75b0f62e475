"""Edge. The session of a subagent: what it has of its parent, of its definition and of what was asked for it.

Pure, but for a look at where its folder is.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import evolve

from coding_agent.errors import BadUsage
from coding_agent.permissions.gate import PermissionGate
from coding_agent.session.options import Companion, SessionOptions, Tell
from coding_agent.storage.stamps import file_stamp, iso, new_session_id
from coding_agent.subagents.definitions import Definition
from coding_agent.subagents.in_folder import in_folder
from coding_agent.subagents.protocol import SubagentSpec
from coding_agent.subagents.tool_policy import ToolPolicy
from lemon_agent import AgentTool
from lemon_ai import find_model
from lemon_otp import Pid, wall_ms

TASK: Final = "task"
OWN_TOOLS: Final = frozenset({TASK, "ask_parent"})
"""Tools that are made for one session and not handed on."""

PLAIN_ROLE: Final = "subagent"
"""The role of a subagent without a definition."""


def child_options(
    parent: SessionOptions, spec: SubagentSpec, definition: Definition | None, *, owner: Pid, key: tuple[str, str, int]
) -> SessionOptions:
    """What a subagent's session is started with. Its file lies beside its parent's, in a folder of its own.

    Raises:
        UnknownModel: There is no model of the name that was asked for.
        BadUsage: Its folder is none, or not below its parent's.
    """
    named = spec.model or (definition.model if definition else None)
    session_id = new_session_id()
    folder = None if spec.cwd is None else folder_below(parent.cwd, spec.cwd)
    tools = child_tools(parent, spec, definition)
    policy = spec.tool_policy
    asked = _asking(parent, policy) if policy is not None and policy.require_approval else None
    return evolve(
        parent,
        cwd=parent.cwd if folder is None else parent.cwd / folder,
        session_id=session_id,
        session_file=child_file(parent.session_file, session_id),
        parent_session=str(parent.session_file),
        model=find_model(named) if named else parent.model,
        override_model=True,
        thinking_level=spec.thinking_level or (definition.thinking if definition else None) or parent.thinking_level,
        tools=tools if folder is None else tuple(in_folder(tool, folder) for tool in tools),
        companions=parent.companions if asked is None else (*parent.companions, asked),
        session_tools=(),
        extra_prompt=definition.prompt if definition else parent.extra_prompt,
        account=parent.account.child(spec.budget) if parent.account else None,
        owner=owner,
        agent_key=key,
    )


def child_tools(parent: SessionOptions, spec: SubagentSpec, definition: Definition | None) -> tuple[AgentTool, ...]:
    """Those of the parent's tools that the definition, the spec and its policy allow, in the parent's order."""
    allowed = [names for names in (definition.tools if definition else None, spec.tools) if names is not None]
    policy = spec.tool_policy or ToolPolicy()
    return tuple(
        tool
        for tool in parent.tools
        if tool.name not in OWN_TOOLS and policy.has(tool.name) and all(tool.name in names for names in allowed)
    )


def folder_below(cwd: Path, wanted: str) -> str | None:
    """A folder as it lies below the parent's; None for that one itself.

    Raises:
        BadUsage: It is none, or lies elsewhere: a subagent never works where its parent does not.
    """
    base = os.path.realpath(cwd)
    real = os.path.realpath(os.path.join(base, os.path.expanduser(wanted)))
    if not os.path.isdir(real):
        raise BadUsage(f"cwd: there is no folder {wanted}")
    below = os.path.relpath(real, base)
    if below == os.pardir or below.startswith(os.pardir + os.sep):
        raise BadUsage(f"cwd: {wanted} is not below the working folder")
    return None if below == os.curdir else below


def _asking(parent: SessionOptions, policy: ToolPolicy) -> Companion:
    """Has the parent's gate ask about each call of the tools that must be approved."""
    gate = parent.companion(PermissionGate)
    if gate is None:
        raise BadUsage("tool_policy: nobody here could be asked for approval")

    def join(session: Pid, _file: Path, _tell: Tell) -> Mapping[str, Any]:
        gate.ask_always(session, policy.require_approval)
        return {}

    return join


def may_start_others(definition: Definition | None, depth: int) -> bool:
    """May a subagent start subagents? Only where there is room below it and its definition names the tool."""
    return depth > 1 and definition is not None and definition.tools is not None and TASK in definition.tools


def child_file(parent_file: Path, session_id: str) -> Path:
    """Where a subagent's session is stored: out of sight of whatever lists a person's sessions."""
    return parent_file.with_suffix("") / "subagents" / f"{file_stamp(iso(wall_ms()))}_{session_id}.jsonl"
