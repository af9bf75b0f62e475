"""A host whose model cannot answer has another one answer: from the command line, and for a client."""

from tests.flows.rpc_clients import RpcClient, text_of

KEYLESS = "openai/gpt-5.1"
"""No variable of a test names a key, so nobody is asked for this one."""


def test_a_model_without_a_key_gives_way_to_the_one_that_stands_in(machine):
    """The answer is the other's and its name is stored; without one the program says what is missing."""
    done = machine.run("-p", "hello", "--model", KEYLESS, "--fallback", "scripted/echo")
    answered = machine.messages()[-1]["provider"]
    alone = machine.run("-p", "hello", "--model", KEYLESS)

    assert answered == "scripted"
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    assert alone.returncode == 1
    assert "OPENAI_API_KEY" in alone.stderr


def test_a_client_may_prompt_a_model_that_somebody_stands_in_for(machine):
    """Without a stand-in the prompt is refused before it begins."""
    client = RpcClient(machine, "--fallback", "scripted/echo", model=KEYLESS)
    try:
        end = client.run("hello")
    finally:
        client.kill()
    alone = RpcClient(machine, model=KEYLESS)
    try:
        refusal = alone.refused("prompt", message="hello")
    finally:
        alone.kill()

    assert text_of(end["messages"][-1]) == "hello"
    assert "provider_switched" in [message["type"] for message in client.seen]
    assert "OPENAI_API_KEY" in refusal


def test_a_model_that_nobody_knows_cannot_stand_in(machine):
    """It is said when the program starts, not when it is needed."""
    done = machine.run("-p", "hello", "--model", "scripted/echo", "--fallback", "nobody/knows")

    assert done.returncode == 2
    assert "nobody/knows" in done.stderr
    assert machine.session_files() == []
