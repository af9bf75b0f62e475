"""The observer's process and what it answers, over real sockets."""

import asyncio
import json
import re
import socket
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from attrs import define

import coding_agent.observer
from coding_agent import client
from coding_agent.errors import BadUsage
from coding_agent.observer.guard import POLICY
from coding_agent.observer.observer import observe
from coding_agent.observer.site import Site
from coding_agent.observer.watching import Watching
from lemon_agent import AgentTool
from lemon_ai.testing import Call
from lemon_otp import (
    GenServer,
    NoReply,
    annotate,
    exit_signal,
    introspect,
    receive,
    sleep_s,
    spawn,
    stop_all,
    telemetry,
    whereis,
)
from lemon_otp.testing import settle

PAGE = Path(coding_agent.observer.__file__).parent / "page"


@define
class Page:
    """The other end: what a browser sends."""

    url: str
    token: str
    web: httpx.AsyncClient

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.web.get(self.url + path, headers={"authorization": f"Bearer {self.token}", **headers})

    async def act(self, request, **more) -> httpx.Response:
        headers = {
            "authorization": f"Bearer {self.token}",
            "content-type": "application/json",
            **more.pop("headers", {}),
        }
        body = more.get("content", json.dumps(request))
        return await self.web.post(f"{self.url}api/act", content=body, headers=headers)

    async def events(self) -> AsyncIterator[tuple[str, object]]:
        headers = {"authorization": f"Bearer {self.token}"}
        async with self.web.stream("GET", f"{self.url}api/events", headers=headers) as answer:
            name = ""
            async for line in answer.aiter_lines():
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    yield name, json.loads(line[6:])


@pytest_asyncio.fixture
async def page(host) -> AsyncIterator[Page]:
    url, _, token = (await observe("")).partition("#token=")
    async with httpx.AsyncClient(timeout=20.0) as web:
        yield Page(url, token, web)


async def stuck() -> None:
    annotate(phase="tool", tool="search")
    while True:
        await sleep_s(3600)


async def test_the_page_is_served_with_a_policy_that_lets_nothing_else_in(page):
    """Every file of the page comes from here; what comes from elsewhere is forbidden; nothing is kept."""
    index = await page.web.get(page.url)
    assert index.status_code == 200
    for name in re.findall(r'(?:href|src)="([^"]+)"', index.text):
        found = await page.web.get(page.url + name)
        assert found.status_code == 200, name
        assert found.headers["content-security-policy"] == POLICY
        assert found.headers["cache-control"] == "no-store"
        assert found.headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in POLICY
    assert (await page.web.get(f"{page.url}../observer.py")).status_code == 404
    assert (await page.web.get(f"{page.url}%2e%2e%2fobserver.py")).status_code == 404


def test_no_file_of_the_page_reads_markup_or_asks_others():
    """No text becomes HTML or code, no style or handler stands in the markup, no address leads elsewhere."""
    for file in PAGE.iterdir():
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            file
        )
        others = set(re.findall(r"https?://[^\s\"'<>]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not others, file
        if file.suffix == ".html":
            assert not re.search(r"\sstyle=|\son\w+=|<script(?![^>]*src=)", text)


async def test_what_it_knows_needs_the_token_in_a_header(page):
    """Without it, with a wrong one or in the address: 401. The page itself says nothing and needs none."""
    for path in ("api/events", "api/node/1", "api/session/x"):
        assert (await page.web.get(page.url + path)).status_code == 401
        assert (await page.web.get(f"{page.url}{path}?token={page.token}")).status_code == 401
    for wrong in (f"Bearer {page.token}x", "Bearer", f"Basic {page.token}", page.token):
        assert (await page.get("api/node/1", authorization=wrong)).status_code == 401
    assert (await page.act({"op": "kill", "target": 1}, headers={"authorization": "Bearer no"})).status_code == 401
    assert len(page.token) >= 32


@pytest.mark.requirement("BR-173", "BR-174")
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.test"},
        {"origin": "http://evil.test"},
        {"host": "evil.test", "origin": "http://evil.test"},
        {"origin": "null"},
        {"origin": "::::"},
        {"sec-fetch-site": "cross-site"},
    ],
)
async def test_a_strange_page_is_refused_even_with_the_token(page, headers):
    """A page elsewhere, one whose name was bent to this machine, a sandboxed frame: 403, and nothing is done."""
    victim = spawn(stuck, label="victim")
    for answer in (
        await page.act({"op": "kill", "target": victim.id}, headers=headers),
        await page.get("api/node/1", **headers),
        await page.get("", **headers),
    ):
        assert answer.status_code == 403
    assert victim.alive


async def test_a_link_to_the_page_may_be_followed_from_anywhere(page):
    """The page itself says nothing, so a link in another page may lead to it; to what it knows it may not."""
    clicked = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert (await page.get("", **clicked)).status_code == 200
    assert (await page.get("api/node/1", **clicked)).status_code == 403


async def test_an_absent_origin_is_nobody_elses_page(page):
    """A program without pages, such as curl, sends none; the page's own is its address."""
    victim = spawn(stuck, label="victim")
    own = page.url.rstrip("/")
    assert (await page.get(f"api/node/{victim.id}")).status_code == 200
    assert (await page.get(f"api/node/{victim.id}", origin=own)).status_code == 200


async def test_the_feed_tells_the_whole_tree_and_then_what_changes(page):
    """hello, tree and rows, bars, history; then a new process comes as a row and a new order."""
    events = page.events()
    told = {}
    rows = {}
    async for name, value in events:
        told[name] = value
        if name == "delta":
            rows.update(dict(value["rows"]))
        if name == "past":
            break
    assert set(told) == {"hello", "tree", "delta", "steps", "past"}
    assert set(rows) == set(told["tree"]["order"])
    fresh = spawn(stuck, label="newcomer")
    async for name, value in events:
        if name == "delta" and fresh.id in dict(value.get("rows", [])):
            assert fresh.id in value["order"]
            assert dict(value["rows"])[fresh.id][1] == "newcomer"
            break
    await events.aclose()


async def test_a_run_comes_as_bars_and_a_restart_as_history(page, host):
    """What happens while a page looks is told as it happens; what happened before is told at the beginning."""
    session = await host.session([Call("nothing", {})], "Done.")
    await host.run(session, "go")
    exit_signal(whereis("todo_store"), "kill")
    await settle()
    async for name, value in page.events():
        if name == "steps":
            assert [bar["kind"] for bar in value] == ["run", "turn", "model", "tool", "turn", "model"]
            assert value[0]["to"] is not None
        if name == "past":
            assert ("restart", "todo_store") in [(item["kind"], item.get("id")) for item in value]
            break


async def test_nobody_looks_at_the_tree_while_no_page_is_open(page, monkeypatch):
    """An observer without pages does nothing but remember."""
    looks = []
    real = introspect.tree
    monkeypatch.setattr(introspect, "tree", lambda *args, **more: looks.append(1) or real(*args, **more))
    await sleep_s(0)
    await settle()
    assert looks == []


async def test_a_process_is_shown_with_its_stack_and_what_waits_for_it(page):
    """Everything the terminal's queries say; a process that is not there is a 404, not a fault."""
    victim = spawn(stuck, label="<img src=x onerror=alert(1)>\u202e")
    await settle()
    told = (await page.get(f"api/node/{victim.id}")).json()
    assert told["info"]["state"] == "busy"
    assert told["info"]["facts"]["tool"] == "search"
    assert any("stuck" in frame["function"] for frame in told["stack"]["frames"])
    assert (await page.get("api/node/999999")).status_code == 404
    assert (await page.get("api/node/abc")).status_code == 404


class Quiet(GenServer[None, None, None, dict]):
    async def init(self, arg):
        return {"a": 1}

    async def handle_info(self, message, state):
        return NoReply(state)


class Awkward:
    def __repr__(self):
        raise RuntimeError("no")


class Holder(GenServer[None, None, None, object]):
    async def init(self, arg):
        return {"awkward": Awkward(), "huge": "x" * 50_000_000, "deep": [[[[[[[[1]]]]]]]]}


async def test_what_a_process_holds_is_shown_in_bounds_whatever_it_is(page):
    """A repr that raises and a text of fifty megabytes: a short answer, and the process is as it was."""
    holder = await Holder.start(None, name="holder")
    told = await page.get(f"api/node/{holder.id}")
    assert told.status_code == 200
    assert len(told.content) < 100_000
    assert holder.alive


async def test_a_stuck_process_is_killed_and_a_server_suspended_and_resumed(page):
    """Each act says in words what came of it."""
    victim = spawn(stuck, label="victim")
    server = await Quiet.start(None, name="quiet")
    await settle()
    killed = await page.act({"op": "kill", "target": victim.id})
    assert killed.status_code == 200
    assert "victim" in killed.json()["text"]
    assert not victim.alive
    await page.act({"op": "suspend", "target": server.id})
    assert introspect.state_of(server) == "suspended"
    await page.act({"op": "resume", "target": server.id})
    assert introspect.state_of(server) != "suspended"
    again = await page.act({"op": "kill", "target": victim.id})
    assert again.status_code == 409
    assert again.json()["error"]


async def test_a_session_is_shown_steered_and_aborted(page, host):
    """The conversation as it stands; a text for the model; the end of the run."""
    tool = AgentTool("search", "Searches.", {"type": "object", "properties": {}}, lambda *_: sleep_s(3600), on="loop")
    session = await host.session([Call("search", {})], "Done.", tools=(tool,))
    session_id = (await client.get_state(session)).session_id
    await client.prompt(session, "find <b>it</b>")
    while (await receive()).event.type != "tool_execution_start":
        pass
    told = (await page.get(f"api/session/{session_id}")).json()
    assert told["messages"][0]["role"] == "user"
    assert "find <b>it</b>" in json.dumps(told["messages"][0])
    assert (await page.act({"op": "steer", "session": session_id, "text": "look elsewhere"})).status_code == 200
    assert (await page.act({"op": "steer", "session": session_id, "text": " "})).status_code == 400
    assert (await page.act({"op": "abort", "session": session_id})).status_code == 200
    events = await host.until_settled()
    assert events[-1].event.outcome == "aborted"
    assert (await page.get("api/session/none")).status_code == 404


def hold_the_loop_while(ask) -> None:
    """Called by a process: nobody else gets a turn until the browser's side, in a thread, is done."""
    done, failed = threading.Event(), []

    def run() -> None:
        try:
            ask()
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=run, daemon=True).start()
    assert done.wait(30.0)
    if failed:
        raise failed[0]


def told_of_the_holder(page) -> dict:
    """What an open page is told as soon as somebody looks; blocks."""
    headers = {"authorization": f"Bearer {page.token}"}
    with httpx.Client(timeout=20.0) as web, web.stream("GET", f"{page.url}api/events", headers=headers) as answer:
        name = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: ") and name in ("hello", "held"):
                value = json.loads(line[6:])
                held = value["held"] if name == "hello" else value
                if held is not None:
                    return held
    raise AssertionError("nothing was said")


async def test_the_page_answers_while_a_handler_holds_the_loop_up(page, host):
    """Who holds it and where; the tree and a process from outside; an act waits; a session is said not to answer."""
    victim = spawn(stuck, label="victim")
    session = await host.session("Hi.")
    session_id = (await client.get_state(session)).session_id
    await settle()
    told = {}

    def ask() -> None:
        told["held"] = told_of_the_holder(page)
        headers = {"authorization": f"Bearer {page.token}", "content-type": "application/json"}
        with httpx.Client(timeout=20.0, headers=headers) as web:
            told["node"] = web.get(f"{page.url}api/node/{victim.id}").json()
            kill = json.dumps({"op": "kill", "target": victim.id})
            told["act"] = web.post(f"{page.url}api/act", content=kill).json()
            told["session"] = web.get(f"{page.url}api/session/{session_id}")
            told["page"] = web.get(page.url)

    hold_the_loop_while(ask)
    assert told["held"]["holder"]
    assert "hold_the_loop_while" in told["held"]["at"] or "wait" in told["held"]["at"]
    assert told["node"]["info"]["process"] == "victim"
    assert any("stuck" in frame["function"] for frame in told["node"]["stack"]["frames"])
    assert "held up" in told["act"]["text"]
    assert told["session"].status_code == 503
    assert "held up" in told["session"].json()["error"]
    assert told["page"].status_code == 200
    assert victim.alive
    assert (await page.get(f"api/session/{session_id}")).status_code == 200
    async for name, value in page.events():
        if name == "hello":
            assert value["held"] is None
            break


async def test_of_a_conversation_that_goes_on_only_what_is_new_is_told(page, host):
    """A mark says what the asker has; where that is the beginning no more, all of it is told again."""
    session = await host.session("One.", "Two.", "Three.")
    session_id = (await client.get_state(session)).session_id
    await host.run(session, "first")
    whole = (await page.get(f"api/session/{session_id}")).json()
    assert [message["role"] for message in whole["messages"]] == ["user", "assistant"]
    assert whole["goes_on"] is False
    await host.run(session, "second")
    more = (await page.get(f"api/session/{session_id}?have={whole['mark']}")).json()
    assert more["goes_on"] is True
    assert more["messages"][0]["content"][0]["text"] == "second"
    assert len(more["messages"]) == 2
    nothing = (await page.get(f"api/session/{session_id}?have={more['mark']}")).json()
    assert (nothing["messages"], nothing["goes_on"]) == ([], True)
    for strange in ("9-1-1", "2-0-0", "-1", "x", "2", "99999999999999-1-1", "%00"):
        again = (await page.get(f"api/session/{session_id}?have={strange}")).json()
        assert (len(again["messages"]), again["goes_on"]) == (4, False)
    await client.reset(session)
    now = (await client.get_state(session)).session_id
    reset = (await page.get(f"api/session/{now}?have={more['mark']}")).json()
    assert (reset["messages"], reset["goes_on"]) == ([], False)


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ("not json", {}, 400),
        ("[]", {}, 400),
        ("[" * 100_000, {}, 413),
        ("[" * 50_000, {}, 400),
        ("{}", {}, 400),
        ('{"op": "eval", "code": "1"}', {}, 400),
        ('{"op": "kill"}', {}, 400),
        ('{"op": "kill", "target": true}', {}, 400),
        ('{"op": "kill", "target": "no-such"}', {}, 409),
        ('{"op": "kill", "target": "\\ud800"}', {}, 409),
        ('{"op": "abort", "session": "no-such"}', {}, 404),
        ('{"op": "kill", "target": 1}', {"content-type": "text/plain"}, 415),
    ],
)
async def test_a_bad_request_is_answered_and_does_nothing(page, body, headers, status):
    """Whatever is wrong has its status and a sentence; the observer goes on."""
    answer = await page.act(None, content=body, headers=headers)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert whereis("observer").alive


async def test_a_host_that_ends_leaves_no_socket_and_waits_for_no_page(page):
    """A page that is open is cut, one that does not read as well, within the time of one answer."""
    events = page.events()
    await anext(events)
    silent = socket.create_connection(("127.0.0.1", int(page.url.rstrip("/").rpartition(":")[2])))
    async with asyncio.timeout(5):
        await stop_all()
    with pytest.raises(httpx.ConnectError):
        await page.web.get(page.url)
    assert telemetry.list_handlers() == []
    with pytest.raises((httpx.HTTPError, StopAsyncIteration)):
        while True:
            await anext(events)
    silent.close()


async def test_an_observer_that_crashes_comes_back_at_the_same_address_with_the_same_token(page):
    """The page that reconnects finds it; what had happened before is forgotten."""
    exit_signal(whereis("observer"), "kill")
    await settle()
    assert (await page.get(f"api/node/{whereis('observer').id}")).status_code == 200


async def test_an_observer_whose_thread_fails_is_started_again(page, monkeypatch):
    """The page is no corner that is dead while its process lives."""
    first, real, failures = whereis("observer"), Watching.run, []

    async def fails(self) -> None:
        failures.append(1)
        raise OSError("no")

    monkeypatch.setattr(Site, "_serve", lambda self, bound, stop: (bound.close(), fails(self))[1])
    exit_signal(first, "kill")
    while not failures:
        await asyncio.sleep(0.001)
    monkeypatch.undo()
    while (await answered(page)) != 200:
        await asyncio.sleep(0.001)
    assert whereis("observer") is not first
    assert Watching.run is real


async def answered(page: Page) -> int:
    try:
        return (await page.web.get(page.url)).status_code
    except httpx.TransportError:
        return 0


async def test_the_token_is_not_in_what_the_observer_holds(page):
    """Who looks into the process finds a hash."""
    pid = whereis("observer")
    told = await page.get(f"api/node/{pid.id}")
    assert page.token not in told.text
    assert page.token not in repr(introspect.info(pid))


async def test_without_the_extra_it_says_what_to_install(host, monkeypatch):
    """One line that names the extra; nothing is started."""
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(BadUsage, match=r"pip install 'lemon-agents\[web\]'"):
        await observe("")
    assert whereis("observer") is None
