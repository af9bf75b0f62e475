"""JSON-RPC both ways, without a client: what is written for what comes in."""

import asyncio
import json
from typing import Any

import pytest
from attrs import define, field

from coding_agent.acp.turns import Turn
from coding_agent.acp.wire import Answer, Refused, Wire
from coding_agent.errors import TurnFailed
from coding_agent.rpc.framing import TooLong
from lemon_otp import exit_signal, spawn
from lemon_otp.testing import settle


@define
class Peer:
    """A wire whose requests are carried out by what a test says."""

    written: list[dict] = field(factory=list)
    handled: list[tuple[str, Any]] = field(factory=list)
    wire: Wire | None = None

    async def handle(self, method: str, params: Any, _is_notification: bool) -> Any:
        self.handled.append((method, params))
        match method:
            case "wait":
                await asyncio.get_running_loop().create_future()
            case "after":
                return Answer({"n": 1}, lambda: self.wire.notify("then", {}))
            case "fail":
                raise RuntimeError("broken")
        return {"ok": True}

    async def take(self, message: object) -> None:
        await self.wire.take(json.dumps(message).encode())
        await settle()


@pytest.fixture
def peer(runtime) -> Peer:
    peer = Peer()
    peer.wire = Wire(peer.handle, peer.written.append)
    return peer


async def test_a_request_is_answered_and_what_follows_stands_behind_the_answer(peer):
    """An update about a session comes once the client knows its id."""
    await peer.take({"jsonrpc": "2.0", "id": 1, "method": "after"})

    assert [each.get("method") or each["result"] for each in peer.written] == [{"n": 1}, "then"]


async def test_a_handler_that_breaks_is_an_internal_error(peer):
    """And the connection lives."""
    await peer.take({"jsonrpc": "2.0", "id": "a", "method": "fail"})
    await peer.take({"jsonrpc": "2.0", "id": "b", "method": "fine"})

    assert peer.written[0]["error"]["code"] == -32603
    assert peer.written[1] == {"jsonrpc": "2.0", "id": "b", "result": {"ok": True}}


async def test_a_request_that_is_taken_back_ends_with_its_own_code(peer):
    """-32800, once."""
    await peer.take({"jsonrpc": "2.0", "id": 1, "method": "wait"})
    await peer.take({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
    await peer.take({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})

    assert [each["error"]["code"] for each in peer.written] == [-32800]


async def test_a_request_that_is_taken_back_before_it_began_is_answered_too(peer):
    """Both lines came in one piece: nothing is done, the id is free again, and whoever reads reads on."""
    await peer.wire.take(b'{"jsonrpc": "2.0", "id": 1, "method": "wait"}')
    await peer.take({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
    await peer.take({"jsonrpc": "2.0", "id": 1, "method": "fine"})
    await peer.wire.settled()

    assert [each.get("error", {}).get("code") for each in peer.written] == [-32800, None]
    assert peer.handled == [("fine", None)]


async def test_two_requests_of_one_id_are_not_mixed_up(peer):
    """The second is refused while the first runs."""
    await peer.take({"jsonrpc": "2.0", "id": 1, "method": "wait"})
    await peer.take({"jsonrpc": "2.0", "id": 1, "method": "wait"})

    assert peer.written[0]["error"]["code"] == -32600
    assert len(peer.handled) == 1


async def test_what_we_ask_is_taken_back_when_whoever_asked_ends(peer):
    """The client hears of it, and a late answer harms nobody."""
    asking = spawn(peer.wire.send_request, "session/request_permission", {"x": 1})
    await settle()
    exit_signal(asking, "kill")
    await settle()
    await peer.take({"jsonrpc": "2.0", "id": 1, "result": {}})

    assert [each["method"] for each in peer.written] == ["session/request_permission", "$/cancel_request"]
    assert peer.written[1]["params"] == {"requestId": 1}


async def test_an_error_of_the_client_is_raised_with_its_code(peer):
    """So that a tool can fall back."""
    failed: list[Refused] = []

    async def ask() -> None:
        try:
            await peer.wire.send_request("fs/read_text_file", {})
        except Refused as error:
            failed.append(error)

    spawn(ask)
    await settle()
    await peer.take({"jsonrpc": "2.0", "id": 1, "error": {"code": -32002, "message": "no"}})

    assert [(each.code, str(each)) for each in failed] == [(-32002, "no")]


async def test_a_line_that_is_too_long_or_no_message_is_answered(peer):
    """Typed errors without an id."""
    await peer.wire.take(TooLong(10))
    await peer.wire.take(b"nonsense")

    assert [each["error"]["code"] for each in peer.written] == [-32700, -32700]
    assert all(each["id"] is None for each in peer.written)


@pytest.mark.parametrize(
    ("outcome", "last_stop", "cancelled", "reason"),
    [
        ("completed", "stop", False, "end_turn"),
        ("stopped", "stop", False, "end_turn"),
        ("completed", "length", False, "max_tokens"),
        ("budget", "stop", False, "max_turn_requests"),
        ("aborted", "aborted", False, "cancelled"),
        ("error", "error", True, "cancelled"),
        ("completed", "stop", True, "cancelled"),
    ],
)
async def test_a_run_ends_with_a_reason_of_the_protocol(runtime, outcome, last_stop, cancelled, reason):
    """What was cancelled answers `cancelled` whatever became of it."""
    turn = Turn(started=True, cancelled=cancelled, last_stop=last_stop)

    turn.settle(outcome)

    assert turn.done.result() == reason


async def test_a_run_that_failed_is_an_error_and_an_end_before_its_beginning_is_somebody_elses(runtime):
    """The text is the model's."""
    turn = Turn(said="overloaded")
    turn.settle("completed")
    assert not turn.done.done()

    turn.started = True
    turn.settle("error")

    with pytest.raises(TurnFailed, match="overloaded"):
        turn.done.result()
