"""Value. The series of a host: which telemetry event counts into which of them, and with which labels."""

from collections.abc import Mapping
from typing import Final

from coding_agent import event_names
from coding_agent.event_names import EventName
from lemon_otp import frozen

LABELS_MAX: Final = 100
"""How many different values of a label are told apart; what comes after is `other`."""

SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
LAG_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@frozen
class Count:
    """A counter: one for every event. `labels` maps the names of the metadata to those of the labels."""

    name: str
    text: str
    labels: Mapping[str, str]


_CHILD: Final = {"supervisor": "supervisor", "id": "child"}
_PROVIDER: Final = {"provider": "provider"}
_TOOL: Final = {"tool_name": "tool"}

COUNTS: Final[Mapping[EventName, Count]] = {
    event_names.CRASH: Count("lemon_process_crashes", "Processes that ended badly.", {}),
    event_names.ZOMBIE: Count("lemon_process_zombies", "Reports of coroutines that outlive their process.", {}),
    event_names.ORPHAN_THREAD: Count(
        "lemon_process_orphan_threads", "Threads that go on although their process has ended.", {}
    ),
    event_names.CHILD_RESTART: Count("lemon_supervisor_restarts", "Children started again.", _CHILD),
    event_names.CHILD_START_ERROR: Count("lemon_supervisor_start_errors", "Children that did not start.", _CHILD),
    event_names.SUPERVISOR_GAVE_UP: Count(
        "lemon_supervisor_gave_up", "Supervisors that gave up.", {"supervisor": "supervisor"}
    ),
    event_names.LOOP_HELD: Count("lemon_loop_held", "Times something held the event loop too long.", {}),
    event_names.HANDLER_FAILED: Count(
        "lemon_telemetry_handler_failures", "Telemetry handlers that raised and were detached.", {}
    ),
    event_names.CALL_ADMITTED: Count("lemon_model_calls", "Model calls admitted.", _PROVIDER),
    event_names.CALL_REJECTED: Count(
        "lemon_model_calls_rejected", "Model calls refused before anything was sent.", {**_PROVIDER, "reason": "reason"}
    ),
    event_names.CALL_RETRY: Count(
        "lemon_model_retries", "Model calls made again.", {**_PROVIDER, "category": "category"}
    ),
    event_names.RUN_START: Count("lemon_runs_started", "Runs begun.", {}),
    event_names.TOOL_START: Count("lemon_tool_calls", "Tool calls begun.", _TOOL),
    event_names.TOOL_ERROR: Count(
        "lemon_tool_failures", "Tool calls that crashed, hung, were stopped or refused.", _TOOL
    ),
    event_names.TOOL_RETRY: Count("lemon_tool_retries", "Tool calls made again.", _TOOL),
    event_names.TOOL_ORPHANED: Count("lemon_tool_orphans", "Tool calls whose thread could not be stopped.", _TOOL),
    event_names.SUBSCRIBER_COALESCED: Count(
        "lemon_subscribers_coalesced", "Times a subscriber fell behind and got only the newest updates.", {}
    ),
    event_names.PERMISSION_DECIDED: Count(
        "lemon_permission_decisions", "Tool calls allowed or refused.", {"decision": "decision", "by": "by"}
    ),
    event_names.SUBAGENT_START: Count("lemon_subagents_started", "Subagents begun.", {"role": "role"}),
}

EVENTS: Final[tuple[EventName, ...]] = tuple(
    dict.fromkeys(
        [
            *COUNTS,
            *event_names.BREAKER_CHANGES,
            event_names.CALL_STOP,
            event_names.RUN_END,
            event_names.TOOL_START,
            event_names.TOOL_END,
            event_names.TOOL_ERROR,
            event_names.LOOP_LAG,
        ]
    )
)

TOKEN_KINDS: Final = ("input", "output", "cache_read", "cache_write")
