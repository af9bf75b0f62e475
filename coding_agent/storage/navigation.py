"""Pure. Going elsewhere in the tree: where the leaf goes, what is left behind, which words go back to the editor."""

from __future__ import annotations

from attrs import frozen

from coding_agent.messages import CustomMessage
from coding_agent.storage.context import Source, project
from coding_agent.storage.tree import ROOT
from lemon_ai import UserMessage, get_text


@frozen
class Navigation:
    """A move of the leaf.

    Attributes:
        new_leaf: Where the next entry attaches; None is before the first.
        editor_text: Words of the user to edit and send again; None when the target holds none.
        abandoned: Ids of the entries that are left behind, oldest first: what a branch summary is made of.
    """

    new_leaf: str | None
    editor_text: str | None
    abandoned: tuple[str, ...]


def plan_navigation(source: Source, target_id: str) -> Navigation | None:
    """The move to an entry; None when the leaf is there already.

    Words of the user are taken back, not repeated: the leaf goes in front of them and they go to the editor.

    Raises:
        KeyError: There is no such entry.
    """
    tree = source.tree
    target = tree.position(target_id)
    if target == tree.leaf:
        return None
    text = text_for_editor(source, target)
    leaf = target if text is None else tree.parents[target]
    shared = tree.common_ancestor(tree.leaf, target)
    left = tree.path()
    start = left.index(shared) + 1 if shared != ROOT else 0
    return Navigation(
        new_leaf=tree.ids[leaf] if leaf >= 0 else None,
        editor_text=text,
        abandoned=tuple(tree.ids[at] for at in left[start:]),
    )


def text_for_editor(source: Source, position: int) -> str | None:
    """The words of an entry if they are the user's or an extension's; None otherwise."""
    if source.tree.kinds[position] not in ("message/user", "custom_message", "message/custom"):
        return None
    for _, message in project(source, [position]):
        if isinstance(message, UserMessage):
            return get_text(message)
        if isinstance(message, CustomMessage):
            return get_text(UserMessage(message.content, message.timestamp))
    return None
