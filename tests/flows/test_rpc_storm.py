"""Commands in any order, many at a time."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.flows.hosts import Machine
from tests.flows.rpc_clients import RpcClient

TEXTS = (
    "a few words",
    "@text a\n@delay 30\n@text b",
    '@tool bash {"command": "sleep 0.1; echo x"}\n@turn\n@text done',
    "@error server it failed",
    "@crash as a bug would",
)


def some_command(client: RpcClient, machine: Machine, chance: random.Random) -> str:
    """Send one that may or may not make sense now; its id."""
    text, plain = chance.choice(TEXTS), client.post
    session = chance.choice([str(file) for file in machine.session_files()] or ["/none.jsonl"])
    choices: list[Callable[[], Any]] = [
        *[lambda: plain("prompt", message=text)] * 4,
        *[lambda: plain("prompt", message=text, streamingBehavior="steer")] * 3,
        *[lambda: plain("abort")] * 4,
        lambda: plain("follow_up", message="later"),
        lambda: plain("next_turn", message="next"),
        lambda: plain("bash", command="echo hi"),
        lambda: plain("abort_bash"),
        lambda: plain("get_state"),
        lambda: plain("get_tree"),
        lambda: plain("new_session"),
        lambda: plain("clone"),
        lambda: plain("fork", entryId="nowhere"),
        lambda: plain("compact"),
        lambda: plain("switch_session", sessionPath=session),
        lambda: plain("set_session_name", name="stormy"),
    ]
    found: str = chance.choice(choices)()
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_every_command_has_one_response_and_every_run_one_end(machine: Machine, seed: int):
    """Whatever is asked whenever: starts and ends take turns, the host lives, and it ends well."""
    client = RpcClient(machine, "--permission-mode", "full", "--rpc-deltas")
    try:
        chance = random.Random(seed)
        sent = [some_command(client, machine, chance) for _ in range(70)]
        sent.append(client.post("abort"))
        waited_for = set(sent)
        while waited_for:
            message = client.next()
            if message["type"] == "response":
                waited_for.remove(message["id"])
        client.close_input()
        client.rest()
        marks = [message["type"] for message in client.seen if message["type"] in ("agent_start", "agent_end")]
        assert marks == ["agent_start", "agent_end"] * (len(marks) // 2)
        assert client.finish() == (0, "")
    finally:
        client.kill()
