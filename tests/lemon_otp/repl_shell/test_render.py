"""An answer becomes a page, and a page text."""

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lemon_otp.repl_shell.commands import table
from lemon_otp.repl_shell.drawing import PlainDrawing, RichDrawing, drawing
from lemon_otp.repl_shell.render import RENDERERS, doing, event_page, help_page, render, seconds, size
from lemon_otp.repl_shell.sheets import Table, cell, lines, page, plain, width_of

EVIL = "\x1b[2J\x1b]0;owned\x07\u202e\n\r"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def node(**more: Any) -> dict[str, Any]:
    made = {"id": "top", "pid": 1, "module": "m", "kind": "worker", "state": "idle", "facts": {}, "children": []}
    return {**made, "mailbox_length": 0, "restarts": 0, **more}


def test_the_tree_shows_branches_and_only_the_columns_that_hold_something() -> None:
    """What a process is at, how long, what it and everything below it used."""
    child = node(
        id="session[a]", pid=2, facts={"phase": "tool", "tool": "bash", "argument": "sleep 600"}, elapsed_s=61.0
    )
    child |= {"tokens": 10, "subtree_tokens": 1_010, "state": "busy"}
    shown = plain(render("tree", {"ok": True, "tree": [node(children=[child, node(id="last", pid=3)])]}))
    first, top, second, last = shown.splitlines()
    assert first.split() == ["process", "pid", "state", "doing", "for", "tokens"]
    assert top.startswith("top")
    assert second.startswith("├─ session[a]    2  busy   tool bash: sleep 600  1 m 01 s  10 of 1,010")
    assert last.startswith("└─ last")


def test_a_tree_of_many_processes_is_cut_unless_all_was_asked_for() -> None:
    """With how many are left out."""
    children = [node(id=f"n{number}", pid=number) for number in range(3_000)]
    answer = {"ok": True, "tree": [node(children=children)]}
    assert "2001 more; `tree --all`" in plain(render("tree", answer))
    assert len(plain(render("tree", {**answer, "all": True})).splitlines()) == 3_002


def test_a_partial_answer_says_so_first_and_shows_who_holds_the_loop() -> None:
    """With the stack that blocks."""
    frame = {"file": "tool.py", "line_number": 3, "function": "work", "line": "time.sleep(60)"}
    held = {"holder": "<pid 7 tool>", "pid": 7, "stack": [frame]}
    shown = plain(render("tree", {"ok": True, "tree": [node()], "partial": "the event loop is held up", "held": held}))
    assert shown.splitlines()[:3] == [
        "! the event loop is held up",
        "! <pid 7 tool> holds the event loop up, at",
        "!     tool.py:3 in work: time.sleep(60)",
    ]


def test_an_error_is_a_line() -> None:
    """And so is an answer that cannot be shown."""
    assert plain(render("info", {"ok": False, "error": "no such process"})) == "error: no such process"
    assert "cannot be shown" in plain(render("tree", {"ok": True}))
    assert plain(render("kill", {"ok": True, "text": "killed"})) == "killed"


@settings(max_examples=20)
@pytest.mark.parametrize("op", sorted(RENDERERS))
@given(answer=st.dictionaries(st.sampled_from(["tree", "rows", "entries", "names", "frames", "value", "text"]), JSON))
def test_whatever_a_host_answers_is_shown_without_failing(op: str, answer: dict[str, Any]) -> None:
    """A host of another version, or one that lies."""
    shown = plain(render(op, {"ok": True, **answer}))
    assert all(char.isprintable() or char == "\n" for char in shown)


def test_nothing_that_a_terminal_obeys_gets_through() -> None:
    """From ids, facts, states, messages, errors and events; in plain text and in colours."""
    evil = node(id=EVIL, facts={"phase": EVIL, EVIL: EVIL}, state=EVIL)
    answers: list[tuple[str, dict[str, Any]]] = [
        ("tree", {"tree": [evil]}),
        ("state", {"value": EVIL}),
        ("messages", {"messages": [EVIL], "waiting": 1}),
        ("info", {"name": EVIL, "facts": {EVIL: EVIL}}),
        ("registry", {"names": [{"name": EVIL, "pid": 1}], "registries": []}),
        ("kill", {"text": EVIL}),
        ("log", {"records": [{"wall_ms": 1, "level": EVIL, "text": EVIL}]}),
        ("history", {"entries": [{"wall_ms": 1, "pid": 1, "event": EVIL, "x": EVIL}]}),
    ]
    for op, answer in answers:
        pages = [render(op, {"ok": True, **answer}), render(op, {"ok": False, "error": EVIL})]
        pages.append(render(op, {"ok": True, **answer, "partial": EVIL, "held": {"holder": EVIL, "stack": []}}))
        for shown in pages:
            assert not {"\x1b", "\x07", "\r", "\u202e"} & set(plain(shown))
            out = io.StringIO()
            RichDrawing(out).show(shown)
            assert not {"\x1b", "\x07", "\r", "\u202e"} & set(out.getvalue())
    assert "\x1b" not in plain(event_page("trace", {"wall_ms": 1, "what": EVIL, "text": EVIL}))
    assert "\x1b" not in plain(event_page("other", EVIL))


def test_rich_markup_in_a_name_is_text() -> None:
    """A process called `[bold]` is called `[bold]`."""
    out = io.StringIO()
    RichDrawing(out).show(page(lines("[bold red]name[/]"), Table(("a",), ((cell("[link=x]y[/link]"),),))))
    assert "[bold red]name[/]" in out.getvalue()
    assert "[link=x]y[/link]" in out.getvalue()


def test_a_pipe_gets_plain_text() -> None:
    """Colours are for terminals."""
    assert isinstance(drawing(io.StringIO()), PlainDrawing)


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        ({}, ""),
        ({"phase": "idle"}, "idle"),
        ({"phase": "model", "model": "x"}, "waits for model model=x"),
        ({"phase": "tool", "tool": "bash", "argument": "ls"}, "tool bash: ls"),
        ({"phase": "permission", "tool": "bash"}, "waits for permission: bash"),
        ({"phase": "child", "tool": "task"}, "waits for child: task"),
        ({"tool": "bash", "argument": "ls"}, "bash: ls"),
        ({"session": "a", "state": "running", "other": "1"}, "other=1"),
    ],
)
def test_what_a_process_is_at_is_told_in_a_few_words(facts: dict[str, str], shown: str) -> None:
    """The phase first; what the id says already is left out."""
    assert doing(facts).strip(": ") == shown.strip(": ")


def test_times_and_sizes_are_read_by_people() -> None:
    """With units."""
    assert [seconds(value) for value in (0.005, 1.25, 75, 7_260, None)] == ["5 ms", "1.2 s", "1 m 15 s", "2 h 01 m", ""]
    assert [size(value) for value in (10, 2_048, 5 * 1024**2, 3 * 1024**3)] == ["10 B", "2 KB", "5 MB", "3.0 GB"]


def test_wide_characters_keep_columns_in_line() -> None:
    """A name may be written in any script."""
    assert width_of("日本") == 4
    shown = plain(page(Table(("a", "b"), ((cell("日本"), cell("x")), (cell("abcd"), cell("y"))))))
    assert [width_of(line.split("  ")[0]) if i else 0 for i, line in enumerate(shown.splitlines())][1:] == [4, 4]


def test_help_lists_commands_and_hides_what_was_not_asked_for() -> None:
    """`eval` is shown to those who asked for `--unsafe`."""
    assert "eval" not in plain(help_page(table(), None))
    assert "eval CODE" in plain(help_page(table(), None, unsafe=True))
    assert "usage: trace TARGET [--events]" in plain(help_page(table(), "trace"))
    assert "no command" in plain(help_page(table(), "nope"))
