"""Pure. The session of a subagent: what it has of its parent, of its definition and of what was asked for it."""

from pathlib import Path
from typing import Final

from attrs import evolve

from coding_agent.session.options import SessionOptions
from coding_agent.storage.stamps import file_stamp, iso, new_session_id
from coding_agent.subagents.definitions import Definition
from coding_agent.subagents.protocol import SubagentSpec
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
    """
    named = spec.model or (definition.model if definition else None)
    session_id = new_session_id()
    return evolve(
        parent,
        session_id=session_id,
        session_file=child_file(parent.session_file, session_id),
        parent_session=str(parent.session_file),
        model=find_model(named) if named else parent.model,
        override_model=True,
        thinking_level=spec.thinking_level or (definition.thinking if definition else None) or parent.thinking_level,
        tools=child_tools(parent, spec, definition),
        session_tools=(),
        extra_prompt=definition.prompt if definition else parent.extra_prompt,
        account=parent.account.child(spec.budget) if parent.account else None,
        owner=owner,
        agent_key=key,
    )


def child_tools(parent: SessionOptions, spec: SubagentSpec, definition: Definition | None) -> tuple[AgentTool, ...]:
    """Those of the parent's tools that both the definition and the spec allow, in the parent's order."""
    allowed = [names for names in (definition.tools if definition else None, spec.tools) if names is not None]
    return tuple(
        tool for tool in parent.tools if tool.name not in OWN_TOOLS and all(tool.name in names for names in allowed)
    )


def may_start_others(definition: Definition | None, depth: int) -> bool:
    """May a subagent start subagents? Only where there is room below it and its definition names the tool."""
    return depth > 1 and definition is not None and definition.tools is not None and TASK in definition.tools


def child_file(parent_file: Path, session_id: str) -> Path:
    """Where a subagent's session is stored: out of sight of whatever lists a person's sessions."""
    return parent_file.with_suffix("") / "subagents" / f"{file_stamp(iso(wall_ms()))}_{session_id}.jsonl"
