"""A client's process and its pipe, inside a runtime: what they end with, and what goes on without them."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from coding_agent.application import APPLICATION
from coding_agent.arguments import parse
from coding_agent.errors import HostUnreachable
from coding_agent.hosting.running import HostRun, listen, prepared
from coding_agent.rpc.framing import LineSplitter, decode, encode
from coding_agent.serving.client import SUPERVISOR, hand_over
from coding_agent.serving.operations import offer
from coding_agent.serving.socket_channel import CLOSED, SocketChannel
from coding_agent.serving.socket_pipe import PIECES_MAX, Came, PeerGone, PeerSilent, SocketPipe
from coding_agent.settings import settings_of
from lemon_otp import TaskSupervisor, ensure_all_started, exit_signal, receive, repl, self_pid, sleep_s, stop_all


@pytest.fixture
async def host(runtime, tmp_path: Path):
    """A host that keeps its sessions, in this very process, with its socket."""
    arguments = parse(["--model", "scripted/echo", "--cwd", str(tmp_path), "--no-extensions"])
    environ = {"HOME": str(tmp_path), "LEMON_RUNTIME_DIR": str(tmp_path / "run"), "LEMON_LOCAL_SERVERS": "off"}
    made = prepared(arguments, settings_of(arguments, environ))
    made.environ, made.keeps_sessions = environ, True
    await ensure_all_started(APPLICATION)
    await listen(made.settings)
    offer(made, self_pid())
    yield made
    await stop_all()


def socket_of(host: HostRun) -> Path:
    return host.settings.runtime_dir / f"host-{os.getpid()}.sock"


async def until(channel: SocketChannel, heard: asyncio.Queue, kind: str) -> dict:
    while True:
        message = await asyncio.wait_for(heard.get(), 20)
        if message["type"] == kind:
            return message


def hearing(channel: SocketChannel) -> asyncio.Queue:
    heard: asyncio.Queue = asyncio.Queue()
    channel.listen(heard.put_nowait)
    return heard


async def test_a_client_that_comes_in_the_middle_of_an_answer_has_all_of_it(host):
    """What was said so far comes first, marked; then the rest as it comes. Nothing is lost, nothing comes twice."""
    first = await SocketChannel.open(socket_of(host), {"rpcDeltas": True})
    heard = hearing(first)
    prompt = "@think Let me see.\n@text One two\n@delay 600000\n@text never said"
    await first.send({"type": "prompt", "message": prompt})
    said = ""
    while said != "One two":
        said += (await until(first, heard, "message_update"))["assistantMessageEvent"].get("delta", "")
        said = said.removeprefix("Let me see.")
    late = await SocketChannel.open(socket_of(host), {"session": first.session, "rpcDeltas": True})
    told = hearing(late)
    begun = await until(late, told, "message_start")
    assert begun["missed"] is True
    thought, text = begun["message"]["content"]
    assert (thought["thinking"], text["text"]) == ("Let me see.", "One two")
    await first.send({"type": "prompt", "message": "look", "streamingBehavior": "steer"})
    await first.send({"type": "prompt", "message": "then", "streamingBehavior": "followUp"})
    stopped = await late.send({"type": "abort"})
    assert stopped["data"] == {"clearedSteering": ["look"], "clearedFollowUp": ["then"]}
    assert "data" not in await late.send({"type": "abort"})
    ended = await until(late, told, "message_end")
    assert "missed" not in ended
    assert [part.get("text") for part in ended["message"]["content"]][1:] == ["One two"]
    first.close()
    late.close()


async def test_a_channel_carries_commands_down_and_events_up(host):
    """Answers find their command, with the id the caller gave it or none; events come in order, the early ones too."""
    channel = await SocketChannel.open(socket_of(host), {"rpcDeltas": True})
    answers = await asyncio.gather(
        channel.send({"type": "get_state", "id": "mine"}),
        channel.send({"type": "nonsense"}),
        channel.send({"type": "hello"}),
    )
    assert [(answer.get("id"), answer["success"]) for answer in answers] == [
        ("mine", True),
        (None, False),
        (None, True),
    ]
    assert answers[0]["data"]["sessionId"] == channel.session
    assert channel.cwd == host.settings.cwd
    heard = hearing(channel)
    assert (await heard.get())["type"] == "session_opened"
    assert (await channel.send({"type": "prompt", "message": "hello"}))["success"]
    end = await until(channel, heard, "agent_end")
    assert end["messages"][-1]["content"][0]["text"] == "hello"
    channel.close()
    assert (await until(channel, heard, CLOSED))["reason"]


async def test_a_clients_process_that_is_killed_ends_neither_session_nor_host(host):
    """Its connection closes, the other client and the session go on, and the tree has no trace of it."""
    one = await SocketChannel.open(socket_of(host), {})
    other = await SocketChannel.open(socket_of(host), {"session": one.session})
    heard, other_heard = hearing(one), hearing(other)
    first, _ = await TaskSupervisor.children(SUPERVISOR)
    exit_signal(first, "kill")
    await until(one, heard, CLOSED)
    assert (await one.send({"type": "get_state"}))["success"] is False
    assert (await other.send({"type": "prompt", "message": "on"}))["success"]
    await until(other, other_heard, "agent_settled")
    assert len(await TaskSupervisor.children(SUPERVISOR)) == 1
    (session,) = host.sessions.all()
    while session.clients != 1:
        await sleep_s(0.01)  # the desk of the killed one leaves on its own
    other.close()


async def test_a_session_that_is_killed_is_taken_up_again_from_its_file(host):
    """The client is told, and its next command finds the session as it was stored."""
    channel = await SocketChannel.open(socket_of(host), {})
    heard = hearing(channel)
    await channel.send({"type": "prompt", "message": "remember"})
    await until(channel, heard, "agent_settled")
    (session,) = host.sessions.all()
    exit_signal(session.pid, "kill")
    await until(channel, heard, "session_ended")
    answer = await channel.send({"type": "get_messages"})
    assert [message["role"] for message in answer["data"]["messages"]] == ["user", "assistant"]
    channel.close()


async def test_the_end_of_the_host_is_the_end_of_the_channel(host):
    """Whoever waits for an answer gets a failure, then the listener hears of the end; nothing hangs."""
    channel = await SocketChannel.open(socket_of(host), {})
    heard = hearing(channel)
    waiting = asyncio.gather(channel.send({"type": "bash", "command": "sleep 60"}), return_exceptions=True)
    await until(channel, heard, "session_opened")
    while not any(node.id.startswith("connection[bash]") for node in _nodes()):
        await sleep_s(0.01)
    exit_signal((await TaskSupervisor.children(SUPERVISOR))[0], "kill")
    (answer,) = await waiting
    assert answer["success"] is False
    await until(channel, heard, CLOSED)


def _nodes():
    from lemon_otp import introspect

    open_ = list(introspect.tree())
    while open_:
        node = open_.pop()
        yield node
        open_ += node.children


async def test_a_host_that_is_not_there_or_refuses_is_one_error(host, tmp_path):
    """The text is what the host said; nothing is left running."""
    with pytest.raises(HostUnreachable, match="no host answers"):
        await SocketChannel.open(tmp_path / "none.sock", {})
    with pytest.raises(HostUnreachable, match="no session of this host"):
        await SocketChannel.open(socket_of(host), {"session": "nowhere"})
    assert host.sessions.all() == []


async def test_more_clients_than_there_may_be_are_refused(host, monkeypatch):
    """With a line that says so; those that are there stay."""
    monkeypatch.setattr("coding_agent.serving.client.CLIENTS_MAX", 2)
    channels = [await SocketChannel.open(socket_of(host), {}) for _ in range(2)]
    with pytest.raises(HostUnreachable, match="2 clients are here already"):
        await SocketChannel.open(socket_of(host), {})
    for channel in channels:
        channel.close()


async def test_a_client_that_is_handed_over_with_its_first_commands_is_answered(host):
    """What came behind the first line is not lost."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        await hand_over(host, repl.Taken(theirs, {"op": "rpc"}, encode({"type": "get_state", "id": 1})))
        theirs.close()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        greeting = decode(await reader.readline())
        opened, answer = decode(await reader.readline()), decode(await reader.readline())
        writer.close()
    assert greeting["ok"]
    assert {opened["type"], answer["type"]} == {"session_opened", "response"}


async def test_a_fault_of_ours_before_the_first_answer_is_told_to_the_client(host, monkeypatch):
    """So that it does not take it for the end of the host; the others are not affected."""

    async def breaks(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr("coding_agent.serving.client.asked_for", breaks)
    with pytest.raises(HostUnreachable, match="RuntimeError: a bug"):
        await SocketChannel.open(socket_of(host), {})


# The pipe.


async def test_a_peer_that_does_not_read_is_given_up(runtime):
    """What waits for it is bounded; afterwards writing goes nowhere."""
    ours, theirs = socket.socketpair()
    with theirs:
        pipe = await SocketPipe.over(ours, self_pid(), unread_max=1 << 20)
        for _ in range(200):
            pipe.write(b"x" * 65536)
        assert "1048576 bytes were left unread" in (await receive(timeout_s=5)).reason
        assert pipe.hung_up
        pipe.write(b"more")


async def test_input_is_read_ahead_only_so_far(runtime):
    """A process that does not take what came stops its peer, not its memory."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with theirs:
        pipe = await SocketPipe.over(ours, self_pid())
        sent = 0
        for _ in range(4000):
            try:
                sent += theirs.send(b"y" * 65536)
            except BlockingIOError:
                await asyncio.sleep(0)
        assert sent < 32 << 20
        got = 0
        for _ in range(PIECES_MAX):
            got += len((await receive(timeout_s=5)).data)
            pipe.taken()
        theirs.shutdown(socket.SHUT_WR)
        while not isinstance(came := await receive(timeout_s=5), PeerSilent):
            got += len(came.data)
            pipe.taken()
        assert got == sent
        assert not pipe.hung_up
        pipe.close()
        assert isinstance(await receive(timeout_s=5), PeerGone)


async def test_a_peer_that_is_gone_is_told_from_one_that_is_silent(runtime):
    """One that closed only its sending side may still read."""
    ours, theirs = socket.socketpair()
    pipe = await SocketPipe.over(ours, self_pid())
    theirs.sendall(b"a\nb")
    assert (await receive(timeout_s=5)) == Came(b"a\nb")
    assert [bytes(line) for line in LineSplitter().feed(b"a\nb")] == [b"a"]
    theirs.close()
    assert isinstance(await receive(timeout_s=5), PeerSilent)
    assert pipe.hung_up
    pipe.abort()
