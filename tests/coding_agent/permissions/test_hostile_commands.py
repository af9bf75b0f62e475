"""However a forbidden program is spelled: a command that really runs it is never let through."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.coding_agent.permissions.hostile import DENIED, Range

SPELLINGS = (
    "denied", "./../bin/denied", "d'enied'", 'd"enie"d', "\\denied", "den\\ied", "$'\\x64enied'", "$'\\144enied'",
    "''denied", '"denied"', "'denied'", '$"denied"', "$(echo denied)", "`echo denied`", "${x:-denied}", "den{ied,}",
    "../bin/den*", "../bin/d?nied", "{denied,x}", "$X", '"$X"', "den\\\nied", "d''e''nied",
)  # fmt: skip
WRAPPERS = (
    "{}", "({})", "{{ {}; }}", "true; {}", "true && {}", "false || {}", "! {}", "{} &", "true | {}", "{} | cat",
    "echo $({})", "echo `{}`", 'echo "$({})"', "echo \"`{}`\"", "cat <({})", "echo x > >({})", "A=1 {}", "A=$({})",
    "if true; then {}; fi", "if {}; then :; fi", "while {}; do break; done", "until {}; do break; done",
    "for i in 1; do {}; done", "for i in $({}); do :; done", "case x in x) {};; esac", "case $({}) in *) :;; esac",
    "f() {{ {}; }}; f", "function f {{ {}; }}; f", "f() ( {} ); f", "[[ -n $({}) ]]", "[ -n \"$({})\" ]",
    "cat <<< $({})", "cat <<E\n$({})\nE", "cat <<E\n`{}`\nE", "cat <<E >x\nx $({}) `{}`\nE\n", "cat <<'E'\nx\nE\n{}",
    "env {}", "env A=1 {}", "env -u A {}", "env -i PATH=$PATH MARK=$MARK {}", "env -- {}", "xargs {} < /dev/null",
    "echo | xargs {}", "echo 1 | xargs -I% {}", "find . -maxdepth 0 -exec {} \\;", "find . -maxdepth 0 -exec {} {{}} +",
    "timeout 2 {}", "timeout -k 1 2 {}", "nice -n 1 {}", "nohup {}", "setsid {}", "stdbuf -o0 {}", "command {}",
    "builtin command {}", "exec {}", "time {}", "coproc {}", "coproc C {{ {}; }}", "bash -c '{}'", 'bash -c "{}"',
    "bash -ec '{}'", "bash -c -- '{}'", "sh -c '{}'", "echo '{}' | bash", "bash <<< '{}'", "bash <<'E'\n{}\nE",
    "bash <<E\n{}\nE", "bash -s <<'E'\n{}\nE", "eval '{}'", "eval {}", "trap '{}' EXIT", ". <(echo '{}')",
    "source /dev/stdin <<< '{}'", "shopt -s expand_aliases\nalias q='{}'\nq", "x='a[$({})]'; (( x ))",
    "x='a[$({})]'; echo $((x))", "x='a[$({})]'; [[ x -eq 1 ]]", "x='a[$({})]'; [ -v \"$x\" ]", "test -v 'a[$({})]'",
    "x='a[$({})]'; echo ${{!x}}", "x='$({})'; echo ${{x@P}}", "x='a[$({})]'; echo ${{y:x}}", "printf -v 'a[$({})]' x",
    "read 'a[$({})]' <<< 1", "unset 'a[$({})]'", "declare 'a[$({})]=1'", "let 'a[$({})]'", "y[$({})]=1",
    "mapfile -C '{}' -c 1 y <<< 1", "X=denied; {}", "hash -p ../bin/denied q; q", "echo {} > s; bash s", "sed '1e {}'",
    "PROMPT_COMMAND='{}' bash -i", "BASH_ENV=<(echo '{}') bash -c :", "echo '\n{}\n'", "true #\n{}", "echo a#b; {}",
    "echo '#'; {}", "\t{}", "true\n{}\n", "cat <<-E\n\tx\n\tE\n{}", "cat <<\"E\"E\nx\nEE\n{}", "echo \\\n{}",
    "awk 'BEGIN{{system(\"{}\")}}'", "echo $[ $({}) ]", "[[ x == $({}) ]]", "a=(1 $({}))", "export A=$({})",
    "echo ${{x:-$({})}}", "echo ${{x:=`{}`}}", "> $({}) true", "tee >({}) <<< x", "select i in x; do {}; done <<< 1",
)  # fmt: skip
TOKENS = (
    "denied", " ", " ", "\n", ";", "&", "&&", "||", "|", "(", ")", "{", "}", "{ ", " }", "'", '"', "`", "$(", "$((",
    "))",
    "${", "$", "\\", "\\\n", "#", " #", "<<E", "<<'E'", "<<-E", "\nE\n", "E", "<<<", ">x ", "<(", "[[ ", " ]]", "[ ",
    " ]",
    "if ", " then ", " fi", "do ", " done", "for i in 1;", "case x in ", "x)", ";;", " esac", "echo ", "true", "eval ",
    "env ", "bash -c ", "xargs ", "x=", "x", "=", "!", "*", "$x", "\t", "a[", "]", "-eq ", "$'", "\\'", "coproc ",
    "time ",
    "f()", "function f ", ",", "~", "%", "2>&1", "command ", "exec ", "-",
)  # fmt: skip


def within(wrapper: str, command: str) -> str:
    """The command in a construct; braces are doubled there."""
    return wrapper.replace("{}", "\0").replace("{{", "{").replace("}}", "}").replace("\0", command)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Range(tmp_path_factory.mktemp("range"))


def let_through(place: Range, command: str) -> bool:
    """Is the command allowed, and does it run the program?"""
    return place.verdict(command) == "allow" and place.runs(command)


@pytest.mark.requirement("BR-167")
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_denied_program_is_found_in_every_construct(place, wrapper):
    """`deny denied *` holds for the plain name within each construct that bash has."""
    command = within(wrapper, DENIED)

    assert not let_through(place, command), command


@pytest.mark.requirement("BR-167")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_denied_program_is_found_in_every_spelling(place, spelling):
    """Quotes, escapes, expansions: what bash makes the name of, is the name; what cannot be known is not allowed."""
    assert not let_through(place, f"{spelling} x"), spelling


def test_the_place_where_they_run_is_real(place):
    """The mark is left where nothing forbids it: a test that found nothing would prove nothing."""
    assert place.runs("denied")
    assert sum(place.runs(within(wrapper, DENIED)) for wrapper in WRAPPERS) > len(WRAPPERS) * 0.75


@pytest.mark.requirement("BR-167")
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(spelling="$(echo denied)", wrappers=["! {}", "! {}"])
@given(spelling=st.sampled_from(SPELLINGS), wrappers=st.lists(st.sampled_from(WRAPPERS), min_size=1, max_size=4))
def test_no_nesting_of_constructs_lets_a_denied_program_through(place, spelling, wrappers):
    """Constructs within constructs, with any spelling in the middle."""
    command = spelling
    for wrapper in wrappers:
        command = within(wrapper, command)

    assert not let_through(place, command), command


@pytest.mark.requirement("BR-167")
@settings(max_examples=4000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=14))
@example(["r", "\\\n", "denied"])
def test_no_string_of_shell_tokens_lets_a_denied_program_through(place, tokens):
    """Whatever the grammar makes of nonsense: it is not allowed and run."""
    command = "".join([*tokens, "denied"] if "denied" not in tokens else tokens)

    assert not let_through(place, command), command
