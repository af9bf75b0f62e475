"""A command is taken apart into all it does; what cannot be taken apart is called unclear."""

import pytest

from coding_agent.permissions import shell
from coding_agent.permissions.parts import ReadsFile, Run, Unclear, WritesFile
from coding_agent.permissions.shell import parts_of


def runs(command: str) -> list[str]:
    return [part.shown for part in parts_of(command) if isinstance(part, Run) and not part.plain_wrapper]


def unclear(command: str) -> bool:
    return any(isinstance(part, Unclear) for part in parts_of(command))


@pytest.mark.requirement("BR-167")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git log && touch /tmp/p", ["git log", "touch /tmp/p"]),
        ("(rm -rf x)", ["rm -rf x"]),
        ("true; rm f", ["true", "rm f"]),
        ("a | b |& c & d", ["a", "b", "c", "d"]),
        ("echo $(rm f)", ["rm f", "echo $(rm f)"]),
        ("echo `rm f`", ["rm f", "echo `rm f`"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("for i in 1 2; do rm $i; done", ["rm $i"]),
        ("case x in a) b;; *) c;; esac", ["b", "c"]),
        ("f() { rm x; }", ["rm x"]),
        ("bash -c 'rm a; bash -c \"rm b\"'", ['bash -c rm a; bash -c "rm b"', "rm a", "bash -c rm b", "rm b"]),
        ("find . -name x -exec rm {} +", ["find . -name x -exec rm {} +", "rm …"]),
        ("ls | xargs -n 1 rm -f", ["ls", "xargs -n 1 rm -f", "rm -f …"]),
        ("timeout -k 5 10 nice -n 3 rm x", ["rm x"]),
        ("sudo -u me rm x", ["sudo -u me rm x", "rm x"]),
        ("git log # rm x", ["git log"]),
        ("echo 'a; rm x'", ["echo a; rm x"]),
        ("cat <<'E'\n$(rm f)\nE", ["cat"]),
        ("cat <<E\n$(rm f)\nE", ["cat", "rm f"]),
    ],
)
def test_every_program_is_a_part(command, expected):
    """Compound commands, substitutions, functions and wrappers: each program with its words, and nothing unclear."""
    assert runs(command) == expected
    assert not unclear(command)


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("echo x > a", WritesFile("a")),
        ("echo x >> 'a b'", WritesFile("a b")),
        ("x &> a", WritesFile("a")),
        ("x 2> a", WritesFile("a")),
        ("{ a; b; } > c", WritesFile("c")),
        ("> a", WritesFile("a")),
        ("cat < a", ReadsFile("a")),
        ("bash a.sh", ReadsFile("a.sh")),
    ],
)
def test_files_that_the_shell_opens_are_parts(command, part):
    """A redirection writes whatever the program says."""
    assert part in parts_of(command)


@pytest.mark.parametrize("command", ["x 2>&1", "x > /dev/null", "x 2> /dev/stderr"])
def test_redirections_without_a_file_are_none(command):
    """Nothing is written."""
    assert [type(part) for part in parts_of(command)] == [Run]


@pytest.mark.parametrize(
    "command",
    [
        "$X", '"$@"', "$(echo rm) f", "r?", "echo rm | sh", "bash", "eval $X", "source x", "((x))", "echo $((x))",
        "${x@P}",
        "echo ${!x}", "echo ${x:y}", "[[ x -eq 1 ]]", "[ -v x ]", "a[$(rm)]=1", "export PATH=/x", "PATH=/x git log",
        "BASH_ENV=x bash -c :", "LD_PRELOAD=x git log", "alias x=y", "hash -p /x y", "echo x > $y", "cd /x && echo > y",
        "python3 -c 'x'", "perl -e x", "awk 'BEGIN{system(\"x\")}'", "sed 1e", "find . -delete", "parallel x",
        "echo > s; ./s",
        "if", "echo 'x", "echo (", "a\\\nb", "cat <<E\nx", "\x1b[1m", "coproc { x; }", "trap $x EXIT", "xargs sh",
        "env -S 'a b'",
    ],
)  # fmt: skip
def test_what_cannot_be_known_is_unclear(command):
    """Expansions that become programs, code read at run time, arithmetic on names, what does not parse."""
    assert unclear(command)


def test_commands_that_are_too_long_or_too_deep_are_unclear():
    """Nobody waits for a parser, and nothing is cut off silently."""
    assert unclear("true;" * 50_000)
    assert unclear("(" * 200 + "true" + ")" * 200)
    nested = "true"
    for _ in range(12):
        nested = "bash -c " + "'" + nested.replace("'", "'\\''") + "'"
        if len(nested) > 50_000:
            break
    assert unclear(nested)


def test_without_the_parser_it_is_said_what_to_install(monkeypatch):
    """The parser is an extra; without it nothing can be judged, and that is an error of its own."""
    shell._parser.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "tree_sitter_bash", None)

    with pytest.raises(shell.NoParser, match="permissions"):
        parts_of("git log")

    monkeypatch.undo()
    shell._parser.cache_clear()
    assert runs("git log") == ["git log"]
