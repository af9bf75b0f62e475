"""Edge. Commands about how things stand, and what the session may do: state, totals, permissions, budget, exports."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve

from coding_agent import client
from coding_agent.credentials import known_secrets
from coding_agent.errors import BadUsage
from coding_agent.mcp.at_start import addresses_at_servers
from coding_agent.permissions.policy import MODES, Policy
from coding_agent.rpc.fields import Fields
from coding_agent.rpc.here import Here
from coding_agent.rpc.models_json import model_to_json
from coding_agent.session.token_estimate import context_size
from coding_agent.storage.opening import open_for_reading
from coding_agent.storage.session_manager import SessionManager
from lemon_ai import Model


async def get_state(here: Here, _given: Fields) -> Any:
    state = await here.desk.state()
    options = await client.get_options(await here.desk.pid())
    answer: dict[str, Any] = {
        "model": model_to_json(options.model),
        "thinkingLevel": state.thinking_level,
        "isStreaming": state.phase in ("turn", "retry"),
        "isCompacting": state.phase in ("compaction", "branch_summary"),
        "steeringMode": state.steering_mode.replace("_", "-"),
        "followUpMode": state.follow_up_mode.replace("_", "-"),
        "sessionId": state.session_id,
        "autoCompactionEnabled": state.auto_compaction,
        "autoRetryEnabled": state.auto_retry,
        "messageCount": state.message_count,
        "pendingMessageCount": state.pending_messages,
        "phase": state.phase,
        "cwd": state.cwd,
        "activeTools": list(state.active_tools),
    }
    if here.desk.host.keeps_files:
        answer["sessionFile"] = state.file
    if state.name is not None:
        answer["sessionName"] = state.name
    return answer


async def get_session_stats(here: Here, _given: Fields) -> Any:
    state = await here.desk.state()
    options = await client.get_options(await here.desk.pid())
    counted = await here.desk.look(_counted)
    return {
        "sessionFile": state.file if here.desk.host.keeps_files else None,
        "sessionId": state.session_id,
        **counted,
        "contextUsage": await here.desk.look(lambda store: _usage(store, options.model)),
    }


async def get_settings(here: Here, _given: Fields) -> Any:
    return {"settings": here.desk.host.settings.shown()}


async def get_commands(here: Here, _given: Fields) -> Any:
    return {"commands": [command.to_json() for command in here.desk.commands()]}


async def get_shortcuts(here: Here, _given: Fields) -> Any:
    hooks = here.desk.host.hooks
    return {"shortcuts": [] if hooks is None else [shortcut.to_json() for shortcut in hooks.shortcuts()]}


async def get_permissions(here: Here, _given: Fields) -> Any:
    gate = here.desk.session.gate
    policy = gate.policy or Policy("full")
    remembered = [str(rule) for rule in await gate.remembered_rules()]
    rules = [f"{rule.kind} {rule}" for rule in policy.rules if str(rule) not in remembered]
    return {"mode": policy.mode, "rules": rules, "remembered": remembered}


async def set_permission_mode(here: Here, given: Fields) -> Any:
    mode = given.choice("mode", MODES)
    gate = here.desk.session.gate
    gate.policy = evolve(gate.policy or Policy("full"), mode=mode)


async def get_budget(here: Here, _given: Fields) -> Any:
    account = here.desk.session.account
    return {
        "maxTokens": account.budget.max_tokens,
        "maxCost": account.budget.max_cost,
        "usedTokens": account.spent.tokens,
        "usedCost": account.spent.cost,
    }


async def set_budget(here: Here, given: Fields) -> Any:
    """Fields that are left out stay; null takes a limit away."""
    account = here.desk.session.account
    budget = account.budget
    if "maxTokens" in given.given:
        tokens = given.number("maxTokens")
        budget = evolve(budget, max_tokens=None if tokens is None else int(tokens))
    if "maxCost" in given.given:
        budget = evolve(budget, max_cost=given.number("maxCost"))
    account.budget = budget


async def export_html(here: Here, given: Fields) -> Any:
    from coding_agent.exporting.save import save_html

    return await _exported(here, given, save_html)


async def export_markdown(here: Here, given: Fields) -> Any:
    from coding_agent.exporting.save import save_markdown

    return await _exported(here, given, save_markdown)


async def _exported(here: Here, given: Fields, save: Callable[..., Path]) -> Any:
    """The session as it is on disk, written by a thread: a long one keeps nobody waiting."""
    output = given.optional_text("outputPath")
    session, host = here.desk.session, here.desk.host
    secrets = known_secrets(host.environ)

    def work() -> Path:
        if not session.file.exists():
            raise BadUsage("nothing was said yet, so there is nothing to export")
        path = None if output is None else host.settings.cwd / Path(output).expanduser()
        with open_for_reading(session.file) as manager:
            return save(manager, path, secrets=secrets)

    return {"path": str(await asyncio.to_thread(work))}


async def complete_files(here: Here, given: Fields) -> Any:
    from coding_agent.hosting.file_names import complete_files as complete

    prefix = given.text("prefix")
    readable = addresses_at_servers(here.desk.session.options, prefix)
    return {"paths": [*readable, *await asyncio.to_thread(complete, here.desk.host.settings.cwd, prefix)]}


async def get_trust(here: Here, _given: Fields) -> Any:
    settings = here.desk.host.settings
    return {"trusted": settings.trusted, "pending": list(settings.pending)}


async def set_trust(here: Here, given: Fields) -> Any:
    """Remember whether the person trusts this project; what waits for it counts from the next start on."""
    await here.desk.host.decide_trust(given.flag("trusted"))


async def reload(here: Here, _given: Fields) -> Any:
    """Read settings, templates and skills again; what is part of a running session stays until the next one."""
    host = here.desk.host
    told = len(host.notices)
    await host.look_again()
    return {"notices": host.notices[told:]}


async def get_mcp(here: Here, _given: Fields) -> Any:
    from coding_agent.mcp.session_servers import mcp_status

    return await mcp_status(await here.desk.pid())


async def reconnect_mcp(here: Here, given: Fields) -> Any:
    """Connect one server anew, or all; answers at once with their names."""
    from coding_agent.mcp.session_servers import reconnect_servers

    await here.desk.pid()
    return {"servers": list(reconnect_servers(here.desk.session.options, given.optional_text("name")))}


def _counted(store: SessionManager) -> dict[str, Any]:
    """What the current branch holds, and what it used."""
    counts = {"user": 0, "assistant": 0, "toolResult": 0}
    tool_calls, cost = 0, 0.0
    tokens = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    messages = 0
    for position in store.tree.path():
        kind, _, role = store.tree.kinds[position].partition("/")
        if kind != "message":
            continue
        messages += 1
        if role in counts:
            counts[role] += 1
        if role != "assistant":
            continue
        message = store.log.entry_data(position).get("message") or {}
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        tool_calls += sum(isinstance(block, dict) and block.get("type") == "toolCall" for block in blocks)
        usage = message.get("usage")
        if isinstance(usage, dict):
            for name in tokens:
                tokens[name] += _number(usage.get(name))
            cost += _number((usage.get("cost") or {}).get("total"))
    return {
        "userMessages": counts["user"],
        "assistantMessages": counts["assistant"],
        "toolCalls": tool_calls,
        "toolResults": counts["toolResult"],
        "totalMessages": messages,
        "tokens": {**tokens, "total": sum(tokens.values())},
        "cost": cost,
    }


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def _usage(store: SessionManager, model: Model) -> dict[str, Any]:
    size = context_size([message for _, message in store.context_items()])
    window = model.context_window or 0
    return {
        "tokens": size.tokens,
        "contextWindow": window,
        "percent": size.tokens / window * 100 if window else None,
    }


COMMANDS = {
    "get_state": get_state,
    "get_session_stats": get_session_stats,
    "get_settings": get_settings,
    "get_commands": get_commands,
    "get_shortcuts": get_shortcuts,
    "get_permissions": get_permissions,
    "set_permission_mode": set_permission_mode,
    "get_budget": get_budget,
    "set_budget": set_budget,
    "export_html": export_html,
    "export_markdown": export_markdown,
    "complete_files": complete_files,
    "get_trust": get_trust,
    "set_trust": set_trust,
    "get_mcp": get_mcp,
    "reconnect_mcp": reconnect_mcp,
    "reload": reload,
}
