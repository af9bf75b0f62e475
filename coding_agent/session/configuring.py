"""Edge. Settings of a conversation that somebody changes: in memory at once, on disk now or at the end of the turn."""

from attrs import evolve

from coding_agent.events import ModelUpdate, ThinkingLevelUpdate, ToolsUpdate
from coding_agent.session import protocol
from coding_agent.session.conversation import Conversation
from coding_agent.session.writes import WriteActiveToolsChange, WriteModelChange, WriteThinkingLevelChange
from lemon_agent import Agent
from lemon_ai import Model


async def apply(state: Conversation, request: object) -> bool:
    """Make the change that was asked for; False when `request` asks for none of these.

    Raises:
        UnknownTool: The session has no tool of a name that was given. Nothing was changed.
    """
    match request:
        case protocol.SwitchModel(model):
            await _switch_model(state, model)
        case protocol.SetThinkingLevel(level):
            await _set_thinking_level(state, level)
        case protocol.SetActiveTools(names):
            await _set_active_tools(state, names)
        case protocol.SetQueueMode("steering", mode):
            await Agent.set_steering_mode(state.agent, mode)
        case protocol.SetQueueMode("follow_up", mode):
            await Agent.set_follow_up_mode(state.agent, mode)
        case protocol.SetAutoCompaction(enabled):
            state.options = evolve(state.options, compaction=evolve(state.options.compaction, enabled=enabled))
        case protocol.SetAutoRetry(enabled):
            state.retries.enabled = enabled
        case _:
            return False
    return True


async def store_settings(state: Conversation) -> None:
    """Write down the model and level a prompt will run with, where the file says otherwise or nothing yet."""
    before = state.store.chosen()
    if before.model != protocol.model_name(state.model):
        await state.store_or_defer(WriteModelChange(state.model.provider, state.model.id), now=True)
    if before.thinking_level != state.thinking_level:
        await state.store_or_defer(WriteThinkingLevelChange(state.thinking_level), now=True)


async def _switch_model(state: Conversation, model: Model) -> None:
    await state.store_or_defer(WriteModelChange(model.provider, model.id))
    state.model, state.compaction = model, state.compaction.reset()
    await Agent.set_model(state.agent, model)
    state.notify(ModelUpdate(model.provider, model.id))


async def _set_thinking_level(state: Conversation, level: str) -> None:
    await state.store_or_defer(WriteThinkingLevelChange(level))
    state.thinking_level = level
    await Agent.set_thinking_level(state.agent, level)
    state.notify(ThinkingLevelUpdate(level))


async def _set_active_tools(state: Conversation, names: tuple[str, ...]) -> None:
    tools = state.options.tools_named(names)
    await state.store_or_defer(WriteActiveToolsChange(names))
    state.active_tools = names
    await Agent.set_tools(state.agent, tools)
    state.notify(ToolsUpdate(names))
