"""Templates: what `/NAME words` becomes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.errors import UnreadableFile
from coding_agent.resources.templates import load_templates, split_arguments, substitute


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b", ["a", "b"]),
        ("  a\t b\n", ["a", "b"]),
        ('"a b" c', ["a b", "c"]),
        ("'a \"b' c", ['a "b', "c"]),
        ('a"b c"d', ["ab cd"]),
        ('""', [""]),
        ('"never closed', ["never closed"]),
        ("it's fine", ["its fine"]),
        ("", []),
    ],
)
def test_words_are_split_as_a_shell_would(text, words):
    """Quotes hold words together, and one that is never closed does no harm."""
    assert split_arguments(text) == words


@pytest.mark.parametrize(
    ("text", "args", "gives"),
    [
        ("$1-$2-$3", ["a", "b"], "a-b-"),
        ("$@|$ARGUMENTS", ["a", "b"], "a b|a b"),
        ("${@:2}", ["a", "b", "c"], "b c"),
        ("${@:0}", ["a", "b"], "a b"),
        ("${@:2:1}", ["a", "b", "c"], "b"),
        ("${@:9}", ["a"], ""),
        ("${@:1:99999999999999999999}", ["a", "b"], "a b"),
        ("$10", ["a"] * 10 + ["z"], "a"),
        ("$0 $99999999999999999999999", ["a"], " "),
        ("costs $5.00", [], "costs .00"),
        ("$ARGUMENTSX ${x} $$ $", ["a"], "$ARGUMENTSX ${x} $$ $"),
    ],
)
def test_arguments_go_to_their_places(text, args, gives):
    """Places count from 1, one that was not given leaves nothing, and what is no place stays."""
    assert substitute(text, args) == gives


def test_what_stands_in_an_argument_is_never_taken_for_a_place():
    """All in one pass: `$2` within the first argument stays as it was typed."""
    assert substitute("$1 and $@", ["$2 ${@:1}", "$ARGUMENTS"]) == "$2 ${@:1} and $2 ${@:1} $ARGUMENTS"


@given(st.text(alphabet="$@{}:123ARGUMENTS ", max_size=40), st.lists(st.text(max_size=5), max_size=4))
def test_any_text_with_any_arguments_gives_a_text(text, args):
    """Nothing a person types can raise."""
    assert isinstance(substitute(text, args), str)


def test_a_folder_gives_a_template_for_each_file_and_none_of_the_folders_below(tmp_path):
    """The description is that of the data, else the first line with words, cut after 60 characters."""
    (tmp_path / "review.md").write_text("---\ndescription: Looks\n  twice\nargument-hint: FILE\n---\nReview $1.")
    (tmp_path / "plain.md").write_text("\n" + "word " * 20 + "\nmore")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "deep.md").write_text("x")
    (tmp_path / "notes.txt").write_text("x")

    templates, problems = load_templates(tmp_path, "user")
    by_name = {template.name: template for template in templates}
    assert sorted(by_name) == ["plain", "review"]
    assert by_name["review"].description == "Looks twice"
    assert by_name["review"].expand("a.py") == "Review a.py."
    assert by_name["plain"].description.endswith("...")
    assert len(by_name["plain"].description) <= 63
    assert problems == []


def test_one_broken_template_is_one_problem(tmp_path):
    """The others are there."""
    (tmp_path / "bad.md").write_text("---\na: [\n---\nx")
    (tmp_path / "good.md").write_text("x")
    templates, problems = load_templates(tmp_path, "user")
    assert [template.name for template in templates] == ["good"]
    assert "bad.md" in problems[0]


def test_one_that_would_grow_without_end_is_refused(tmp_path):
    """A template with a thousand places and a long argument is no prompt."""
    (tmp_path / "big.md").write_text("$1" * 1000)
    (template,), _ = load_templates(tmp_path, "user")
    with pytest.raises(UnreadableFile, match="more than"):
        template.expand("x" * 10_000)
