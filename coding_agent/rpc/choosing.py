"""Edge. Commands about how the conversation is held: model and thinking, queues, tools, what goes by itself."""

import asyncio
from typing import Any

from coding_agent import client
from coding_agent.errors import BadUsage
from coding_agent.rpc.fields import NULL, Fields
from coding_agent.rpc.here import Here
from coding_agent.rpc.models_json import ALL_LEVELS, available, levels_of, model_to_json, nearest_level, scoped
from lemon_ai import Model, UnknownModel

QUEUE_MODES = ("all", "one-at-a-time")


async def set_model(here: Here, given: Fields) -> Any:
    provider, model_id = given.text("provider"), given.text("modelId")
    current = await _model(here)
    if (current.provider, current.id) == (provider.replace("-", "_"), model_id):
        return model_to_json(current)
    try:
        model = here.desk.host.known.find(f"{provider}/{model_id}")
    except UnknownModel as error:
        raise BadUsage(f"Model not found: {provider}/{model_id}. {error}") from error
    await _use(here, model)
    return model_to_json(model)


async def cycle_model(here: Here, _given: Fields) -> Any:
    """The next of the models there are, or of those the command line or the settings name."""
    host = here.desk.host
    current = await _model(here)
    patterns = host.arguments.models or host.settings.enabled_models
    await asyncio.to_thread(host.known.servers.find)
    models = scoped(available(host.known, current), patterns)
    names = [(model.provider, model.id) for model in models]
    if not models or names == [(current.provider, current.id)]:
        return NULL
    place = names.index((current.provider, current.id)) if (current.provider, current.id) in names else -1
    model = models[(place + 1) % len(models)]
    await _use(here, model)
    state = await here.desk.state()
    return {"model": model_to_json(model), "thinkingLevel": state.thinking_level, "isScoped": bool(patterns)}


async def get_available_models(here: Here, _given: Fields) -> Any:
    known = here.desk.host.known
    await asyncio.to_thread(known.servers.find)
    return {"models": [model_to_json(model) for model in available(known, await _model(here))]}


async def set_thinking_level(here: Here, given: Fields) -> Any:
    """A level the model does not have becomes the nearest one below that it has."""
    level = given.choice("level", ALL_LEVELS)
    await client.set_thinking_level(await here.desk.pid(), nearest_level(level, await _model(here)))


async def cycle_thinking_level(here: Here, _given: Fields) -> Any:
    levels = levels_of(await _model(here))
    if len(levels) < 2:
        return NULL
    state = await here.desk.state()
    place = levels.index(state.thinking_level) if state.thinking_level in levels else -1
    level = levels[(place + 1) % len(levels)]
    await client.set_thinking_level(await here.desk.pid(), level)
    return {"level": level}


async def get_available_thinking_levels(here: Here, _given: Fields) -> Any:
    return {"levels": levels_of(await _model(here))}


async def set_steering_mode(here: Here, given: Fields) -> Any:
    await client.set_queue_mode(await here.desk.pid(), "steering", given.choice("mode", QUEUE_MODES))


async def set_follow_up_mode(here: Here, given: Fields) -> Any:
    await client.set_queue_mode(await here.desk.pid(), "follow_up", given.choice("mode", QUEUE_MODES))


async def set_auto_compaction(here: Here, given: Fields) -> Any:
    await client.set_auto_compaction(await here.desk.pid(), given.flag("enabled"))


async def set_auto_retry(here: Here, given: Fields) -> Any:
    await client.set_auto_retry(await here.desk.pid(), given.flag("enabled"))


async def get_tools(here: Here, _given: Fields) -> Any:
    state = await here.desk.state()
    options = await client.get_options(await here.desk.pid())
    active = set(state.active_tools)
    return {
        "tools": [
            {"name": tool.name, "description": tool.description, "active": tool.name in active}
            for tool in options.tools
        ]
    }


async def set_active_tools(here: Here, given: Fields) -> Any:
    await client.set_active_tools(await here.desk.pid(), given.texts("names"))


async def _model(here: Here) -> Model:
    return (await client.get_options(await here.desk.pid())).model


async def _use(here: Here, model: Model) -> None:
    """Another model, with the nearest level it has."""
    pid = await here.desk.pid()
    await client.switch_model(pid, model)
    state = await client.get_state(pid)
    level = nearest_level(state.thinking_level, model)
    if level != state.thinking_level:
        await client.set_thinking_level(pid, level)


COMMANDS = {
    "set_model": set_model,
    "cycle_model": cycle_model,
    "get_available_models": get_available_models,
    "set_thinking_level": set_thinking_level,
    "cycle_thinking_level": cycle_thinking_level,
    "get_available_thinking_levels": get_available_thinking_levels,
    "set_steering_mode": set_steering_mode,
    "set_follow_up_mode": set_follow_up_mode,
    "set_auto_compaction": set_auto_compaction,
    "set_auto_retry": set_auto_retry,
    "get_tools": get_tools,
    "set_active_tools": set_active_tools,
}
