"""Edge. How the sessions of this program are: each by itself, all of them, and in one word.

A session whose agent is dead, or that does not answer, is unhealthy; one whose tools fail often is degraded.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from coding_agent.client import get_messages, get_state
from coding_agent.session.protocol import SessionState
from coding_agent.session_supervisor import list_sessions
from lemon_ai import ToolResultMessage
from lemon_otp import Address, CallFailed, CallTimeout, Pid, frozen

Status: TypeAlias = Literal["unhealthy", "degraded", "healthy"]
"""From the worst on."""

DEGRADED_ABOVE: Final = 0.2
"""The part of tool calls that may fail in a session that counts as healthy."""

_ORDER: Final[Sequence[Status]] = ("unhealthy", "degraded", "healthy")


@frozen
class Health:
    """How one session is.

    Attributes:
        session_id: None when its process could not say.
        error: Why it is unhealthy: `process_exited`, `no_answer` or `agent_dead`; None when it is not.
    """

    status: Status
    session_id: str | None = None
    uptime_ms: int = 0
    is_streaming: bool = False
    agent_alive: bool = False
    error: str | None = None


@frozen
class Diagnostics:
    """Everything that is known of how one session is.

    Attributes:
        started_at: In Unix milliseconds.
        last_activity_at: The newest time stamp of a message; None before the first.
        tool_call_count: Tool calls with a result.
        error_count: Those of them that failed.
        error_rate: The part that failed, 0.0 without calls.
    """

    status: Status
    session_id: str
    uptime_ms: int
    started_at: int
    last_activity_at: int | None
    is_streaming: bool
    agent_alive: bool
    message_count: int
    turn_count: int
    tool_call_count: int
    error_count: int
    error_rate: float
    subscriber_count: int
    stream_subscriber_count: int
    steering_queue_size: int
    follow_up_queue_size: int
    model: str
    cwd: str
    thinking_level: str


@frozen
class SessionStats:
    """What there is to count and name about one session.

    Attributes:
        turn_count: Prompts that were taken.
        provider, model_id: Who answers.
    """

    session_id: str
    cwd: str
    provider: str
    model_id: str
    thinking_level: str
    message_count: int
    turn_count: int
    is_streaming: bool


@frozen
class HealthSummary:
    """How all sessions are; `overall` is the worst status, `no_sessions` when none runs."""

    total: int
    healthy: int
    degraded: int
    unhealthy: int
    overall: Status | Literal["no_sessions"]


async def get_stats(session: Address) -> SessionStats:
    """What there is to count about one session. Raises `CallFailed` when it is gone."""
    state = await get_state(session)
    provider, _, model_id = state.model.partition("/")
    return SessionStats(
        session_id=state.session_id,
        cwd=state.cwd,
        provider=provider,
        model_id=model_id,
        thinking_level=state.thinking_level,
        message_count=state.message_count,
        turn_count=state.turn_index,
        is_streaming=state.phase == "turn",
    )


async def diagnostics(session: Address) -> Diagnostics:
    """Everything about one session. Raises `CallFailed` when it is gone."""
    return diagnosed(await get_state(session), await get_messages(session))


def diagnosed(state: SessionState, messages: Sequence[Any]) -> Diagnostics:
    """What the state and the conversation of a session say about how it is."""
    results = [message for message in messages if isinstance(message, ToolResultMessage)]
    errors = sum(result.is_error for result in results)
    rate = errors / len(results) if results else 0.0
    times = [time for message in messages if isinstance(time := getattr(message, "timestamp", None), int)]
    return Diagnostics(
        status=_status(state.agent_alive, rate),
        session_id=state.session_id,
        uptime_ms=state.uptime_ms,
        started_at=state.started_at,
        last_activity_at=max(times, default=None),
        is_streaming=state.phase == "turn",
        agent_alive=state.agent_alive,
        message_count=state.message_count,
        turn_count=state.turn_index,
        tool_call_count=len(results),
        error_count=errors,
        error_rate=rate,
        subscriber_count=state.direct_subscribers,
        stream_subscriber_count=state.stream_subscribers,
        steering_queue_size=state.steering_queue_size,
        follow_up_queue_size=state.follow_up_queue_size,
        model=state.model,
        cwd=state.cwd,
        thinking_level=state.thinking_level,
    )


async def health_check(session: Address) -> Health:
    """How one session is; a process that is gone, or does not answer in time, is unhealthy and raises nothing."""
    try:
        found = await diagnostics(session)
    except CallFailed:
        return Health("unhealthy", error="process_exited")
    except CallTimeout:
        return Health("unhealthy", error="no_answer")
    error = None if found.agent_alive else "agent_dead"
    return Health(found.status, found.session_id, found.uptime_ms, found.is_streaming, found.agent_alive, error)


async def health_all() -> tuple[Health, ...]:
    """How every session of this program is, the worst first."""
    found = [await health_check(pid) for pid in await _sessions()]
    return tuple(sorted(found, key=lambda health: _ORDER.index(health.status)))


async def health_summary() -> HealthSummary:
    """How many sessions are how."""
    found = await health_all()
    counts = Counter(health.status for health in found)
    overall: Status | Literal["no_sessions"] = found[0].status if found else "no_sessions"
    return HealthSummary(len(found), counts["healthy"], counts["degraded"], counts["unhealthy"], overall)


async def _sessions() -> list[Pid]:
    try:
        return await list_sessions()
    except CallFailed:  # no supervisor of sessions runs here
        return []


def _status(agent_alive: bool, error_rate: float) -> Status:
    if not agent_alive:
        return "unhealthy"
    return "degraded" if error_rate > DEGRADED_ABOVE else "healthy"
