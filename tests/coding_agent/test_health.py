"""Health: each session by itself, all of them with the worst first, and one word for all."""

import pytest

from coding_agent import client
from coding_agent.health import diagnostics, get_stats, health_all, health_check, health_summary
from coding_agent.session_supervisor import stop_session
from lemon_agent import AgentTool, MessageUpdate, ToolError, text_result
from lemon_ai.testing import Call, Delay, Say


def tool(name: str, *, fails: bool) -> AgentTool:
    def execute(*_given):
        if fails:
            raise ToolError("no")
        return text_result("yes")

    return AgentTool(name=name, description="", parameters={"type": "object", "properties": {}}, execute=execute)


TOOLS = (tool("good", fails=False), tool("bad", fails=True))


async def test_a_session_says_how_it_is(host):
    """Counts, rates, times, queues and subscribers of a session that has worked, and works on."""
    session = await host.session([Call("good", {})], "Done.", [Say("Now"), Delay(600_000)], tools=TOOLS)
    await host.run(session, "hi")
    await client.prompt(session, "again")
    await host.until(MessageUpdate)
    await client.steer(session, "this too")

    found = await diagnostics(session)
    state = await client.get_state(session)

    assert (found.status, found.is_streaming, found.agent_alive) == ("healthy", True, True)
    assert (found.turn_count, found.tool_call_count, found.error_count, found.error_rate) == (2, 1, 0, 0.0)
    assert (found.steering_queue_size, found.follow_up_queue_size) == (1, 0)
    assert (found.subscriber_count, found.stream_subscriber_count) == (1, 0)
    assert (found.session_id, found.model, found.cwd) == (state.session_id, state.model, state.cwd)
    assert found.last_activity_at >= found.started_at > 0
    assert found.message_count >= 4


async def test_a_session_has_its_figures(host):
    """Messages, prompts, who answers where; they are those of its state."""
    session = await host.session("Done.", [Say("Now"), Delay(600_000)])
    await host.run(session, "hi")
    before = await get_stats(session)
    await client.prompt(session, "again")
    await host.until(MessageUpdate)
    during = await get_stats(session)

    assert (before.message_count, before.turn_count, before.is_streaming) == (2, 1, False)
    assert (during.turn_count, during.is_streaming) == (2, True)
    state = await client.get_state(session)
    assert f"{during.provider}/{during.model_id}" == state.model
    assert (during.session_id, during.cwd, during.thinking_level) == (
        state.session_id, state.cwd, state.thinking_level,
    )  # fmt: skip


@pytest.mark.parametrize(("bad", "good", "status"), [(1, 4, "healthy"), (1, 3, "degraded"), (0, 0, "healthy")])
async def test_a_session_whose_tools_fail_often_is_degraded(host, bad, good, status):
    """More than a fifth of its calls."""
    calls = [Call("bad", {})] * bad + [Call("good", {})] * good
    session = await host.session(*([calls] if calls else []), "Done.", tools=TOOLS)

    await host.run(session, "hi")

    assert (await health_check(session)).status == status


async def test_a_session_that_has_ended_is_unhealthy(host):
    """Nothing is raised; the error says that its process is gone."""
    session = await host.session("Done.")
    await stop_session(session)

    found = await health_check(session)

    assert (found.status, found.error, found.session_id) == ("unhealthy", "process_exited", None)


async def test_all_sessions_stand_with_the_worst_first_and_one_word_says_how_they_are(host):
    """One that works badly comes before one that works well."""
    assert await health_all() == ()
    assert (await health_summary()).overall == "no_sessions"
    well = await host.session("Done.", tools=TOOLS)
    badly = await host.session([Call("bad", {})], "Done.", tools=TOOLS)
    await host.run(well, "hi")
    await host.run(badly, "hi")

    found = await health_all()
    summary = await health_summary()

    assert [health.status for health in found] == ["degraded", "healthy"]
    assert (summary.total, summary.healthy, summary.degraded, summary.unhealthy) == (2, 1, 1, 0)
    assert summary.overall == "degraded"


async def test_without_a_supervisor_there_are_no_sessions(runtime):
    """A program that has not started the application is told that none runs."""
    assert (await health_summary()).overall == "no_sessions"
