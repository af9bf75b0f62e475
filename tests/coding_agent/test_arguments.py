"""The command line of the host."""

import pytest

from coding_agent.arguments import Arguments, parse
from coding_agent.errors import BadUsage
from coding_agent.release import release


def test_an_empty_command_line_is_every_default():
    """What is not said has the default that `Arguments` states; no flag is known to the one and not to the other."""
    assert parse([]) == Arguments(prompt=None)


def test_the_version_is_printed_and_the_program_ends(capsys):
    """`--version` prints one line on standard output, whatever else was given."""
    with pytest.raises(SystemExit) as ended:
        parse(["--version", "-p", "hello"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{release()}\n"


@pytest.mark.parametrize(
    ("argv", "model", "thinking"),
    [
        (["--model", "anthropic/claude:high"], "anthropic/claude", "high"),
        (["--model", "anthropic/claude:high", "--thinking", "low"], "anthropic/claude", "low"),
        (["--model", "openrouter/some/model:free"], "openrouter/some/model:free", None),
        (["--model", "ollama/mine:high"], "ollama/mine:high", None),
        (["--provider", "openrouter", "--model", "some/model:max"], "openrouter/some/model", "max"),
        (["--provider", "openai", "--model", "openai/gpt"], "openai/gpt", None),
        (["--provider", "anthropic"], "anthropic", None),
        (["--thinking", "low"], None, "low"),
    ],
)
def test_a_model_can_be_named_with_its_provider_apart_and_its_level_behind(argv, model, thinking):
    """As pi's command line has it; what stands behind a colon and is no level belongs to the name."""
    found = parse(argv)
    assert (found.model, found.thinking) == (model, thinking)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--continue", "--session", "f"], "give one of them"),
        (["--json", "--mode", "rpc"], "say different things"),
        (["--partials"], "--partials goes with --json"),
        (["--rpc-deltas"], "--rpc-deltas goes with --mode rpc"),
        (["--thinking", "much"], "invalid choice"),
        (["-x"], "unrecognized arguments: -x; see --help"),
    ],
)
def test_a_command_line_that_cannot_be_meant_is_refused_in_one_line(argv, said):
    """The text says what is wrong; nothing is guessed."""
    with pytest.raises(BadUsage, match=said):
        parse(argv)


@pytest.mark.parametrize(
    ("argv", "metrics", "messages"),
    [
        (["--metrics", "127.0.0.1:9000", "hello"], "127.0.0.1:9000", ("hello",)),
        (["--metrics", "hello"], "", ("hello",)),
        (["hello", "--metrics"], "", ("hello",)),
        (["--", "--metrics"], None, ("--metrics",)),
    ],
)
def test_an_address_may_be_left_out_and_is_not_taken_from_the_prompt(argv, metrics, messages):
    """A word that is no address is a message, not the value of the flag before it."""
    found = parse(argv)

    assert (found.metrics, found.messages) == (metrics, messages)


def test_flags_that_nobody_knows_are_kept_for_extensions():
    """`--name` and `--name=value` may be an extension's; who cannot place them refuses them."""
    assert parse(["--my-flag", "--other=1", "-p", "x"]).extra == ("--my-flag", "--other=1")
