"""Edge. Commands about the conversation itself: prompts and what waits behind them, its end, the user's commands."""

from typing import Any, Final

from coding_agent import client
from coding_agent.errors import BadUsage, SessionBusy
from coding_agent.hosting.input import StreamingBehavior
from coding_agent.hosting.rendering import all_rendered
from coding_agent.messages import message_to_json
from coding_agent.rpc.fields import Fields
from coding_agent.rpc.here import Here
from lemon_ai import AssistantMessage, get_text

PROTOCOL_VERSION: Final = 1

BEHAVIORS: dict[str, StreamingBehavior] = {"steer": "steer", "followUp": "follow_up", "follow_up": "follow_up"}


async def hello(here: Here, given: Fields) -> Any:
    """Who speaks, and how the client wants to be told of events; not required."""
    here.events.deltas = given.optional_flag("rpcDeltas", here.events.deltas)
    session = here.desk.session if here.desk.has_session else None
    return {
        "version": PROTOCOL_VERSION,
        "sessionId": here.desk.session_id,
        "sessionFile": None if session is None else str(session.file),
        "cwd": str(here.desk.host.settings.cwd),
    }


async def prompt(here: Here, given: Fields) -> Any:
    """Accepted once this returns; what comes of it are events."""
    wanted = given.optional_text("streamingBehavior")
    if wanted is not None and wanted not in BEHAVIORS:
        raise BadUsage("prompt needs streamingBehavior: steer or followUp")
    text, images = given.text("message"), given.images()
    if here.desk.command_in(text) is not None:  # it may ask the client something, which waits for this answer
        here.go_on(here.desk.submit, text, images)
        return
    try:
        await here.desk.submit(text, images, None if wanted is None else BEHAVIORS[wanted])
    except SessionBusy as busy:
        raise BadUsage(f"{busy}. Say so with streamingBehavior: steer or followUp") from busy


async def steer(here: Here, given: Fields) -> Any:
    await here.desk.steer(given.text("message"), given.images())


async def follow_up(here: Here, given: Fields) -> Any:
    await here.desk.follow_up(given.text("message"), given.images())


async def next_turn(here: Here, given: Fields) -> Any:
    await here.desk.next_turn(given.text("message"))


async def abort(here: Here, _given: Fields) -> Any:
    """Answers when the session is idle; says what had waited in the queues, if anything had."""
    report = await here.desk.abort()
    cleared = {"clearedSteering": list(report.cleared_steering), "clearedFollowUp": list(report.cleared_follow_up)}
    return cleared if any(cleared.values()) else None


async def abort_retry(here: Here, _given: Fields) -> Any:
    client.abort_retry(await here.desk.pid())


async def bash(here: Here, given: Fields) -> Any:
    """Answers when the command has ended; its output comes as `bash_execution_update` meanwhile."""
    done = await here.desk.run_bash(
        given.text("command"),
        excluded=given.optional_flag("excludeFromContext"),
        run_id=given.given.get("id"),
    )
    answer = {
        "output": done.output,
        "exitCode": done.exit_code,
        "cancelled": done.cancelled,
        "truncated": done.truncated,
    }
    return answer if done.full_output_path is None else {**answer, "fullOutputPath": done.full_output_path}


async def abort_bash(here: Here, _given: Fields) -> Any:
    here.desk.bash.abort()


async def compact(here: Here, given: Fields) -> Any:
    """Answers when the conversation is shorter."""
    end = await here.desk.compact(given.optional_text("customInstructions"))
    details = await here.desk.look(
        lambda store: (
            store.log.entry_data(store.position(end.compaction_entry_id)).get("details")
            if end.compaction_entry_id
            else None
        )
    )
    return {
        "summary": end.summary,
        "firstKeptEntryId": end.first_kept_entry_id,
        "tokensBefore": end.tokens_before,
        "estimatedTokensAfter": end.tokens_after,
        "details": details,
    }


async def get_messages(here: Here, _given: Fields) -> Any:
    messages = await client.get_messages(await here.desk.pid())
    return {
        "messages": [
            message_to_json(message) for message in await all_rendered(messages, here.desk.host.hooks, here.desk)
        ]
    }


async def run_shortcut(here: Here, given: Fields) -> Any:
    """Do what a key stands for that an extension has registered; what comes of it is told by events."""
    key, hooks = given.text("key"), here.desk.host.hooks
    if hooks is None or key not in {shortcut.key for shortcut in hooks.shortcuts()}:
        raise BadUsage(f"no extension has registered the key {key}")
    here.go_on(hooks.run_shortcut, key, here.desk)


async def get_last_assistant_text(here: Here, _given: Fields) -> Any:
    for message in reversed(await client.get_messages(await here.desk.pid())):
        if isinstance(message, AssistantMessage) and (text := get_text(message)):
            return {"text": text}
    return {"text": None}


COMMANDS = {
    "hello": hello,
    "prompt": prompt,
    "steer": steer,
    "follow_up": follow_up,
    "next_turn": next_turn,
    "abort": abort,
    "abort_retry": abort_retry,
    "bash": bash,
    "abort_bash": abort_bash,
    "compact": compact,
    "get_messages": get_messages,
    "run_shortcut": run_shortcut,
    "get_last_assistant_text": get_last_assistant_text,
}
