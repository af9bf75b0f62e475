"""Edge. Commands about where the conversation is: other sessions, forks, the tree of this one, what stands in it."""

import asyncio
from pathlib import Path
from typing import Any

from coding_agent import client
from coding_agent.errors import BadUsage, EntryNotFound
from coding_agent.hosting.rewinding import WHAT
from coding_agent.hosting.rewinding import rewind as go_back
from coding_agent.rpc.fields import Fields
from coding_agent.rpc.here import Here
from coding_agent.storage.navigation import text_for_editor
from coding_agent.storage.session_manager import SessionManager
from coding_agent.storage.tree import ROOT


async def new_session(here: Here, given: Fields) -> Any:
    return {"cancelled": not await here.desk.new(given.optional_text("parentSession"))}


async def switch_session(here: Here, given: Fields) -> Any:
    return {"cancelled": not await here.desk.switch(Path(given.text("sessionPath")))}


async def fork(here: Here, given: Fields) -> Any:
    text = await here.desk.fork(given.text("entryId"))
    return {"text": text or "", "cancelled": text is None}


async def clone(here: Here, _given: Fields) -> Any:
    return {"cancelled": not await here.desk.clone()}


async def get_fork_messages(here: Here, _given: Fields) -> Any:
    return {"messages": await here.desk.look(_user_messages)}


async def get_entries(here: Here, given: Fields) -> Any:
    """Every entry in the order of the file, or those behind `since`."""
    since = given.optional_text("since")
    return await here.desk.look(lambda store: _entries(store, since))


async def get_tree(here: Here, _given: Fields) -> Any:
    """As deep as the conversation is long; a client that cannot read that asks for `get_entries`."""
    return await here.desk.look(_tree)


async def navigate_tree(here: Here, given: Fields) -> Any:
    moved = await client.navigate_tree(
        await here.desk.pid(),
        given.text("entryId"),
        summarize=given.optional_flag("summarize"),
        instructions=given.optional_text("instructions"),
        label=given.optional_text("label"),
    )
    answer = {
        "editorText": moved.editor_text,
        "cancelled": moved.cancelled,
        "summaryEntryId": moved.summary_entry_id,
        "leafId": moved.leaf_id,
    }
    return answer if moved.error_message is None else {**answer, "errorMessage": moved.error_message}


async def set_label(here: Here, given: Fields) -> Any:
    entry_id, label = given.text("entryId"), given.optional_text("label")
    await here.desk.look(lambda store: store.position(entry_id))
    await client.append_label(await here.desk.pid(), entry_id, label)


async def set_session_name(here: Here, given: Fields) -> Any:
    name = " ".join(given.text("name").split())
    if not name:
        raise BadUsage("set_session_name needs name: a text that is not blank")
    await client.append_session_name(await here.desk.pid(), name)


async def rewind(here: Here, given: Fields) -> Any:
    what = given.choice("what", WHAT)
    done = await go_back(here.desk, given.text("entryId"), what, preview=given.optional_flag("preview"))
    return {"changes": list(done.changes), "conflicts": list(done.conflicts), "editorText": done.editor_text}


async def list_sessions(here: Here, given: Fields) -> Any:
    from coding_agent.hosting.session_list import listed_sessions

    host = here.desk.host
    live = {one.session_id for one in host.folders.sessions()}
    cwd = given.optional_text("cwd")
    found = await asyncio.to_thread(listed_sessions, host.settings.session_dir, cwd, live)
    return {"sessions": [one.to_json() for one in found]}


def _user_messages(store: SessionManager) -> list[dict[str, Any]]:
    tree = store.tree
    found = []
    for position, kind in enumerate(tree.kinds):
        if kind == "message/user" and (text := text_for_editor(store.log, position)):
            found.append({"entryId": tree.ids[position], "text": text})
    return found


def _entries(store: SessionManager, since: str | None) -> dict[str, Any]:
    first = 0
    if since is not None:
        try:
            first = store.position(since) + 1
        except EntryNotFound as error:
            raise BadUsage(f"Entry not found: {since}") from error
    log = store.log
    return {"entries": [log.entry_data(at) for at in range(first, len(log.tree))], "leafId": store.leaf_id}


def _tree(store: SessionManager) -> dict[str, Any]:
    tree, log = store.tree, store.log
    times = _label_times(store)
    nodes: dict[int, dict[str, Any]] = {}
    for position in range(len(tree)):
        node: dict[str, Any] = {"entry": log.entry_data(position), "children": []}
        if (label := tree.labels.get(tree.ids[position])) is not None:
            node["label"] = label
            if (when := times.get(tree.ids[position])) is not None:
                node["labelTimestamp"] = when
        nodes[position] = node
    roots: list[dict[str, Any]] = []
    for position, node in nodes.items():
        parent = tree.parents[position]
        (roots if parent <= ROOT else nodes[parent]["children"]).append(node)
    return {"tree": roots, "leafId": store.leaf_id}


def _label_times(store: SessionManager) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for position, kind in enumerate(store.tree.kinds):
        if kind == "label":
            data = store.log.entry_data(position)
            found[str(data.get("targetId"))] = data.get("timestamp")
    return found


COMMANDS = {
    "new_session": new_session,
    "switch_session": switch_session,
    "fork": fork,
    "clone": clone,
    "get_fork_messages": get_fork_messages,
    "get_entries": get_entries,
    "get_tree": get_tree,
    "navigate_tree": navigate_tree,
    "set_label": set_label,
    "set_session_name": set_session_name,
    "rewind": rewind,
    "list_sessions": list_sessions,
}
