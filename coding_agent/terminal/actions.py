"""Edge. What the commands after a slash do: ask the host, let the user choose, tell the host, say what happened."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from coding_agent.terminal import session_actions as sessions
from coding_agent.terminal import setting_actions as settings
from coding_agent.terminal.blocks import Notice, Report
from coding_agent.terminal.slash import COMMANDS, KEYS

if TYPE_CHECKING:
    from coding_agent.terminal.conversation import Conversation


async def show_help(talk: "Conversation", _words: str) -> None:
    """Keys, our commands, the host's."""
    ours = tuple((f"/{each.name} {each.takes}".rstrip(), each.summary) for each in COMMANDS)
    theirs = tuple(
        (f"/{each.get('name')}", str(each.get("description") or each.get("source") or "")) for each in talk.commands
    )
    pressed = tuple((str(each.get("key")), str(each.get("description") or "")) for each in talk.shortcuts)
    blocks = [Report("Keys", (*KEYS, *pressed)), Report("Commands", ours)]
    talk.front.show([*blocks, *([Report("Templates, skills and extensions", theirs)] if theirs else [])])


async def copy_answer(talk: "Conversation", _words: str) -> None:
    """The last answer, to the clipboard."""
    text = (await talk.told("get_last_assistant_text")).get("text")
    if not text:
        talk.front.show([Notice("there is no answer to copy", "warning")])
        return
    talk.front.to_clipboard(str(text))
    talk.front.show([Notice("the last answer is in the clipboard, where the terminal allows it")])


async def show_queue(talk: "Conversation", _words: str) -> None:
    """What waits for the model."""
    rows = [("next", text) for text in talk.view.steering] + [("then", text) for text in talk.view.follow_up]
    talk.front.show([Report("Waiting", tuple(rows)) if rows else Notice("nothing waits")])


async def quit_terminal(talk: "Conversation", _words: str) -> None:
    """Leave."""
    talk.front.leave(0)


async def reload_resources(talk: "Conversation", _words: str) -> None:
    """Templates, skills and extensions, read again."""
    answer = await talk.told("reload")
    await talk.load_commands()
    talk.front.show([Notice(str(line), "warning") for line in answer.get("notices") or ()])
    talk.front.show([Notice(f"read again: {len(talk.commands)} templates, skills and commands")])


ACTIONS: Final[Mapping[str, Callable[["Conversation", str], Awaitable[Any]]]] = {
    "help": show_help,
    "model": settings.choose_model,
    "thinking": settings.choose_thinking,
    "tools": settings.choose_tools,
    "permissions": settings.choose_permissions,
    "budget": settings.set_budget,
    "cost": settings.show_cost,
    "mcp": settings.show_mcp,
    "trust": settings.choose_trust,
    "tree": sessions.choose_place,
    "fork": sessions.fork,
    "clone": sessions.clone,
    "new": sessions.begin_new,
    "resume": sessions.resume,
    "name": sessions.name,
    "label": sessions.label,
    "compact": sessions.compact,
    "rewind": sessions.rewind,
    "session": sessions.about,
    "export": sessions.export,
    "reload": reload_resources,
    "queue": show_queue,
    "copy": copy_answer,
    "quit": quit_terminal,
}
"""One for each of `slash.COMMANDS`."""
