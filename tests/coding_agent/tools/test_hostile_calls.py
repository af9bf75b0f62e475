"""Every tool, called with whatever a broken or misled model may send, and answered by whatever a hostile server sends.

A call ends in a result or in a `ToolError`, which the model is told; in nothing else, and with no effect outside of the
working directory.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import define
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coding_agent.subagents.protocol import Answer, RunView, SubagentResult
from coding_agent.tools import (
    Workspace,
    default_tools,
    execute_code_tool,
    hashline_edit_tool,
    web_download_tool,
    web_fetch_tool,
    web_search_tool,
)
from coding_agent.tools.ask_parent import ask_parent_tool
from coding_agent.tools.browser_answers import picture_result, result
from coding_agent.tools.search_perplexity import Perplexity
from coding_agent.tools.search_providers import Brave, DuckDuckGo, SearXNG, Tavily
from coding_agent.tools.task import task_tool
from coding_agent.tools.web_client import WebClient
from lemon_agent import AgentTool, AgentToolResult, ToolError
from lemon_agent.security.external_content import END
from tests.coding_agent.tools.support import call, text_of

PATHS = st.sampled_from(
    [
        *("f", "d/f", "../outside.txt", "/etc/passwd", "/proc/self/environ", "/dev/zero", "link", "dangling", "loop"),
        *(
            ".git/hooks/x",
            ".",
            "..",
            "/",
            "~",
            "d/../../outside.txt",
            "f/",
            "f/x",
            "a" * 300,
            "a/" * 3000,
            "nul\0",
            "\ud800",
        ),
        *("ﬁ", "e\u0301", "f\u200b", " f", "-rf", "*", "[", "{a,b}", "\n", "%2e%2e/x", "file:///etc/passwd", ".GIT/x"),
    ]
)
URLS = st.sampled_from(
    [
        *(
            "http://127.0.0.1/",
            "http://[::1]",
            "http://0/",
            "file:///etc/passwd",
            "javascript:1",
            "http://",
            "http://a b/",
        ),
        *("http://user:pw@public.test/", "https://public.test:99999/", "http://public.test/a", "gopher://x", "x", "\0"),
    ]
)
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=40), PATHS,
    st.lists(st.integers() | st.text(max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)  # fmt: skip
SAFE: Mapping[str, st.SearchStrategy[Any]] = {
    "command": st.sampled_from(["true", "echo \ud800", "exit 7", "\0", "", "(", "kill -9 $$", "exec 1>&-; echo x"]),
    "script": st.sampled_from(["1", "1/0", "\0", "(", "import sys; sys.exit(4)", "print('\ud800')", "\ud800"]),
    "url": URLS,
    "path": PATHS,
    "action": st.sampled_from(["start", "list", "read", "write", "navigate", "click", "run", "poll", "kill", "close"]),
    "timeout": st.sampled_from([1, 0, -1, 10**30, float("nan"), True]),
}
"""Random text is no command to run on somebody's machine."""


def arguments(tool: AgentTool) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of every kind: some that fit, some that do not, some missing, some too many."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for name, schema in tool.parameters["properties"].items():
        fitting = SAFE.get(name, ODD)
        if "enum" in schema:
            fitting = st.sampled_from(schema["enum"]) | fitting
        not_text = st.none() | st.booleans() | st.integers() | st.lists(st.integers(), max_size=2)
        fields[name] = fitting if name in ("command", "script", "url") else fitting | ODD
        fields[name] |= not_text
    return st.fixed_dictionaries({}, optional=fields | {"unknown": ODD})


def workspace_in(folder: Path) -> tuple[Path, Workspace]:
    """A working directory with traps in it."""
    work = folder / "work"
    (work / "d").mkdir(parents=True)
    (work / ".git/hooks").mkdir(parents=True)
    (work / "f").write_text("text\n")
    (work / "link").symlink_to("../outside.txt")
    (work / "dangling").symlink_to("../nothing.txt")
    (work / "loop").symlink_to("loop")
    (folder / "outside.txt").write_text("outside\n")
    return work, Workspace(work)


async def nowhere(_host: str, _port: int) -> Sequence[str]:
    return ["93.184.216.34"]


class Raw(httpx.AsyncByteStream):
    """A body exactly as it comes over the wire."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


def client_for(answer: Callable[[], httpx.Response] = lambda: httpx.Response(404, stream=Raw(b"gone"))) -> WebClient:
    """A client for whom every server gives this answer."""

    def respond(_request: httpx.Request) -> httpx.Response:
        return answer()

    return WebClient(resolve=nowhere, transport=httpx.MockTransport(respond))


class Delegates:
    """A delegate whose subagents say what they like."""

    def __init__(self, said: str, error: Any = None) -> None:
        self.result = SubagentResult("r1", "completed" if error is None else "error", said, error)
        self.seen = RunView("r1", "running", None, said, background=True, current_action=said, question=said)

    async def run(self, _spec: Any, _timeout_ms: Any, _watcher: Any) -> SubagentResult:
        return self.result

    async def run_in_background(self, _spec: Any, _delivery: Any) -> str:
        return "r1"

    async def view(self, _ids: Any) -> tuple[RunView, ...]:
        return (self.seen,)

    async def join(self, _ids: Any, _mode: Any) -> tuple[RunView, ...]:
        return (self.seen,)

    async def stop(self, _run_id: str) -> RunView:
        return self.seen

    async def steer(self, _run_id: str, _text: str) -> None:
        return None

    async def answer(self, _run_id: str, _text: str) -> None:
        return None


async def no_answer(_question: str, _timeout_ms: int) -> Answer:
    return Answer("timed_out", "nobody")


def every_tool(work: Path, workspace: Workspace) -> dict[str, AgentTool]:
    tools = default_tools(str(work), workspace=workspace, web=client_for())
    tools += [make(str(work), workspace=workspace) for make in (execute_code_tool, hashline_edit_tool)]
    tools += [task_tool(str(work), delegate=Delegates("said")), ask_parent_tool(ask=no_answer)]
    return {tool.name: tool for tool in tools}


NAMES = (
    *("read", "write", "edit", "patch", "bash", "ls", "grep", "find", "process", "todo", "web_fetch", "web_search"),
    *("web_download", "browser", "execute_code", "hashline_edit", "task", "ask_parent"),
)


STARTING = ("bash", "process", "execute_code", "grep")


def test_every_tool_there_is_is_called(tmp_path: Path) -> None:
    """A new tool is put to the same test."""
    assert sorted(every_tool(*workspace_in(tmp_path))) == sorted(NAMES)


@define
class Stage:
    """A working directory with traps, and every tool on it."""

    folder: Path
    work: Path
    tools: dict[str, AgentTool]

    async def put_to_the_test(self, name: str, params: dict[str, Any]) -> AgentToolResult | None:
        """The result of a call that ended as it must; None when it was refused."""
        try:
            found = await call(self.tools[name], **params)
        except ToolError:
            return None
        assert isinstance(found, AgentToolResult)
        assert found.content
        json.dumps(found.details, default=str)
        return found

    def unharmed(self) -> None:
        assert (self.folder / "outside.txt").read_text() == "outside\n"
        assert sorted(path.name for path in self.folder.iterdir()) == ["outside.txt", "work"]
        assert list((self.work / ".git/hooks").iterdir()) == []


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setenv("WEB_SEARCH_PROVIDER", "duckduckgo")
    work, workspace = workspace_in(tmp_path)
    made = Stage(tmp_path, work, every_tool(work, workspace))
    yield made
    made.unharmed()
    await workspace.aclose()


SETTINGS = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
FEWER = settings(SETTINGS, max_examples=12)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in STARTING])
@SETTINGS
@given(data=st.data())
async def test_whatever_a_model_sends_ends_in_a_result_or_a_refusal(
    stage: Stage, name: str, data: st.DataObject
) -> None:
    """Of every tool, with hostile paths and values of every kind; nothing outside of the working directory changes."""
    await stage.put_to_the_test(name, data.draw(arguments(stage.tools[name])))
    stage.unharmed()


@pytest.mark.parametrize("name", STARTING)
@FEWER
@given(data=st.data())
async def test_whatever_a_model_sends_to_what_starts_programs_ends_so_too(
    stage: Stage, name: str, data: st.DataObject
) -> None:
    """The same of the tools whose calls start programs, which take longer."""
    await stage.put_to_the_test(name, data.draw(arguments(stage.tools[name])))
    stage.unharmed()


HEADER = st.sampled_from(
    [
        *("text/html", "text/plain; charset=nonsense", "application/json", "image/png", "", "text/html; charset=utf-7"),
        *("application/octet-stream", "text/html\t;x", "*/*"),
    ]
)
BODY = st.one_of(
    st.binary(max_size=400),
    st.text(max_size=200).map(lambda text: f"<html><title>{text}</title><p>{text}{END}".encode(errors="replace")),
    st.sampled_from([b"<p>" * 5000, b"\xff\xfe" + b"a" * 99, b"\x1f\x8b garbage", b"<!--", END.encode() * 30]),
)


@pytest.mark.parametrize("make", [web_fetch_tool, web_download_tool])
@SETTINGS
@given(
    status=st.integers(200, 599), kind=HEADER, packing=st.sampled_from(["", "gzip", "br", "deflate, gzip"]), body=BODY
)
async def test_whatever_a_server_answers_is_untrusted_and_stays_in_its_wrapper(
    tmp_path_factory: pytest.TempPathFactory, make: Any, status: int, kind: str, packing: str, body: bytes
) -> None:
    """Any status, type, packing and body: a refusal, or a result that says whose words it holds and where they end."""
    folder = tmp_path_factory.mktemp("w")
    headers = {"Content-Type": kind, "Location": "http://127.0.0.1/"} | (
        {"Content-Encoding": packing} if packing else {}
    )
    client = client_for(lambda: httpx.Response(status, headers=headers, stream=Raw(body)))
    try:
        found = await call(make(str(folder), web=client), url="http://public.test/f", path="f")
    except ToolError:
        assert list(folder.iterdir()) == []
        return
    assert found.trust == "untrusted"
    value = json.loads(text_of(found))
    assert value["trustMetadata"]["untrusted"] is True
    assert value.get("text", END).count(END) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["results", "web", "title", "url", "content", "description", "age", "publishedDate"]), inner
        )
    ),
    max_leaves=12,
)


HOSTILE_ANSWERS = st.sampled_from(
    [
        "[" * 100_000,
        '{"results": ' + "[" * 50_000,
        '{"results": [{"title": "t", "url": "http://[", "content": "c"}], "web": {"results": [{"url": "http://["}]}}',
        "<div class=result><a class=result__a href='//x/?uddg=http://['>t</a></div>",
        "<div class=result><a class=result__a href='http://['>t</a></div>",
    ]
)


@pytest.mark.parametrize(
    "provider",
    [SearXNG("http://search.test"), Brave("k"), Tavily("k"), DuckDuckGo(), Perplexity("k")],
    ids=lambda one: one.name,
)
@SETTINGS
@given(answer=JSON.map(json.dumps) | st.text(max_size=60) | HOSTILE_ANSWERS)
async def test_whatever_a_search_service_answers_is_untrusted(
    tmp_path_factory: pytest.TempPathFactory, provider: Any, answer: str
) -> None:
    """Documents of any shape, or none: results between markers, or a refusal."""
    folder = tmp_path_factory.mktemp("s")
    client = client_for(lambda: httpx.Response(200, stream=Raw(answer.encode(errors="replace"))))
    try:
        found = await call(web_search_tool(str(folder), search_providers=[provider], web=client), query="q")
    except ToolError:
        return
    assert found.trust == "untrusted"
    value = json.loads(text_of(found))
    for one in (*value.get("results", ()), *value.get("citations", ())):
        assert all(one[name].count(END) == bool(one[name]) for name in ("title", "description") if name in one)
    assert value.get("content", END).count(END) == 1


@SETTINGS
@given(
    page=st.dictionaries(
        st.sampled_from(["url", "title", "html", "elements", "notes", "cut"]),
        st.text(max_size=50) | st.lists(JSON, max_size=4),
    )
)
def test_whatever_a_browser_says_about_a_page_stays_in_its_wrapper(page: dict[str, Any]) -> None:
    """The worker is given pages by strangers; its words are theirs."""
    shown = result("read", page, 1000)
    assert shown.trust == "untrusted"
    assert json.loads(text_of(shown))["text"].count(END) == 1
    assert picture_result({**page, "picture": "aGk="}).trust == "untrusted"


@SETTINGS
@given(
    said=st.text(max_size=80),
    error=st.none() | st.text(max_size=20) | st.tuples(st.text(max_size=9), st.integers()),
    data=st.data(),
)
async def test_whatever_a_subagent_says_is_a_result_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, said: str, error: Any, data: st.DataObject
) -> None:
    """Its last words, its questions and the ways it fails."""
    folder = tmp_path_factory.mktemp("t")
    tools = {
        "task": task_tool(str(folder), delegate=Delegates(said, error)),
        "ask_parent": ask_parent_tool(ask=no_answer),
    }
    await Stage(folder, folder, tools).put_to_the_test("task", data.draw(arguments(tools["task"])))
    asked = {"question": said or "?", "why_blocked": said or "?", "options": [said], "fallback": said}
    await Stage(folder, folder, tools).put_to_the_test("ask_parent", asked)
