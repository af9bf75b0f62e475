"""Process. Agents started by agents: listed, stopped, reported.

Tree:  lemon_agent.supervisor / subagent_supervisor / one agent each, temporary
Emits: telemetry ("lemon_agent", "subagent", "spawn" | "end"); an agent that crashes says nothing here
Owns:  its agents, which end with it
"""

import itertools
from contextvars import copy_context
from functools import partial
from typing import Any, Final

from lemon_agent import agent_registry
from lemon_agent.agent import Agent
from lemon_agent.agent_registry import AgentKey
from lemon_agent.agent_state import AgentOptions
from lemon_otp import (
    AlreadyRegistered,
    AlreadyStarted,
    ChildSpec,
    DynamicSupervisor,
    Name,
    NotFound,
    OtpError,
    Pid,
    StartFailed,
    at_exit,
    exit_signal,
    telemetry,
    wall_ms,
)

SUBAGENT_SUPERVISOR: Final = "subagent_supervisor"
SHUTDOWN_S: Final = 5.0

_numbers: Final = itertools.count(1)


def child_spec() -> ChildSpec:
    """How the top supervisor starts this one."""
    return DynamicSupervisor.child_spec(id=SUBAGENT_SUPERVISOR, name=SUBAGENT_SUPERVISOR)


async def start_subagent(
    options: AgentOptions,
    *,
    registry_key: AgentKey | None = None,
    metadata: Any = None,
    name: Name | None = None,
    owner: Pid | None = None,
) -> Pid:
    """Start an agent under the supervisor.

    Args:
        options: What it is started with.
        registry_key: Where the agent registry lists it; before `name`.
        metadata: Kept beside the registration.
        name: Another name for it.
        owner: When this process ends, however it does, so does the agent; there is no moment at which it could not.

    Returns:
        Its pid. It is not started again when it ends.

    Raises:
        AlreadyRegistered: Another agent has the key; says which. Nothing was started and nothing reported.
        AlreadyStarted: Another process has the name.
        StartFailed: It did not come to life.
    """
    called = name if registry_key is None else agent_registry.via(registry_key, metadata)
    try:
        started = await DynamicSupervisor.start_child(SUBAGENT_SUPERVISOR, _spec(options, called, registry_key, owner))
    except StartFailed as failed:
        raise _taken(failed, registry_key) from failed
    if not isinstance(started, Pid):
        raise StartFailed("ignore")
    telemetry.execute(
        ("lemon_agent", "subagent", "spawn"),
        {"system_time": wall_ms()},
        {"pid": started, "registry_key": registry_key, "has_registry_key": registry_key is not None},
    )
    return started


async def start_child(spec: ChildSpec) -> Any:
    """Start any child under the supervisor."""
    return await DynamicSupervisor.start_child(SUBAGENT_SUPERVISOR, spec)


async def stop_subagent(pid: Pid) -> None:
    """Stop an agent; when this returns it has ended, its run with it.

    Raises:
        NotFound: No such agent runs here, perhaps because it was stopped before.
    """
    await DynamicSupervisor.terminate_child(SUBAGENT_SUPERVISOR, pid)
    telemetry.execute(("lemon_agent", "subagent", "end"), {"system_time": wall_ms()}, {"pid": pid, "reason": "stopped"})


async def stop_subagent_by_key(key: AgentKey) -> None:
    """Stop the agent of that key. Raises as `stop_subagent`."""
    await stop_subagent(agent_registry.lookup(key))


async def list_subagents() -> list[Pid]:
    """Every agent that runs here, oldest first."""
    infos = await DynamicSupervisor.which_children(SUBAGENT_SUPERVISOR)
    return [info.pid for info in infos if isinstance(info.pid, Pid)]


async def count() -> int:
    """How many agents run here."""
    return len(await list_subagents())


async def stop_all() -> int:
    """Stop every agent that runs here; how many there were."""
    stopped = 0
    for pid in await list_subagents():
        try:
            await stop_subagent(pid)
        except NotFound:
            continue  # it ended by itself in the meantime
        stopped += 1
    return stopped


def _taken(failed: StartFailed, key: AgentKey | None) -> OtpError:
    """Who has the key or the name, where that was the reason."""
    match failed.reason:
        case ("already_started", Pid() as holder):
            return AlreadyStarted(holder) if key is None else AlreadyRegistered(holder)
        case _:
            return failed


def _spec(options: AgentOptions, name: Name | None, key: AgentKey | None, owner: Pid | None) -> ChildSpec:
    shown = next(_numbers) if key is None else f"{key[0]}/{key[1]}/{key[2]}"
    spec = Agent.child_spec(options, id=f"agent[{shown}]", name=name, restart="temporary", shutdown=SHUTDOWN_S)
    return spec if owner is None else spec.replace(start=partial(_start_owned, spec, owner))


async def _start_owned(spec: ChildSpec, owner: Pid) -> Any:
    """Runs in the supervisor: between the agent's start and its tie to the owner nothing else can happen."""
    agent = await spec.start()
    assert isinstance(agent, Pid)
    if owner.alive:
        context = copy_context()  # the owner's end may come when no process runs
        at_exit(owner, lambda _owner, _reason: context.run(exit_signal, agent, "shutdown"))
    else:
        exit_signal(agent, "shutdown")
    return agent
