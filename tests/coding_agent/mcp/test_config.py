"""Which servers are configured: files, precedence, expansion, names."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.mcp.config_files import read_servers
from coding_agent.mcp.entries import BadEntry, entry_from
from coding_agent.mcp.expansion import Unset, expanded
from coding_agent.mcp.names import LENGTH_MAX, rule_for_server, tool_names
from coding_agent.permissions.rules import parse_rule


class Disk:
    """A home and a project, and files in them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.project.mkdir()
        self.variables = {"HOME": str(self.home)}

    def put(self, path: Path, content: object) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")

    def read(self, *, trusted: bool = True):
        return read_servers(self.project, self.variables, trusted=trusted)

    def commands(self, *, trusted: bool = True) -> dict[str, str]:
        return {entry.name: entry.command for entry in self.read(trusted=trusted).entries}


@pytest.fixture
def disk(tmp_path) -> Disk:
    return Disk(tmp_path)


def servers(**named: str) -> dict:
    return {"mcpServers": {name: {"command": command} for name, command in named.items()}}


def test_local_wins_over_project_and_project_over_user_by_name(disk):
    """The whole entry of the stronger file counts; names that only one file has are all there."""
    local = {str(disk.project): servers(all="local")}
    disk.put(disk.home / ".claude.json", {**servers(all="user", two="user", mine="user"), "projects": local})
    disk.put(disk.project / ".mcp.json", servers(all="project", two="project", theirs="project"))

    assert disk.commands() == {"all": "local", "two": "project", "mine": "user", "theirs": "project"}


def test_nothing_of_a_replaced_entry_is_left(disk):
    """Arguments and variables of the weaker entry are gone."""
    disk.put(disk.home / ".claude.json", {"mcpServers": {"a": {"command": "x", "args": ["1"], "env": {"A": "b"}}}})
    disk.put(disk.project / ".mcp.json", servers(a="y"))

    (entry,) = disk.read().entries

    assert (entry.command, entry.args, dict(entry.env)) == ("y", (), {})


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (".mcp.json", "mcpServers"),
        (".vscode/mcp.json", "servers"),
        (".cursor/mcp.json", "mcpServers"),
        (".pi/mcp.json", "mcpServers"),
    ],
)
def test_each_file_of_a_repository_is_read_once_it_is_trusted(disk, path, key):
    """Before, its servers are listed as waiting and nothing of them is run or expanded."""
    disk.put(disk.project / path, {key: {"a": {"command": "${NOT_SET}"}, "b": {"command": "x"}}})

    before, after = disk.read(trusted=False), disk.read()

    assert (before.entries, before.problems, before.waiting) == ((), (), ("a", "b"))
    assert [entry.name for entry in after.entries] == ["b"]
    assert after.waiting == ()


@pytest.mark.parametrize("path", [".cursor/mcp.json", ".pi/agent/mcp.json", ".claude.json", ".config/lemon/mcp.json"])
def test_each_file_of_the_user_is_read_without_trust(disk, path):
    """What a person configured for themselves runs in any folder."""
    disk.put(disk.home / path, servers(a="x"))

    assert disk.commands(trusted=False) == {"a": "x"}


def test_an_unset_variable_fails_that_server_by_name_and_no_other(disk):
    """The problem names server and variable; the other server is there."""
    disk.put(disk.home / ".claude.json", {"mcpServers": {"a": {"command": "${NOPE}"}, "b": {"command": "x"}}})

    found = disk.read()

    assert [entry.name for entry in found.entries] == ["b"]
    assert len(found.problems) == 1
    assert found.problems[0].startswith("a: the variable NOPE is not set")


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"mcpServers": 3}', "\udcff", '{"mcpServers": {"a": 1}}', "[" * 100_000]
)
def test_a_broken_file_is_a_problem_and_the_others_count(disk, content):
    """Whatever stands in a file, reading does not fail."""
    (disk.project / ".mcp.json").write_text(content, encoding="utf-8", errors="surrogateescape")
    disk.put(disk.home / ".claude.json", servers(b="x"))

    found = disk.read()

    assert [entry.name for entry in found.entries] == ["b"]
    assert len(found.problems) == 1


def test_a_disabled_entry_is_no_server_and_hides_a_weaker_one(disk):
    """`disabled` and `enabled: false` switch it off, without a problem."""
    disk.put(disk.home / ".claude.json", servers(a="x", b="x"))
    off = {"mcpServers": {"a": {"command": "y", "disabled": True}, "b": {"command": "y", "enabled": False}}}
    disk.put(disk.project / ".mcp.json", off)

    assert disk.commands() == {}
    assert disk.read().problems == ()


def test_the_folder_of_an_editors_file_can_be_named(disk):
    """VS Code's `${workspaceFolder}` and `${env:NAME}` are known; what only the editor can ask for is a problem."""
    disk.variables["TOKEN"] = "t"
    entries = {
        "a": {"type": "stdio", "command": "x", "args": ["${workspaceFolder}/s", "${env:TOKEN}"]},
        "b": {"type": "http", "url": "http://x/", "headers": {"K": "${input:key}"}},
    }
    disk.put(disk.project / ".vscode/mcp.json", {"servers": entries, "inputs": []})

    found = disk.read()

    assert found.entries[0].args == (f"{disk.project}/s", "t")
    assert "${input:key}" in found.problems[0]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("${A}", "1"),
        ("x${A}y${A}z", "x1y1z"),
        ("${NO:-d}", "d"),
        ("${NO:-}", ""),
        ("${A:-d}", "1"),
        ("${EMPTY:-d}", "d"),
        ("${EMPTY}", ""),
        ("$A", "$A"),
        ("${REF}", "${A}"),
        ("${}", "${}"),
        ("${1A}", "${1A}"),
    ],
)
def test_references_are_expanded_once(text, result):
    """A value is not looked into again, and other dollars stay."""
    assert expanded(text, {"A": "1", "EMPTY": "", "REF": "${A}"}) == result


def test_an_unset_reference_without_a_default_is_named():
    """There is no server with half its address."""
    with pytest.raises(Unset, match="the variable NO is not set"):
        expanded("a ${NO} b", {})


def test_everything_that_may_hold_a_reference_is_expanded():
    """Command, arguments, variables, address and headers."""
    variables = {"V": "v"}
    stdio = entry_from("a", {"command": "${V}", "args": ["${V}"], "env": {"E": "${V}"}}, variables)
    http = entry_from("b", {"url": "http://${V}/", "headers": {"H": "${V}"}}, variables)

    assert (stdio.command, stdio.args, dict(stdio.env)) == ("v", ("v",), {"E": "v"})
    assert (http.url, dict(http.headers)) == ("http://v/", {"H": "v"})


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ({"command": "x"}, "stdio"),
        ({"url": "http://x"}, "http"),
        ({"type": "streamable-http", "url": "http://x"}, "http"),
        ({"type": "sse", "url": "https://x"}, "sse"),
        ({"type": "stdio", "command": "x"}, "stdio"),
    ],
)
def test_a_missing_type_is_told_by_command_or_url(raw, kind):
    """As every program that shares these files does it."""
    assert entry_from("a", raw, {}).kind == kind


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"type": "ws", "url": "x"},
        {"url": "file:///x"},
        {"command": "x", "args": "y"},
        {"command": 3},
        {"url": 3},
        7,
        {"command": "x", "env": ["a"]},
        {"url": "http://x", "headers": {"a": {}}},
        {"url": "http://x", "headers": {"a": "b\nc"}},
    ],
)
def test_an_entry_that_says_nothing_usable_is_refused(raw):
    """The text says what is missing."""
    with pytest.raises(BadEntry):
        entry_from("a", raw, {})


def test_neither_values_nor_address_show_in_an_entrys_text():
    """`repr` is what ends up in logs and crash reports."""
    stdio = entry_from("a", {"command": "x", "args": ["--key=secret1"], "env": {"KEY": "secret2"}}, {})
    http = entry_from(
        "b", {"url": "http://me:secret3@x/?key=secret4", "headers": {"Authorization": "Bearer secret5"}}, {}
    )

    assert "secret" not in repr(stdio) + repr(http)
    assert http.masked("it said secret5 and key=secret4") == "it said *** and ***"


def test_a_secret_that_an_argument_or_an_address_names_is_not_shown():
    """A server may repeat them: a variable with such a name is masked wherever it stands, a path is not."""
    variables = {"MY_TOKEN": "hush-hush-1", "HOME": "/home/somebody"}
    raw = {"command": "${HOME}/x", "args": ["--key", "${MY_TOKEN}"]}
    stdio = entry_from("a", raw, variables)
    http = entry_from("b", {"url": "http://x/${MY_TOKEN}/mcp"}, variables)

    for entry in (stdio, http):
        assert entry.masked("bad hush-hush-1 in /home/somebody") == "bad *** in /home/somebody"
        assert "hush" not in repr(entry)


def test_only_the_users_own_files_can_let_a_tool_run_unasked():
    """A repository cannot: its `alwaysAllow` is ignored."""
    raw = {"command": "x", "alwaysAllow": ["t"]}

    assert entry_from("a", raw, {}, scope="user").always_allow == ("t",)
    assert entry_from("a", raw, {}, scope="project").always_allow == ()


def test_tools_are_named_after_their_server():
    """Characters that models do not take become underscores."""
    assert tool_names([("my server", "do.it!")]) == {("my server", "do.it!"): "mcp__my_server__do_it_"}


def test_names_that_clash_or_are_too_long_get_a_suffix():
    """Who comes first keeps the plain name; the suffix is the same each time."""
    tools = [("a.b", "t"), ("a_b", "t"), ("a", "x" * 80)]

    names = tool_names(tools)

    assert names["a.b", "t"] == "mcp__a_b__t"
    assert names["a_b", "t"].startswith("mcp__a_b__t_")
    assert len(names["a", "x" * 80]) == LENGTH_MAX
    assert names == tool_names(tools)


@given(st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1))))
def test_every_tool_has_a_name_of_its_own_that_models_take(tools):
    """Whatever servers call themselves."""
    names = tool_names(tools)

    assert len(set(names.values())) == len(names)
    assert all(len(name) <= LENGTH_MAX and name.isascii() for name in names.values())


def test_one_rule_is_about_all_tools_of_a_server():
    """`mcp__server__*`, and not those of another."""
    rule = parse_rule(rule_for_server("demo", ["demo2", "other"]) or "", "allow")

    assert str(rule) == "mcp__demo__*"
    assert rule.names("mcp__demo__add")
    assert not rule.names("mcp__demo2__add")
    assert not rule.names("bash")
    assert rule_for_server("demo", ["demo__x"]) is None  # it would be about both
    assert rule_for_server("a" * 80, []) is None  # names of its tools are cut


def test_a_timeout_may_be_in_seconds_or_milliseconds():
    """Programs differ; nobody means an hour by 60000."""
    assert entry_from("a", {"command": "x", "timeout": 30}, {}).timeout_s == 30
    assert entry_from("a", {"command": "x", "timeout": 60_000}, {}).timeout_s == 60
    assert entry_from("a", {"command": "x", "timeout": -1}, {}).timeout_s == 300
