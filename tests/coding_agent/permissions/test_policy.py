"""Modes and rules together: what is allowed, asked, denied."""

import pytest

from coding_agent.permissions.actions import tool_use
from coding_agent.permissions.policy import Policy
from coding_agent.permissions.rules import parse_rule
from coding_agent.tools.paths import PathGuard


@pytest.fixture
def guard(tmp_path):
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / ".git").mkdir()
    (work / "a.txt").write_text("a")
    (tmp_path / "out.txt").write_text("out")
    (work / "link").symlink_to(tmp_path / "out.txt")
    return PathGuard(work)


def policy(mode="ask", **rules) -> Policy:
    return Policy(mode, tuple(parse_rule(text, kind) for kind, texts in rules.items() for text in texts))


def verdict(guard, held: Policy, tool: str, **args) -> str:
    return held.judge(tool_use(tool, args, guard).actions).verdict


def bash(guard, held: Policy, command: str) -> str:
    return verdict(guard, held, "bash", command=command)


READ = ("read", {"path": "a.txt"})
READ_OUTSIDE = ("read", {"path": "../out.txt"})
READ_THROUGH_LINK = ("read", {"path": "link"})
WRITE = ("write", {"path": "src/new.py", "content": ""})
WRITE_GIT = ("write", {"path": ".git/config", "content": ""})
WRITE_LINK = ("edit", {"path": "link", "old_text": "a", "new_text": "b"})
BASH = ("bash", {"command": "ls"})
FETCH = ("web_fetch", {"url": "https://example.com"})
TODO = ("todo", {})
CUSTOM = ("deploy", {"to": "prod"})


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("ask", "allow ask ask ask ask ask ask ask allow ask"),
        ("edit", "allow ask ask allow ask ask ask ask allow ask"),
        ("full", "allow ask ask allow ask ask allow allow allow allow"),
        ("plan", "allow ask ask deny deny deny deny ask allow deny"),
    ],
)
def test_a_mode_says_what_goes_without_asking(guard, mode, expected):
    """Reading inside always; edits from `edit` on; commands in `full`; `plan` changes nothing; outside is asked."""
    calls = (READ, READ_OUTSIDE, READ_THROUGH_LINK, WRITE, WRITE_GIT, WRITE_LINK, BASH, FETCH, TODO, CUSTOM)

    assert [verdict(guard, policy(mode), tool, **args) for tool, args in calls] == expected.split()


@pytest.mark.requirement("BR-167")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git log", "allow"),
        ("git log && git status", "allow"),
        ("git log && touch /tmp/p", "ask"),
        ("git log; curl x | sh", "ask"),
        ("git log $(touch x)", "ask"),
        ("git log > a.txt", "ask"),
        ("git log > /dev/null 2>&1", "allow"),
        ("GIT_PAGER=x git log", "ask"),
        ("LC_ALL=C git log", "allow"),
        ("timeout 5 git log", "allow"),
        ("env X=1 git log", "ask"),
        ("git log &", "allow"),
        ("git log 'a", "ask"),
    ],
)
def test_allowing_needs_every_part(guard, command, expected):
    """`allow bash(git *)` lets through what is git alone."""
    assert bash(guard, policy("ask", allow=["bash(git *)"]), command) == expected


@pytest.mark.requirement("BR-167")
@pytest.mark.parametrize(
    "command",
    [
        "true; rm f", "(rm -rf x)", "X=1 rm f", "echo $(rm f)", "`rm f`", "bash -c 'rm f'", "env X=1 rm f",
        "ls | xargs rm",
        "find . -exec rm {} \\;", "/bin/rm f", "r''m f", "if true; then rm f; fi", "f() { rm x; }; f", "true && ! rm f",
    ],
)  # fmt: skip
def test_denying_needs_one_part(guard, command):
    """`deny bash(rm *)` holds in every mode, wherever the program stands."""
    for mode in ("ask", "edit", "full"):
        assert bash(guard, policy(mode, deny=["bash(rm *)"], allow=["bash"]), command) == "deny"


def test_deny_wins_over_ask_and_ask_over_allow(guard):
    """Whatever the order they are given in."""
    held = policy("full", allow=["bash(git *)"], ask=["bash(git push *)"], deny=["bash(git push --force *)"])

    assert bash(guard, held, "git log") == "allow"
    assert bash(guard, held, "git push") == "ask"
    assert bash(guard, held, "git push --force x") == "deny"


def test_tools_with_the_same_effect_share_their_rules(guard):
    """Denying `write(src/**)` denies edit, patch and redirections there; denying a command denies it to `process`."""
    held = policy("full", deny=["write(src/**)", "bash(rm *)"])

    assert verdict(guard, held, "edit", path="src/a.py", old_text="a", new_text="b") == "deny"
    patch = "*** Begin Patch\n*** Add File: src/x.py\n+x\n*** End Patch"
    assert verdict(guard, held, "patch", patch_text=patch) == "deny"
    assert bash(guard, held, "echo x > src/x.py") == "deny"
    assert verdict(guard, held, "process", action="start", command="rm x") == "deny"
    assert verdict(guard, held, "process", action="poll", id="x") == "allow"


def test_what_may_not_be_read_may_not_be_changed_in_part(guard):
    """An edit or a patch shows lines around the change, and what is there when it does not fit; a write does not."""
    held = policy("full", deny=["read(src/**)"])

    assert verdict(guard, held, "edit", path="src/a.py", old_text="a", new_text="b") == "deny"
    assert verdict(guard, held, "hashline_edit", path="src/a.py", edits=[]) == "deny"
    patch = "*** Begin Patch\n*** Update File: src/x.py\n@@\n-x\n+y\n*** End Patch"
    assert verdict(guard, held, "patch", patch_text=patch) == "deny"
    assert verdict(guard, held, "write", path="src/new.py", content="x") == "allow"
    assert verdict(guard, policy("plan"), "edit", path="src/a.py", old_text="a", new_text="b") == "deny"
    assert verdict(guard, policy("edit"), "edit", path="src/a.py", old_text="a", new_text="b") == "allow"


def test_a_rule_about_a_path_sees_where_it_really_leads(guard, tmp_path):
    """A link, `..` or another spelling leads to the same file and the same rule."""
    (tmp_path / "work" / "alias").symlink_to("src")
    held = policy("edit", deny=["write(src/**)"])

    for path in ("src/x", "./src/x", "src/../src/x", "alias/x", str(tmp_path / "work/src/x")):
        assert verdict(guard, held, "write", path=path, content="") == "deny", path


def test_plan_is_read_only_whatever_the_rules_allow(guard):
    """Mode `plan` is not widened by `allow`."""
    held = policy("plan", allow=["bash", "write", "deploy"])

    assert bash(guard, held, "ls") == "deny"
    assert verdict(guard, held, "write", path="src/x", content="") == "deny"


def test_in_full_mode_what_cannot_be_judged_is_asked_about_only_when_a_rule_restricts(guard):
    """Without rules nothing is taken apart; with one, the unknown is not let through."""
    assert bash(guard, policy("full"), "$X 'unparsable") == "allow"
    assert bash(guard, policy("full", deny=["bash(rm *)"]), "$X y") == "ask"


def test_what_always_would_store_is_offered_only_when_it_is_enough(guard):
    """For a compound command all of its rules; none at all when a part can have none."""
    needs = policy("ask").judge(tool_use("bash", {"command": "mkdir a && git log"}, guard).actions).needs
    assert [str(rule) for rule in needs] == ["bash(mkdir *)", "bash(git log *)"]
    assert policy("ask").judge(tool_use("bash", {"command": "mkdir a && $X"}, guard).actions).needs == ()
    write = policy("ask").judge(tool_use("write", {"path": "a.txt", "content": ""}, guard).actions)
    assert [str(rule) for rule in write.needs] == ["write(./a.txt)"]
