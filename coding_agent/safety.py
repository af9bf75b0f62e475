"""Edge. The tools of a session with everything that stands before them: permissions, checkpoints, sandbox."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen

from coding_agent.checkpoints.guarded_tools import Checkpoints, with_checkpoints
from coding_agent.errors import BadUsage, UnknownTool
from coding_agent.permissions.gate import PermissionGate
from coding_agent.session.options import Companion, ToolBinder
from coding_agent.settings import Settings
from coding_agent.settings.schema import EXTRA_TOOLS
from coding_agent.settings.schema import MODES as STRICTEST_FIRST
from coding_agent.tool_kinds import FETCHES
from coding_agent.tools import Workspace, browser_tool, default_tools, execute_code_tool
from lemon_agent import AgentTool, ToolError
from lemon_otp import Pid

if TYPE_CHECKING:
    from coding_agent.permissions.approver import Approver
    from coding_agent.permissions.policy import Policy
    from coding_agent.tools.keeper import Keeper


BROWSER: Final = "browser"
BRIDGED: Final = frozenset({"read", "grep", "find", "ls", "web_fetch"})
"""Tools that a script of `execute_code` may call."""
OFFLINE: Final = "Refused: this program was started offline, and reaches no other machine. Work with what is here."


@frozen
class Safety:
    """What the tools of a session may do.

    Attributes:
        mode: `ask`, `edit`, `full` or `plan`.
        allow: Rules for what may be done without asking.
        ask: Rules for what is asked about in every mode.
        deny: Rules for what may not be done in any mode.
        sandbox: `strict`, `net`, or None for no sandbox.
        checkpoints: Keep what files were like before they are changed.
    """

    mode: str = "ask"
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    sandbox: str | None = None
    checkpoints: bool = True


HEADLESS: Final = Safety("full")
"""With -p: commands and edits in the working folder run, as a script expects."""


def safety_of(settings: Settings, *, default_mode: str = HEADLESS.mode) -> Safety:
    """What the settings ask for, those of the command line included.

    Args:
        settings: Of this start.
        default_mode: The mode when nobody names one; a project may ask for a stricter one, trusted or not.
    """
    chosen = settings.permissions
    mode = chosen.mode or default_mode
    if chosen.mode_cap is not None and not chosen.asked:
        mode = min(mode, chosen.mode_cap, key=STRICTEST_FIRST.index)
    return Safety(
        mode=mode,
        allow=chosen.allow,
        ask=chosen.ask,
        deny=chosen.deny,
        sandbox=settings.sandbox,
        checkpoints=settings.checkpoints,
    )


@frozen
class Guarded:
    """The tools of a session, with what stands before them.

    Attributes:
        companions: What goes along with the session.
        binders: What makes the tools those of one session.
    """

    tools: tuple[AgentTool, ...]
    companions: tuple[Companion, ...]
    binders: tuple[ToolBinder, ...]


def guarded(settings: Settings, safety: Safety, gate: PermissionGate, *, readable: Iterable[Path] = ()) -> Guarded:
    """The tools, and what goes along with the session because of them.

    Args:
        settings: Of this start.
        safety: What the tools may do.
        gate: Decides about each call.
        readable: Files and folders outside of the working folder that may be read too.

    Raises:
        BadUsage: There is no sandbox here.
    """
    keeper = None if safety.sandbox is None else sandboxed(settings, network=safety.sandbox == "net")
    workspace = Workspace(
        settings.cwd, approve=gate.approve_path if gate.asks else None, keeper=keeper, readable=tuple(readable)
    )
    workspace.shrinks_pictures = settings.images.auto_resize
    gate.watch(workspace)
    extra = _known_extras(settings)
    cwd = str(settings.cwd)
    made = default_tools(cwd, workspace=workspace, hashlines="hashline_edit" in extra)
    binders: tuple[ToolBinder, ...] = (partial(with_own_browser, cwd, workspace),)
    if settings.offline:
        made, binders = [_kept_here(tool) for tool in made], ()
    if "execute_code" in extra:
        bridge = [tool for tool in made if tool.name in BRIDGED]
        permit = partial(_permitted, gate, count(1))
        made.append(execute_code_tool(cwd, workspace=workspace, bridge_tools=bridge, permit=permit))
    tools = tuple(_prefixed(tool, settings.shell_prefix) for tool in made)
    if not safety.checkpoints:
        return Guarded(tools, (gate.join, workspace.join), binders)
    checkpoints = Checkpoints()
    watched = with_checkpoints(tools, workspace, checkpoints)
    if "checkpoint" in extra:
        from coding_agent.checkpoints.checkpoint_tool import checkpoint_tool

        watched = (*watched, checkpoint_tool(workspace, checkpoints))
    return Guarded(
        watched,
        (gate.join, workspace.join, checkpoints.join),
        (*binders, checkpoints.bind),
    )


async def _permitted(gate: PermissionGate, numbers: Iterator[int], name: str, args: Mapping[str, Any]) -> str | None:
    """Why a script may not call a tool; it is judged as if the model had."""
    return await gate.decide(name, f"script-{next(numbers)}", args)


def _known_extras(settings: Settings) -> tuple[str, ...]:
    """The tools that were asked for beside the usual ones.

    Raises:
        UnknownTool: There is none of such a name.
    """
    unknown = [name for name in settings.extra_tools if name not in EXTRA_TOOLS]
    if unknown:
        raise UnknownTool(unknown, EXTRA_TOOLS)
    return settings.extra_tools


def with_own_browser(
    cwd: str, workspace: Workspace, tools: tuple[AgentTool, ...], session: Pid
) -> tuple[AgentTool, ...]:
    """The tools of one session: its browser is its own, also beside its subagents, and ends with it."""
    return tuple(
        browser_tool(cwd, workspace=workspace, owner=session) if tool.name == BROWSER else tool for tool in tools
    )


def _kept_here(tool: AgentTool) -> AgentTool:
    """The tool; one that works with other machines refuses, and says why."""
    if tool.name not in FETCHES and tool.name != BROWSER:
        return tool

    def execute(_call_id: str, _params: dict[str, Any], _signal: Any, _on_update: Any) -> Any:
        raise ToolError(OFFLINE)

    return evolve(tool, execute=execute)


def _prefixed(tool: AgentTool, prefix: str | None) -> AgentTool:
    """The tool; the one that runs commands puts the person's prefix before each, on a line of its own."""
    if prefix is None or tool.name != "bash":
        return tool
    inner = tool.execute

    def execute(call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> Any:
        return inner(call_id, {**params, "command": f"{prefix}\n{params.get('command', '')}"}, signal, on_update)

    return evolve(tool, execute=execute)


def sandboxed(settings: Settings, *, network: bool) -> "Keeper":
    """What starts the tools' programs so that they stay in the working folder; other sessions are out of their sight.

    Raises:
        BadUsage: There is no sandbox here; the text says why. Nothing was started.
    """
    from coding_agent.sandbox import sandboxed_keeper

    return sandboxed_keeper(
        str(settings.cwd), "net" if network else "strict", hidden=(str(settings.session_dir), str(settings.config_dir))
    )


def gate_for(settings: Settings, safety: Safety, approver: "Approver | None") -> PermissionGate:
    """What decides about each call.

    Raises:
        BadUsage: A rule cannot be understood.
    """
    policy = policy_for(safety)
    if approver is None and policy is None:
        return PermissionGate(None)
    from coding_agent.permissions.remembered import RememberedRules
    from coding_agent.storage.locations import folder_for

    kept = RememberedRules(folder_for(settings.session_dir, settings.cwd) / "permissions.json", settings.cwd)
    return PermissionGate(policy, approver=approver, remembered=kept)


def policy_for(safety: Safety) -> "Policy | None":
    """The policy; None when everything may be done.

    Raises:
        BadUsage: A rule cannot be understood, or there is no such mode.
    """
    if safety.mode == "full" and not (safety.allow or safety.ask or safety.deny):
        return None
    from coding_agent.permissions.policy import MODES, Policy
    from coding_agent.permissions.rules import BadRule, parse_rule

    mode = next((mode for mode in MODES if mode == safety.mode), None)
    if mode is None:
        raise BadUsage(f"there is no mode {safety.mode}; give one of {', '.join(MODES)}")
    try:
        rules = [parse_rule(text, "deny") for text in safety.deny]
        rules += [parse_rule(text, "ask") for text in safety.ask]
        rules += [parse_rule(text, "allow") for text in safety.allow]
    except BadRule as error:
        raise BadUsage(str(error)) from error
    return Policy(mode, tuple(rules))
