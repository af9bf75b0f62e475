"""Rules: how they are written, what they match, and which one "always allow" makes."""

import pytest

from coding_agent.permissions.parts import Run
from coding_agent.permissions.rules import BadRule, Rule, match_host, match_path, match_run, parse_rule, rule_for
from coding_agent.permissions.shell_words import word


def run(command: str) -> Run:
    return Run(tuple(word(each) for each in command.split()))


@pytest.mark.requirement("BR-168")
@pytest.mark.parametrize(
    ("pattern", "command", "matches"),
    [
        ("git *", "git", True),
        ("git *", "git log -3", True),
        ("git *", "gitk", False),
        ("git *", "/tmp/git log", False),
        ("git:*", "git log", True),
        ("git log *", "git log -3", True),
        ("git log *", "git push", False),
        ("git log *", "git $x", False),
        ("git log", "git log", True),
        ("git log", "git log -3", False),
        ("git status", "git $x", False),
        ("npm run test*", "npm run test:unit", True),
        ("git *", "$x log", False),
    ],
)
def test_allowing_matches_whole_words(pattern, command, matches):
    """A word is a word: `git *` says nothing about `gitk`, nor about another program of that name elsewhere."""
    assert (match_run(parse_rule(f"bash({pattern})", "allow"), run(command)) == "yes") == matches


@pytest.mark.requirement("BR-167")
@pytest.mark.parametrize(
    ("pattern", "command", "match"),
    [
        ("rm *", "rm", "yes"),
        ("rm", "rm -rf x", "yes"),
        ("rm *", "/bin/rm x", "yes"),
        ("rm *", "rmdir x", "no"),
        ("rm *", "$x y", "maybe"),
        ("git push *", "git push origin", "yes"),
        ("git push *", "git -C x push", "maybe"),
        ("git push *", "git $x", "maybe"),
        ("git push *", "git log", "no"),
        ("rm *", "xvfb-run rm x", "maybe"),
        ("rm *", "echo rm", "no"),
    ],
)
def test_denying_matches_whatever_begins_so_and_is_careful_with_the_rest(pattern, command, match):
    """A path to the program does not help; what may be meant is asked about."""
    assert match_run(parse_rule(f"bash({pattern})", "deny"), run(command)) == match


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("src/**", "src/a/b.py", True),
        ("src/**", "src2/a.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("*.env", "a/b/.env", True),
        (".env", "a/.env", True),
        ("./.env", "a/.env", False),
        ("./.env", ".env", True),
        ("a.py", "aXpy", False),
        ("**/secret/*", "a/secret/x", True),
        ("/etc/**", "/etc/passwd", True),
        ("/etc/**", "etc/passwd", False),
    ],
)
def test_paths_match_as_in_a_gitignore(pattern, path, matches):
    """Relative to the workspace, absolute with a slash in front, by name anywhere without one."""
    real = path if path.startswith("/") else f"/project/{path}"
    assert match_path(parse_rule(f"write({pattern})", "allow"), path, real) == matches


def test_denying_a_folder_denies_what_is_in_it():
    """`deny write(keys)` needs no stars."""
    rule = parse_rule("write(keys)", "deny")
    assert match_path(rule, "keys/a/b", "/project/keys/a/b")
    assert not match_path(Rule("allow", "write", "keys"), "keys/a/b", "/project/keys/a/b")


@pytest.mark.parametrize(
    ("pattern", "url", "matches"),
    [
        ("example.com", "https://example.com/x", True),
        ("example.com", "https://EXAMPLE.com./x", True),
        ("domain:example.com", "http://example.com", True),
        ("example.com", "https://example.com.evil.test/", False),
        ("example.com", "https://evil.test/example.com", False),
        ("example.com", "https://example.com@evil.test/", False),
        ("example.com", "https://a.example.com/", False),
        ("*.example.com", "https://a.example.com/", True),
        ("*.example.com", "https://example.com/", False),
    ],
)
def test_hosts_match_whole(pattern, url, matches):
    """The host an address really leads to, not a text somewhere in it."""
    assert match_host(parse_rule(f"web_fetch({pattern})", "allow"), url) == matches


@pytest.mark.requirement("BR-168")
@pytest.mark.parametrize(
    "text", ["bash(git *; rm x)", "bash(a && b)", "bash(a | b)", "bash(a > b)", "bash($(a))", "(x)", "a b", ""]
)
def test_a_rule_with_operators_is_no_rule(text):
    """A rule is about one command."""
    with pytest.raises(BadRule):
        parse_rule(text, "allow")


@pytest.mark.requirement("BR-168")
@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("mkdir foo", "bash(mkdir *)"),
        ("git log -3", "bash(git log *)"),
        ("git -C x push", "bash(git -C x push)"),
        ("rm -rf build", "bash(rm -rf build)"),
        ("./build.sh x", "bash(./build.sh x)"),
        ("bash -c x", None),
        ("sudo ls", None),
        ("mkdir $x", None),
        ("mkdir a*", None),
    ],
)
def test_always_allow_keeps_to_what_was_shown(command, rule):
    """Whole words, no operators, exact for what is dangerous, nothing at all for what runs other commands."""
    made = rule_for(run(command))
    assert (None if made is None else str(made)) == rule


@pytest.mark.requirement("BR-168")
def test_the_rule_made_from_mkdir_allows_neither_mkdirx_nor_a_second_command():
    """Approve `mkdir foo` always; then `mkdiranything` and `mkdir x && id` are asked about."""
    from coding_agent.permissions.policy import InShell, Policy
    from coding_agent.permissions.shell import parts_of

    rule = rule_for(run("mkdir foo"))
    assert rule is not None
    policy = Policy("edit", (rule,))

    def verdict(command: str) -> str:
        return policy.judge([InShell("bash", part) for part in parts_of(command)]).verdict

    assert verdict("mkdir x") == "allow"
    assert verdict("mkdiranything") == "ask"
    assert verdict("mkdir x && id") == "ask"
    assert verdict("mkdir $(id)") == "ask"
