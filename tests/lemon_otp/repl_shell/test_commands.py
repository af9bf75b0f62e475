"""A line becomes a query."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_otp.repl_shell.commands import BadCommand, parse, split_path, table, watched
from lemon_otp.repl_shell.completing import Names, complete

COMMANDS = table()


@pytest.mark.parametrize(
    ("line", "op", "parameters", "how"),
    [
        ("tree", "tree", {}, "once"),
        ("  tree   dynamic ", "tree", {"target": "dynamic"}, "once"),
        ("tree --all", "tree", {"all": True}, "once"),
        ("info session[a-b]", "info", {"target": "session[a-b]"}, "once"),
        ("info 'name with space'", "info", {"target": "name with space"}, "once"),
        ("inf 12", "info", {"target": "12"}, "once"),
        ("top", "top", {}, "live"),
        ("top memory --limit 5", "top", {"sort": "memory", "limit": 5}, "live"),
        ("top --limit 5 memory", "top", {"sort": "memory", "limit": 5}, "live"),
        ("state 12 .items[0] more --depth 3", "state", {"target": "12", "path": ".items[0] more", "depth": 3}, "once"),
        ("trace 12 --events", "trace", {"target": "12", "events": True}, "feed"),
        ("log", "log", {}, "once"),
        ("log 12 --follow", "follow_log", {"target": "12"}, "feed"),
        ("send 12 {'a': 1} and so on", "send", {"target": "12", "message": "{'a': 1} and so on"}, "once"),
        ("eval --1", "eval", {"code": "--1"}, "once"),
        ("watch state 12 --every 0.5", "watch", {"expression": "state 12", "every": 0.5}, "live"),
        ("kill 12", "kill", {"target": "12"}, "once"),
        ("help", "help", {}, "local"),
    ],
)
def test_a_line_is_understood(line: str, op: str, parameters: dict[str, object], how: str) -> None:
    """Command, arguments in order, flags anywhere; the rest of the line where text is wanted."""
    query = parse(line, COMMANDS)
    assert query is not None
    assert (query.op, dict(query.parameters), query.how) == (op, parameters, how)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "no command nonsense"),
        ("st 1", "state, stack, streams, stop"),
        ("info", "usage: info TARGET"),
        ("info 1 2", "too much"),
        ("info 1 --sideways", "has no --sideways"),
        ("top beauty", "none of messages"),
        ("top --limit", "needs a value"),
        ("top --limit many", "no whole number"),
        ("watch tree --every 0", "no time between"),
        ("watch tree --every nan", "no time between"),
        ("send 12", "usage: send TARGET MESSAGE"),
        ("evil\x1b[2J", "\\x1b"),
    ],
)
def test_what_cannot_be_understood_is_said_in_words(line: str, said: str) -> None:
    """With what would be."""
    with pytest.raises(BadCommand) as refused:
        parse(line, COMMANDS)
    assert said in str(refused.value)
    assert "\x1b" not in str(refused.value)


@given(st.text())
def test_no_line_fails_otherwise(line: str) -> None:
    """Whatever is typed is a query, nothing, or refused."""
    with suppress(BadCommand):
        parse(line, COMMANDS)


@pytest.mark.parametrize(
    ("expression", "target", "path"),
    [
        ("keeper", "keeper", ""),
        ("keeper.items[0].x", "keeper", ".items[0].x"),
        ("session[a.b-c].model", "session[a.b-c]", ".model"),
        ("12", "12", ""),
    ],
)
def test_a_path_is_told_from_the_process(expression: str, target: str, path: str) -> None:
    """Dots inside the key of an id belong to the id."""
    assert split_path(expression) == (target, path)
    query = watched(expression, COMMANDS)
    assert (query.op, dict(query.parameters)) == ("state", {"target": target, "path": path})


@pytest.mark.parametrize("expression", ["kill 1", "trace 1", "help", "watch tree", "eval 1"])
def test_only_looks_are_watched(expression: str) -> None:
    """What changes something is never asked again and again."""
    with pytest.raises(BadCommand, match="cannot be watched"):
        watched(expression, COMMANDS)
    assert watched("tree dynamic", COMMANDS).op == "tree"


NAMES = Names(((12, "session[abc]"), (13, "session[abd]"), (120, "keeper"), (14, "evil\x1b[2J")), ("top",), ("names",))


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tr", ["tree", "trace"]),
        ("info se", ["session[abc]", "session[abd]"]),
        ("info 12", ["12", "120"]),
        ("info t", ["top"]),
        ("kill k", ["keeper"]),
        ("info e", []),
        ("top m", ["messages", "mailbox", "memory"]),
        ("trace 12 --", ["--events"]),
        ("registry n", ["names"]),
        ("help ki", ["kill"]),
        ("info 12 x", []),
        ("send 12 x", []),
        ("nonsense x", []),
        ("tree --all k", ["keeper"]),
    ],
)
def test_what_may_come_next_is_offered(line: str, offered: list[str]) -> None:
    """Commands, processes by number, id and name, choices, flags; never what a terminal would obey."""
    assert [way.text for way in complete(line, COMMANDS, NAMES)] == offered
    assert all(line.endswith(line[len(line) - way.back :]) for way in complete(line, COMMANDS, NAMES))
