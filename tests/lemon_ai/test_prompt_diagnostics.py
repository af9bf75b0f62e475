"""What a model call was made of: sizes and hashes, and never a word of it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from attrs import evolve

from lemon_ai import Context, Model, ProviderRequest, StreamOptions, TextContent, Tool, UserMessage, complete
from lemon_ai.prompt_diagnostics import measure, record
from lemon_ai.testing import ScriptedModel
from lemon_otp import telemetry
from lemon_otp.testing import settle

SECRET = "the launch code is tulip"
MODEL = Model(id="m", api="a", provider="p")
CONTEXT = Context(
    f"Keep it quiet: {SECRET}",
    (UserMessage("short", timestamp=1), UserMessage((TextContent(f"{SECRET} " * 20),), timestamp=2)),
    (Tool("read", f"Reads {SECRET}"),),
)


def test_a_prompt_is_measured_part_by_part() -> None:
    """Sizes, counts by role, the largest first, tokens as a quarter of the bytes, rounded up."""
    report = measure(ProviderRequest(MODEL, CONTEXT), top_n=1)
    assert report.system.bytes == len(CONTEXT.system_prompt or "")
    assert (report.message_count, report.tool_count) == (2, 1)
    assert report.by_role["user"][0] == 2
    assert [message.index for message in report.largest] == [1]
    assert report.largest[0].bytes > 480
    whole = report.system.bytes + report.messages.bytes + report.tools.bytes
    assert report.tokens == -(-whole // 4)


def test_equal_prompts_have_equal_hashes_and_when_they_were_said_is_no_difference() -> None:
    """So what breaks a provider's prompt cache can be found by comparing two calls."""
    later = evolve(CONTEXT, messages=[evolve(message, timestamp=99) for message in CONTEXT.messages])
    other = evolve(CONTEXT, system_prompt="something else")
    one, two, three = (measure(ProviderRequest(MODEL, context)) for context in (CONTEXT, later, other))
    assert one == two
    assert one.system.sha256 != three.system.sha256
    assert one.messages == three.messages


async def test_a_call_is_told_when_asked_for_and_not_otherwise(
    ai: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One event and one line a call, with whose call it was; no word of the prompt in either."""
    told: list[Any] = []
    telemetry.attach("t", ("lemon_ai", "prompt_diagnostics", "llm_call"), lambda *facts: told.append(facts[1:3]))
    model = ScriptedModel("one", "two", "three")
    await model.install()
    options = {"headers": {"X-Lemon-Session-Key": "s1", "x-lemon-run-id": "r1"}}
    caplog.set_level(logging.INFO, "lemon_ai.prompt_diagnostics")

    await complete(model.model, CONTEXT, options)
    monkeypatch.setenv("LEMON_AI_PROMPT_DIAGNOSTICS", "off")
    await complete(model.model, CONTEXT, options)
    await settle()
    assert told == []

    monkeypatch.setenv("LEMON_AI_PROMPT_DIAGNOSTICS", "yes")
    await complete(model.model, CONTEXT, options)
    await settle()
    assert len(told) == 1
    measurements, metadata = told[0]
    assert measurements["message_count"] == 2
    assert measurements["total_input"] == measurements["input"] + measurements["cache_read"]
    assert (metadata["stop_reason"], metadata["session"], metadata["run"], metadata["agent"]) == (
        "stop",
        "s1",
        "r1",
        None,
    )
    lines = [line for line in caplog.records if line.name == "lemon_ai.prompt_diagnostics"]
    assert len(lines) == 1
    assert "tulip" not in f"{told} {lines[0].getMessage()}"


def test_settings_are_read_and_nonsense_is_left_at_the_defaults(runtime: Any, caplog: pytest.LogCaptureFixture) -> None:
    """How many of the largest, and at which level the line is logged."""
    told: list[Any] = []
    telemetry.attach("t", ("lemon_ai", "prompt_diagnostics", "llm_call"), lambda *facts: told.append(facts[2]))
    many = ProviderRequest(MODEL, Context(None, [UserMessage("x" * n) for n in range(60)]), StreamOptions())
    on = {"LEMON_AI_PROMPT_DIAGNOSTICS": "1"}
    for top_n in ("3", "0", "50", "many"):
        record(many, None, {**on, "LEMON_AI_PROMPT_DIAGNOSTICS_TOP_N": top_n})
    assert [len(metadata["largest"]) for metadata in told] == [3, 5, 5, 5]

    record(many, None, {**on, "LEMON_AI_PROMPT_DIAGNOSTICS_LOG_LEVEL": "warning"})
    assert [line.levelname for line in caplog.records if "prompt diagnostics" in line.getMessage()] == ["WARNING"]


def test_what_fails_is_logged_and_forgotten(runtime: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A message of no known kind does not reach the caller as an error."""
    broken = ProviderRequest(MODEL, Context(None, (object(),)))  # type: ignore[arg-type]
    record(broken, None, {"LEMON_AI_PROMPT_DIAGNOSTICS": "1"})
    assert "No diagnostics of a prompt" in caplog.text
