"""The tool `grep`: by ripgrep and without it, with the same answers."""

import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coding_agent.tools import Workspace, grep_tool
from coding_agent.tools.truncate import MAX_BYTES
from lemon_agent import AbortSignal, AgentTool, ToolError
from tests.coding_agent.tools.support import call, started, text_of, until

Put = Callable[[str, str | bytes], Path]
RIPGREP = shutil.which("rg")
ENGINES = ["own"] if RIPGREP is None else ["own", "ripgrep"]


class Searcher:
    """Both forms of the tool."""

    def __init__(self, folder: Path) -> None:
        self.workspace = Workspace(folder)
        self.own = grep_tool(str(folder), workspace=self.workspace, ripgrep=None)
        self.ripgrep = grep_tool(str(folder), workspace=self.workspace)

    def engine(self, name: str) -> AgentTool:
        """One of them."""
        return self.own if name == "own" else self.ripgrep


@pytest.fixture
async def searcher(folder: Path) -> AsyncIterator[Searcher]:
    """The tool in both forms on the working directory."""
    made = Searcher(folder)
    yield made
    await made.workspace.aclose()


@pytest.mark.parametrize("engine", ENGINES)
async def test_matches_come_with_path_number_and_line(searcher: Searcher, put: Put, engine: str) -> None:
    """In the order of paths, then of lines; the count stands first."""
    put("b/x.py", "one\ntwo needle\n")
    put("a.txt", "needle\nno\nneedle too\n")
    result = await call(searcher.engine(engine), pattern="needle")

    assert text_of(result) == "Found 3 matches.\na.txt:1: needle\na.txt:3: needle too\nb/x.py:2: two needle"
    assert result.details["files"] == 2


@pytest.mark.parametrize("engine", ENGINES)
async def test_nothing_found_is_said(searcher: Searcher, put: Put, engine: str) -> None:
    """It is no error."""
    put("a", "b")

    assert text_of(await call(searcher.engine(engine), pattern="zzz")) == "No matches found."


@pytest.mark.requirement("BR-100")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pattern", ["--help", "--version", "-needle", "-e"])
async def test_a_pattern_that_begins_with_a_dash_is_no_option(
    searcher: Searcher, put: Put, engine: str, pattern: str
) -> None:
    """Each is found as it stands."""
    put("f", "x --help --version -needle -e")
    expected = "Found 1 match.\nf:1: x --help --version -needle -e"

    assert text_of(await call(searcher.engine(engine), pattern=pattern)) == expected
    assert text_of(await call(searcher.engine(engine), pattern=pattern, literal=True, path="f")) == expected


@pytest.mark.requirement("BR-099")
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_long_line_is_cut_around_its_match(searcher: Searcher, put: Put, engine: str) -> None:
    """A hit inside a line of 1.5 MB: the match is shown with what is around it."""
    put("min.js", "a" * 750_000 + "needle" + "b" * 750_000)
    began = time.monotonic()
    text = text_of(await call(searcher.engine(engine), pattern="needle"))

    assert "aaaneedlebbb" in text
    assert len(text) < 1000
    assert "Long lines are cut" in text
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("engine", ENGINES)
async def test_context_lines_are_shown_once(searcher: Searcher, put: Put, engine: str) -> None:
    """Between groups that do not touch stands a line of dashes."""
    put("f", "".join(f"{number}\n" for number in range(1, 13)))
    text = text_of(await call(searcher.engine(engine), pattern="^(3|5|11)$", context_lines=1))

    assert text.split("\n")[1:] == [
        "f-2- 2", "f:3: 3", "f-4- 4", "f:5: 5", "f-6- 6", "--", "f-10- 10", "f:11: 11", "f-12- 12",
    ]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
async def test_what_git_ignores_binary_files_and_links_are_left_out(
    searcher: Searcher, put: Put, folder: Path, engine: str
) -> None:
    """Hidden files are searched, `.git` is not; a glob brings back what it names."""
    for name in ("keep.txt", "skip.log", "build/x.txt", ".git/x.txt", ".github/w.yml", "sub/skip2.txt", "sub/in.txt"):
        put(name, "needle\n")
    put(".gitignore", "*.log\nbuild/\n")
    put("sub/.gitignore", "/skip2.txt\n")
    put("bin", b"needle\0")
    (folder / "link.txt").symlink_to("keep.txt")
    (folder / "out").symlink_to(folder.parent)

    text = text_of(await call(searcher.engine(engine), pattern="needle"))
    assert [line.split(":")[0] for line in text.split("\n")[1:]] == [".github/w.yml", "keep.txt", "sub/in.txt"]
    text = text_of(await call(searcher.engine(engine), pattern="needle", glob="*.log"))
    assert text.split("\n")[1:] == ["skip.log:1: needle"]
    text = text_of(await call(searcher.engine(engine), pattern="needle", path="sub"))
    assert text.split("\n")[1:] == ["sub/in.txt:1: needle"]


@pytest.mark.parametrize("engine", ENGINES)
async def test_only_so_many_matches_are_shown(searcher: Searcher, put: Put, engine: str) -> None:
    """The first ones in order, and a note; the whole answer stays within its bytes."""
    for number in range(30):
        put(f"f{number:02}", "needle " * 60 + "\n" + "needle\n" * 50)
    result = await call(searcher.engine(engine), pattern="needle", max_results=7)
    assert text_of(result).count("\nf00:") == 7
    assert "Only the first 7 matching lines" in text_of(result)
    assert result.details["truncated"] is True

    result = await call(searcher.engine(engine), pattern="needle", max_results=2000)
    assert len(text_of(result).encode()) < MAX_BYTES + 500


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"pattern": ""}, "Pattern is required"),
        ({"pattern": "("}, "set literal"),
        ({"pattern": "a\nb"}, "within one line"),
        ({"pattern": "x" * 10_001}, "longer than"),
        ({"pattern": "x", "max_results": 0}, "max_results must be at least 1"),
        ({"pattern": "x", "context_lines": -1}, "context_lines must be at least 0"),
        ({"pattern": "x", "glob": "[a"}, "not closed"),
        ({"pattern": "x", "path": "none"}, "Path not found: none"),
        ({"pattern": "x", "path": ".."}, "outside the workspace"),
        ({"pattern": "x", "max_results": "many"}, "whole number"),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
async def test_what_makes_no_sense_is_said(
    searcher: Searcher, engine: str, params: dict[str, object], reason: str
) -> None:
    """Each with its reason, whichever engine would have searched."""
    with pytest.raises(ToolError, match=reason):
        await call(searcher.engine(engine), **params)


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_brace_that_is_no_count_is_a_brace(searcher: Searcher, put: Put, engine: str) -> None:
    """As it stands in code that somebody looks for."""
    put("f.go", "func main() {\ninterface{}\nx{2}\nxx\n")

    assert "f.go:1:" in text_of(await call(searcher.engine(engine), pattern=r"main\(\) {"))
    assert "f.go:2:" in text_of(await call(searcher.engine(engine), pattern="interface{}"))
    assert text_of(await call(searcher.engine(engine), pattern="^x{2}$")).endswith("f.go:4: xx")


@pytest.mark.parametrize("pattern", ["(?<=a )needle", "(?!x)n.edle", r"(n)eedl\w.*\1", "needle(?= b)"])
async def test_what_only_one_engine_knows_is_given_to_it(searcher: Searcher, put: Put, pattern: str) -> None:
    """Looking around and back references work with ripgrep installed too."""
    put("f", "a needle b n")

    assert text_of(await call(searcher.ripgrep, pattern=pattern)) == "Found 1 match.\nf:1: a needle b n"


async def test_an_expression_that_never_ends_holds_nobody_up(searcher: Searcher, put: Put) -> None:
    """While our own engine is lost in one, the event loop goes on, and an abort ends the search at once."""
    import asyncio

    put("f", "a" * 5000 + "\n")
    stop = AbortSignal()
    task = started(call(searcher.own, pattern="(a|aa)+$b(?=x)|(a+)+b(?=x)", abort=stop))
    beats = 0
    for _beat in range(20):
        await asyncio.sleep(0.01)
        beats += 1
    stop.abort()
    await asyncio.wait({task}, timeout=5)

    assert beats == 20
    assert task.done()
    assert isinstance(task.exception(), ToolError)
    await until(lambda: not searcher.workspace.keeper.children, "its program is gone")


async def test_names_that_no_terminal_should_see_are_escaped(searcher: Searcher, folder: Path) -> None:
    """A line break, a bell and bytes that are no UTF-8 in a file's name."""
    for name in (b"a\nb", b"c\x07d", b"e\xfff"):
        (folder / os.fsdecode(name)).write_text("needle\n")
    for engine in ENGINES:
        text = text_of(await call(searcher.engine(engine), pattern="needle"))
        assert text.split("\n")[1:] == [r"a\nb:1: needle", r"c\x07d:1: needle", r"e\xfff:1: needle"]


WORDS = ["needle", "Needle", "x", " ", "", "needle needle", "(needle)", "n\u00e9edle", "a.b", "{}", "\t", "end"]
FILE = st.lists(st.sampled_from(WORDS), max_size=8).map("\n".join) | st.sampled_from(
    ["needle\r\nx\r\n", "a\0needle", ""]
)
NAME = st.sampled_from(
    ["a.py", "b.txt", "d/c.py", "d/.hidden", "d/e/f.log", ".x/y.py", "d/b.txt", "z.log", "D/q", "a b", "é"]
)
IGNORED = st.lists(
    st.sampled_from(["*.log", "d/", "/a.py", "!d/e/f.log", "e", "*.txt", "**/c.py", "d/*", "!d/b.txt", "# x", ".x"]),
    max_size=4,
)
PATTERN = st.sampled_from(
    [
        "needle",
        "n.edle",
        "^x$",
        "^$",
        r"\bneedle\b",
        "(needle)",
        r"\(needle\)",
        "[Nn]e+dle",
        r"\w+$",
        "a.b",
        "{}",
        "é",
        r"\s",
        "x|end",
        "d{2}",
    ]
)


@pytest.mark.parametrize("other", ENGINES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(NAME, FILE, max_size=7),
    ignored=IGNORED,
    below=IGNORED,
    pattern=PATTERN,
    glob=st.sampled_from([None, "*.py", "d/**", "**/*.txt", "*.{py,log}", "d", "!*.py"]),
    sensitive=st.booleans(),
    literal=st.booleans(),
    context=st.integers(0, 2),
    limit=st.sampled_from([1, 3, 100]),
    start=st.sampled_from([".", "d"]),
)
async def test_both_engines_give_the_same_answer(
    tmp_path: Path,
    other: str,
    files: dict[str, str],
    ignored: list[str],
    below: list[str],
    pattern: str,
    glob: str | None,
    sensitive: bool,
    literal: bool,
    context: int,
    limit: int,
    start: str,
) -> None:
    """For any files, ignore rules, pattern and options: text and details are equal."""
    folder = tmp_path / "tree"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "d").mkdir(parents=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, newline="")
    (folder / ".gitignore").write_text("\n".join(ignored))
    (folder / "d/.gitignore").write_text("\n".join(below))
    searcher = Searcher(folder)
    params = {
        "pattern": pattern, "case_sensitive": sensitive, "literal": literal, "context_lines": context,
        "max_results": limit, "path": start,
    } | ({} if glob is None else {"glob": glob})  # fmt: skip
    try:
        ours = await call(searcher.own, **params)
        theirs = await call(searcher.engine(other), **params)
    finally:
        await searcher.workspace.aclose()

    assert text_of(ours) == text_of(theirs)
    assert ours.details == theirs.details


def test_ripgrep_is_asked_in_a_form_that_no_setting_of_the_user_changes(folder: Path) -> None:
    """The options we rely on exist in the ripgrep that is installed, if one is."""
    if RIPGREP is not None:
        known = subprocess.run([RIPGREP, "--help"], capture_output=True, text=True, check=True).stdout
        for option in ("--no-config", "--no-ignore-dot", "--no-ignore-exclude", "--no-require-git", "--crlf", "--json"):
            assert option in known
