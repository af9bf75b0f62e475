"""One client's view of one conversation at a time."""

import pytest
from attrs import evolve

from coding_agent import client, session_registry
from coding_agent.errors import BadUsage, SessionBusy, SessionNotFound
from coding_agent.hosting.desk import Desk
from coding_agent.hosting.desk_events import Ended, Opened
from coding_agent.hosting.dialogs import Asked, Closed, Shown
from coding_agent.hosting.host_parts import Wanted
from coding_agent.hosting.input import CommandInfo, Continue, Handled
from coding_agent.session.budget import Budget
from coding_agent.session_supervisor import list_sessions
from lemon_agent import AgentStart, ToolExecutionStart
from lemon_ai import get_text
from lemon_otp import Down, Task, exit_signal, monitor, receive, self_pid, send, spawn
from tests.coding_agent.hosting.conftest import at

BLOCKED = '@tool bash {"command": "while [ ! -e go ]; do sleep 0.02; done"}\n@turn\n@text done'


async def open_desk(house, wanted: Wanted | None = None) -> Desk:
    desk = await Desk.start(house)
    await desk.open(wanted)
    return desk


async def words(desk: Desk) -> list[str]:
    return [get_text(message) for message in await client.get_messages(await desk.pid())]


async def test_two_desks_look_at_one_session_and_the_last_one_that_leaves_ends_it(house):
    """Both hear everything that happens, whoever asked for it; the session lives as long as somebody looks at it."""
    one = await open_desk(house)
    heard_one = await at(one)
    other = await Desk.start(house)
    heard_other = await at(other)
    await other.look_at(one.session)
    await one.submit("hello")
    await heard_other.settled()
    await heard_one.settled()
    assert "agent_end" in heard_one.kinds()
    assert "agent_end" in heard_other.kinds()
    session = one.session.pid
    await one.close()
    assert session.alive
    await other.close()
    assert not session.alive


async def test_a_desk_is_closed_with_the_process_that_made_it(house):
    """A client that is killed leaves its session, which ends when nobody else looks at it."""
    me = self_pid()

    async def owner() -> None:
        send(me, await open_desk(house))
        await receive()

    pid = spawn(owner)
    session = (await receive(lambda message: isinstance(message, Desk), timeout_s=20.0)).session.pid
    watch = monitor(session)
    exit_signal(pid, "kill")
    await receive(lambda message: isinstance(message, Down) and message.ref is watch, timeout_s=20.0)


async def test_a_host_that_keeps_its_sessions_loses_none_when_a_client_leaves(house):
    """What `serve` stands on."""
    house.keeps_sessions = True
    desk = await open_desk(house)
    session = desk.session
    await desk.close()
    assert session.pid.alive
    again = await Desk.start(house)
    assert (await again.look_at(session)).session_id == session.session_id


async def test_opening_a_file_that_is_open_here_joins_its_session(house):
    """Two clients of one host share a session instead of fighting for its file."""
    one = await open_desk(house)
    heard = await at(one)
    await one.submit("first")
    await heard.settled()
    other = await open_desk(house, Wanted(file=one.session.file))
    assert other.session is one.session
    assert len(await list_sessions()) == 1


async def test_events_of_a_session_that_was_left_never_come(house):
    """After `new`, nothing of the run that was going on reaches the client; its session was stored and ended."""
    desk = await open_desk(house)
    heard = await at(desk)
    await desk.submit("@text something\n@delay 60000\n@text never")
    await heard.until(AgentStart)
    old = desk.session_id
    await desk.new()
    assert session_registry.lookup(old) is None
    await desk.submit("fresh")
    await heard.settled()
    opened = max(place for place, event in enumerate(heard.events) if isinstance(event, Opened))
    later = [event for event in heard.events[opened:] if hasattr(event, "session_id")]
    assert {event.session_id for event in later} == {desk.session_id}
    assert await words(desk) == ["fresh", "fresh"]


async def test_a_prompt_during_a_run_needs_to_say_what_becomes_of_it(house):
    """Refused without a behaviour; steered or queued with one."""
    desk = await open_desk(house, Wanted(mode="full"))
    heard = await at(desk)
    await desk.submit(BLOCKED)
    await heard.until(ToolExecutionStart)
    with pytest.raises(SessionBusy):
        await desk.submit("too early")
    assert await desk.submit("left", behavior="steer") == "steer"
    assert await desk.submit("then", behavior="follow_up") == "follow_up"
    (house.settings.cwd / "go").touch()
    await heard.settled()
    said = [message for message in await client.get_messages(await desk.pid()) if message.role == "user"]
    assert [get_text(message) for message in said[1:]] == ["left", "then"]


async def test_a_fork_goes_on_in_front_of_words_of_the_user(house):
    """The words come back; the old session is on disk as it was."""
    desk = await open_desk(house)
    heard = await at(desk)
    for text in ("one", "two"):
        await desk.submit(text)
        await heard.settled()
    first = desk.session.file
    second = await desk.look(
        lambda store: [at for at, kind in enumerate(store.tree.kinds) if kind == "message/user"][1]
    )
    entry = await desk.look(lambda store: store.tree.ids[second])
    assert await desk.fork(entry) == "two"
    assert await words(desk) == ["one", "one"]
    assert desk.session.file != first
    await desk.switch(first)
    assert await words(desk) == ["one", "one", "two", "two"]
    assert await desk.clone()
    assert await words(desk) == ["one", "one", "two", "two"]
    assert desk.session.file != first


async def test_what_cannot_be_opened_leaves_the_desk_where_it_was(house):
    """The old session is left only once the new one is open."""
    desk = await open_desk(house)
    session = desk.session
    with pytest.raises((SessionNotFound, BadUsage)):
        await desk.switch(house.settings.session_dir / "none.jsonl")
    assert desk.session is session
    assert session.pid.alive


async def test_a_session_that_crashes_is_told_and_goes_on_from_its_file(house):
    """The next command starts it again; what was said is there."""
    desk = await open_desk(house)
    heard = await at(desk)
    await desk.submit("kept")
    await heard.settled()
    exit_signal(desk.session.pid, "kill")
    ended = await heard.until(Ended)
    assert ended.reason == "killed"
    await desk.submit("and on")
    await heard.settled()
    assert await words(desk) == ["kept", "kept", "and on", "and on"]


async def test_an_open_question_is_put_again_to_a_client_that_comes(house):
    """Whoever answers first answers it; both hear that it is closed."""
    desk = await open_desk(house)
    heard = await at(desk)
    await desk.submit('@tool bash {"command": "touch made"}\n@turn\n@text done')
    asked = await heard.until(Asked)
    late = await Desk.start(house)
    heard_late = await at(late)
    await late.look_at(desk.session)
    again = await heard_late.until(Asked)
    assert again.question == asked.question
    assert late.dialogs.answer(asked.question.id, {"value": "Allow once"})
    assert not desk.dialogs.answer(asked.question.id, {"value": "Deny"})
    await heard.settled()
    assert (house.settings.cwd / "made").exists()
    assert any(isinstance(event, Closed) and event.answered for event in heard.events)


class Hooks:
    """An extension's part in prompts."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []

    def commands(self):
        return [CommandInfo("deploy", "extension", "Ships it")]

    async def run_command(self, name, args, desk):
        if name != "deploy":
            return False
        self.ran.append((name, args))
        return True

    def renders(self, message):
        return False

    async def on_input(self, text, images, desk):
        return Handled() if text == "secret" else Continue(text.replace("teh", "the"), images)

    async def may_leave(self, reason, target, desk):
        return reason != "fork"

    def has_gone(self, reason, desk):
        self.ran.append(("gone", reason))

    async def on_bash(self, command, desk):
        return {"output": "from an extension", "exitCode": 0} if command == "whoami" else None


async def test_extensions_stand_in_front_of_prompts(house):
    """A command runs without a prompt, a text may be taken over or changed, a fork refused, a command answered."""
    house.hooks = Hooks()
    desk = await open_desk(house)
    heard = await at(desk)
    assert await desk.submit("/deploy now") == "command"
    assert house.hooks.ran == [("deploy", "now")]
    assert await desk.submit("secret") == "handled"
    with pytest.raises(BadUsage, match="command of an extension"):
        await desk.steer("/deploy later")
    assert await desk.submit("teh words") == "prompt"
    await heard.settled()
    assert await words(desk) == ["the words", "the words"]
    assert await desk.fork("whatever") is None
    assert (await desk.run_bash("whoami")).output == "from an extension"
    assert [command.name for command in desk.commands()] == ["deploy"]


async def test_a_new_session_is_held_as_the_one_before(house):
    """Model, level, mode, budget, queue modes, and what goes by itself."""
    desk = await open_desk(house)
    pid = await desk.pid()
    await client.switch_model(pid, house.known.catalog.find("scripted/demo"))
    await client.set_queue_mode(pid, "steering", "all")
    await client.set_auto_compaction(pid, False)
    await client.set_auto_retry(pid, False)
    desk.session.gate.policy = evolve(desk.session.gate.policy, mode="plan")
    desk.session.account.budget = Budget(max_tokens=7)
    assert await desk.new()
    state = await desk.state()
    assert state.model == "scripted/demo"
    assert (state.steering_mode, state.follow_up_mode) == ("all", "one_at_a_time")
    assert (state.auto_compaction, state.auto_retry) == (False, False)
    assert desk.session.gate.policy.mode == "plan"
    assert desk.session.account.budget.max_tokens == 7


async def test_a_stored_session_goes_on_with_its_own_model(house):
    """`--model` is for the session the command line names, not for those that are opened later."""
    desk = await open_desk(house)
    heard = await at(desk)
    await client.switch_model(await desk.pid(), house.known.catalog.find("scripted/demo"))
    await desk.submit("hello")
    await heard.settled()
    file = desk.session.file
    await desk.new()
    await client.switch_model(await desk.pid(), house.known.catalog.find("scripted/echo"))
    await desk.switch(file)
    assert house.choice.asked_for
    assert (await desk.state()).model == "scripted/demo"


async def test_notices_are_told_once_and_to_whoever_has_not_heard_them(house):
    """What is found when a later session is opened is told then."""
    house.notices[:] = ["first"]
    desk = await open_desk(house)
    heard = await at(desk)
    desk.tell_notices()
    house.notices.append("second")
    await desk.new()
    await heard.until(Opened)
    desk.tell_notices()
    await desk.submit("x")
    await heard.settled()
    shown = [event.fields["message"] for event in heard.events if isinstance(event, Shown)]
    assert shown == ["first", "second"]


async def test_a_file_that_is_opened_while_its_session_ends_is_started_again(house):
    """One client leaves, another comes: it does not get a session that is about to be gone."""
    desk = await open_desk(house)
    heard = await at(desk)
    await desk.submit("kept")
    await heard.settled()
    session, file = desk.session, desk.session.file
    closing = Task.async_(desk.close)
    other = await open_desk(house, Wanted(file=file))
    await closing.await_()
    assert other.session is session or not session.pid.alive
    assert await words(other) == ["kept", "kept"]
