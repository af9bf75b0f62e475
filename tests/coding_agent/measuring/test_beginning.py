"""Flags whose address may be left out, and what a start measures."""

import sys

import pytest

from coding_agent.arguments import parse
from coding_agent.errors import BadUsage
from coding_agent.measuring import begin
from coding_agent.metrics import METRICS
from lemon_otp import get_env, telemetry, whereis


@pytest.mark.parametrize(
    ("argv", "metrics", "observe", "otel", "messages"),
    [
        ([], None, None, None, ()),
        (["--metrics"], "", None, None, ()),
        (["--metrics", "9464"], "9464", None, None, ()),
        (["--metrics", ":9464", "go"], ":9464", None, None, ("go",)),
        (["--observe", "fix the bug"], None, "", None, ("fix the bug",)),
        (["--observe", "[::1]:4450"], None, "[::1]:4450", None, ()),
        (["--observe", "box.example:1", "--metrics"], "", "box.example:1", None, ()),
        (["--otel", "http://c:4318/v1/traces", "go"], None, None, "http://c:4318/v1/traces", ("go",)),
        (["--otel", "explain http"], None, None, "", ("explain http",)),
        (["--observe=0.0.0.0:1", "--otel="], None, "0.0.0.0:1", "", ()),
        (["--observe", "127.0.0.1"], None, "127.0.0.1", None, ()),
        (["--observe", "localhost", "go"], None, "localhost", None, ("go",)),
        (["--observe", "http://127.0.0.1:80"], None, "http://127.0.0.1:80", None, ()),
        (["--observe", "[::1"], None, "[::1", None, ()),
        (["--observe", "127.0.0.1:-1"], None, "127.0.0.1:-1", None, ()),
        (["--observe", "explain: what is this"], None, "", None, ("explain: what is this",)),
        (["--observe", "explain:"], None, "", None, ("explain:",)),
    ],
)
def test_an_address_is_taken_and_a_prompt_is_left_alone(argv, metrics, observe, otel, messages):
    """What looks like an address belongs to the flag; anything else is what it would be without the flag."""
    found = parse(argv)
    assert (found.metrics, found.observe, found.otel, found.messages) == (metrics, observe, otel, messages)


async def test_without_flags_nothing_is_attached_or_imported(host):
    """A plain start measures nothing: no handler, no child, no library."""
    before = set(sys.modules)
    measuring = await begin(parse([]), {})
    await measuring.end()
    assert telemetry.list_handlers() == []
    assert [whereis(name) for name in ("observer", "metrics_endpoint", "loop_lag")] == [None] * 3
    assert set(sys.modules) == before
    assert get_env("coding_agent", METRICS) is None


async def test_every_flag_begins_its_own(host, capsys):
    """Series, page and endpoint stand in the tree; their addresses are told on standard error."""
    await begin(parse(["--metrics", ":0", "--observe"]), {})
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in told] == ["metrics", "observer"]
    assert "#token=" in told[1]
    assert all(whereis(name) for name in ("observer", "metrics_endpoint", "loop_lag"))


async def test_a_missing_extra_is_named(host, monkeypatch):
    """Each flag says what to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(BadUsage, match=r"lemon-agents\[otel\]"):
        await begin(parse(["--otel"]), {})
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(BadUsage, match=r"--metrics needs an extra: pip install 'lemon-agents\[web\]'"):
        await begin(parse(["--metrics", "9464"]), {})
