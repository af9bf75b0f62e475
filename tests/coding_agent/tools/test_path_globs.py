"""Shell patterns for paths."""

import fnmatch
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.tools.path_globs import BadGlob, name_pattern, path_pattern


@pytest.mark.parametrize(
    ("glob", "matches", "misses"),
    [
        ("*.py", ["a.py", "d/e/a.py", ".py"], ["a.pyc", "a.py/b"]),
        ("/a.py", ["a.py"], ["d/a.py"]),
        ("d/*.py", ["d/a.py"], ["d/e/a.py", "x/d/a.py"]),
        ("d/**", ["d/a", "d/e/f"], ["d", "x/d/a"]),
        ("**/f", ["f", "a/f", "a/b/f"], ["af"]),
        ("d/**/f", ["d/f", "d/a/b/f"], ["df", "d/xf"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("[!a]b", ["bb", "^b"], ["ab", "/b"]),
        ("[a-c]x", ["bx"], ["dx"]),
        ("*.{ts,tsx}", ["a.ts", "b.tsx"], ["a.js"]),
        ("{src,lib}/*.c", ["src/a.c", "lib/b.c"], ["x/a.c"]),
        (r"a\*b", ["a*b"], ["axb"]),
        ("a.b+c", ["a.b+c"], ["axbbc"]),
    ],
)
def test_globs_mean_what_they_say(glob: str, matches: list[str], misses: list[str]) -> None:
    """Each kind of part."""
    found = path_pattern(glob)

    assert [path for path in matches if not found.fullmatch(path)] == []
    assert [path for path in misses if found.fullmatch(path)] == []


@given(glob=st.text("ab*?[]!{},/.\\^-", max_size=12), path=st.text("ab/.", max_size=8))
def test_any_glob_is_read_or_refused(glob: str, path: str) -> None:
    """Never another error."""
    with suppress(BadGlob):
        path_pattern(glob).fullmatch(path)


@given(glob=st.text("ab*?.", min_size=1, max_size=8), name=st.text("ab.", min_size=1, max_size=8))
def test_simple_globs_agree_with_the_standard_library(glob: str, name: str) -> None:
    """For names without directories."""
    found = name_pattern(glob)
    if found is not None:
        assert bool(found.fullmatch(name)) == fnmatch.fnmatchcase(name, glob)
