"""Edge. Commands after a slash that are about sessions: where in one to be, another one, what to keep of it."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from coding_agent.errors import CommandFailed
from coding_agent.storage.finding import LATEST, meant
from coding_agent.terminal.blocks import Notice, Report
from coding_agent.terminal.channel import Message
from coding_agent.terminal.questions import Option, Question
from coding_agent.terminal.screen_text import one_line
from coding_agent.terminal.view import View
from coding_agent.terminal.view_messages import text_of

if TYPE_CHECKING:
    from coding_agent.terminal.conversation import Conversation

SHOWN_CHARACTERS: Final = 300
REWINDS: Final = (
    Option("Files and conversation", "both"),
    Option("Files only", "code"),
    Option("Conversation only", "chat"),
)


async def choose_place(talk: "Conversation", _words: str) -> None:
    """Another place of the conversation, with or without a summary of what is left behind."""
    found = await talk.told("get_entries")
    options = tuple(place_options(found.get("entries") or (), found.get("leafId")))
    if not options:
        talk.front.show([Notice("there is nowhere to go yet")])
        return
    at = next((n for n, option in enumerate(options) if option.note == "here"), len(options) - 1)
    entry = await talk.choose(Question("pick", "Where to go on?", options, at=at))
    if entry is None or entry == found.get("leafId"):
        return
    choices = (Option("No", ""), Option("Yes", "yes"), Option("Yes, and say what matters", "words"))
    summary = await talk.choose(Question("pick", "Summarize the branch that is left?", choices))
    if summary is None:
        return
    instructions = await talk.choose(Question("line", "What matters?")) if summary == "words" else None
    moved = await talk.told(
        "navigate_tree", entryId=entry, summarize=bool(summary) or None, instructions=instructions or None
    )
    if moved.get("cancelled"):
        talk.front.show([Notice(f"stayed here: {moved.get('errorMessage') or 'it was stopped'}", "warning")])
        return
    if moved.get("editorText"):
        talk.front.put_text(str(moved["editorText"]))


def place_options(entries: Iterable[Message], leaf_id: Any) -> Iterable[Option]:
    """The entries that can be gone to, in the order of the tree, branches indented."""
    children: dict[Any, list[Message]] = {}
    labels: dict[Any, str] = {}
    for entry in entries:
        children.setdefault(entry.get("parentId"), []).append(entry)
        if entry.get("type") == "label":
            labels[entry.get("targetId")] = one_line(str(entry.get("label") or ""))
    stack = [(entry, 0) for entry in reversed(children.get(None, []))]
    while stack:
        entry, depth = stack.pop()
        if text := entry_text(entry):
            label = f"[{labels[entry['id']]}] " if labels.get(entry.get("id")) else ""
            here = "here" if entry.get("id") == leaf_id else ""
            yield Option(f"{label}{text}", entry.get("id"), note=here, depth=depth)
        following = children.get(entry.get("id"), [])
        deeper = depth + 1 if len(following) > 1 else depth
        stack.extend((child, deeper) for child in reversed(following))


def entry_text(entry: Message) -> str:
    """An entry in a line; empty for those that nobody goes to."""
    message = entry.get("message") or {}
    role = message.get("role")
    if entry.get("type") == "message" and role in ("user", "assistant"):
        text = one_line(text_of(message.get("content"))[:SHOWN_CHARACTERS])
        calls = [
            str(block.get("name"))
            for block in message.get("content") or ()
            if isinstance(block, dict) and block.get("type") == "toolCall"
        ]
        return f"{'you:' if role == 'user' else '    '} {text or '(' + (', '.join(calls) or 'nothing') + ')'}"
    if entry.get("type") in ("compaction", "branch_summary"):
        return f"≡ {one_line(str(entry.get('summary') or '')[:SHOWN_CHARACTERS])}"
    return ""


async def _earlier_prompt(talk: "Conversation", title: str) -> str | None:
    messages: list[Message] = list((await talk.told("get_fork_messages")).get("messages") or ())
    options = tuple(
        Option(one_line(str(each.get("text"))[:SHOWN_CHARACTERS]), each.get("entryId")) for each in messages
    )
    if not options:
        talk.front.show([Notice("there is no earlier prompt")])
        return None
    entry: str | None = await talk.choose(Question("pick", title, options, at=len(options) - 1))
    return entry


async def fork(talk: "Conversation", _words: str) -> None:
    """A new session that goes on from before an earlier prompt, which can be said again."""
    entry = await _earlier_prompt(talk, "Before which prompt?")
    if entry is None:
        return
    done = await talk.told("fork", entryId=entry)
    if not done.get("cancelled") and done.get("text"):
        talk.front.put_text(str(done["text"]))


async def clone(talk: "Conversation", _words: str) -> None:
    """A new session that goes on from here."""
    await talk.told("clone")


async def begin_new(talk: "Conversation", _words: str) -> None:
    """An empty session."""
    await talk.told("new_session")


async def resume(talk: "Conversation", words: str) -> None:
    """Another session: the one whose id or name is said, `latest`, or one of this folder's or with `all` of any."""
    word = words.strip()
    cwd = talk.view.cwd if word in ("", LATEST) else None
    sessions: list[Message] = list((await talk.told("list_sessions", cwd=cwd)).get("sessions") or ())
    if word not in ("", "all"):
        here = (await talk.told("get_state")).get("sessionId")
        others = [one for one in sessions if one.get("id") != here]
        found = others[:1] if word == LATEST else meant(word, sessions, _id, lambda one: one.get("name"))
        if len(found) == 1:
            await talk.told("switch_session", sessionPath=found[0].get("path"))
            return
        if not found:
            talk.front.show([Notice(f"there is no session {word}; /resume lists those of this folder")])
            return
        sessions = found
    options = tuple(Option(session_label(each), each, note=session_note(each, talk.view)) for each in sessions)
    if not options:
        talk.front.show([Notice("there is no other session")])
        return
    session = await talk.choose(Question("pick", "Which session?", options))
    if session is not None:
        await talk.told("switch_session", sessionPath=session.get("path"))


def _id(session: Message) -> str:
    return str(session.get("id"))


def session_label(session: Message) -> str:
    """What a session is known by."""
    return one_line(str(session.get("name") or session.get("firstMessage") or session.get("id"))[:SHOWN_CHARACTERS])


def session_note(session: Message, view: View) -> str:
    """What helps to tell sessions apart: from each other, and from the one that is looked at."""
    live = "here" if session.get("id") == view.session_id else "live" if session.get("live") else ""
    cwd = str(session.get("cwd") or "")
    folder = f"in {Path(cwd).name or cwd}" if cwd and cwd != view.cwd else ""
    updated = session.get("updated")
    when = local_minute(updated) if isinstance(updated, int) else ""
    count = session.get("messageCount")
    return " · ".join(filter(None, (when, f"{count} messages" if count else "", folder, live)))


def local_minute(milliseconds: int) -> str:
    """The day and minute of a time in Unix milliseconds, by this machine's clock."""
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%d %H:%M")


async def name(talk: "Conversation", words: str) -> None:
    """A name for this session."""
    words = words or await talk.choose(Question("line", "What is this session called?", text=talk.view.name)) or ""
    if words:
        await talk.told("set_session_name", name=words)
        talk.view.name = words


async def label(talk: "Conversation", words: str) -> None:
    """A label for the entry the conversation is at; without words it is taken away."""
    leaf = (await talk.told("get_entries")).get("leafId")
    if not leaf:
        talk.front.show([Notice("there is nothing to label yet")])
        return
    response = await talk.channel.send({"type": "set_label", "entryId": leaf, "label": words or None})
    if not response.get("success"):
        raise CommandFailed("set_label", str(response.get("error")))
    talk.front.show([Notice(f"labelled: {words}" if words else "the label was taken away")])


async def compact(talk: "Conversation", words: str) -> None:
    """A shorter conversation; what happens is told by events."""
    await talk.told("compact", customInstructions=words or None)


async def rewind(talk: "Conversation", _words: str) -> None:
    """Files, conversation or both as before an earlier prompt, after a look at what would change."""
    entry = await _earlier_prompt(talk, "Back to before which prompt?")
    what = None if entry is None else await talk.choose(Question("pick", "What is taken back?", REWINDS))
    if what is None:
        return
    would = await talk.told("rewind", entryId=entry, what=what, preview=True)
    rows = [("change", str(each)) for each in would.get("changes") or ()]
    rows += [("left alone", str(each)) for each in would.get("conflicts") or ()]
    talk.front.show([Report("Going back would", tuple(rows) or (("change", "no file"),))])
    options = (Option("Do it", True, key="y"), Option("Leave it", False, key="n"))
    if not await talk.choose(Question("confirm", "Go back?", options, at=1)):
        return
    done = await talk.told("rewind", entryId=entry, what=what)
    talk.front.show([Notice(f"taken back: {len(done.get('changes') or ())} changes")])
    if done.get("editorText"):
        talk.front.put_text(str(done["editorText"]))


async def about(talk: "Conversation", _words: str) -> None:
    """What there is to know about this session."""
    state = await talk.told("get_state")
    stats = await talk.told("get_session_stats")
    rows = (
        ("name", str(state.get("sessionName") or "-")),
        ("id", str(state.get("sessionId"))),
        ("file", str(state.get("sessionFile") or "not stored")),
        ("model", talk.view.model),
        ("thinking", str(state.get("thinkingLevel"))),
        ("messages", str(stats.get("totalMessages", state.get("messageCount", 0)))),
        ("cost", f"${float(stats.get('cost') or 0):.4f}"),
    )
    talk.front.show([Report("This session", rows)])


async def export(talk: "Conversation", words: str) -> None:
    """The session as a web page, or as Markdown when the file is named so."""
    command = "export_markdown" if words.endswith((".md", ".markdown")) else "export_html"
    done = await talk.told(command, outputPath=words or None)
    talk.front.show([Notice(f"written to {done.get('path')}")])
