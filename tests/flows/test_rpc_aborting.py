"""What a client sees of a run that is cancelled, and of the prompt that comes right behind."""

from collections.abc import Iterator

import pytest

from tests.flows.hosts import Machine
from tests.flows.rpc_clients import Message, RpcClient, text_of

STUBBORN = '@tool bash {"command": "trap \'\' TERM; echo begun; while :; do sleep 0.05; echo on; done"}'


@pytest.fixture
def client(machine: Machine) -> Iterator[RpcClient]:
    client = RpcClient(machine, "--permission-mode", "full")
    yield client
    client.kill()


@pytest.fixture
def asking(machine: Machine) -> Iterator[RpcClient]:
    """A client of a host that asks before it runs commands."""
    client = RpcClient(machine, "--permission-mode", "ask")
    yield client
    client.kill()


def ends(messages: list[Message]) -> list[str]:
    return [message["outcome"] for message in messages if message["type"] == "agent_end"]


@pytest.mark.requirement("BR-157")
@pytest.mark.requirement("BR-160")
def test_a_prompt_right_behind_an_abort_waits_for_the_old_run_and_hears_nothing_of_it(client: RpcClient):
    """
    A tool that does not want to end is still being ended when the next prompt comes. The prompt is accepted once that
    is done; every event of the old run stands before the first one of the new, each run has one end, its own.
    """
    client.ask("prompt", message=STUBBORN)
    client.event("tool_execution_update")
    abort, prompt = client.post("abort"), client.post("prompt", message="hello again")
    answers = [client.until(lambda message: message["type"] == "response")["id"] for _ in range(2)]
    assert answers == [abort, prompt]
    before = len(client.seen)
    end = client.event("agent_end")
    client.event("agent_settled")
    assert text_of(end["messages"][-1]) == "hello again"
    assert ends(client.seen) == ["aborted", "completed"]
    assert not [message for message in client.seen[before:] if message["type"].startswith("tool_execution")]


@pytest.mark.requirement("BR-158")
def test_after_a_cancelled_model_call_the_next_prompt_runs(client: RpcClient):
    """Nothing is left that says a run is going on."""
    client.ask("prompt", message="@text a beginning\n@delay 60000\n@text never")
    client.until(lambda message: message["type"] == "message_update")
    client.ask("abort")
    state = client.ask("get_state")
    assert (state["isStreaming"], state["phase"], state["pendingMessageCount"]) == (False, "idle", 0)
    assert text_of(client.run("and now")["messages"][-1]) == "and now"
    partial = next(
        message["message"]
        for message in client.seen
        if message["type"] == "message_end" and message["message"].get("stopReason") == "aborted"
    )
    assert "a beginning" in text_of(partial)


@pytest.mark.requirement("BR-159")
def test_an_open_question_ends_as_cancelled_with_the_run(asking: RpcClient):
    """A permission question is open, the run is aborted: the question is closed, the call is told as cancelled."""
    asking.ask("prompt", message='@tool bash {"command": "touch made"}\n@turn\n@text done')
    question = asking.event("extension_ui_request")
    asking.ask("abort")
    assert ends(asking.seen) == ["aborted"]
    closed = next(message for message in asking.seen if message["type"] == "extension_ui_closed")
    assert (closed["id"], closed["answered"]) == (question["id"], False)
    decided = next(message for message in asking.seen if message["type"] == "permission_decided")
    assert (decided["requestId"], decided["decision"]) == (question["id"], "cancelled")
    asking.answer(question, value="Allow once")
    assert asking.ask("get_state")["isStreaming"] is False


@pytest.mark.parametrize(("choice", "made"), [("Allow once", True), ("Deny", False), ("Always allow", True)])
def test_a_permission_question_is_answered_through_the_protocol(
    asking: RpcClient, machine: Machine, choice: str, made: bool
):
    """
    The question shows the whole call and what "always" would store; the answer is the text of an option. What was
    always allowed is not asked about again.
    """
    call = '@tool bash {"command": "touch made"}\n@turn\n@text done'
    asking.ask("prompt", message=call)
    question = asking.event("extension_ui_request")
    assert (question["method"], question["kind"], question["toolName"]) == ("select", "permission", "bash")
    assert "touch made" in question["shown"]
    value = next(option for option in question["options"] if option.startswith(choice))
    asking.answer(question, value=value)
    asking.event("agent_settled")
    assert (machine.project / "made").exists() is made
    if choice == "Always allow":
        assert asking.run(call)["outcome"] == "completed"
        assert asking.ask("get_permissions")["remembered"] == question["rules"]


def test_a_question_of_a_session_that_is_left_is_closed(asking: RpcClient, machine: Machine):
    """Before the other session is told of; a late answer does nothing, and the call is told as refused."""
    asking.run("first")
    file = asking.ask("get_state")["sessionFile"]
    asking.ask("prompt", message='@tool bash {"command": "touch late"}\n@turn\n@text done')
    question = asking.until(lambda message: message.get("kind") == "permission")
    asking.ask("new_session")
    marks = [message["type"] for message in asking.seen if message["type"] in ("extension_ui_closed", "session_opened")]
    assert marks[-2:] == ["extension_ui_closed", "session_opened"]
    asking.answer(question, value="Allow once")
    asking.ask("switch_session", sessionPath=file)
    assert asking.ask("get_messages")["messages"][-1]["isError"] is True
    assert not (machine.project / "late").exists()


def test_an_answer_that_is_no_option_is_a_no(asking: RpcClient, machine: Machine):
    """Whatever is no clear yes refuses the call; the run goes on."""
    asking.ask("prompt", message='@tool bash {"command": "touch made"}\n@turn\n@text done')
    question = asking.event("extension_ui_request")
    asking.answer(question, value="sure")
    assert asking.event("agent_end")["outcome"] == "completed"
    assert not (machine.project / "made").exists()


def test_the_users_own_command_can_be_cancelled(client: RpcClient):
    """`abort_bash` ends it; the response says so, with what it had printed."""
    command_id = client.post("bash", command="echo begun; sleep 60")
    client.event("bash_execution_update")
    client.ask("abort_bash")
    found = [message for message in client.seen if message.get("id") == command_id and message["type"] == "response"]
    data = (found[0] if found else client.response(command_id))["data"]
    assert (data["cancelled"], data["output"].strip()) == (True, "begun")


def test_the_users_command_during_a_run_stands_behind_it(client: RpcClient, machine: Machine):
    """What the user runs meanwhile is in no turn: it is kept behind the run, and the next prompt has it in front."""
    wait = "while [ ! -e go ]; do sleep 0.02; done"
    client.ask("prompt", message=f'@tool bash {{"command": "{wait}"}}\n@turn\n@text done')
    client.event("tool_execution_start")
    client.ask("bash", command="echo meanwhile")
    (machine.project / "go").touch()
    client.event("agent_settled")
    client.run("next")
    roles = [message["role"] for message in machine.messages()]
    assert roles == ["user", "assistant", "toolResult", "assistant", "bashExecution", "user", "assistant"]


def test_tries_after_passing_failures_are_told_and_can_be_cut_short(client: RpcClient):
    """`auto_retry_start` before each wait; `abort_retry` ends it and the failure is told."""
    client.ask("prompt", message="@error rate_limit retry_after=50 slow down\n@text never")
    begun = client.event("auto_retry_start")
    assert begun["attempt"] == 1
    assert begun["delayMs"] > 10_000
    assert begun["errorMessage"]
    client.ask("abort_retry")
    client.event("agent_settled")
    over = next(message for message in client.seen if message["type"] == "auto_retry_end")
    assert (over["success"], over["attempt"]) == (False, 1)
    client.ask("set_auto_retry", enabled=False)
    client.run("@error rate_limit retry_after=1 slow down")
    assert len([message for message in client.seen if message["type"] == "auto_retry_start"]) == 1


def test_a_compaction_is_cancelled_by_an_abort(machine: Machine):
    """Its answer says so, as does its end; the conversation is as long as it was, and the next prompt runs."""
    script = machine.home / "script.json"
    script.write_text('{"turns": [["first"], ["second"], ["third"]]}')
    machine.extra_env["LEMON_SCRIPT"] = str(script)
    client = RpcClient(machine, "--permission-mode", "full", model="scripted/script")
    try:
        client.run("one")
        client.run("two")
        script.write_text('{"turns": [[{"delay_ms": 60000}, "a summary"], ["second"], ["third"]]}')
        compact = client.post("compact")
        client.event("compaction_start")
        assert client.ask("get_state")["isCompacting"] is True
        client.ask("abort")
        answer = next((each for each in client.seen if each.get("id") == compact), None) or client.response(compact)
        assert (answer["success"], answer["error"]) == (False, "Compaction cancelled")
        end = next(each for each in client.seen if each["type"] == "compaction_end")
        assert (end["aborted"], end["result"]) == (True, None)
        assert text_of(client.run("three")["messages"][-1]) == "third"
        assert client.ask("get_session_stats")["userMessages"] == 3
    finally:
        client.kill()
