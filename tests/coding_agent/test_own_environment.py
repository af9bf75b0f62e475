"""What other programs of the same user see of our environment."""

import os
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from coding_agent.own_environment import blanked, secrets_in

names = st.binary(min_size=1, max_size=12).filter(lambda name: b"\0" not in name and b"=" not in name)
values = st.binary(max_size=20).filter(lambda value: b"\0" not in value)


@given(st.lists(st.tuples(names, values), max_size=8, unique_by=lambda entry: entry[0]), st.data())
def test_only_the_named_variables_of_a_block_are_blanked_and_nothing_moves(entries, data):
    """The block keeps its length and every other variable, so that pointers into it stay good."""
    secret = [name for name, _value in entries if data.draw(st.booleans())]
    block = b"".join(name + b"=" + value + b"\0" for name, value in entries)
    after = blanked(block, secret)

    assert len(after) == len(block)
    expected = [(name, b" " * len(value) if name in secret else value) for name, value in entries]
    assert [tuple(entry.split(b"=", 1)) for entry in after.split(b"\0") if entry] == expected


def test_a_program_hides_its_secrets_from_others_and_keeps_them_for_itself_and_its_own_children():
    """`/proc/PID/environ` has blanks; `os.environ` and a child that is given the environment have the value."""
    code = (
        "import os, subprocess\n"
        "from coding_agent.own_environment import hide_secrets\n"
        "hide_secrets()\n"
        "print(open('/proc/self/environ').read())\n"
        "print('own', os.environ['SOME_API_KEY'], flush=True)\n"
        "subprocess.run(['sh', '-c', 'echo child $SOME_API_KEY'])\n"
    )
    env = {"PATH": os.environ["PATH"], "SOME_API_KEY": "canary-1234", "PLAIN": "seen"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=30)

    shown, _, rest = done.stdout.partition("own ")
    assert "canary-1234" not in shown
    assert "PLAIN=seen" in shown
    assert rest == "canary-1234\nchild canary-1234\n"


def test_values_that_are_secrets_by_their_names_are_known():
    """Short ones are not: taking every "true" out of a log would help nobody."""
    environ = {"X_API_KEY": "0123456789", "GITHUB_TOKEN": "abcdefghij", "USE_KEY": "true", "PATH": "/usr/bin:/bin"}
    assert secrets_in(environ) == {"0123456789", "abcdefghij"}
