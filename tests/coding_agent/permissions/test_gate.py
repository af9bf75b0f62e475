"""The gate before every tool call: questions, answers, refusals, and what is told about them."""

import asyncio
import json

import pytest
from attrs import define, field

from coding_agent import client
from coding_agent.events import PermissionAsked, PermissionDecided, Settled
from coding_agent.permissions.approver import PermissionAnswer, PermissionRequest
from coding_agent.permissions.gate import PermissionGate
from coding_agent.permissions.policy import Policy
from coding_agent.permissions.remembered import RememberedRules
from coding_agent.permissions.rules import parse_rule
from coding_agent.tools import Workspace, default_tools
from lemon_agent import AgentTool, MessageEnd, text_result
from lemon_ai import ToolResultMessage, get_text
from lemon_ai.testing import Call
from lemon_otp import telemetry
from lemon_otp.testing import settle
from tests.coding_agent.conftest import Host


@define
class Person:
    """Answers every question the same, or never, and remembers what was asked."""

    choice: str = "once"
    note: str = ""
    seal: str | None = None
    error: Exception | None = None
    silent: bool = False
    asked: list[PermissionRequest] = field(factory=list)
    cancelled: int = 0

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        self.asked.append(request)
        if self.error is not None:
            raise self.error
        if self.silent:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return PermissionAnswer(self.choice, self.seal or request.seal, self.note)


def guarded(host: Host, gate: PermissionGate) -> dict:
    workspace = Workspace(host.folder, approve=gate.approve_path)
    gate.watch(workspace)
    return {"tools": tuple(default_tools(str(host.folder), workspace=workspace)), "companions": (gate.join,)}


def results(events) -> list[ToolResultMessage]:
    messages = [event.event.message for event in events if isinstance(event.event, MessageEnd)]
    return [message for message in messages if isinstance(message, ToolResultMessage)]


def told(events, kind) -> list:
    return [event.event for event in events if isinstance(event.event, kind)]


WRITE = Call("write", {"path": "a.txt", "content": "x"}, id="w")


async def test_what_nobody_can_allow_is_refused_with_a_reason_the_model_reads(host):
    """Headless: ask means no; the call is not run, the model is told why, the run goes on, the decision is an event."""
    gate = PermissionGate(Policy("ask"))
    session = await host.session([WRITE], "Then not.", **guarded(host, gate))

    events = await host.run(session, "write")

    (result,) = results(events)
    assert result.is_error
    assert "nobody is there to allow it" in get_text(result)
    assert not (host.folder / "a.txt").exists()
    (decided,) = told(events, PermissionDecided)
    assert (decided.decision, decided.by, decided.tool_call_id) == ("denied", "nobody", "w")
    assert told(events, PermissionAsked) == []


async def test_a_person_is_asked_and_the_call_runs_when_they_say_yes(host):
    """Question and decision are told in order, under one id; the whole call is shown."""
    person = Person()
    session = await host.session([WRITE], "Done.", **guarded(host, PermissionGate(Policy("ask"), approver=person)))

    events = await host.run(session, "write")

    assert (host.folder / "a.txt").read_text() == "x"
    (request,) = person.asked
    assert (request.tool_name, request.shown) == ("write", "write: a.txt")
    (asked,), (decided,) = told(events, PermissionAsked), told(events, PermissionDecided)
    assert asked.request_id == decided.request_id == request.id
    assert (decided.decision, decided.by) == ("allowed", "user")


@pytest.mark.requirement("BR-084")
async def test_refusing_one_of_two_parallel_calls_leaves_the_other_its_result(host):
    """A is refused, B runs; both have their result, in the order asked, and the conversation goes on."""
    person = Person(choice="deny", note="not this file")
    look = Call("ls", {"path": "."}, id="l")
    session = await host.session(
        [WRITE, look], "Next.", "More.", **guarded(host, PermissionGate(Policy("ask"), approver=person))
    )

    events = await host.run(session, "go")
    after = await host.run(session, "go on")

    refused, listed = results(events)
    assert (refused.tool_call_id, refused.is_error) == ("w", True)
    assert "Not this file" in get_text(refused)
    assert (listed.tool_call_id, listed.is_error) == ("l", False)
    assert told(after, Settled)[0].outcome == "completed"


@pytest.mark.requirement("BR-159")
async def test_a_question_that_is_open_when_the_run_is_aborted_is_answered_cancelled(host):
    """The wait ends with the run, the approver's too; the decision is told; the next prompt works."""
    person = Person(silent=True)
    session = await host.session([WRITE], "Again.", **guarded(host, PermissionGate(Policy("ask"), approver=person)))
    await client.prompt(session, "write")
    before = await host.until(PermissionAsked)

    client.abort_async(session)
    events = await host.until_settled()

    assert told(before, PermissionAsked)
    (decided,) = told(events, PermissionDecided)
    assert decided.decision == "cancelled"
    assert person.cancelled == 1
    assert not (host.folder / "a.txt").exists()
    assert len(results(events)) == 1
    assert told(await host.run(session, "again"), Settled)[0].outcome == "completed"


@pytest.mark.parametrize(
    "person",
    [
        Person(error=RuntimeError("no screen")),
        Person(choice="yes"),
        Person(seal="of another question"),
    ],
)
async def test_an_answer_that_does_not_fit_is_no_answer(host, person):
    """Approvals fail closed: an approver that raises, says something unknown, or answers another question."""
    gate = PermissionGate(Policy("ask"), approver=person)
    session = await host.session([WRITE], "Then not.", **guarded(host, gate))

    events = await host.run(session, "write")

    assert results(events)[0].is_error
    assert not (host.folder / "a.txt").exists()


@pytest.mark.requirement("BR-168", "BR-181")
async def test_always_holds_for_what_was_shown_and_outlives_the_program(host, tmp_path):
    """The rules shown are stored, for this folder only; a changed command is asked about again."""
    kept, folder = tmp_path / "state" / "permissions.json", host.folder / "work"
    folder.mkdir()
    person = Person(choice="always")
    first = PermissionGate(Policy("edit"), approver=person, remembered=RememberedRules(kept, folder))
    turns = [
        [Call("bash", {"command": "mkdir foo"}, id="1")],
        [Call("bash", {"command": "mkdir bar"}, id="2")],
        [Call("bash", {"command": "mkdir x && mkdirx"}, id="3")],
    ]
    session = await host.session(*turns, "Done.", **guarded(host, first))

    await host.run(session, "go")

    assert [request.shown for request in person.asked] == ["bash: mkdir foo", "bash: mkdir x && mkdirx"]
    assert json.loads(kept.read_text())["allow"][0] == "bash(mkdir *)"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "bash(mkdir *)" in map(str, RememberedRules(kept, folder).rules())
    assert RememberedRules(kept, host.folder).rules() == ()


async def test_what_was_allowed_with_the_call_is_not_asked_a_second_time_by_the_path_guard(host, tmp_path_factory):
    """One question for a file outside the workspace; the next call is another question."""
    outside = tmp_path_factory.mktemp("out") / "x.txt"
    person = Person()
    gate = PermissionGate(Policy("edit"), approver=person)
    write = {"path": str(outside), "content": "x"}
    session = await host.session(
        [Call("write", write, id="1")], [Call("write", write, id="2")], "Done.", **guarded(host, gate)
    )

    await host.run(session, "go")

    assert outside.read_text() == "x"
    assert [request.tool_call_id for request in person.asked] == ["1", "2"]


@pytest.mark.requirement("BR-183")
async def test_no_argument_reaches_telemetry_and_no_secret_a_notice(host):
    """Telemetry has the tool, the decision and who decided; notices show programs, not their arguments."""
    seen = []
    telemetry.attach("test", ("coding_agent", "permission", "decided"), lambda *event: seen.append(event))
    command = "curl 'http://127.0.0.1/?apikey=SECRET123456789'"
    gate = PermissionGate(Policy("ask"))
    session = await host.session([Call("bash", {"command": command}, id="1")], "Done.", **guarded(host, gate))

    events = await host.run(session, "go")

    notices = told(events, PermissionAsked) + told(events, PermissionDecided)
    assert "SECRET123" not in repr(notices)
    assert notices[0].subject == "curl"
    assert "SECRET123" not in repr(seen)
    assert "curl" not in repr(seen)
    assert len(seen) == 1


async def test_a_tool_of_ones_own_is_judged_by_its_name(host):
    """A rule may name any tool."""

    async def deploy(_id, params, signal=None, on_update=None):
        return text_result("deployed")

    tool = AgentTool("deploy", "Deploys.", {"type": "object", "properties": {"to": {"type": "string"}}}, deploy)
    gate = PermissionGate(Policy("ask", (parse_rule("deploy(test*)", "allow"),)))
    settings = guarded(host, gate) | {"tools": (tool,)}
    session = await host.session(
        [Call("deploy", {"to": "test-1"}, id="1"), Call("deploy", {"to": "prod"}, id="2")], "Done.", **settings
    )

    events = await host.run(session, "go")

    assert [result.is_error for result in results(events)] == [False, True]
    await settle()


@pytest.mark.parametrize("damage", ["{", "[]", '{"cwd": "/elsewhere", "allow": ["bash"]}', "x" * 300_000])
def test_kept_rules_that_are_damaged_or_of_another_folder_count_for_nothing(tmp_path, damage):
    """Nothing is allowed by accident."""
    file, folder = tmp_path / "permissions.json", tmp_path / "work"
    file.write_text(damage)
    file.chmod(0o600)

    assert RememberedRules(file, folder).rules() == ()


@pytest.mark.parametrize("how", ["writable by others", "a link", "in the workspace"])
def test_kept_rules_that_somebody_else_could_have_written_count_for_nothing(tmp_path, how):
    """Whoever can write there could allow themselves anything."""
    folder = tmp_path / "work"
    folder.mkdir()
    file = (folder if how == "in the workspace" else tmp_path) / "permissions.json"
    content = json.dumps({"cwd": str(folder), "allow": ["bash"]})
    target = tmp_path / "target.json" if how == "a link" else file
    target.write_text(content)
    target.chmod(0o666 if how == "writable by others" else 0o600)
    if how == "a link":
        file.symlink_to(target)

    assert RememberedRules(file, folder).rules() == ()
